"""Generates streams like those of real projects, with queries as mixed as theirs: flights and edits.

Cardinalities, skews and the mix of queries follow two projects that were tried on real data: an airline's operations
(227,496 flights of a year, 34 queries of 13 groupings) and the edits of an encyclopedia (39,244 edits, 90 queries of 7
groupings and 14 predicates). Rows are drawn with a seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

DAY_US: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Load:
    """A stream in files, one a batch, the tables beside it, and the queries over it by name."""

    name: str
    folder: Path
    columns: str
    rows: int
    files: int
    queries: dict[str, str]
    tables: tuple[str, ...] = ()  # CREATE TABLE statements
    lateness: str = "0 SECONDS"
    stream: str = "s"

    @property
    def declared(self) -> str:
        """Write the statement that makes the stream."""
        return (
            f"CREATE STREAM {self.stream} ({self.columns}) USING parquet OPTIONS (path = '{self.folder}', "
            f"maxFilesPerTrigger = '1') WATERMARK FOR ts AS ts - INTERVAL {self.lateness}"
        )

    def script(self, names: Sequence[str] | None = None) -> str:
        """Write everything as one script; with names, only some of the queries."""
        chosen = self.queries if names is None else {name: self.queries[name] for name in names}
        queries = [f"CREATE QUERY {name} AS {text}" for name, text in chosen.items()]
        return ";\n".join([self.declared, *self.tables, *queries])


def flights(folder: Path, rows: int = 227_496, files: int = 12, seed: int = 1) -> Load:
    """Draw a year of flights from two airports, a file a month, and take the 34 queries of an airline's operations."""
    draw = np.random.default_rng(seed)
    start = np.datetime64("2025-01-01T00:00:00", "us").astype(np.int64)
    ts = np.sort(start + _times_of_day(draw, rows, 365))
    carrier = _skewed(draw, rows, 15, 1.1)
    tail = carrier * 221 + _skewed(draw, rows, 221, 0.6)  # every aircraft belongs to one carrier
    dest, origin = _skewed(draw, rows, 116, 0.9), (draw.random(rows) < 0.23).astype(np.int64)
    cancelled = draw.random(rows) < 0.013
    delay = (
        np.where(draw.random(rows) < 0.2, draw.exponential(35, rows), draw.normal(-1, 7, rows)).round().astype(np.int32)
    )
    distance = (150 + (dest * 7919) % 1_900).astype(np.int32)
    columns = {
        "ts": _time(ts),
        "carrier": _named(carrier, [f"{chr(65 + i % 26)}{chr(75 + i % 15)}" for i in range(15)]),
        "flight": pa.array((carrier * 400 + draw.integers(0, 400, rows)).astype(np.int32)),
        "tail": _named(tail, [f"N{10_000 + i}" for i in range(15 * 221)]),
        "origin": _named(origin, ["IAH", "HOU"]),
        "dest": _named(dest, [_code(i) for i in range(116)]),
        "dep_delay": pa.array(delay, mask=cancelled),
        "arr_delay": pa.array((delay + draw.normal(-2, 11, rows)).round().astype(np.int32), mask=cancelled),
        "distance": pa.array(distance),
        "air_time": pa.array((20 + distance / 7.5 + draw.normal(0, 8, rows)).round(1), mask=cancelled),
        "taxi_out": pa.array(draw.gamma(4, 4, rows).round().astype(np.int32), mask=cancelled),
        "cancelled": pa.array(cancelled),
    }
    cut(pa.table(columns), folder, files)
    airports = folder.parent / "airports.csv"
    named = {
        "dest": [_code(i) for i in range(116)],
        "state": [f"S{(i * i) % 37:02d}" for i in range(116)],
        "hub": [i % 9 == 0 for i in range(116)],
    }
    pcsv.write_csv(pa.table(named), airports)
    declared = (
        "ts TIMESTAMP, carrier STRING, flight INT, tail STRING, origin STRING, dest STRING, dep_delay INT, "
        "arr_delay INT, distance INT, air_time DOUBLE, taxi_out INT, cancelled BOOLEAN"
    )
    table = (
        "CREATE TABLE airports (dest STRING, state STRING, hub BOOLEAN) USING csv "
        f"OPTIONS (path = '{airports}', header = true)"
    )
    return Load("flights", folder, declared, rows, files, flight_queries(), (table,))


