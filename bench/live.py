"""Runs an engine in the background under several policies: noisy neighbours, and many queries that are due together.

*Neighbours*: 200 cheap alerts alone, then beside 40 percentiles by 3,000 symbols that all fall due at once, a sink that
sleeps, and a query that asks for the hour before; also with all of that inside the batch, as before there was a
scheduler. Alone and beside run once each before they are measured, so that both find Java as warm, and every second
round goes through all of them in the other order. *Midnight*: 500 queries of mixed cost fall due together with every
batch, six batches wait already, and more come as fast as there is time for; each policy orders the same work, in one
engine.
*Replay*: such work recorded under some policies, and each trace replayed under all of them. *Freshness*: dashboards
that ask for twice of what can be answered, as exact and as fresh queries. *The desk*: what choosing costs. *Sweeps*:
240 percentiles over eight synopses fall behind; techniques of running together are compared by counts. Nothing here
asserts a time: runs take turns, medians are compared, and a round during which others used the machine is told.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench._frame import SETTINGS, Bench, Save, do_not_save, run_benchmark, scratch_folder, tell_quick_look
from bench._live.desk_costs import DeskLoad, choosing, desk_files, throughput
from bench._live.freshness import Overload, dashboards_for, stale
from bench._live.midnight import Midnight, Ran, ideal_us, judged, midnight_s, midnights, run_folder, running
from bench._live.neighbours import Neighbourhood, Responses, respond
from bench._live.replay import REPLAYED, apart, compared, medians, recorded
from bench._live.sweeps import KERNELS, PAPERS_ORDER, SweptQueries, sweeps
from bench._measure import Figures, Progress
from bench._report import print_targets
from penstock.spark.session.embedded import embedded

ROUNDS: Final = 3
FOREIGN: Final = 0.10  # of the machine's time, that others may use in a round


@dataclass(frozen=True, slots=True)
class Workload:
    """The sizes of everything; other sizes than these are a quick look, not the benchmark."""

    neighbours: Neighbourhood = field(default_factory=Neighbourhood)
    midnight: Midnight = field(default_factory=Midnight)
    freshness: Overload = field(default_factory=Overload)
    desk: DeskLoad = field(default_factory=DeskLoad)
    sweeps: SweptQueries = field(default_factory=SweptQueries)
    rounds: int = ROUNDS
    replays: int = 2  # rounds of recording and replaying


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named; ``rows`` are those of a file."""
    usual = Workload()
    workload = usual
    if rows is not None and rows != usual.neighbours.rows:
        few = Neighbourhood(rows, 50, 20, 11, 0.5, 5, 2, 5, 10, 0.2, 20, 12)
        overload = Overload(rows, 50, 8, 4, 0.5, 5, 2, 40, 10)
        desk, swept = DeskLoad(10 * rows, 4, 2, 8, 50, 1), SweptQueries(48, 60, rows, 3)
        workload = Workload(few, Midnight(rows, 50, 12, 5, 3, 2, 2, batches=5), overload, desk, swept, 1, 1)
    run_benchmark(path, lambda say, save: measure(embedded(settings=SETTINGS), workload, say, save), _print)
    tell_quick_look(workload.neighbours.rows, usual.neighbours.rows)


def measure(session: SparkSession, workload: Workload, say: Progress, save: Save = do_not_save) -> Figures:
    """Measure one thing after the other."""
    with scratch_folder() as scratch:
        bench = Bench(workload, session, scratch, say, save=save)
        bench.take(_neighbours)
        bench.take(_midnight)
        bench.take(_replay)
        bench.take(_freshness)
        bench.take(_desk)
        bench.take(_sweeps)
        return bench.figures


# -- noisy neighbours ------------------------------------------------------------------------------------------------

SLOWEST: Final = 3  # answers of a run, of which it is told whose they are: with so few answers, these are the p99
COMPARED: Final = ("alone", "Hybrid")
BEFORE: Final = "all in the batch, sinks too"  # as it was before there was a scheduler
SIDES: Final[dict[str, dict[str, Any]]] = {
    "alone": {"reports": False},
    "Hybrid": {"reports": True},
    "FCFS": {"reports": True, "policy": "FCFS"},
    BEFORE: {"reports": True, "policy": "FCFS", "apart": False},
}


