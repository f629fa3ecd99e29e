"""Times 16 window joins of two streams, in Penstock and as 16 stream–stream joins of Spark's, which answer the same.

Orders and their fills: few have the same customer within minutes. The joins differ in range and condition, and equate
the same column. What is compared is the number of pairs and an exact sum over them, until both are durable: in Penstock
answers of a query over each stream of pairs, in Spark what foreachBatch adds up. One join alone is timed too, with so
many rows retained as the workload says: our own step in the commit protocol against Spark's stateful operator, with its
state in memory and in RocksDB. Processor seconds are those of this process and of its JVM.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from bench._frame import SETTINGS, Bench, Save, do_not_save, run_benchmark, scratch_folder, tell_quick_look
from bench._measure import Figures, Progress
from penstock.engine import Engine
from penstock.spark.session.embedded import embedded
from penstock.spark.session.temporary_settings import set_for_now

START_US: Final = 1_767_571_200_000_000  # 2026-01-05 in UTC
LATENESS_S: Final = 5
MEMORY: Final = "8g"  # of the JVM, for all: with 2g, 16 joins of Spark's run out of it
CONDITIONS: Final = (
    "",
    "fills.price < orders.price",
    "orders.shares >= fills.shares",
    "fills.price > 1.05 * orders.price",
)
PROVIDERS: Final = {
    "in memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "RocksDB": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
Found = dict[str, tuple[int, int]]  # of each join: pairs, and the sum of the products of both numbers


@dataclass(frozen=True, slots=True)
class Workload:
    """The sizes of everything; others than these are a quick look."""

    rows: int = 1_200_000  # of both streams together
    files: int = 8  # of each
    customers: int = 400_000
    span_s: int = 7_200  # of event time
    ranges_s: tuple[int, ...] = (60, 300, 900, 3_600)  # at the widest one, half of all rows are retained
    seed: int = 1
    repetitions: int = 3  # of one join
    repetitions_of_all: int = 1  # Spark takes minutes for one
    longest_s: float = 1_200.0  # that Spark's joins may take; those that have not ended by then are stopped

    @property
    def joins(self) -> tuple[Wanted, ...]:
        """List every range with every condition."""
        return tuple(Wanted(reach, condition) for reach in self.ranges_s for condition in CONDITIONS)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One join."""

    range_s: int
    condition: str

    @property
    def on(self) -> str:
        """Write the condition of ON."""
        return "orders.customer = fills.customer" + (f" AND {self.condition}" if self.condition else "")


class Spent:
    """Seconds by the clock and of processors, of this process and its JVM."""

    def __init__(self) -> None:
        self.began, self.before = time.perf_counter(), _processor_seconds()

    def told(self) -> dict[str, float]:
        """Return what passed since."""
        elapsed, used = time.perf_counter() - self.began, _processor_seconds() - self.before
        return {"seconds": round(elapsed, 3), "processor_seconds": round(used, 3)}


