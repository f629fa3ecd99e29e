"""Times the same windows in Penstock and in its peers: Flink, plain Structured Streaming, slices by hand, and DuckDB.

Every query sums price * volume and counts rows over generated trades, an hour of event time in eight CSV files, until
all answers are in files. The answers of each run are read from its files and compared with Penstock's. Then come the
flights of ``penstock bench mixed``. A peer that is missing is skipped, and the figures say why.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench._frame import SETTINGS, Bench, Save, do_not_save, run_benchmark, scratch_folder, tell_quick_look
from bench._groupings.running import Sums, differing_sums
from bench._measure import Figures, Progress, timing
from bench._mixed.rivals import SAMPLE, duckdb_seconds, plain_seconds
from bench._mixed.running import run as run_mixed
from bench._mixed.workloads import Load, flights
from bench._peers import expert, flink, in_duckdb, in_penstock, spark_plain
from bench._peers.flights import QUERIES, flink_seconds, write_flights_csv
from bench._peers.trades import Case, Peer, PeerRun, Trades, differing, draw_windows, write_csv
from bench._report import print_targets
from penstock.spark.session.embedded import embedded

OURS: Final = "Penstock"
FLIGHTS: Final = 227_496


@dataclass(frozen=True, slots=True)
class Workload:
    """The sizes of everything; other sizes than these are a quick look, not the benchmark."""

    rows: int = 4_000_000
    files: int = 8
    seed: int = 1
    repetitions: int = 1
    keyless: tuple[int, ...] = (1, 4, 16, 64, 256)
    by_symbol: tuple[int, ...] = (1, 4, 16, 64)
    plain_most: int = 16  # queries that run as Spark queries; the time of more is scaled from these
    plain_most_by_symbol: int = 4
    flights: int = FLIGHTS  # 0: without them
    months: int = 12
    warm: bool = True

    def cases(self) -> list[Case]:
        """List what runs together, the smallest first."""
        cases = [Case(draw_windows(number, self.seed)) for number in self.keyless]
        return cases + [Case(draw_windows(number, self.seed), by_symbol=True) for number in self.by_symbol]

    def most_plain(self, case: Case) -> int:
        """Tell how many of a case's queries run as Spark queries."""
        return self.plain_most_by_symbol if case.by_symbol else self.plain_most


@dataclass(slots=True)
class PeersBench(Bench[Workload]):
    """The benchmark of peers."""

    peers: dict[str, Peer] = field(default_factory=dict)
    flink: flink.Flink | None = None
    medians: dict[str, float] = field(default_factory=dict)  # seconds by peer and case

    def skip(self, name: str, reason: str) -> None:
        """Note what was not measured, and why."""
        self.figures.measurements["skipped"][name] = reason
        self.say(f"skipped: {name}: {reason}")

    def note(self, name: str, seconds: list[float], **more: Any) -> None:
        """Keep the times of one peer and case."""
        self.medians[name] = statistics.median(seconds)
        self.figures.measurements["times"][name] = {**timing(seconds, self.workload.rows), **more}

    def run(self, name: str, case: Case) -> PeerRun | None:
        """Run a case in a folder that goes afterwards; a job of Flink's that fails is skipped."""
        folder = self.scratch / "run"
        folder.mkdir()
        try:
            ran = self.peers[name](case, folder)
            self.say(f"{name} {case.name}: {ran.seconds:.2f} s, {ran.answers.num_rows:,} answers")
            return ran
        except flink.FlinkFailed as failed:
            self.skip(f"{name} {case.name}", str(failed))
            return None
        finally:
            shutil.rmtree(folder)


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named."""
    workload = sized(rows or Workload().rows, full=full)
    run_benchmark(path, lambda say, save: measure(embedded(settings=SETTINGS), workload, say, save), _print)
    tell_quick_look(workload.rows, Workload().rows)


def sized(rows: int, *, full: bool) -> Workload:
    """Make a workload of so many trades; a quick look has fewer flights too."""
    usual = Workload(rows=rows)
    if rows < usual.flights:
        usual = replace(usual, flights=rows, months=3)
    more = replace(usual, repetitions=3, by_symbol=(*usual.by_symbol, 256), plain_most=64, plain_most_by_symbol=16)
    return more if full else usual


def measure(session: SparkSession, workload: Workload, say: Progress, save: Save = do_not_save) -> Figures:
    """Measure one case after the other, all peers in turns; what is known is saved after each."""
    with scratch_folder() as scratch, _started_flink(scratch) as started:
        bench = PeersBench(workload, session, scratch, say, save=save, flink=started)
        bench.figures.measurements |= {"skipped": {}, "times": {}, "answers_compared": {}}
        if started is None:
            bench.skip("Flink", flink.ABSENT)
        say(f"generating {workload.rows:,} trades in {workload.files} files")
        trades = write_csv(session, scratch / "trades", workload.rows, workload.files, workload.seed)
        bench.peers = _peers(bench, trades)
        if workload.warm:
            _warm_up(bench)
        for case in workload.cases():
            bench.take(_measure_case, case, trades)
        bench.take(_expect_all)
        if workload.flights:
            bench.take(_measure_flights)
        return bench.figures


@contextmanager
def _started_flink(scratch: Path) -> Iterator[flink.Flink | None]:
    """Start Flink if there is one."""
    python = flink.flink_python()
    with nullcontext() if python is None else flink.Flink(python, scratch) as started:
        yield started


def _peers(bench: PeersBench, trades: Trades) -> dict[str, Peer]:
    """Name all peers; ours is the first, and others' answers are compared with it."""
    peers: dict[str, Peer] = {OURS: partial(in_penstock.run, bench.session, trades)}
    if bench.flink is not None:
        peers["Flink"] = partial(flink.run, bench.flink, trades)
    peers["plain"] = partial(spark_plain.run, bench.session, trades)
    peers["expert"] = partial(expert.run, bench.session, trades)
    return peers | in_duckdb.peers(trades)


