"""Runs queries with predicates in Penstock, and measures times, answers and what left the executors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench._frame import scratch_folder
from bench._predicates.market import COLUMNS, Exchange
from bench._predicates.queries import Question
from penstock.engine import Engine
from penstock.share.plan import STRATEGIES, Strategy
from penstock.sinks.parquet import ParquetSink
from penstock.stream.pipeline import Pipeline

Answer = tuple[float | None, int]  # value, n
Answers = dict[int, Answer]  # by window end, in microseconds

SHARED: Final = STRATEGIES[0]
ALWAYS_COUNTED: Final = ("batches", "answers")
UNSHARED: Final = next(s for s in STRATEGIES if s.startswith("unshared"))


@dataclass(slots=True)
class Ran:
    """What a run took and did."""

    creating_seconds: float
    seconds: float = 0.0
    answers: int = 0
    steps: dict[str, float] = field(default_factory=dict)
    work: dict[str, int | None] = field(default_factory=dict)
    kept: list[Answers] = field(default_factory=list)


def run(
    session: SparkSession,
    exchange: Exchange,
    questions: Sequence[Question],
    *,
    strategy: Strategy = SHARED,
    keep: Sequence[int] = (),
) -> Ran:
    """Process all files with a fresh state folder; timed until the Parquet sink holds every answer."""
    with scratch_folder() as scratch:
        folder = scratch / "answers"
        sink = ParquetSink(folder, layout="columns")
        began = time.perf_counter()
        with Engine(scratch / "state", spark=session, strategy=strategy, sinks=[sink]) as engine:
            engine.execute(script(exchange, questions))
            pipeline = engine.stream("trades").pipeline
            ran = Ran(time.perf_counter() - began)
            left = Left().watch(pipeline)
            began = time.perf_counter()
            engine.process_available(flush=True)
            ran.seconds = time.perf_counter() - began
            ran.answers, ran.steps = pipeline.metrics.answers, steps_of(pipeline)
            ran.work = left.described() | work_of(pipeline)
        written = pq.read_table(folder)
        assert written.num_rows == ran.answers, "the sink does not hold every answer"
        ran.kept = [answers_of(written, f"q{number}") for number in keep]
        return ran


def script(exchange: Exchange, questions: Sequence[Question], trades: Path | None = None) -> str:
    """Write the stream, its tables and the queries in SQL."""
    declared = [
        f"CREATE STREAM trades ({COLUMNS}) USING parquet OPTIONS (path = '{trades or exchange.trades}', "
        "maxFilesPerTrigger = '1') WATERMARK FOR time AS time - INTERVAL 0 SECONDS",
        f"CREATE TABLE close (symbol STRING, cp DOUBLE) USING parquet OPTIONS (path = '{exchange.close}')",
        "CREATE TABLE index (symbol STRING, r3000 BOOLEAN, r2000 BOOLEAN, r1000 BOOLEAN) "
        f"USING parquet OPTIONS (path = '{exchange.index}')",
    ]
    return ";\n".join([*declared, *(f"CREATE QUERY q{n} AS {question}" for n, question in enumerate(questions))])


def answers_of(written: pa.Table, query: str) -> Answers:
    """Read one query's answers out of the sink's files."""
    table = written.filter(pc.equal(written["query_name"].cast(pa.string()), query))
    return read_answers(table)


def read_answers(table: pa.Table) -> Answers:
    """Read the answers of a table of one query."""
    ends = table["window_end"].cast(pa.int64()).to_pylist()
    found = dict(zip(ends, zip(table["value"].to_pylist(), table["n"].to_pylist(), strict=True), strict=True))
    assert len(found) == table.num_rows, "a window was answered twice"
    return found


def differences(ours: Answers, theirs: Answers) -> list[str]:
    """List where two sets of answers differ; sums of doubles may differ by their rounding."""
    found = [f"{end}: only in one" for end in ours.keys() ^ theirs.keys()]
    for end in ours.keys() & theirs.keys():
        (value, n), (other, m) = ours[end], theirs[end]
        if n != m or abs((value or 0.0) - (other or 0.0)) > 1e-9 * abs(other or 0.0) or (value is None) != (n == 0):
            found.append(f"{end}: {ours[end]} and {theirs[end]}")
    return found


def bare_limit(session: SparkSession, exchange: Exchange) -> float:
    """Sum every batch once, without tables, windows or groups."""

    def take(batch: DataFrame, batch_id: int) -> None:
        batch.agg(F.sum(F.col("price") * F.col("vol"))).collect()

    rows = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(exchange.trades))
    with scratch_folder() as scratch:
        writer = rows.select("price", "vol").writeStream.foreachBatch(take).option("checkpointLocation", str(scratch))
        began = time.perf_counter()
        writer.trigger(availableNow=True).start().awaitTermination()
        return time.perf_counter() - began


@dataclass(slots=True)
class Left:
    """What left the executors for the driver, in all batches of a run."""

    partials: int = 0
    nbytes: int = 0

    def watch(self, pipeline: Pipeline) -> Left:
        """Note the partials of every batch to come."""
        computing: Any = pipeline.computing
        compute: Callable[..., Any] = computing.run

        def noting(*arguments: Any, **options: Any) -> Any:
            computed = compute(*arguments, **options)
            self.partials += computed.partials.num_rows
            self.nbytes += computed.partials.nbytes
            return computed

        computing.run = noting
        return self

    def described(self) -> dict[str, int | None]:
        return {"partials": self.partials, "bytes_to_driver": self.nbytes}


def work_of(pipeline: Pipeline) -> dict[str, int | None]:
    """Read off what the engine itself counts: folded rows, merged partials, and whatever its metrics count more."""
    counted = {n: v for n, v in asdict(pipeline.metrics).items() if isinstance(v, int) and n not in ALWAYS_COUNTED}
    return {
        "cells": None,
        **counted,
        "partial_operations": pipeline.synopsis.partial_operations,
        "final_operations": pipeline.synopsis.final_operations,
    }


def steps_of(pipeline: Pipeline) -> dict[str, float]:
    """Read the seconds of each step."""
    return {n: round(v, 4) for n, v in asdict(pipeline.metrics).items() if isinstance(v, float)}