def _processor_seconds() -> float:
    process = psutil.Process()
    found = process.cpu_times()
    used = found.user + found.system
    for child in process.children(recursive=True):
        if child.name().startswith("java"):
            used += sum(child.cpu_times()[:2])
    return used


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named."""
    usual = Workload()
    workload = usual if rows is None else Workload(rows=rows, customers=max(1, rows // 3), repetitions=1)
    run_benchmark(path, lambda say, save: measure(embedded(memory=MEMORY, settings=SETTINGS), workload, say, save))
    tell_quick_look(workload.rows, usual.rows)


def measure(session: SparkSession, workload: Workload, say: Progress, save: Save = do_not_save) -> Figures:
    """Measure one join, then all, and compare what they answer."""
    with scratch_folder() as scratch:
        bench = Bench(workload, session, scratch, say, save=save)
        for number, name in enumerate(("orders", "fills")):
            _write(scratch / name, workload, number)
        widest = Wanted(max(workload.ranges_s), "")
        bench.take(_compare, "one join", (widest,), workload.repetitions)
        bench.take(_compare, "all joins", workload.joins, workload.repetitions_of_all)
        _expect(bench.figures, len(workload.joins))
        save(bench.figures)
        return bench.figures


def _compare(bench: Bench[Workload], name: str, joins: Sequence[Wanted], repetitions: int) -> None:
    """Time Penstock and Spark on some joins, in turns."""
    sides: dict[str, Callable[[], tuple[Found | None, dict[str, Any]]]] = {
        "penstock": lambda: penstock(bench, joins),
        **{f"spark, {kind}": lambda kind=kind: spark(bench, joins, kind) for kind in PROVIDERS},  # type: ignore[misc]
    }
    told: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    answers: list[Found] = []
    part = bench.figures.measurements[name] = {"joins": len(joins), "pairs": 0, "runs": told}
    for repetition in range(repetitions):
        for side in list(sides)[:: 1 if repetition % 2 == 0 else -1]:
            found, spent = sides[side]()
            ended = "" if found is not None else ", stopped before its end"
            used = f"{spent['seconds']:.1f} s, {spent['processor_seconds']:.1f} s of processors"
            bench.say(f"{name}, {side}: {used}{ended}")
            answers += [] if found is None else [found]
            told[side].append(spent)
            part["pairs"] = sum(pairs for pairs, _ in answers[0].values())
            bench.save(bench.figures)
    bench.figures.expect_true(f"{name}: all sides answer the same", all(found == answers[0] for found in answers))


def _expect(figures: Figures, joins: int) -> None:
    """Compare the best runs."""
    for measure_ in ("seconds", "processor_seconds"):
        best = {
            side: min(run[measure_] for run in runs) for side, runs in figures.measurements["all joins"]["runs"].items()
        }
        rival = min(value for side, value in best.items() if side != "penstock")
        name = "seconds" if measure_ == "seconds" else "processor seconds"
        figures.expect(f"{joins} joins of Spark's against Penstock, times {name}", rival / best["penstock"], ">=", 10)


# -- rows -------------------------------------------------------------------------------------------------------------


def _write(folder: Path, workload: Workload, number: int) -> None:
    """Write one of both streams: times in order but for a little, a file a batch."""
    draw = np.random.default_rng(workload.seed + number)
    rows = workload.rows // 2
    times = np.sort(draw.integers(0, workload.span_s * 1_000_000, rows))
    times = np.maximum(0, times - draw.integers(0, (LATENESS_S - 1) * 1_000_000, rows))
    table = pa.table(
        {
            "ts": pa.array(START_US + times).cast(pa.timestamp("us", "UTC")),
            "customer": draw.integers(0, workload.customers, rows),
            "number": np.arange(rows) % 1_000,
            "shares": draw.integers(1, 100, rows).astype(np.int32),
            "price": np.round(draw.uniform(90, 110, rows), 2),
        }
    )
    folder.mkdir()
    edges = np.linspace(0, rows, workload.files + 1).astype(int)
    for place, (start, end) in enumerate(pairwise(edges)):
        path = folder / f"{place:03d}.parquet"
        pq.write_table(table.slice(start, end - start), path)
        os.utime(path, (place, place))  # files are read in this order; those of one clock tick, in any


# -- both sides -------------------------------------------------------------------------------------------------------

COLUMNS: Final = "ts TIMESTAMP, customer BIGINT, number BIGINT, shares INT, price DOUBLE"


def penstock(bench: Bench[Workload], joins: Sequence[Wanted]) -> tuple[Found, dict[str, Any]]:
    """Join in Penstock, with its state on disk."""
    with scratch_folder() as scratch, Engine(scratch / "state", spark=bench.session) as engine:
        script = [
            f"CREATE STREAM {name} ({COLUMNS}) USING parquet OPTIONS (path = '{bench.scratch / name}', "
            f"maxFilesPerTrigger = '1') WATERMARK FOR ts AS ts - INTERVAL {LATENESS_S} SECONDS"
            for name in ("orders", "fills")
        ]
        for place, join in enumerate(joins):
            reach = f"[RANGE {join.range_s} s]"
            script.append(
                f"CREATE STREAM pairs{place} AS SELECT orders.number * fills.number AS product "
                f"FROM orders {reach} JOIN fills {reach} ON {join.on}"
            )
        for place in range(len(joins)):
            answered = f"count(*) AS pairs, sum(product) AS total FROM pairs{place} [RANGE 1 h SLIDE 1 h]"
            script.append(f"CREATE QUERY q{place} AS SELECT {answered}")
        engine.execute(";\n".join(script))
        spent = Spent()
        engine.process_available(flush=True)
        told = spent.told()
        retained = max((sum(side["rows"] for side in one["retained"]) for one in engine.status()["streams"]), default=0)
        found: Found = {}
        for place in range(len(joins)):
            answers = engine.results(f"q{place}").to_pylist()
            found[f"q{place}"] = sum(a["pairs"] for a in answers), sum(a["total"] or 0 for a in answers)
        return found, {**told, "left": retained}


def spark(bench: Bench[Workload], joins: Sequence[Wanted], provider: str) -> tuple[Found | None, dict[str, Any]]:
    """Join in Spark, a streaming query a join; shuffles have as many parts as there are cores.

    Joins that take too long are stopped: there are no answers then, and the seconds are the least that they take.
    """
    cores = str(bench.session.sparkContext.defaultParallelism)
    settings = {
        "spark.sql.shuffle.partitions": cores,
        "spark.sql.streaming.stateStore.providerClass": PROVIDERS[provider],
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    found: Found = {}
    with scratch_folder() as scratch, set_for_now(bench.session, settings):
        spent, until = Spent(), time.monotonic() + bench.workload.longest_s
        queries = [_started(bench, join, f"q{place}", found, scratch) for place, join in enumerate(joins)]
        ended = all([query.awaitTermination(max(1, round(until - time.monotonic()))) for query in queries])
        told = spent.told()
        for query in queries:
            query.stop()
        return (found, told) if ended else (None, {**told, "stopped": True})


def _started(bench: Bench[Workload], join: Wanted, name: str, found: Found, scratch: Path) -> StreamingQuery:
    """Start one of Spark's joins."""
    found[name] = 0, 0

    def take(batch: DataFrame, number: int) -> None:
        [row] = batch.agg(F.count("*"), F.sum("product")).collect()
        found[name] = found[name][0] + row[0], found[name][1] + (row[1] or 0)

    frames = {
        side: bench.session.readStream.schema(COLUMNS)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(bench.scratch / side))
        .withWatermark("ts", f"{LATENESS_S} seconds")
        .alias(side)
        for side in ("orders", "fills")
    }
    near = " AND ".join(
        f"{one}.ts <= {other}.ts + INTERVAL {join.range_s} SECONDS"
        for one, other in (("orders", "fills"), ("fills", "orders"))
    )
    pairs = frames["orders"].join(frames["fills"], F.expr(f"{join.on} AND {near}"))
    product = pairs.select(F.expr("orders.number * fills.number").alias("product"))
    writer = product.writeStream.foreachBatch(take).option("checkpointLocation", str(scratch / name))
    return writer.trigger(availableNow=True).start()