def _neighbours(bench: Bench[Workload]) -> None:
    """Time alerts alone and beside reports, in turns."""
    load, found = bench.workload.neighbours, {name: list[dict[str, Any]]() for name in SIDES}
    for name in COMPARED:  # Java compiles what both of them run: without this, whoever comes first is slower
        respond(bench.session, _shortened(load), **SIDES[name])
        bench.say(f"warm-up, alerts, {name}")
    for number in range(bench.workload.rounds):
        for name, how in list(SIDES.items())[:: -1 if number % 2 else 1]:  # each comes before the others now and then
            with Quiet() as quiet:
                responses = respond(bench.session, _shortened(load) if name == BEFORE else load, **how)
            told = _told(responses, load.first) | {"foreign": quiet.foreign}
            found[name].append(told)
            bench.say(f"round {number + 1}, alerts, {name}: {told}")
    bench.figures.measurements["neighbours"] = found
    alone, bound = _median(found["alone"], "p99"), 1.3
    expect = bench.figures.expect
    expect("alerts beside reports, default policy / alone, p99", _median(found["Hybrid"], "p99") / alone, "<=", bound)
    worse = _median(found[BEFORE], "p99") / _median(found["Hybrid"], "p99")
    expect(f"alerts beside reports, {BEFORE} / default policy, p99", worse, ">=", 5)