def flight_queries() -> dict[str, str]:
    """Write the 34 queries: 13 groupings, windows of an hour to 30 days and of rows, all kinds of aggregates."""
    hour, day, week = "[RANGE 1 h SLIDE 1 h]", "[RANGE 1 d SLIDE 1 d]", "[RANGE 7 d SLIDE 1 d]"
    month, shift = "[RANGE 30 d SLIDE 1 d]", "[RANGE 6 h SLIDE 1 h]"
    joined = "JOIN airports USING (dest)"
    late = "dep_delay > 15"
    texts = [
        f"SELECT count(*) AS n FROM s {hour}",
        f"SELECT count(*) AS n, avg(dep_delay) AS delay FROM s {shift}",
        f"SELECT count(*) AS n FROM s {day} WHERE cancelled",
        f"SELECT percentile(dep_delay, 0.95) AS p95, median(dep_delay) AS middle FROM s {day}",
        f"SELECT count(DISTINCT tail) AS aircraft FROM s {week}",
        f"SELECT carrier, count(*) AS n, avg(dep_delay) AS delay FROM s {day} GROUP BY carrier",
        f"SELECT carrier, count(*) AS n FROM s {week} WHERE {late} GROUP BY carrier",
        f"SELECT carrier, percentile(arr_delay, array(0.5, 0.9, 0.99)) AS p FROM s {week} GROUP BY carrier",
        f"SELECT carrier, count(DISTINCT tail) AS aircraft FROM s {month} GROUP BY carrier",
        f"SELECT carrier, stddev(arr_delay) AS spread, max(arr_delay) AS worst FROM s {month} GROUP BY carrier",
        f"SELECT origin, count(*) AS n, sum(distance) AS miles FROM s {hour} GROUP BY origin",
        f"SELECT origin, avg(taxi_out) AS taxi, percentile(taxi_out, 0.9) AS p90 FROM s {shift} GROUP BY origin",
        f"SELECT origin, count(*) AS n FROM s {shift} WHERE {late} GROUP BY origin HAVING n > 5",
        f"SELECT dest, count(*) AS n, avg(arr_delay) AS delay FROM s {day} GROUP BY dest",
        f"SELECT dest, count(*) AS n FROM s {week} WHERE cancelled GROUP BY dest",
        f"SELECT dest, approx_percentile(arr_delay, 0.9) AS p90 FROM s {week} GROUP BY dest",
        f"SELECT dest, approx_count_distinct(tail) AS aircraft FROM s {month} GROUP BY dest",
        f"SELECT origin, dest, count(*) AS n, sum(air_time) AS minutes FROM s {day} GROUP BY origin, dest",
        f"SELECT origin, dest, avg(dep_delay) AS delay, max(dep_delay) AS worst FROM s {week} GROUP BY origin, dest",
        f"SELECT origin, dest, median(air_time) AS middle FROM s {month} GROUP BY origin, dest",
        f"SELECT carrier, dest, count(*) AS n, avg(arr_delay) AS delay FROM s {week} GROUP BY carrier, dest",
        f"SELECT carrier, origin, count(*) AS n FROM s {day} WHERE {late} GROUP BY carrier, origin",
        f"SELECT tail, count(*) AS n, sum(air_time) AS minutes FROM s {week} GROUP BY tail HAVING n > 20",
        f"SELECT flight, avg(arr_delay) AS delay, count(*) AS n FROM s {month} GROUP BY flight HAVING n > 25",
        f"SELECT hour(ts) AS h, count(*) AS n, avg(dep_delay) AS delay FROM s {week} GROUP BY hour(ts)",
        f"SELECT distance > 1000 AS far, avg(air_time) AS minutes, count(*) AS n FROM s {day} GROUP BY distance > 1000",
        f"SELECT floor(dep_delay / 15) AS quarter, count(*) AS n FROM s {day} WHERE dep_delay > 0 "
        "GROUP BY floor(dep_delay / 15)",
        f"SELECT state, count(*) AS n, avg(arr_delay) AS delay FROM s {day} {joined} GROUP BY state",
        f"SELECT state, sum(distance) AS miles FROM s {week} {joined} WHERE hub GROUP BY state",
        f"SELECT top(5, dest) AS busiest FROM s {day}",
        f"SELECT carrier, top(3, dest) AS busiest FROM s {week} GROUP BY carrier",
        f"SELECT origin, approx_top_k(tail, 5) AS busiest FROM s {month} GROUP BY origin",
        "SELECT avg(dep_delay) AS delay, max(dep_delay) AS worst FROM s [ROWS 500 SLIDE 100]",
        "SELECT carrier, count(*) AS n FROM s [ROWS 1000 SLIDE 500] GROUP BY carrier",
    ]
    return {f"f{number:02d}": text for number, text in enumerate(texts)}


