"""Twenty thousand queries over one stream: 40 windows, 50 conditions, 10 groupings, created in one go.

Each row is in 20,000 queries, so a batch of 2,000 rows is 40 million row-query pairs. A sample of queries is compared
with plain Python; half of the queries are dropped and a thousand come anew while the stream goes on.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine import Engine
from tests.always.extremes.fields import session
from tests.always.extremes.trial import Trial

START_S = 1_767_623_400
COLUMNS = "ts TIMESTAMP, a INT, b INT, c INT, d INT, v BIGINT, x BIGINT"
SECONDS_A_FILE = 60
ROWS_A_FILE = 2_000
GROUPINGS = ("", "a", "b", "c", "d", "a, b", "a, c", "b, d", "a, b, c", "a, b, c, d")
WINDOWS = [(slide * times, slide) for slide in (20, 30, 40, 50, 60, 75, 90, 120) for times in (1, 2, 3, 4, 5)]
Row = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Asked:
    """One query."""

    name: str
    range_s: int
    slide_s: int
    column: str
    least: int
    keys: str

    @property
    def sql(self) -> str:
        window = f"[RANGE {self.range_s} s SLIDE {self.slide_s} s]"
        listed = f"{self.keys}, " if self.keys else ""
        grouped = f" GROUP BY {self.keys}" if self.keys else ""
        asked = f"{listed}count(*) AS n, sum(v) AS total"
        return f"SELECT {asked} FROM s {window} WHERE {self.column} >= {self.least}{grouped}"

    def answers(self, rows: Sequence[Row], upto_s: int, since_s: int = START_S) -> list[tuple[Any, ...]]:
        """Answer every window that begins at or after a time and ends by another, from plain rows."""
        found = []
        first = (START_S // self.slide_s + 1) * self.slide_s
        for end in range(first, upto_s + 1, self.slide_s):
            if since_s > START_S and end - self.range_s < since_s:
                continue
            found += [(end, *key, *value) for key, value in sorted(self._window(rows, end).items())]
        return found

    def _window(self, rows: Sequence[Row], end_s: int) -> dict[tuple[int, ...], list[int | None]]:
        keys = self.keys.split(", ") if self.keys else []
        held: dict[tuple[int, ...], list[Any]] = {} if keys else {(): [0, None]}
        low, high = (end_s - self.range_s) * 1_000_000, end_s * 1_000_000
        for row in rows:
            if low <= row["ts"] < high and row[self.column] >= self.least:
                value = held.setdefault(tuple(row[key] for key in keys), [0, None])
                value[0], value[1] = value[0] + 1, (value[1] or 0) + row["v"]
        return held


def asked(number: int) -> Iterator[Asked]:
    """List queries, each with a window, condition and grouping of its own."""
    conditions = [("v", 40 * i) for i in range(25)] + [("x", 40 * i) for i in range(25)]
    for place in range(number):
        range_s, slide_s = WINDOWS[place % 40]
        column, least = conditions[place // 40 % 50]
        yield Asked(f"q{place}", range_s, slide_s, column, least, GROUPINGS[place // 2_000 % 10])


def rows_of(number: int) -> list[dict[str, int]]:
    """Make the rows of a file, in order of time; the last one is at its very end."""
    draw, step = random.Random(number), SECONDS_A_FILE * 1_000_000 // ROWS_A_FILE
    begin = (START_S + number * SECONDS_A_FILE) * 1_000_000
    limits = {"a": 3, "b": 4, "c": 3, "d": 2, "v": 1_000, "x": 1_000}
    return [
        {"ts": begin + (place + 1) * step, **{name: draw.randrange(limit) for name, limit in limits.items()}}
        for place in range(ROWS_A_FILE)
    ]


def write_file(folder: Path, number: int) -> None:
    rows = rows_of(number)
    types = {"ts": pa.timestamp("us", tz="UTC"), "v": pa.int64(), "x": pa.int64()}
    columns = {name: pa.array([row[name] for row in rows], types.get(name, pa.int32())) for name in rows[0]}
    pq.write_table(pa.table(columns), folder / f"{number:04d}.parquet")
    os.utime(folder / f"{number:04d}.parquet", (START_S + number, START_S + number))


def run(trial: Trial, queries: int = 20_000, dropped: int = 10_000, added: int = 1_000, sample: int = 100) -> None:
    """Create, run, restart, drop and add; compare a sample."""
    files = trial.folder / "files"
    files.mkdir()
    spark = session("3g")
    all_asked, rows = list(asked(queries)), [row for n in range(8) for row in rows_of(n)]
    draw = random.Random(1)
    chosen = draw.sample(all_asked, sample)
    with Engine(trial.folder / "state", spark=spark) as engine:
        options = f"path = '{files}', maxFilesPerTrigger = '1'"
        engine.execute(f"CREATE STREAM s ({COLUMNS}) USING parquet OPTIONS ({options}) WATERMARK FOR ts")
        script = ";\n".join(f"CREATE QUERY {one.name} AS {one.sql}" for one in all_asked)
        with trial.timed("create"):
            engine.execute(script)
        trial.memory("created")
        with trial.timed("explain"):
            trial.measure("explained_characters", len(str(engine.explain())))
        _batches(trial, engine, files, range(4), "batch")
        _compare(trial, engine, chosen, rows, START_S + 4 * SECONDS_A_FILE, "queries answer as plain Python")
    with trial.timed("restart"):
        engine = Engine(trial.folder / "state", spark=spark)
        engine.stream("s")
    with engine:
        _batches(trial, engine, files, range(4, 5), "restarted_batch")
        trial.memory("restarted")
        gone = draw.sample(range(queries), dropped)
        with trial.timed("drop"):
            for place in gone:
                engine.drop_query(f"q{place}")
        fresh = [Asked(f"new{n}", *WINDOWS[n % 40], "x", 37 * n % 990, GROUPINGS[n % 10]) for n in range(added)]
        with trial.timed("add"):
            engine.execute(";\n".join(f"CREATE QUERY {one.name} AS {one.sql}" for one in fresh))
        _batches(trial, engine, files, range(5, 8), "changed_batch")
        trial.memory("end")
        upto, left = START_S + 8 * SECONDS_A_FILE, set(gone)
        stay = [one for one in chosen if int(one.name[1:]) not in left]
        _compare(trial, engine, stay, rows, upto, "queries that stay answer on")
        since = START_S + 5 * SECONDS_A_FILE
        _compare(trial, engine, draw.sample(fresh, min(added, 50)), rows, upto, "queries that came answer", since)


def _batches(trial: Trial, engine: Engine, files: Path, numbers: range, name: str) -> None:
    """Process files one by one and note how long each took, and what was answered."""
    for number in numbers:
        write_file(files, number)
        metrics, began = engine.stream("s").pipeline.metrics, perf_counter()
        before = metrics.answers
        engine.process_available()
        trial.measure(f"{name}_{number}_s", perf_counter() - began)
        trial.measure(f"{name}_{number}_answers", metrics.answers - before)


def _compare(
    trial: Trial,
    engine: Engine,
    chosen: Sequence[Asked],
    rows: Sequence[Row],
    upto_s: int,
    text: str,
    since_s: int = START_S,
) -> None:
    """Compare a sample of queries with plain Python; one that came later may begin as early as it likes."""
    odd = []
    for one in chosen:
        held = [list(row.values()) for row in engine.results(one.name, "rows")]
        found = [(int(end.timestamp()), *values) for _, end, *values in held]
        wanted = one.answers(rows, upto_s, since_s)
        if since_s > START_S:  # what is stored may allow earlier windows
            early = min((line[0] for line in found), default=1 << 40)
            wanted = [line for line in one.answers(rows, upto_s) if line[0] >= early]
            if early - one.range_s > since_s + one.slide_s and one.range_s + one.slide_s <= upto_s - since_s:
                odd.append(f"{one.name} begins at {early}")
        if found != wanted:
            odd.append(f"{one.name} {one.sql}: {found[:2]} … {len(found)}, not {wanted[:2]} … {len(wanted)}")

    trial.claim(f"{len(chosen)} {text}", not odd, odd[:3])
