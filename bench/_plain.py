"""Runs the same windows with Spark alone, as one would write them without Penstock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bench._frame import scratch_folder

SECOND_US = 1_000_000

Key = tuple[int, str | None]  # window end in microseconds, symbol
Answers = dict[Key, float]


@dataclass(frozen=True, slots=True)
class Window:
    """A window of whole seconds; one ends at every multiple of its slide."""

    range_s: int
    slide_s: int

    def __str__(self) -> str:
        return f"[RANGE {self.range_s} s SLIDE {self.slide_s} s]"


@dataclass(frozen=True, slots=True)
class Source:
    """A folder of Parquet files, one a batch."""

    folder: Path
    files: int
    rows: int
    first_s: int  # of event time

    def open(self, session: SparkSession) -> DataFrame:
        """Read the files as a stream, one a batch."""
        schema = "ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT"
        return session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder))


def bare_limit(session: SparkSession, source: Source) -> list[float]:
    """Sum every batch once, without windows or groups; return when each batch ended, the start first."""
    ends: list[float] = []

    def take(batch: DataFrame, batch_id: int) -> None:
        batch.agg(_value()).collect()
        ends.append(time.perf_counter())

    began = time.perf_counter()
    _run_each(source.open(session).select("price", "volume"), take)
    return [began, *ends]


def plain_seconds(session: SparkSession, source: Source, windows: Sequence[Window], symbols: bool = False) -> float:
    """Time one Structured Streaming query per window, all together, into a sink that keeps nothing."""
    with scratch_folder() as scratch:
        began = time.perf_counter()
        queries = [
            _start(windowed(source.open(session), w, symbols).writeStream.format("noop"), scratch / str(i))
            for i, w in enumerate(windows)
        ]
        _await(queries)
        return time.perf_counter() - began


def plain_answers(
    session: SparkSession, source: Source, windows: Sequence[Window], symbols: bool = False
) -> list[Answers]:
    """Return what the plain queries answer: the last update of each window."""
    with scratch_folder() as scratch:
        found: list[Answers] = [{} for _ in windows]
        queries = [
            _start(
                windowed(source.open(session), w, symbols).writeStream.foreachBatch(_keeper(answers)),
                scratch / str(i),
            )
            for i, (w, answers) in enumerate(zip(windows, found, strict=True))
        ]
        _await(queries)
        return found


def windowed(trades: DataFrame, window: Window, symbols: bool = False) -> DataFrame:
    """Write the query as Spark has it: its windows start where ours do when startTime is −range mod slide."""
    start_s = -window.range_s % window.slide_s
    lengths = (f"{window.range_s} seconds", f"{window.slide_s} seconds", f"{start_s} seconds")
    keys = [F.window("ts", *lengths).alias("window"), *([F.col("symbol")] if symbols else [])]
    return trades.withWatermark("ts", "0 seconds").groupBy(*keys).agg(_value())


@dataclass(slots=True)
class BySecond:
    """Sums by whole second of event time, in an array from the first second on."""

    first_s: int
    sums: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def add(self, seconds: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> None:
        """Add partial sums of seconds."""
        places = seconds - self.first_s
        missing = int(places.max(initial=-1)) + 1 - len(self.sums)
        if missing > 0:
            self.sums = np.concatenate([self.sums, np.zeros(missing)])
        np.add.at(self.sums, places, values)

    def answers(self, window: Window) -> Answers:
        """Put the windows that hold a second together."""
        found: Answers = {}
        end = self.first_s - self.first_s % window.slide_s + window.slide_s
        while end - window.range_s < self.first_s + len(self.sums):
            inside = self.sums[max(0, end - window.range_s - self.first_s) : max(0, end - self.first_s)]
            found[end * SECOND_US, None] = float(inside.sum())
            end += window.slide_s
        return found


def hand_tuned(session: SparkSession, source: Source, windows: Sequence[Window]) -> tuple[float, list[Answers]]:
    """Sum by second in Spark, windows in a second step: what an expert writes by hand, without state on disk."""
    by_second = BySecond(source.first_s)

    def take(batch: DataFrame, batch_id: int) -> None:
        second = F.floor(F.unix_micros("ts") / SECOND_US).alias("second")
        sums = batch.groupBy(second).agg(_value()).toArrow()
        by_second.add(sums["second"].to_numpy(), sums["value"].to_numpy())

    began = time.perf_counter()
    _run_each(source.open(session).select("ts", "price", "volume"), take)
    answers = [by_second.answers(window) for window in windows]
    return time.perf_counter() - began, answers


def differences(ours: Mapping[Key, float], theirs: Mapping[Key, float]) -> list[str]:
    """List where two sets of answers differ; sums of doubles may differ by their rounding."""
    found = [f"{key}: only in one" for key in ours.keys() ^ theirs.keys()]
    for key in ours.keys() & theirs.keys():
        if abs(ours[key] - theirs[key]) > 1e-9 * abs(theirs[key]):
            found.append(f"{key}: {ours[key]!r} and {theirs[key]!r}")
    return found


def _value() -> Column:
    return F.sum(F.col("price") * F.col("volume")).alias("value")


def _run_each(frame: DataFrame, take: Callable[[DataFrame, int], None]) -> None:
    """Give each batch to a callback until the files end."""
    with scratch_folder() as scratch:
        _await([_start(frame.writeStream.foreachBatch(take), scratch)])


def _start(writer: DataStreamWriter, checkpoint: Path) -> StreamingQuery:
    """Start a query that ends with the files; update mode answers the last windows too, as we do."""
    return writer.outputMode("update").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def _await(queries: Iterable[StreamingQuery]) -> None:
    for query in queries:
        query.awaitTermination()


def _keeper(answers: Answers) -> Callable[[DataFrame, int], None]:
    """Make a callback that keeps the newest answer of each window."""

    def take(batch: DataFrame, batch_id: int) -> None:
        end = F.unix_micros("window.end").alias("end_us")
        symbol = F.col("symbol") if "symbol" in batch.columns else F.lit(None).cast("string").alias("symbol")
        for row in batch.select(end, symbol, "value").collect():
            answers[_key(row)] = row["value"]

    return take


def _key(row: Row) -> Key:
    return row["end_us"], row["symbol"]
