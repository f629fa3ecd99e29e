"""Runs the windows as Structured Streaming queries, one for each window, as one writes them without Penstock."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from bench._peers.trades import Case, PeerRun, Trades, read_answers
from bench._plain import Window


def run(session: SparkSession, trades: Trades, case: Case, folder: Path) -> PeerRun:
    """Run all queries at the same time until the files end.

    Spark's file sink takes windows once they have ended, so the last ones, which end after the last row, are missing.
    """
    began = time.perf_counter()
    queries = [
        _start(windowed(trades.open(session), window, case.by_symbol), folder, f"q{number}")
        for number, window in enumerate(case.windows)
    ]
    for query in queries:
        query.awaitTermination()
    seconds = time.perf_counter() - began
    name = "parse_filename(parse_dirpath(filename))"
    answers = read_answers(
        f"SELECT {name} AS query, end_us, symbol, value, n FROM read_parquet('{folder}/answers/*/*.parquet', "
        "filename = true)"
    )
    return PeerRun(seconds, answers)


def windowed(rows: DataFrame, window: Window, by_symbol: bool) -> DataFrame:
    """Write one query; its windows start at multiples of the slide, as ranges are multiples of it too."""
    spans = F.window("ts", f"{window.range_s} seconds", f"{window.slide_s} seconds").alias("window")
    keys: list[Column] = [spans, F.col("symbol")] if by_symbol else [spans]
    value, n = F.sum(F.col("price") * F.col("volume")).alias("value"), F.count("*").alias("n")
    grouped = rows.withWatermark("ts", "0 seconds").groupBy(*keys).agg(value, n)
    symbol = F.col("symbol") if by_symbol else F.lit("").alias("symbol")
    return grouped.select(F.unix_micros("window.end").alias("end_us"), symbol, "value", "n")


def _start(answers: DataFrame, folder: Path, name: str) -> StreamingQuery:
    """Start a query that ends with the files."""
    writer = answers.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "checkpoints" / name))
    return writer.start(str(folder / "answers" / name))
