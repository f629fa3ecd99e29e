"""Runs an engine in the background under several policies: noisy neighbours, and many queries that are due together.

*Neighbours*: 200 cheap alerts alone, then beside 40 percentiles by 3,000 symbols that all fall due at once and a sink
that sleeps. *Midnight*: queries of very different cost fall due together; each policy orders the same work. *Replay*:
the same work recorded under some policies, and each trace replayed under all of them. Nothing here asserts a time: runs
take turns, medians are compared, and a round during which others used the machine is told.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench._frame import SETTINGS, Bench, Save, do_not_save, run_benchmark, scratch_folder, tell_quick_look
from bench._live.midnight import Midnight, midnight
from bench._live.neighbours import Neighbourhood, Responses, respond
from bench._live.replay import REPLAYED, apart, compared, medians, recorded
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
    rounds: int = ROUNDS
    replays: int = 2  # rounds of recording and replaying


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named; ``rows`` are those of a file."""
    usual = Workload()
    workload = usual
    if rows is not None and rows != usual.neighbours.rows:
        few = Neighbourhood(rows, 50, 12, 4, 0.5, 5, 2, 5, 10, 0.2)
        workload = Workload(few, Midnight(rows, 50, 12, 3, 2), 1, 1)
    run_benchmark(path, lambda say, save: measure(embedded(settings=SETTINGS), workload, say, save), _print)
    tell_quick_look(workload.neighbours.rows, usual.neighbours.rows)


def measure(session: SparkSession, workload: Workload, say: Progress, save: Save = do_not_save) -> Figures:
    """Measure one thing after the other."""
    with scratch_folder() as scratch:
        bench = Bench(workload, session, scratch, say, save=save)
        bench.take(_neighbours)
        bench.take(_midnight)
        bench.take(_replay)
        return bench.figures


# -- noisy neighbours ------------------------------------------------------------------------------------------------

SIDES: Final[dict[str, dict[str, Any]]] = {
    "alone": {"reports": False},
    "Hybrid": {"reports": True},
    "FCFS": {"reports": True, "policy": "FCFS"},
    "in one go, before the next batch": {"reports": True, "policy": "FCFS", "lags": False},
}


def _neighbours(bench: Bench[Workload]) -> None:
    """Time alerts alone and beside reports, in turns."""
    load, found = bench.workload.neighbours, {name: list[dict[str, Any]]() for name in SIDES}
    for number in range(bench.workload.rounds):
        for name, how in SIDES.items():
            with Quiet() as quiet:
                responses = respond(bench.session, load, **how)
            told = _told(responses, load.first) | {"foreign": quiet.foreign}
            found[name].append(told)
            bench.say(f"round {number + 1}, alerts, {name}: {told}")
    bench.figures.measurements["neighbours"] = found
    alone, bound = _median(found["alone"], "p99"), 1.3
    expect = bench.figures.expect
    expect("alerts beside reports, default policy / alone, p99", _median(found["Hybrid"], "p99") / alone, "<=", bound)
    worse = _median(found["in one go, before the next batch"], "p99") / _median(found["Hybrid"], "p99")
    expect("alerts beside reports, in one go, before the next batch / default policy, p99", worse, ">=", 5)


def _told(responses: Responses, first: int) -> dict[str, Any]:
    """Sum the responses of a run up."""
    seconds = [took for end, took in responses.seconds if end >= first]
    p50, p99 = np.percentile(np.array(seconds), [50, 99]) if seconds else (float("nan"), float("nan"))
    reports = statistics.median(responses.reports) if responses.reports else None
    return {
        "answers": len(seconds),
        "p50": round(float(p50), 3),
        "p99": round(float(p99), 3),
        "reports_p50": None if reports is None else round(reports, 3),
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
    """Answer the same windows, all due together, in the order of each policy."""
    found = {name: list[dict[str, float]]() for name in POLICIES}
    for number in range(bench.workload.rounds):
        for name in POLICIES:
            with Quiet() as quiet:
                told = midnight(bench.session, bench.workload.midnight, name)
            found[name].append(told | {"foreign": quiet.foreign})
            bench.say(f"round {number + 1}, midnight, {name}: {found[name][-1]}")
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
    for number in range(bench.workload.replays):
        with Quiet() as quiet:
            recordings = {name: recorded(bench.session, bench.workload.midnight, name) for name in REPLAYED}
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
    ):
        table = Table(title=title, title_justify="left")
        rounds = figures.measurements[what]
        names = [name for name in next(iter(rounds.values()))[0] if name != "foreign"]
        for head in ("run", *names):
            table.add_column(head, justify="left" if head == "run" else "right")
        for name, some in rounds.items():
            table.add_row(name, *("" if some[0][n] is None else f"{_median(some, n):.3f}" for n in names))
        console.print(table)
    _print_replay(console, figures.measurements["replay"]["rows"])
    print_targets(console, figures.targets)
