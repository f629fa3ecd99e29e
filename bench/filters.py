"""Times thousands of queries without a window over one stream, until all rows are in Parquet files and the state is.

A filter is a range of prices, or a symbol with a range of prices or volumes, as wide as it takes for the queries
together to take each row 0.1, 1 or 10 times. Rivals in the same run write Parquet too: one Spark query with a CASE for
each filter, exploded, on a JVM that compiles large methods; and a streaming query for each filter. Esper stands beside
as the specialist, in memory and in one thread. What is answered is counted and compared. Nothing here asserts a time:
machines differ, the ratios within a run much less.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench._filters.actions import time_actions
from bench._filters.drawn import PRICES, SYMBOLS, VOLUMES, drawn, drawn_filters
from bench._filters.esper import run_esper, why_absent
from bench._frame import SETTINGS, Bench, Save, do_not_save, run_benchmark, scratch_folder, tell_quick_look
from bench._measure import Figures, Progress
from penstock.engine import Engine
from penstock.sinks.parquet import ParquetSink
from penstock.spark.session.embedded import embedded

COLUMNS: Final = "ts TIMESTAMP, symbol STRING, price DOUBLE, volume BIGINT"
FIRST_US: Final = 1_767_571_200_000_000


@dataclass(frozen=True, slots=True)
class Workload:
    """The sizes of everything; other sizes than these are a quick look, not the benchmark."""

    rows: int = 4_000_000
    files: int = 8
    filters: tuple[int, ...] = (1, 64, 1_024, 10_000)
    takers: tuple[float, ...] = (0.1, 1.0, 10.0)  # queries that take a row, on average
    by_case: tuple[int, ...] = (64, 1_024)  # filters of the query written by hand
    separate: tuple[int, ...] = (1, 16)  # queries of their own
    esper: tuple[int, ...] = (64, 1_024, 10_000)
    small_batch: int = 10_000
    warm: bool = True
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run took, and what it wrote."""

    seconds: float
    processor_s: float  # of this process and the JVM
    answers: int  # pairs of a row and a query
    rows: int  # each once
    taken_bytes: int = 0  # of rows in the state folder, with what tells who takes them
    sink_bytes: int = 0
    once_bytes: int = 0  # of the same rows, written once and with nothing else
    creating_s: float = 0.0


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named."""
    usual = Workload()
    workload = usual if rows is None or rows == usual.rows else sized(rows)
    run_benchmark(path, lambda say, save: measure(embedded(settings=SETTINGS), workload, say, save))
    tell_quick_look(workload.rows, usual.rows)


def sized(rows: int) -> Workload:
    """Make a workload for a quick look."""
    few = rows < 1_000_000
    filters, by_case = ((1, 16, 64), (16,)) if few else ((1, 64, 1_024), (64, 1_024))
    return Workload(
        rows=rows,
        files=4,
        filters=filters,
        by_case=by_case,
        separate=(1, 4) if few else (1, 16),
        esper=by_case,
        warm=not few,
    )


def measure(session: SparkSession, workload: Workload, say: Progress, save: Save = do_not_save) -> Figures:
    """Measure everything, one thing after the other; what is known is saved after each."""
    with scratch_folder() as scratch:
        bench = Bench(workload, session, scratch, say, save=save)
        write_evenly(scratch / "trades", workload)
        bench.take(_time_penstock)
        bench.take(_time_by_case)
        bench.take(_time_separate)
        bench.take(_time_esper)
        bench.take(_time_actions)
        bench.take(_expect)
        return bench.figures


def write_evenly(folder: Path, workload: Workload) -> None:
    """Write trades whose prices, volumes and symbols are drawn evenly."""
    folder.mkdir()
    draw, rows = np.random.default_rng(workload.seed), workload.rows // workload.files
    names = np.array([f"S{number:03d}" for number in range(SYMBOLS)])
    for file in range(workload.files):
        times = FIRST_US + 3_000 * (np.arange(rows) + file * rows)
        columns = {
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "symbol": pa.array(names[draw.integers(0, SYMBOLS, rows)]),
            "price": pa.array(draw.uniform(0, PRICES, rows)),
            "volume": pa.array(draw.integers(0, VOLUMES, rows)),
        }
        pq.write_table(pa.table(columns), folder / f"{file:03d}.parquet", row_group_size=65_536)


# Penstock.


def run_penstock(bench: Bench[Workload], conditions: Sequence[str]) -> Ran:
    """Answer all filters with a fresh state folder, until the Parquet sink has every row."""
    with scratch_folder() as scratch:
        state, answers = scratch / "state", scratch / "answers"
        with Engine(state, spark=bench.session, sinks=[ParquetSink(answers, layout="columns")]) as engine:
            engine.execute(
                f"CREATE STREAM trades ({COLUMNS}) USING parquet OPTIONS (path = '{bench.scratch / 'trades'}', "
                "maxFilesPerTrigger = '1') WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
            )
            began = time.perf_counter()
            select = "SELECT symbol, price, volume FROM trades WHERE "
            engine.create_queries({f"q{place}": select + one for place, one in enumerate(conditions)})
            engine.stream("trades")
            creating, began, used = time.perf_counter() - began, time.perf_counter(), processor_seconds()
            engine.process_available()
            seconds, used = time.perf_counter() - began, processor_seconds() - used
        written = pq.read_table(answers) if any(answers.glob("*.parquet")) else None
        if written is None:
            return Ran(seconds, used, 0, 0, creating_s=creating)
        pairs = int(pc.sum(pc.list_value_length(written["queries"])).as_py())
        once = scratch / "once.parquet"
        pq.write_table(written.select(["event_time", "symbol", "price", "volume"]), once)
        sizes = size_of(state / "taken"), size_of(answers), once.stat().st_size
        return Ran(seconds, used, pairs, written.num_rows, *sizes, creating_s=creating)


def size_of(folder: Path) -> int:
    """Add up the bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def processor_seconds() -> float:
    """Return what this process and the JVM have taken so far."""
    own = psutil.Process()
    return float(sum(p.cpu_times().user + p.cpu_times().system for p in [own, *own.children(recursive=True)]))