def edits(folder: Path, rows: int = 39_244, files: int = 30, seed: int = 1, rate: float = 22) -> Load:
    """Draw edits of an encyclopedia, some 1,300 a batch, and take 90 queries of 7 groupings and 14 predicates."""
    draw = np.random.default_rng(seed)
    start = np.datetime64("2026-03-02T09:00:00", "us").astype(np.int64)
    seconds = rows / rate
    ts = np.sort(start + (draw.random(rows) * seconds * 1e6).astype(np.int64))
    wiki, user = _skewed(draw, rows, 24, 1.3), _skewed(draw, rows, 6_000, 1.05)
    page = draw.zipf(1.35, rows) % 20_000
    delta = (draw.standard_t(1.6, rows) * 60).clip(-90_000, 90_000).round().astype(np.int32)
    columns = {
        "ts": _time(ts),
        "wiki": _named(wiki, [f"{chr(97 + i)}{chr(97 + (i * 7) % 26)}wiki" for i in range(24)]),
        "user": _named(user, [f"user{i}" for i in range(6_000)]),
        "page": _named(page, [f"page{i}" for i in range(20_000)]),
        "namespace": pa.array((_skewed(draw, rows, 12, 1.8)).astype(np.int32)),
        "kind": _named(_skewed(draw, rows, 4, 1.5), ["edit", "categorize", "new", "log"]),
        "bot": pa.array(draw.random(rows) < 0.24),
        "minor": pa.array(draw.random(rows) < 0.3),
        "delta": pa.array(delta, mask=draw.random(rows) < 0.05),
        "length": pa.array(draw.lognormal(8.5, 1.4, rows).round().astype(np.int64)),
    }
    cut(pa.table(columns), folder, files)
    declared = (
        "ts TIMESTAMP, wiki STRING, user STRING, page STRING, namespace INT, kind STRING, bot BOOLEAN, "
        "minor BOOLEAN, delta INT, length BIGINT"
    )
    return Load("edits", folder, declared, rows, files, edit_queries(), lateness="1 SECONDS")


EDIT_KEYS: Final = ("", "wiki", "namespace", "kind", "wiki, bot", "user", "wiki, namespace")
EDIT_CONDITIONS: Final = (
    "bot",
    "NOT bot",
    "minor",
    "delta > 0",
    "delta < 0",
    "delta > 500",
    "delta < -500",
    "abs(delta) > 5000",
    "namespace = 0",
    "namespace <> 0 AND NOT bot",
    "kind = 'new'",
    "wiki = 'aawiki' AND NOT bot",
    "length > 20000",
    "minor AND delta > 100",
)
EDIT_OUTPUTS: Final = (
    "count(*) AS n",
    "count(*) AS n, sum(delta) AS added",
    "avg(delta) AS mean, max(delta) AS most, min(delta) AS least",
    "sum(length) AS bytes, count(delta) AS known",
    "stddev(delta) AS spread, count(*) AS n",
)
EDIT_WINDOWS: Final = (
    "10 s SLIDE 5 s",
    "1 MIN SLIDE 10 s",
    "5 MIN SLIDE 30 s",
    "15 MIN SLIDE 1 MIN",
    "30 s SLIDE 30 s",
)


def edit_queries(count: int = 90) -> dict[str, str]:
    """Write queries that go through groupings, predicates, windows and outputs with steps of their own."""
    found = {}
    for number in range(count):
        keys = EDIT_KEYS[number % len(EDIT_KEYS)]
        where = f" WHERE {EDIT_CONDITIONS[number % 15]}" if number % 15 < len(EDIT_CONDITIONS) else ""
        window = EDIT_WINDOWS[(number // 3) % len(EDIT_WINDOWS)]
        outputs = EDIT_OUTPUTS[(number // 2) % len(EDIT_OUTPUTS)]
        listed, grouped = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
        found[f"e{number:02d}"] = f"SELECT {listed}{outputs} FROM s [RANGE {window}]{where}{grouped}"
    return found


def _times_of_day(draw: np.random.Generator, rows: int, days: int) -> npt.NDArray[np.int64]:
    """Draw times over some days with a peak in the morning and one in the evening, and quiet nights."""
    peak = np.where(draw.random(rows) < 0.5, draw.normal(9, 2.5, rows), draw.normal(17, 3, rows))
    of_day = np.clip(peak, 5, 23.9) * 3_600_000_000
    return draw.integers(0, days, rows) * DAY_US + of_day.astype(np.int64) // 60_000_000 * 60_000_000


def _skewed(draw: np.random.Generator, rows: int, values: int, power: float) -> npt.NDArray[np.int64]:
    """Draw numbers below a count, the first ones most often (Zipf)."""
    weights = 1 / np.arange(1, values + 1) ** power
    return draw.choice(values, rows, p=weights / weights.sum()).astype(np.int64)


def _named(numbers: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Array:
    """Put names in place of numbers."""
    return pa.array(names).take(pa.array(numbers))


def _code(number: int) -> str:
    """Make the code of an airport."""
    return f"{chr(65 + number // 26 % 26)}{chr(65 + number % 26)}{chr(65 + (number * 7) % 26)}"


def _time(micros: npt.NDArray[np.int64]) -> Any:
    """Make times of microseconds."""
    return pa.array(micros).cast(pa.timestamp("us", tz="UTC"))


def cut(table: pa.Table, folder: Path, files: int) -> None:
    """Write rows in order of time to as many files."""
    folder.mkdir(parents=True, exist_ok=True)
    bounds = np.linspace(0, table.num_rows, files + 1).astype(int)
    for number, (first, last) in enumerate(pairwise(bounds)):
        pq.write_table(table.slice(first, last - first), folder / f"{number:05d}.parquet")
