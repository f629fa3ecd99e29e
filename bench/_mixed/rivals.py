"""Runs some of the flights' queries without Penstock: each as a Structured Streaming query, and in DuckDB."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import duckdb
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench._frame import scratch_folder
from bench._mixed.workloads import Load


@dataclass(frozen=True, slots=True)
class PlainQuery:
    """A query as Spark's own streaming takes it, and as DuckDB does."""

    name: str  # of the same query in Penstock
    hours: int  # that a window is long
    slide: int  # hours
    keys: tuple[str, ...]
    aggregates: tuple[str, ...]
    where: str = "true"


# One of each kind that Spark's streaming can compute: it has no exact distinct counts, top lists or windows of rows.
SAMPLE: Final = (
    PlainQuery("f00", 1, 1, (), ("count(*)",)),
    PlainQuery("f05", 24, 24, ("carrier",), ("count(*)", "avg(dep_delay)")),
    PlainQuery("f11", 6, 1, ("origin",), ("avg(taxi_out)", "percentile(taxi_out, 0.9)")),
    PlainQuery("f14", 168, 24, ("dest",), ("count(*)",), "cancelled"),
    PlainQuery("f18", 168, 24, ("origin", "dest"), ("avg(dep_delay)", "max(dep_delay)")),
    PlainQuery("f23", 720, 24, ("flight",), ("avg(arr_delay)", "count(*)")),
)


def plain_seconds(session: SparkSession, load: Load) -> dict[str, float]:
    """Time each query of the sample as a streaming query of its own, one after the other, answers thrown away."""
    return {query.name: _plain(session, load, query) for query in SAMPLE}


def _plain(session: SparkSession, load: Load, query: PlainQuery) -> float:
    """Time one streaming query."""
    stream = session.readStream.schema(load.columns).option("maxFilesPerTrigger", 1).parquet(str(load.folder))
    window = F.window("ts", f"{query.hours} hours", f"{query.slide} hours")
    grouped = stream.where(query.where).withWatermark("ts", "0 seconds").groupBy(window, *query.keys)
    answers = grouped.agg(*(F.expr(text).alias(f"a{place}") for place, text in enumerate(query.aggregates)))
    with scratch_folder() as scratch:
        began = time.perf_counter()
        writer = answers.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(scratch))
        writer.trigger(availableNow=True).start().awaitTermination()
        return time.perf_counter() - began


def duckdb_seconds(load: Load) -> dict[str, float]:
    """Time each query of the sample in DuckDB, once over all rows: what an engine for batches takes at least."""
    found = {}
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE s AS SELECT * FROM '{load.folder}/*.parquet'")
        for query in SAMPLE:
            began = time.perf_counter()
            database.execute(f"CREATE OR REPLACE TABLE answers AS {_as_duckdb(query)}")
            found[query.name] = time.perf_counter() - began
    return found


def _as_duckdb(query: PlainQuery) -> str:
    """Write a query so that every row counts in each window that holds it."""
    aggregates = [text.replace("percentile(", "quantile_cont(") for text in query.aggregates]
    spans = f"range(0, {query.hours // query.slide})"
    end = f"time_bucket(INTERVAL '{query.slide} hours', ts) + INTERVAL '{query.slide} hours' * (1 + n)"
    keys = "".join(f", {key}" for key in query.keys)
    return (
        f"SELECT {end} AS window_end{keys}, {', '.join(aggregates)} "
        f"FROM s, (SELECT unnest({spans}) AS n) WHERE {query.where} GROUP BY ALL"
    )
