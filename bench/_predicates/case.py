"""Runs the rival of the predicates benchmark: one CASE per query in a plain Spark job for each file.

Each row gets a bit per query, 62 of them in a long; rows are grouped by window and longs, and the answers are put
together from the groups in numpy: sharing as one would write it by hand, with nothing said about the predicates.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench._apart import run_apart
from bench._predicates.market import COLUMNS, Exchange
from bench._predicates.queries import TUMBLING, Predicate
from bench._predicates.running import Answers
from penstock.spark.session.embedded import embedded

BITS: Final = 62  # of a long
SLICE_US: Final = TUMBLING.slide_s * 1_000_000
ONCE_S: Final = 60.0  # a run that takes longer is not repeated
# Our own session compiles large methods; whoever starts Spark without that option has this one.
DEFAULT_JVM: Final = {"spark.driver.extraJavaOptions": "-XX:+DontCompileHugeMethods"}


def case_answers(session: SparkSession, exchange: Exchange, predicates: Sequence[Predicate]) -> list[Answers]:
    """Return what the rival answers, query by query."""
    return _put_together(_groups(session, exchange, predicates, exchange.files), len(predicates))


def case_timing(
    session: SparkSession, exchange: Exchange, predicates: Sequence[Predicate], repetitions: int, patience_s: float
) -> dict[str, Any]:
    """Time the rival after a warm-up over one file; over two files, scaled, if all would take longer than patience."""

    def seconds(files: int) -> float:
        began = time.perf_counter()
        _put_together(_groups(session, exchange, predicates, files), len(predicates))
        return time.perf_counter() - began

    warm, one = seconds(1), seconds(1)
    if one * exchange.files > patience_s:
        few = min(2, exchange.files)
        measured = seconds(few)
        return {
            "seconds": [measured * exchange.files / few],
            "scaled_from_files": few,
            "of_files": exchange.files,
            "measured_seconds": round(measured, 3),
            "one_file_seconds": round(one, 3),
            "two_files_over_twice_one": round(measured / (few * one), 3),  # 1: the scaling is linear
        }
    found = [seconds(exchange.files)]
    while len(found) < repetitions and found[0] <= ONCE_S:
        found.append(seconds(exchange.files))
    return {"seconds": found, "warm_up_seconds": round(warm, 3)}


def case_timing_apart(
    exchange: Exchange, predicates: Sequence[Predicate], repetitions: int, patience_s: float
) -> dict[str, Any]:
    """Time the rival in a process of its own, whose JVM leaves large methods interpreted, as every JVM does."""
    asked = {
        "exchange": asdict(exchange) | {"folder": str(exchange.folder)},
        "predicates": [asdict(predicate) for predicate in predicates],
        "repetitions": repetitions,
        "patience_s": patience_s,
    }
    return run_apart("bench._predicates.case", asked=asked)


def words(predicates: Sequence[Predicate]) -> list[str]:
    """Write the longs in SQL: one CASE per predicate."""
    parts = [predicates[first : first + BITS] for first in range(0, len(predicates), BITS)]
    return [" | ".join(f"CASE WHEN {p} THEN {1 << bit}L ELSE 0L END" for bit, p in enumerate(part)) for part in parts]


def _groups(session: SparkSession, exchange: Exchange, predicates: Sequence[Predicate], files: int) -> pa.Table:
    """Run one job a file, as all sides have one batch a file."""
    tables = [session.read.parquet(str(folder)) for folder in (exchange.close, exchange.index)]
    return pa.concat_tables(
        _job(session.read.schema(COLUMNS).parquet(str(path)), tables, predicates).toArrow()
        for path in exchange.paths()[:files]
    )


def _job(trades: DataFrame, tables: Sequence[DataFrame], predicates: Sequence[Predicate]) -> DataFrame:
    """Join, give every row its longs, and group."""
    for table in tables:
        trades = trades.join(F.broadcast(table), "symbol")
    longs = [F.expr(text).alias(f"w{number}") for number, text in enumerate(words(predicates))]
    place = F.expr(f"unix_micros(time) div {SLICE_US}").alias("slice")
    names = ["slice", *(f"w{number}" for number in range(len(longs)))]
    signed = trades.select(place, *longs, (F.col("price") * F.col("vol")).alias("value"))
    return signed.groupBy(*names).agg(F.sum("value").alias("value"), F.count("*").alias("n"))


def _put_together(groups: pa.Table, queries: int) -> list[Answers]:
    """Sum the groups of every query, window by window; every window of the stream is answered."""
    slices, place = np.unique(groups["slice"].to_numpy(), return_inverse=True)
    values, counts = groups["value"].to_numpy(), groups["n"].to_numpy()
    ends = ((slices + 1) * SLICE_US).tolist()
    longs = [groups[f"w{number}"].to_numpy() for number in range(-(-queries // BITS))]
    found: list[Answers] = []
    for query in range(queries):
        taken = (longs[query // BITS] & (1 << query % BITS)) != 0
        sums = np.bincount(place[taken], values[taken], len(slices)).tolist()
        numbers = np.bincount(place[taken], counts[taken], len(slices)).astype(int).tolist()
        found.append({end: (v if n else None, n) for end, v, n in zip(ends, sums, numbers, strict=True)})
    return found


def _main() -> None:
    asked = json.load(sys.stdin)
    exchange = Exchange(**(asked["exchange"] | {"folder": Path(asked["exchange"]["folder"])}))
    predicates = [Predicate(**each) for each in asked["predicates"]]
    session = embedded(settings=DEFAULT_JVM)
    print(json.dumps(case_timing(session, exchange, predicates, asked["repetitions"], asked["patience_s"])))


if __name__ == "__main__":
    _main()
