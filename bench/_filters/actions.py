"""Times what one Spark action for windows and queries without one would take, beside the two that a batch has.

The two: what windows need (the rows themselves of a small batch, which the driver aggregates; groups by second of a
large one), then the rows that some filter takes. The one: all rows, with the mark of those that are taken, which the
driver then chooses. Seconds of the processors are those of Python and the JVM.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench._filters.drawn import PRICES

COLUMNS: Final = ("ts", "symbol", "price", "volume")
SHARES: Final = (0.01, 0.1, 1.0)  # of the rows, that some filter takes
WARM: Final = 3
TIMES: Final = 7


def time_actions(
    session: SparkSession, folder: Path, small: int, processor_seconds: Callable[[], float]
) -> list[dict[str, float]]:
    """Time both ways on the first of some files, and on as many of its rows as a small batch has."""
    whole = session.read.parquet(str(min(folder.glob("*.parquet"))))
    few = session.createDataFrame(whole.limit(small).toArrow())
    found = []
    for rows in (few, whole):
        number = rows.count()
        for share in SHARES:
            two = _timed(partial(_two, rows, share, rows is few), processor_seconds)
            one = _timed(partial(_one, rows, share), processor_seconds)
            told = {"two_s": two[0], "one_s": one[0], "two_processor_s": two[1], "one_processor_s": one[1]}
            found.append({"rows": number, "taken": share, **{name: round(s, 4) for name, s in told.items()}})
    return found


def _two(rows: DataFrame, share: float, small: bool) -> None:
    """Do what windows need, then select the rows that are taken."""
    second = F.date_trunc("second", "ts")
    (rows.select(*COLUMNS) if small else rows.groupBy(second).agg(F.count("*"), F.sum("volume"))).toArrow()
    rows.where(F.col("price") < share * PRICES).select(*COLUMNS).toArrow()


def _one(rows: DataFrame, share: float) -> None:
    """Select all rows with the mark of those that are taken, and choose these here."""
    marked = rows.select(*COLUMNS, (F.col("price") < share * PRICES).alias("taken")).toArrow()
    marked.filter(pc.field("taken")).drop_columns(["taken"])


def _timed(action: Callable[[], None], processor_seconds: Callable[[], float]) -> tuple[float, float]:
    """Return the median of seconds, and the processors' seconds of one on average."""
    for _ in range(WARM):
        action()
    seconds, used = list[float](), processor_seconds()
    for _ in range(TIMES):
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds), (processor_seconds() - used) / TIMES