def _warm_up(bench: PeersBench) -> None:
    """Run the smallest case of each kind once in every peer, so that Java has compiled what it will run."""
    smallest = {case.by_symbol: case for case in reversed(bench.workload.cases())}
    for case in smallest.values():
        bench.say(f"warming up: {case.name}")
        for name in bench.peers:
            bench.run(name, case)


def _measure_case(bench: PeersBench, case: Case, trades: Trades) -> None:
    """Run a case in all peers in turns, and compare their answers."""
    runs: dict[str, list[PeerRun]] = {name: [] for name in bench.peers if _runs(bench, name, case)}
    expected: pa.Table | None = None
    for _ in range(bench.workload.repetitions):
        for name, found in runs.items():
            if (ran := bench.run(name, case)) is None:
                continue
            expected = ran.answers if expected is None else expected
            _note_compared(bench, f"{name} {case.name}", ran, differing(expected, ran.answers, _finished(name, trades)))
            found.append(replace(ran, answers=expected.slice(0, 0)))  # the answers were compared, and are large
    for name, found in runs.items():
        if found:
            parts = {part: round(statistics.median(ran.parts[part] for ran in found), 4) for part in found[0].parts}
            bench.note(f"{name} {case.name}", [ran.seconds for ran in found], **parts)
    if "plain" not in runs:
        _scale_plain(bench, case)


def _runs(bench: PeersBench, name: str, case: Case) -> bool:
    """Tell whether a peer runs a case, or takes too long."""
    return name != "plain" or len(case.windows) <= bench.workload.most_plain(case)


def _finished(name: str, trades: Trades) -> int | None:
    """Tell until when windows are compared: plain Spark does not write those that end after the last row."""
    return trades.last_us if name == "plain" else None


def _note_compared(bench: PeersBench, name: str, ran: PeerRun, found: int) -> None:
    """Note how many answers of a run differ from ours."""
    compared = bench.figures.measurements["answers_compared"]
    before = compared.get(name, {"differing": 0})["differing"]
    compared[name] = {"answers": ran.answers.num_rows, "differing": before + found}
    if found:
        bench.say(f"{name}: {found:,} answers differ")


def _scale_plain(bench: PeersBench, case: Case) -> None:
    """Scale the time of the most queries that ran as Spark queries: all of them would take too long."""
    most = bench.workload.most_plain(case)
    measured = bench.medians.get(f"plain {case.first(most).name}")
    if measured is not None:
        scaled = measured * len(case.windows) / most
        bench.note(f"plain {case.name}", [scaled], scaled_from_queries=most)
        bench.say(f"plain {case.name}: {scaled:.2f} s, scaled from {most} queries")


def _expect_all(bench: PeersBench) -> None:
    """Compare the ratios with their targets, and tell whether all answers are equal."""
    found = bench.figures.measurements["answers_compared"].values()
    right = all(one["answers"] and not one["differing"] for one in found)
    bench.figures.expect_true("answers of all peers equal Penstock's", right)
    for name, times in (("64", 12), ("256", 15), ("by symbol 16", 8), ("by symbol 64", 10)):
        _expect(bench, "Flink", name, times)
    _expect(bench, "plain", "64", 80)
    _expect(bench, "DuckDB", "256", 10)
    for case in bench.workload.cases():
        ours, theirs = (bench.medians.get(f"{one} {case.name}") for one in (OURS, "expert"))
        if ours is not None and theirs is not None:
            bound = 1.1 if len(case.windows) == 1 else 1.0
            bench.figures.expect(f"{OURS} {case.name} / expert {case.name}", ours / theirs, "<=", bound)


