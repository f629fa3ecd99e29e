"""Measures expensive functions behind queues, and what an engine does when rows come too fast.

*Classes*: 30 operators whose costs lie in five classes run at a load of 0.95; policies take turns over the same
arrivals. *Replay*: what ran under each of them, replayed under all. *In a row*: three operators, the selective one
last, by FIFO, Chain and, where queues can be run by it, Chain-Flush with a bound between what these two need. *Burst*:
twice and four times of what the worker can take, with caps, beside alerts, dashboards and queries that shed load. Work
is counted in rounds of a hash, and the arrivals are those of LBL-PKT-4 (Paxson and Floyd 1995).

A round is one turn of every policy, in the other order each time; medians are compared, and a turn during which others
used the machine is told. Nothing here asserts a time.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench._frame import SETTINGS, Bench, Save, do_not_save, run_benchmark, scratch_folder, tell_quick_look
from bench._live.replay import apart, medians
from bench._measure import Figures, Progress
from bench._overload.burst import PacketBurst, overloaded
from bench._overload.classes import POLICIES, OperatorClasses
from bench._overload.in_a_row import CHAIN, FIFO, FLUSH, QUERY, OperatorsInARow
from bench._overload.packets import PacketArrivals, PacketFeed, packet_feed
from bench._overload.turns import Turn, costs_of, replays, tick_s, told
from bench._report import print_targets
from bench.live import FOREIGN, Quiet
from penstock.schedule.operator_queues import is_for_operators
from penstock.schedule.registry import POLICIES as KNOWN_POLICIES
from penstock.spark.session.embedded import embedded

ROUNDS: Final = 3
LATER: Final = 1.1  # times its bound, that Chain-Flush may take: blocks are not interrupted
Told = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Workload:
    """The sizes of everything; other sizes than these are a quick look, not the benchmark."""

    classes: OperatorClasses = field(default_factory=OperatorClasses)
    in_a_row: OperatorsInARow = field(default_factory=OperatorsInARow)
    burst: PacketBurst = field(default_factory=PacketBurst)
    rounds: int = ROUNDS


def small(rows: int) -> Workload:
    """Make a workload for a quick look: about so many rows, much less work for each, and little time."""
    few = PacketArrivals(max(8, rows // 25), 4, 5, 40)
    longer = PacketArrivals(max(8, rows // 25), 6, 5, 1_000)
    classes = OperatorClasses(6, 3, 20, slow_s=0.2, arrivals=few)
    burst = PacketBurst(50, 2, 2, 2, slow_s=0.2, alerts=2, dashboards=2, sheds=2, arrivals=longer)
    return Workload(classes, OperatorsInARow(40, output=10, slow_s=0.2, arrivals=few), burst, 1)


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named; ``rows`` are those of a tick at most."""
    workload, usual = Workload(), max(PacketBurst().rows)
    if rows is not None and rows != usual:
        workload = small(rows)
    run_benchmark(path, lambda say, save: measure(embedded(settings=SETTINGS), workload, say, save), _print)
    tell_quick_look(usual if rows is None else rows, usual)


def measure(session: SparkSession, workload: Workload, say: Progress, save: Save = do_not_save) -> Figures:
    """Measure one thing after the other."""
    with scratch_folder() as scratch:
        bench = Bench(workload, session, scratch, say, save=save)
        bench.take(_classes)
        bench.take(_in_a_row)
        bench.take(_burst)
        return bench.figures


def _turn(bench: Bench[Workload], feed: PacketFeed, policy: str, rows: Sequence[int], pace_s: float) -> Turn:
    """Let one policy have its turn."""
    feed.engine.set_operator_policy(policy)
    with Quiet() as quiet:
        recording = feed.run(rows, pace_s)
    bench.say(f"{policy}: {len(recording.steps):,} steps, foreign {quiet.foreign}")
    return Turn(policy, recording, quiet.foreign)


def _judged(turns: Sequence[Turn], pace_s: float, ticks: int) -> Told:
    """Sum all turns up, by policy."""
    costs, found = costs_of(turns), Told()
    for one in turns:
        found.setdefault(one.policy, []).append(told(one, costs, pace_s, ticks))
    return found


def _median(found: Told, policy: str, name: str) -> float:
    """Return the median of a figure over the turns in which the machine was ours, or over all if none was."""
    quiet = [one for one in found[policy] if one["foreign"] <= FOREIGN] or found[policy]
    return float(statistics.median(one[name] for one in quiet))


# -- operators in classes of cost, and replays of them ---------------------------------------------------------------


