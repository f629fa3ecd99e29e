"""Times the ways to find a row's place among sorted constants, and opaque predicates."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from pyspark.ml.feature import Bucketizer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.internal import InternalFunction

from bench._predicates.market import Exchange
from penstock.spark.job.binary_search import search

COUNTS: Final = (16, 64, 256, 1024)
MOST_WRITTEN: Final = 256  # tests written out
HUGE_METHODS: Final = "spark.sql.codegen.hugeMethodLimit"


def compare_searches(
    session: SparkSession, exchange: Exchange, repetitions: int, counts: Sequence[int]
) -> dict[str, Any]:
    """Time each way for each number of constants, in turns, on one attribute of all trades."""
    trades = session.read.parquet(str(exchange.trades)).select("vol", F.expr("vol * price").alias("value"))
    found: dict[str, Any] = {"rows": exchange.rows}
    sample = np.sort(np.unique(np.round(exchange.sample(20_000, 5)["vol * price"], 2)))
    for count in counts:
        constants = sample[np.linspace(0, len(sample) - 1, count).astype(int)].tolist()
        runs = _ways(session, trades, constants)
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(repetitions + 1):  # the first is to warm up
            for name, way in runs.items():
                began = time.perf_counter()
                way()
                times[name].append(time.perf_counter() - began)
        found[str(count)] = {name: round(statistics.median(seconds[1:]), 3) for name, seconds in times.items()}
    return found


def _ways(session: SparkSession, trades: DataFrame, constants: Sequence[float]) -> dict[str, Callable[[], object]]:
    """List the ways; each sums the places, so that all are computed and little else."""
    value = F.col("value")
    array = F.lit([float(c) for c in constants])
    nearest = [f"WHEN value < {c!r}D THEN {place}" for place, c in enumerate(constants)]
    bucketed = Bucketizer(
        splits=[-float("inf"), *constants, float("inf")], inputCol="value", outputCol="place", handleInvalid="keep"
    )
    opaque = [f"IF(value > vol * {c!r}D, 1L, 0L)" for c in constants]

    def summed(column: Column) -> object:
        return trades.select(F.sum(column)).collect()

    def evaluated() -> object:
        return summed(F.expr(" + ".join(opaque)))

    def split() -> object:
        with _set(session, HUGE_METHODS, "8000"):
            return evaluated()

    searched: dict[str, Callable[[], object]] = {
        "nothing, the sum of the column": lambda: summed(value),
        "binary search by StaticInvoke": lambda: summed(search("double", tuple(constants), "value", "place")),
        "array_binary_search": lambda: summed(InternalFunction.array_binary_search(array, value)),
        "Bucketizer": lambda: bucketed.transform(trades).select(F.sum("place")).collect(),
    }
    if len(constants) > MOST_WRITTEN:  # generating code for more fills the heap
        return searched
    return searched | {
        "one CASE of all intervals": lambda: summed(F.expr(f"CASE {' '.join(nearest)} ELSE -1 END")),
        "as many opaque predicates": evaluated,
        "as many opaque predicates, methods split": split,
    }


@contextmanager
def _set(session: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set a setting for a while."""
    before = session.conf.get(name)
    session.conf.set(name, value)
    try:
        yield
    finally:
        if before is not None:
            session.conf.set(name, before)
