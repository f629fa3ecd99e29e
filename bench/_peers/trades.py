"""Writes trades as CSV files, draws windows that every engine accepts, and compares what engines answer.

Answers of all engines have the same columns: ``query``, ``end_us`` (of the window, microseconds since the epoch),
``symbol`` (empty without groups), ``value`` (sum of price * volume) and ``n`` (rows).
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench._plain import Window
from penstock.spark.market import Market, write_trades

COLUMNS: Final = "ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT"
RANGES_S: Final = range(600, 901)  # as in workload A of Krishnamurthy et al. (2006, §6)
SLIDES_IN_RANGE: Final = (1, 2, 3)
TOLERANCE: Final = 1e-9  # of sums of doubles, which are added up in other orders


@dataclass(frozen=True, slots=True)
class Trades:
    """A folder of CSV files without a head, in order of time, one a batch."""

    folder: Path
    files: int
    rows: int
    last_us: int  # time of the last row

    def open(self, session: SparkSession) -> DataFrame:
        """Read the files as a stream of Spark's, one a batch."""
        return session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).csv(str(self.folder))


@dataclass(frozen=True, slots=True)
class Case:
    """The queries that run together: a window each, all of them without groups or all of them by symbol."""

    windows: tuple[Window, ...]
    by_symbol: bool = False

    @property
    def name(self) -> str:
        """Name the case as the figures do."""
        return f"by symbol {len(self.windows)}" if self.by_symbol else str(len(self.windows))

    def first(self, number: int) -> Case:
        """Take the first queries only."""
        return replace(self, windows=self.windows[:number])


@dataclass(frozen=True, slots=True)
class PeerRun:
    """What a run took until all answers were in files, and the answers."""

    seconds: float
    answers: pa.Table
    parts: Mapping[str, float] = field(default_factory=dict)  # other seconds, by name


Peer = Callable[[Case, Path], PeerRun]  # runs a case; its files go into the folder


def write_csv(session: SparkSession, folder: Path, rows: int, files: int, seed: int) -> Trades:
    """Generate an hour of trades and write them as CSV."""
    binary = folder.with_suffix(".parquet")
    written = write_trades(session, Market(seed=seed, rows=rows, rate=rows / 3600), binary, files)
    folder.mkdir(parents=True)
    now, last_us = time.time(), 0
    for number, path in enumerate(written):
        table = pq.read_table(path, columns=["ts", "symbol", "price", "volume"])
        last_us = max(last_us, pc.max(table["ts"]).cast(pa.int64()).as_py())
        to = folder / f"trades-{number:05d}.csv"
        as_csv(table, to)
        os.utime(to, (now - files + number,) * 2)  # Spark reads the oldest file first
    shutil.rmtree(binary)
    return Trades(folder, files, rows, last_us // 1000 * 1000)


def as_csv(table: pa.Table, path: Path) -> None:
    """Write a table without a head; times as SQL writes them, to the millisecond, which is all that Flink takes."""
    place = table.schema.get_field_index("ts")
    times = pc.floor_temporal(table["ts"], unit="millisecond").cast(pa.timestamp("ms"))
    plain = table.set_column(place, "ts", times)
    pcsv.write_csv(plain, path, pcsv.WriteOptions(include_header=False, quoting_style="none"))


def draw_windows(number: int, seed: int) -> tuple[Window, ...]:
    """Draw windows, no two alike, whose ranges are multiples of their slides, as Flink's HOP wants them.

    The first ones are the same for every number. No two are alike, because engines compute equal queries once.
    """
    every = [Window(r, r // k) for k in SLIDES_IN_RANGE for r in RANGES_S if r % k == 0]
    random.Random(seed).shuffle(every)
    if number > len(every):
        raise ValueError(f"there are {len(every)} such windows, fewer than {number}")
    return tuple(every[:number])


def read_answers(query: str) -> pa.Table:
    """Read an engine's files with a query of DuckDB's that returns the columns of answers."""
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        return database.sql(query).to_arrow_table()


def differing(ours: pa.Table, theirs: pa.Table, until_us: int | None = None) -> int:
    """Count the answers that only one side has or that differ; of windows that end until a time, if one is given."""
    ended = "TRUE" if until_us is None else f"end_us <= {until_us}"
    with duckdb.connect() as database:
        database.register("ours", ours)
        database.register("theirs", theirs)
        found = database.execute(
            f"SELECT count(*) FROM (FROM ours WHERE {ended}) AS a "
            f"FULL JOIN (FROM theirs WHERE {ended}) AS b USING (query, end_us, symbol) "
            "WHERE a.n IS DISTINCT FROM b.n OR a.value IS NULL OR b.value IS NULL "
            f"OR abs(a.value - b.value) > {TOLERANCE} * abs(b.value)"
        ).fetchone()
    assert found is not None
    return int(found[0])
