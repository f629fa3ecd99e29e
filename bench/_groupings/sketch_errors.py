"""Measures the errors of approximate aggregates on real data, beside what their sketches state."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from penstock.testing import TestBed

RANKS: Final = (0.1, 0.5, 0.9, 0.99)
ITEMS: Final = 10
DISTINCT_STATED: Final = 2 * 1.04 / 64  # two standard deviations of HyperLogLog with 4,096 registers
RANK_STATED: Final = 0.0133  # of KLL with k = 200, with a confidence of 99 %
INSTANT: Final = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class DataSet:
    """A file, where its time, items and numbers stand, and how long a window is."""

    name: str
    file: str
    time: str
    unit_us: int  # microseconds of one unit of the time column; 0: it is a timestamp
    item: str
    number: str
    window_s: int


@dataclass(frozen=True, slots=True)
class SketchError:
    """How far an approximate aggregate was off, over the windows of a data set."""

    data: str
    aggregate: str
    windows: int
    mean: float
    worst: float
    stated: float  # what the sketch states, at its confidence
    within: float  # part of all answers within that


SETS: Final = (
    DataSet("lbl-pkt-4", "packets.csv.gz", "ts_us", 1, "src", "dport", 300),
    DataSet("us-option-bars-2014", "aapl_option_minute_trades.csv.gz", "ts_ms", 1_000, "contract", "volume", 3_600),
    DataSet("bay-area-bikeshare-2014", "trips.csv.gz", "start_ts", 1_000_000, "start_station", "duration", 30 * 86_400),
    DataSet("nab-metrics", "metrics.csv.gz", "ts", 0, "series", "value", 30 * 86_400),
    DataSet("us-equity-trades-2013", "trades_20131007.csv.gz", "ts_ms", 1_000, "price_e4", "size", 3_600),
)


def sketch_errors(spark: SparkSession, folder: Path, sets: Sequence[DataSet] = SETS) -> list[SketchError]:
    """Measure every aggregate on every data set that is there."""
    found: list[SketchError] = []
    for one in sets:
        if (folder / one.name / one.file).is_file():
            found += _errors(spark, one, _rows(folder, one))
    return found


def _rows(folder: Path, one: DataSet) -> pa.Table:
    """Read the time, the items as strings and the numbers as doubles."""
    table = pa.csv.read_csv(folder / one.name / one.file)
    time = table[one.time]
    if one.unit_us:
        time = pc.multiply(time.cast(pa.int64()), one.unit_us)
    ts = time.cast(pa.timestamp("us")).cast(INSTANT)
    columns = [ts, table[one.item].cast(pa.string()), table[one.number].cast(pa.float64())]
    return pa.table(columns, names=["ts", "item", "number"])


def _errors(spark: SparkSession, one: DataSet, rows: pa.Table) -> Iterator[SketchError]:
    """Let one engine answer exactly and approximately, and compare."""
    listed = ", ".join(map(str, RANKS))
    text = (
        "SELECT count(DISTINCT item) AS exact_distinct, approx_count_distinct(item) AS distinct, "
        f"approx_percentile(number, array({listed})) AS quantiles, "
        f"top({ITEMS}, item) AS exact_items, approx_top_k(item, {ITEMS}, 1000) AS items "
        f"FROM t [RANGE {one.window_s} s SLIDE {one.window_s} s]"
    )
    with TestBed(spark, compiled=True) as bed:
        bed.stream("t", "ts TIMESTAMP, item STRING, number DOUBLE")
        bed.query("errors", text)
        bed.feed("t", rows)
        bed.flush()
        answers = [a for a in bed.results("errors").to_pylist() if a["exact_distinct"]]
    yield _told(one, "approx_count_distinct", [_distinct(a) for a in answers], DISTINCT_STATED)
    yield _told(one, "approx_percentile", [off for a in answers for off in _ranks(a, rows)], RANK_STATED)
    yield _told(one, "approx_top_k", [_missed(a) for a in answers], 0.0)


def _told(one: DataSet, aggregate: str, errors: Sequence[float], stated: float) -> SketchError:
    """Sum errors up."""
    found = np.asarray(errors)
    mean, worst, within = (float(value) for value in (found.mean(), found.max(), (found <= stated).mean()))
    return SketchError(one.name, aggregate, len(found), mean, worst, stated, within)


def _distinct(answer: dict[str, Any]) -> float:
    """Return the relative error of a distinct count."""
    return float(abs(answer["distinct"] - answer["exact_distinct"]) / answer["exact_distinct"])


def _ranks(answer: dict[str, Any], rows: pa.Table) -> list[float]:
    """Return by which part of all values each percentile is off; equal values span several ranks."""
    if answer["quantiles"] is None:
        return []
    inside = pc.and_(pc.greater_equal(rows["ts"], answer["window_start"]), pc.less(rows["ts"], answer["window_end"]))
    values = np.sort(rows["number"].filter(inside).drop_null().to_numpy())
    quantiles = np.asarray(answer["quantiles"])
    below, upto = (np.searchsorted(values, quantiles, side=side) / len(values) for side in ("left", "right"))
    return [float(off) for off in np.maximum(0, np.maximum(below - RANKS, RANKS - upto))]


def _missed(answer: dict[str, Any]) -> float:
    """Return which part of the most frequent items is not listed; items as frequent as the last one count as listed."""
    exact, listed = answer["exact_items"], {e["item"] for e in answer["items"]}
    least = exact[-1]["count"]
    surely = [e["item"] for e in exact if e["count"] > least]
    return sum(item not in listed for item in surely) / max(1, len(surely))


def print_errors(errors: Sequence[SketchError]) -> None:
    """Print measured beside stated errors."""
    table = Table(title="Errors of approximate aggregates on real data", title_justify="left")
    for name in ("data set", "aggregate", "answers", "mean", "worst", "stated", "within"):
        table.add_column(name, justify="left" if name in ("data set", "aggregate") else "right")
    for one in errors:
        shown = (f"{value:.2%}" for value in (one.mean, one.worst, one.stated, one.within))
        table.add_row(one.data, one.aggregate, f"{one.windows:,}", *shown)
    Console(width=120).print(table)


if __name__ == "__main__":
    from penstock.spark.session.embedded import embedded

    print_errors(sketch_errors(embedded(), Path(sys.argv[1])))
