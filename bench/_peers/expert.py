"""Runs all windows as one Spark query with slices made by hand, as an expert writes it for exactly these queries.

Spark sums each batch by slice. The driver adds the slices up in arrays, puts the windows together that have ended, and
writes both to Parquet: the slices so that a restart could read them, the answers for whoever asked. Files come in order
of time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bench._peers.trades import Case, PeerRun, Trades, read_answers
from bench._plain import SECOND_US

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
EVERY_WINDOW = 1 << 62  # a time after all windows


def run(session: SparkSession, trades: Trades, case: Case, folder: Path) -> PeerRun:
    """Run the one query until the files end, then answer the windows that have not ended."""
    expert = Expert(case, folder)
    began = time.perf_counter()
    stream = trades.open(session).writeStream.foreachBatch(expert.take).trigger(availableNow=True)
    stream.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    expert.answer(EVERY_WINDOW, "end")
    seconds = time.perf_counter() - began
    return PeerRun(seconds, read_answers(f"FROM '{folder}/answers/*.parquet'"))


@dataclass(slots=True)
class Slices:
    """Sums and counts in two tables: a row for every slice in order of time, a column for every symbol."""

    starts: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # seconds since the epoch
    symbols: dict[str, int] = field(default_factory=dict)
    sums: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    counts: Integers = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def add(self, batch: pa.Table) -> None:
        """Add a batch's partials: columns start, symbol, value, n."""
        starts, rows = np.unique(batch["start"].to_numpy(), return_inverse=True)
        names = batch["symbol"].combine_chunks().dictionary_encode()
        for name in names.dictionary.to_pylist():
            self.symbols.setdefault(name, len(self.symbols))
        self._make_room(starts)
        row = np.searchsorted(self.starts, starts)[rows]
        column = np.array([self.symbols[name] for name in names.dictionary.to_pylist()])[names.indices.to_numpy()]
        self.sums[row, column] += batch["value"].to_numpy()
        self.counts[row, column] += batch["n"].to_numpy()

    def _make_room(self, starts: Integers) -> None:
        """Add rows for slices that are new, all later than the others, and columns for new symbols."""
        new = starts[starts > self.starts[-1]] if len(self.starts) else starts
        more = ((0, len(new)), (0, len(self.symbols) - self.sums.shape[1]))
        self.starts = np.concatenate([self.starts, new])
        self.sums, self.counts = np.pad(self.sums, more), np.pad(self.counts, more)

    def window(self, start_s: int, end_s: int) -> tuple[Integers, Floats, Integers]:
        """Put one window together: the columns of its symbols, their sums and their counts."""
        first, last = np.searchsorted(self.starts, (start_s, end_s))
        counts = self.counts[first:last].sum(axis=0)
        held = np.flatnonzero(counts)
        return held, self.sums[first:last].sum(axis=0)[held], counts[held]


class Expert:
    """Takes one batch after the other, and answers what has ended."""

    def __init__(self, case: Case, folder: Path) -> None:
        self._case, self._folder = case, folder
        self._slices = Slices()
        self._next_ends: list[int] = []  # of every query's next window, in seconds
        for name in ("state", "answers"):
            (folder / name).mkdir(parents=True)

    def take(self, batch: DataFrame, number: int) -> None:
        """Sum a batch by slice, keep its partials, and answer the windows that ended before its last row."""
        partials = summed(batch, self._case)
        if partials.num_rows == 0:
            return
        pq.write_table(partials, self._folder / "state" / f"{number:05d}.parquet")
        self._slices.add(partials)
        self.answer(pc.max(partials["last"]).as_py() // SECOND_US, f"{number:05d}")

    def answer(self, until_s: int, name: str) -> None:
        """Write the answers of all windows that end until a time and hold a row."""
        first, last = int(self._slices.starts[0]), int(self._slices.starts[-1])
        self._next_ends = self._next_ends or [first - first % w.slide_s + w.slide_s for w in self._case.windows]
        found: list[WindowAnswers] = []
        for place, window in enumerate(self._case.windows):
            end = self._next_ends[place]
            while end <= until_s and end - window.range_s <= last:
                found.append(WindowAnswers(place, end, *self._slices.window(end - window.range_s, end)))
                end += window.slide_s
            self._next_ends[place] = end
        if found:
            pq.write_table(as_table(found, list(self._slices.symbols)), self._folder / "answers" / f"{name}.parquet")


@dataclass(frozen=True, slots=True)
class WindowAnswers:
    """The answers of one window: the symbols that it holds as columns of the slices, and their sums and counts."""

    query: int
    end_s: int
    columns: Integers
    sums: Floats
    counts: Integers


def as_table(found: Sequence[WindowAnswers], symbols: Sequence[str]) -> pa.Table:
    """Put the answers of many windows into one table, all rows of a column at once."""
    sizes = [len(one.columns) for one in found]
    queries = [f"q{number}" for number in range(max(one.query for one in found) + 1)]
    columns = np.concatenate([one.columns for one in found])
    return pa.table(
        {
            "query": pa.array(queries).take(pa.array(np.repeat([one.query for one in found], sizes))),
            "end_us": np.repeat([one.end_s * SECOND_US for one in found], sizes),
            "symbol": pa.array(symbols, pa.string()).take(pa.array(columns)),
            "value": np.concatenate([one.sums for one in found]),
            "n": np.concatenate([one.counts for one in found]),
        }
    )


def summed(batch: DataFrame, case: Case) -> pa.Table:
    """Sum a batch by slice in Spark; the driver gets the partials."""
    symbol = F.col("symbol") if case.by_symbol else F.lit("").alias("symbol")
    value, n = F.sum(F.col("price") * F.col("volume")).alias("value"), F.count("*").alias("n")
    last = F.max(F.unix_micros("ts")).alias("last")
    return batch.groupBy(slice_start(case).alias("start"), symbol).agg(value, n, last).toArrow()


def slice_start(case: Case) -> Column:
    """Tell where the slice of a row starts, in seconds.

    Without groups a slice is as long as the greatest common divisor of all slides: mostly a second, and 3,600 of them
    are few. By symbol that would be nearly as many partials as rows, so slices end only where some window does.
    """
    second = F.unix_seconds("ts")
    slides = {window.slide_s for window in case.windows}
    if not case.by_symbol:
        slides = {math.gcd(*slides)}
    starts = [second - second % slide for slide in sorted(slides)]
    return F.greatest(*starts) if len(starts) > 1 else starts[0]