def _expect(bench: PeersBench, name: str, case: str, bound: float) -> None:
    """Expect that a peer takes so many times as long as we do, if both were measured."""
    theirs, ours = bench.medians.get(f"{name} {case}"), bench.medians.get(f"{OURS} {case}")
    if theirs is not None and ours is not None:
        times = bench.figures.measurements["times"]
        scaled = times[f"{name} {case}"].get("scaled_from_queries")
        said = f" (scaled from {scaled})" if scaled else ""
        bench.figures.expect(f"{name} {case}{said} / {OURS} {case}", theirs / ours, ">=", bound)


def _measure_flights(bench: PeersBench) -> None:
    """Run the airline's 34 queries together, and those that others take in others; their times are scaled to 34."""
    load = flights(bench.scratch / "flights", bench.workload.flights, bench.workload.months, bench.workload.seed)
    run_mixed(bench.session, load)  # the code of every plan is compiled once before it is measured
    together, some = run_mixed(bench.session, load), run_mixed(bench.session, load, list(QUERIES))
    plain_seconds(bench.session, load)
    plain, duck = sum(plain_seconds(bench.session, load).values()), sum(duckdb_seconds(load).values())
    scale = len(load.queries) / len(SAMPLE)
    bench.figures.measurements["flights"] = {
        "queries": len(load.queries),
        "rows": load.rows,
        "penstock_seconds": round(together.seconds, 3),
        "plain_sample": len(SAMPLE),
        "plain_seconds": round(plain, 3),
        "plain_seconds_of_all": round(plain * scale, 3),
        "duckdb_seconds": round(duck, 3),
        "duckdb_seconds_of_all": round(duck * scale, 3),
        "flink_sample": len(QUERIES),
        "penstock_seconds_of_flinks": round(some.seconds, 3),
    }
    bench.say(f"flights: Penstock {together.seconds:.1f} s, plain, scaled, {plain * scale:.1f} s")
    if bench.flink is not None:
        _flights_in_flink(bench, bench.flink, load, {name: some.sums.get(name, (0, 0.0)) for name in QUERIES})


def _flights_in_flink(bench: PeersBench, started: flink.Flink, load: Load, ours: Sums) -> None:
    """Run what Flink takes of the airline's queries, and compare its answers with ours."""
    rows = write_flights_csv(load, bench.scratch / "flights-csv")
    try:
        flink_seconds(started, rows, bench.scratch / "flights-warm")
        took, theirs = flink_seconds(started, rows, bench.scratch / "flights-answers")
    except flink.FlinkFailed as failed:
        bench.skip("Flink flights", str(failed))
        return
    found = bench.figures.measurements["flights"]
    wrong = differing_sums(_as_flink_sums(ours, theirs), theirs)
    found |= {
        "flink_seconds": took["seconds"],
        "flink_creating_seconds": round(took["creating_seconds"], 3),
        "flink_seconds_of_all": round(took["seconds"] * len(load.queries) / len(QUERIES), 3),
        "differing": wrong,
    }
    bench.say(f"flights: Flink, {len(QUERIES)} queries, {took['seconds']:.1f} s; differing: {wrong or 'none'}")
    bench.figures.expect_true("flights: Flink's answers equal Penstock's", not wrong)


def _as_flink_sums(ours: Sums, theirs: Sums) -> Sums:
    """Leave out of our sums what Flink's answers do not have: the query's version, and windows without a row.

    The version is 1 in every answer. Only a query without groups answers windows without a row, with a count of zero.
    """
    keyless = [name for name, query in QUERIES.items() if not query.keys]
    return {
        name: (theirs[name][0] if name in keyless else count, total - count) for name, (count, total) in ours.items()
    }


def _print(figures: Figures) -> None:
    """Print times and targets."""
    table = Table(title="Peers", title_justify="left")
    table.add_column("run")
    table.add_column("seconds", justify="right")
    table.add_column("note")
    for name, run in figures.measurements["times"].items():
        scaled = run.get("scaled_from_queries")
        table.add_row(name, f"{run['median_seconds']:.2f}", f"scaled from {scaled} queries" if scaled else "")
    for name, reason in figures.measurements["skipped"].items():
        table.add_row(name, "", f"skipped: {reason}")
    console = Console()
    console.print(table)
    print_targets(console, figures.targets)