def _shortened(load: Neighbourhood) -> Neighbourhood:
    """Let half as many files be counted where each waits for a sink that sleeps: the longer it goes, the more wait.

    So many are enough to warm up, too: the query that asks for the past is among them.
    """
    return replace(load, files=max(load.backfill_at + 2, (load.first + load.files) // 2))


def _told(responses: Responses, first: int) -> dict[str, Any]:
    """Sum the responses of a run up."""
    seconds = [took for end, took in responses.seconds if end >= first]
    p50, p99 = np.percentile(np.array(seconds), [50, 99]) if seconds else (float("nan"), float("nan"))
    reports = statistics.median(responses.reports) if responses.reports else None
    slowest = sorted(((took, end) for end, took in responses.seconds if end >= first), reverse=True)[:SLOWEST]
    return {
        "answers": len(seconds),
        "p50": round(float(p50), 3),
        "p99": round(float(p99), 3),
        "reports_p50": None if reports is None else round(reports, 3),
        "past_windows": len(responses.past),
        "slowest": {f"file {end}": round(took, 3) for took, end in slowest},
    }


def _median(rounds: list[dict[str, Any]], name: str) -> float:
    """Return the median of a figure over the rounds in which the machine was ours, or over all if none was."""
    quiet = [one for one in rounds if one["foreign"] <= FOREIGN] or rounds
    return float(statistics.median(one[name] for one in quiet))


class Quiet:
    """Tells what share of the machine's time was used by others while something ran."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.foreign = 0.0

    def __enter__(self) -> Quiet:
        """Begin."""
        self._began = psutil.cpu_times(), self._own()
        return self

    def __exit__(self, *error: object) -> None:
        """End, and tell."""
        (before, own), after = self._began, psutil.cpu_times()
        passed = sum(after) - sum(before)
        idle = (after.idle + after.iowait) - (before.idle + before.iowait)
        self.foreign = round(max(0.0, passed - idle - (self._own() - own)) / max(passed, 1e-9), 3)

    @staticmethod
    def _own() -> float:
        """Return the processor time of this process and of those that it started."""
        me = psutil.Process()
        times = [one.cpu_times() for one in (me, *me.children(recursive=True)) if one.is_running()]
        return sum(one.user + one.system for one in times)


# -- midnight --------------------------------------------------------------------------------------------------------

POLICIES: Final = ("FCFS", "HNR", "LSF", "BSD", "Hybrid")


def _midnight(bench: Bench[Workload]) -> None:
    """Answer the same windows, all due together now and then, in the order of each policy."""
    load, ran = bench.workload.midnight, list[tuple[str, Ran, float]]()
    each_s = midnight_s(bench.session, load)
    with run_folder() as folder, running(bench.session, load, POLICIES[0], folder, each_s) as engine:
        for number in range(bench.workload.rounds):
            for name in POLICIES:
                with Quiet() as quiet:
                    one = midnights(engine, load, folder, name, each_s)
                ran.append((name, one, quiet.foreign))
                bench.say(f"round {number + 1}, midnight, {name}")
    ideal, found = ideal_us([one for _, one, _ in ran]), {name: list[dict[str, float]]() for name in POLICIES}
    for name, one, foreign in ran:
        found[name].append(judged(one.recording, ideal) | {"seconds a midnight": round(each_s, 3), "foreign": foreign})
    for name, told in found.items():
        bench.say(f"midnights, {name}: {told}")
    bench.figures.measurements["midnight"] = found
    expect = bench.figures.expect

    def over(one: str, other: str, what: str) -> float:
        return _median(found[one], what) / _median(found[other], what)

    expect("midnight: average slowdown, HNR / FCFS", over("HNR", "FCFS", "mean slowdown"), "<=", 0.5)
    expect("midnight: maximum slowdown, LSF / HNR", over("LSF", "HNR", "maximum slowdown"), "<=", 0.75)
    expect("midnight: l2 of slowdowns, BSD / FCFS", over("BSD", "FCFS", "l2 slowdown"), "<=", 0.6)
    expect("midnight: deadlines kept by the default", _median(found["Hybrid"], "kept"), ">=", 0.95)
    expect("midnight: deadlines kept by FCFS", _median(found["FCFS"], "kept"), "<=", 0.6)


# -- replay ----------------------------------------------------------------------------------------------------------


def _replay(bench: Bench[Workload]) -> None:
    """Record the same work under some policies in turns, and replay each trace under all of them."""
    rounds: list[dict[str, Any]] = []
    load = bench.workload.midnight
    with run_folder() as folder, running(bench.session, load, REPLAYED[0], folder) as engine:
        for number in range(bench.workload.replays):
            with Quiet() as quiet:
                recordings = {name: recorded(engine, load, folder, name) for name in REPLAYED}
            rounds.append({"rows": compared(recordings), "foreign": quiet.foreign})
            bench.say(f"round {number + 1}, replay: recorded under {', '.join(REPLAYED)}, foreign {quiet.foreign}")
    kept = [one["rows"] for one in rounds if one["foreign"] <= FOREIGN] or [one["rows"] for one in rounds]
    rows = medians(kept)
    bench.figures.measurements["replay"] = {"rows": rows, "rounds": rounds}
    expect = bench.figures.expect
    for what, bound in (("mean", 0.1), ("p95", 0.15)):
        if (value := apart(rows, what)) is not None:  # few answers have no 95th percentile
            expect(f"replay under the policy that ran: {what} response, apart from live", value, "<=", bound)
    wrong = sum(row["right"] is False for row in rows)
    expect("replay under another policy: differences above 15 % predicted with the wrong sign", wrong, "<=", 0)


def _print_replay(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print what was predicted beside what came."""
    table = Table(title="Mean response in seconds, live and replayed", title_justify="left")
    names = ("ran", "replayed", "live mean", "replayed mean", "live p95", "replayed p95", "predicted", "came", "right")
    for head in names:
        table.add_column(head, justify="left" if head in ("ran", "replayed") else "right")
    for row in rows:
        table.add_row(*("" if row[name] is None else _cell(name, row[name]) for name in names))
    console.print(table)


# -- freshness -------------------------------------------------------------------------------------------------------


def _freshness(bench: Bench[Workload]) -> None:
    """Run the same dashboards as exact and as fresh queries, under twice the load."""
    load, expect = bench.workload.freshness, bench.figures.expect
    many, each = dashboards_for(bench.session, load)
    asked = many * each / load.every_seconds
    bench.figures.measurements["dashboards"] = {"number": many, "seconds of one window": each, "load": asked}
    bench.say(f"{many} dashboards, {each * 1e3:.1f} ms a window: {asked:.2f} times of the driver's time")
    found = {name: list[dict[str, Any]]() for name in ("exact", "fresh")}
    for name, rounds in found.items():
        with Quiet() as quiet:
            told = stale(bench.session, load, many, fresh=name == "fresh")
        rounds.append(told | {"foreign": quiet.foreign})
        bench.say(f"dashboards, {name}: {rounds[-1]}")
    bench.figures.measurements["freshness"] = found
    exact, fresh = found["exact"][0], found["fresh"][0]
    expect("staleness under twice the load, fresh / exact", fresh["staleness"] / exact["staleness"], "<=", 0.6)
    lost = sum(one["lost"] for one in (exact, fresh))
    expect("answers that exact queries lost", lost, "<=", 0)
    expect("windows of fresh queries neither answered nor counted", fresh["uncounted"], "<=", 0)
    expect("seconds of the stream that wait to be read, mean, fresh", fresh["unread"], "<=", 2 * load.every_seconds)


# -- the desk --------------------------------------------------------------------------------------------------------


def _desk(bench: Bench[Workload]) -> None:
    """Compare throughput with the order of urgency and in one go, in turns; then time choosing itself."""
    load, found = bench.workload.desk, {name: list[dict[str, Any]]() for name in ("in order of urgency", "in one go")}
    with desk_files(bench.session, load) as files:
        throughput(bench.session, load, files, ordered=True)  # Java compiles: who came first was slower by a third
        for turn in range(load.turns):
            for name in sorted(found, reverse=turn % 2 == 0):  # each is the first one now and then
                with Quiet() as quiet:
                    rate = throughput(bench.session, load, files, ordered=name == "in order of urgency")
                found[name].append({"rows a second": round(rate), "foreign": quiet.foreign})
                bench.say(f"turn {turn + 1}, {name}: {rate:,.0f} rows/s")
    chosen = choosing(bench.session, load)
    bench.say(f"choosing among {load.queries:,} queries: {chosen}")
    bench.figures.measurements |= {"desk": found, "choosing": chosen}
    slower = _median(found["in one go"], "rows a second") / _median(found["in order of urgency"], "rows a second")
    bench.figures.expect("throughput in one go / in order of urgency", slower, "<=", 1.03)
    milliseconds = chosen["milliseconds a batch"]
    bench.figures.expect(f"milliseconds of choosing a batch, {load.queries:,} queries", milliseconds, "<=", 2.0)


# -- shared sweeps ---------------------------------------------------------------------------------------------------


def _sweeps(bench: Bench[Workload]) -> None:
    """Let queries fall behind under each technique; counts do not vary, so that one round is enough."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in KERNELS:
        found[name] = sweeps(bench.session, bench.workload.sweeps, name)
        for technique, figures in found[name].items():
            bench.say(f"sweeps, {name}, {technique}: {figures}")
    bench.figures.measurements["sweeps"] = found
    for name, told in found.items():
        for more, less in PAPERS_ORDER:
            share = told[more]["answers"] / max(1.0, told[less]["answers"])
            bench.figures.expect(f"sweeps, {name}: answers, {more} / {less}", share, ">=", 1)
        share = told["HS"]["late"] / max(0.01, told["CS"]["late"])
        bench.figures.expect(f"sweeps, {name}: updates late, HS / CS", share, "<=", 0.5)
        each = {technique: figures["operations an answer"] for technique, figures in told.items()}
        share = each["H-LP"] / max(1.0, each["No-S"])
        bench.figures.expect(f"sweeps, {name}: operations an answer, H-LP / No-S", share, "<=", 0.6)


def _cell(name: str, value: Any) -> str:
    """Write a figure of a replay."""
    return (
        f"{value:+.0%}" if name in ("predicted", "came") else f"{value:.3f}" if isinstance(value, float) else str(value)
    )


def _print(figures: Figures) -> None:
    """Print what was found."""
    console = Console()
    for title, what in (
        ("Seconds until an alert is answered", "neighbours"),
        ("Slowdown of queries that are due together", "midnight"),
        ("Dashboards under twice the load, seconds of the stream", "freshness"),
        ("What the order of urgency costs", "desk"),
    ):
        table = Table(title=title, title_justify="left")
        rounds = figures.measurements[what]
        names = [name for name in next(iter(rounds.values()))[0] if name not in ("foreign", "slowest")]
        for head in ("run", *names):
            table.add_column(head, justify="left" if head == "run" else "right")
        for name, some in rounds.items():
            table.add_row(name, *("" if some[0][n] is None else f"{_median(some, n):.3f}" for n in names))
        console.print(table)
    _print_replay(console, figures.measurements["replay"]["rows"])

    for kernel, told in figures.measurements["sweeps"].items():
        table = Table(title=f"Percentiles that fall behind, {kernel}", title_justify="left")
        names = list(next(iter(told.values())))
        for head in ("technique", *names):
            table.add_column(head, justify="left" if head == "technique" else "right")
        for technique, values in told.items():
            table.add_row(technique, *(f"{values[name]:,.1f}" for name in names))
        console.print(table)
    print_targets(console, figures.targets)