def _time_penstock(bench: Bench[Workload]) -> None:
    """Time every number of filters at every number of takers."""
    workload = bench.workload
    if workload.warm:
        run_penstock(bench, drawn_filters(workload.filters[0], 1.0, workload.seed))
    for takers in workload.takers:
        for number in workload.filters:
            ran = run_penstock(bench, drawn_filters(number, takers, workload.seed))
            _note(bench, f"Penstock {number}, {takers:g} takers", ran)


def _note(bench: Bench[Workload], name: str, ran: Ran) -> None:
    """Keep what a run took."""
    found: dict[str, Any] = {field: round(float(getattr(ran, field)), 3) for field in Ran.__slots__}
    bench.figures.measurements.setdefault("runs", {})[name] = found
    bench.say(f"{name}: {ran.seconds:.2f} s, {ran.answers:,} answers in {ran.rows:,} rows")


# Spark alone.


def _opened(bench: Bench[Workload]) -> DataFrame:
    """Read the files as a stream, one a batch."""
    source = bench.session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    return source.parquet(str(bench.scratch / "trades"))


def _written(bench: Bench[Workload], frames: Sequence[DataFrame], column: str | None) -> Ran:
    """Run streaming queries together until all have written their Parquet files."""
    with scratch_folder() as scratch:
        began, used = time.perf_counter(), processor_seconds()
        queries = [
            frame.writeStream.option("checkpointLocation", str(scratch / f"checkpoint{place}"))
            .trigger(availableNow=True)
            .start(str(scratch / f"answers{place}"), format="parquet")
            for place, frame in enumerate(frames)
        ]
        for query in queries:
            query.awaitTermination()
        seconds, used = time.perf_counter() - began, processor_seconds() - used
        counts = [bench.session.read.parquet(str(scratch / f"answers{place}")).count() for place in range(len(frames))]
        size = sum(size_of(scratch / f"answers{place}") for place in range(len(frames)))
        return Ran(seconds, used, sum(counts), sum(counts) if column is None else 0, sink_bytes=size)


def _time_by_case(bench: Bench[Workload]) -> None:
    """Time one query with a CASE for each filter, exploded."""
    for number in bench.workload.by_case:
        conditions = drawn_filters(number, 1.0, bench.workload.seed)
        cases = ", ".join(f"CASE WHEN {one} THEN {place} END" for place, one in enumerate(conditions))
        taken = F.expr(f"explode(filter(array({cases}), x -> x IS NOT NULL))").alias("query")
        frame = _opened(bench).select("ts", "symbol", "price", "volume", taken)
        _note(bench, f"one CASE each, {number}", _written(bench, [frame], "query"))