def _classes(bench: Bench[Workload]) -> None:
    """Let policies by rows take turns; then replay what ran."""
    load, turns, rounds = bench.workload.classes, list[Turn](), list[list[dict[str, Any]]]()
    rows = load.arrivals.rows
    with packet_feed(bench.session, load.queries(), load.arrivals.payload) as feed:
        pace_s = tick_s(feed, rows, load.load, load.slow_s)
        bench.say(f"{load.operators} operators: a tick of {pace_s:.3f} s")
        for number in range(bench.workload.rounds):
            names = POLICIES[:: 1 if number % 2 == 0 else -1]
            mine = [_turn(bench, feed, name, rows, pace_s) for name in names]
            turns += mine
            rounds.append(replays({name: one.recording for name in POLICIES for one in mine if one.policy == name}))
    found = _judged(turns, pace_s, len(rows))
    bench.figures.measurements |= {"classes": found, "tick of classes": round(pace_s, 4), "rows of classes": rows}
    expect = bench.figures.expect

    def over(one: str, other: str, what: str) -> float:
        return _median(found, one, what) / _median(found, other, what)

    expect("classes: average slowdown, HNR / FCFS", over("HNR", "FCFS", "mean slowdown"), "<=", 0.65)
    expect("classes: maximum slowdown, LSF / HNR", over("LSF", "HNR", "maximum slowdown"), "<=", 0.75)
    expect("classes: l2 of slowdowns, BSD / FCFS", over("BSD", "FCFS", "l2 slowdown"), "<=", 0.6)
    _replayed(bench, rounds)


def _replayed(bench: Bench[Workload], rounds: Sequence[list[dict[str, Any]]]) -> None:
    """Compare replays with what ran."""
    rows, expect = medians(rounds), bench.figures.expect
    bench.figures.measurements["replay"] = rows
    for what, bound in (("mean", 0.1), ("p95", 0.15)):
        if (value := apart(rows, what)) is not None:  # few answers have no 95th percentile
            expect(f"replay under the policy that ran: {what} response, apart from live", value, "<=", bound)
    wrong = sum(row["right"] is False for row in rows)
    expect("replay under another policy: differences above 15 % predicted with the wrong sign", wrong, "<=", 0)


# -- three operators in a row ----------------------------------------------------------------------------------------


def _in_a_row(bench: Bench[Workload]) -> None:
    """Let policies by bytes take turns; Chain-Flush gets a bound between what the other two took at first."""
    load, turns, bound_s = bench.workload.in_a_row, list[Turn](), 0.0
    rows = load.arrivals.rows
    with packet_feed(bench.session, {QUERY: load.query()}, load.arrivals.payload) as feed:
        pace_s = tick_s(feed, rows, load.load, load.slow_s)
        bench.say(f"three operators in a row: a tick of {pace_s:.3f} s")
        for number in range(bench.workload.rounds):
            pair = (FIFO, CHAIN)[:: 1 if number % 2 == 0 else -1]
            turns += [_turn(bench, feed, name, rows, pace_s) for name in pair]
            if not is_for_operators(KNOWN_POLICIES[FLUSH]):
                continue
            if not bound_s:
                longest = [told(one, costs_of(turns), pace_s, len(rows))["maximum response"] for one in turns]
                bound_s = statistics.fmean(longest)
                feed.engine.execute(f"ALTER QUERY {QUERY} AS {load.query(bound_s)}")
            turns.append(_turn(bench, feed, FLUSH, rows, pace_s))
    found = _judged(turns, pace_s, len(rows))
    bench.figures.measurements |= {"in a row": found, "tick in a row": round(pace_s, 4), "rows in a row": rows}
    peak = {name: _median(found, name, "peak bytes") for name in found}
    bench.figures.expect("in a row: peak of queue bytes, Chain / FIFO", peak[CHAIN] / peak[FIFO], "<=", 0.65)
    if FLUSH in found:
        bench.figures.measurements["bound of Chain-Flush"] = round(bound_s, 3)
        latest = _median(found, FLUSH, "maximum response") / bound_s
        bench.figures.expect("in a row: greatest latency of Chain-Flush / its bound", latest, "<=", LATER)
        between = peak[CHAIN] <= peak[FLUSH] <= peak[FIFO]
        bench.figures.expect_true("in a row: the peak of Chain-Flush lies between those of Chain and FIFO", between)


# -- a burst ---------------------------------------------------------------------------------------------------------


def _burst(bench: Bench[Workload]) -> None:
    """Let too much come, once."""
    with Quiet() as quiet:
        found = overloaded(bench.session, bench.workload.burst)
    bench.figures.measurements["burst"] = found | {"foreign": quiet.foreign}
    bench.say(f"burst: {found}")
    expect = bench.figures.expect
    for name in ("peak of memory / cap", "peak of queues / cap"):
        expect(f"burst: {name}", found[name], "<=", 1.1)
    for name in (
        *("rows lost", "rows answered twice", "exact groups that are wrong"),
        *("alerts past their deadline", "neither answered nor counted"),
    ):
        expect(f"burst: {name}", found[name], "<=", 0)
    expect("burst: sampled answers", found["sampled answers"], ">=", 1_000)
    expect("burst: 95 % bounds of sampled answers that hold", found["bounds that hold"], ">=", 0.93)


def _print(figures: Figures) -> None:
    """Print the figures of every policy, what came of the burst, and the targets."""
    console = Console()
    for name in ("classes", "in a row"):
        table = Table(title=f"Operators {name}, medians", title_justify="left")
        found = figures.measurements[name]
        names = ("mean response", "maximum response", "mean slowdown", "maximum slowdown", "l2 slowdown", "peak bytes")
        for head in ("policy", *names):
            table.add_column(head, justify="left" if head == "policy" else "right")
        for policy in found:
            table.add_row(policy, *(f"{_median(found, policy, one):,.3f}" for one in names))
        console.print(table)
    for name, value in figures.measurements["burst"].items():
        console.print(f"{name}: {value}", highlight=False)
    print_targets(console, figures.targets)