def _time_separate(bench: Bench[Workload]) -> None:
    """Time a streaming query for each filter, and Penstock with as many."""
    for number in bench.workload.separate:
        conditions = drawn_filters(number, 1.0, bench.workload.seed)
        frames = [_opened(bench).where(one).select("ts", "symbol", "price", "volume") for one in conditions]
        _note(bench, f"separate queries, {number}", _written(bench, frames, None))
        _note(bench, f"Penstock beside separate queries, {number}", run_penstock(bench, conditions))


def _time_esper(bench: Bench[Workload]) -> None:
    """Time Esper over trades in memory, if it is there."""
    why, found = why_absent(), bench.figures.measurements.setdefault("esper", {})
    if why is not None:
        bench.figures.measurements["skipped"] = {"Esper": why}
        bench.say(f"skipped: Esper: {why}")
        return
    for number in bench.workload.esper:
        with scratch_folder() as scratch:
            ran = run_esper(bench.scratch / "trades", drawn(number, 1.0, bench.workload.seed), scratch)
        _note(bench, f"Esper {number}", Ran(ran.seconds, ran.processor_s, ran.answers, 0, creating_s=ran.creating_s))
        ours = bench.figures.measurements["runs"].get(f"Penstock {number}, 1 takers")
        if ours is not None:
            found[str(number)] = round(ours["processor_s"] / ran.processor_s, 2)


def _time_actions(bench: Bench[Workload]) -> None:
    """Time the two actions of a batch, and what one for both would take."""
    found = time_actions(bench.session, bench.scratch / "trades", bench.workload.small_batch, processor_seconds)
    bench.figures.measurements["actions"] = found
    for one in found:
        share, two_s, one_s = one["taken"], one["two_s"], one["one_s"]
        bench.say(f"{one['rows']:,.0f} rows, {share:.0%} taken: two actions {two_s:.3f} s, one {one_s:.3f} s")


def _expect(bench: Bench[Workload]) -> None:
    """Compare with the targets, and the answers of all sides with each other."""
    runs, figures, workload = bench.figures.measurements["runs"], bench.figures, bench.workload

    def seconds(name: str) -> float:
        return float(runs[name]["seconds"])

    for number, bound in ((1_024, 2.0), (10_000, 4.0)):
        if number in workload.filters:
            ratio = seconds(f"Penstock {number}, 1 takers") / seconds("Penstock 1, 1 takers")
            figures.expect(f"{number} filters / 1, one taker a row", ratio, "<=", bound)
    for number in workload.by_case:
        ours, theirs = f"Penstock {number}, 1 takers", f"one CASE each, {number}"
        if number in workload.filters:
            figures.expect_true(
                f"answers equal one CASE each's, {number}", runs[ours]["answers"] == runs[theirs]["answers"]
            )
        if number == 1_024:
            figures.expect("one CASE each / Penstock, 1,024", seconds(theirs) / seconds(ours), ">=", 5.0)
    for number in workload.esper:
        ours, theirs = f"Penstock {number}, 1 takers", f"Esper {number}"
        if theirs in runs and number in workload.filters:
            figures.expect_true(f"answers equal Esper's, {number}", runs[ours]["answers"] == runs[theirs]["answers"])
    for number in workload.separate:
        ours, theirs = f"Penstock beside separate queries, {number}", f"separate queries, {number}"
        figures.expect_true(
            f"answers equal separate queries', {number}", runs[ours]["answers"] == runs[theirs]["answers"]
        )
        if number == 16:
            figures.expect("16 separate queries / Penstock", seconds(theirs) / seconds(ours), ">=", 12.0)
    largest = runs[f"Penstock {workload.filters[-1]}, 1 takers"]
    if largest["once_bytes"]:
        figures.expect("bytes of the state / the rows once", largest["taken_bytes"] / largest["once_bytes"], "<=", 1.2)
        figures.expect("bytes of the sink / the rows once", largest["sink_bytes"] / largest["once_bytes"], "<=", 1.2)
