"""Runs dashboards that ask for twice of what the driver can answer, as exact and as fresh queries.

A query's staleness is how far the end of the newest window that it has answered is behind the watermark, in seconds of
the stream, averaged over time and queries: it is looked at twenty times a second. Alerts run beside the dashboards, and
must lose no answer. How far the stream has read is looked at too: answers that wait must not hold back the rows.
"""

from __future__ import annotations

import math
import shutil
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from bench._live.neighbours import COLUMNS, SECOND_US, START_US, Neighbourhood, write_file
from bench._noting import NotingMemory
from penstock.engine import Engine

LOOK_S: Final = 0.05
LOAD: Final = 2.0  # of the driver's time, that exact dashboards ask for
PATIENCE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Overload:
    """How much comes, who asks, and how much that is."""

    rows: int = 4_000  # a file: a second of the stream
    symbols: int = 3_000
    files: int = 32
    first: int = 10  # files whose answers are not counted: Java compiles, and costs are learnt
    every_seconds: float = 1.0
    alerts: int = 20
    probes: int = 6  # dashboards by which it is found what one takes
    most: int = 1_000  # dashboards
    range_seconds: int = 60


@dataclass(slots=True)
class Looks:
    """What was seen of a run: the newest answer of each query, all ends, and how far behind all was at each look."""

    newest: dict[str, int] = field(default_factory=dict)  # query → the end of its newest answer
    ends: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    stale: list[float] = field(default_factory=list)  # seconds, a mean over the dashboards at each look
    unread: list[float] = field(default_factory=list)  # seconds of the stream that have appeared and are not read

    def note(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Note which windows were answered."""
        for table in tables:
            pairs = pa.table({"q": table["query_name"].cast(pa.string()), "e": table["window_end"].cast(pa.int64())})
            for one in pairs.group_by(["q", "e"]).aggregate([]).to_pylist():
                self.ends[one["q"]].add(one["e"])
                self.newest[one["q"]] = max(one["e"], self.newest.get(one["q"], one["e"]))

    def look(self, engine: Engine, dashboards: Sequence[str], appeared: int) -> None:
        """See how far behind the answers and the rows are now."""
        clock = engine.stream("trades").pipeline.progress.clock
        watermark, read = clock.watermark_us, clock.last_us
        if watermark is None or read is None:
            return
        behind = [watermark - self.newest.get(name, START_US) for name in dashboards]
        self.stale.append(statistics.fmean(behind) / SECOND_US if behind else 0.0)
        self.unread.append(max(0.0, (START_US + appeared * SECOND_US - read) / SECOND_US))


def queries(load: Overload, dashboards: int, *, fresh: bool) -> dict[str, str]:
    """Write dashboards, each with a condition of its own, so that each is a lane of its own; and exact alerts."""
    option = " WITH (emit = 'fresh')" if fresh else ""
    window = f"[RANGE {load.range_seconds} s SLIDE 1 s]"
    found = {
        f"alert{n:03d}": f"SELECT max(price) AS high FROM trades [RANGE 10 s SLIDE 1 s] WHERE volume > {50 * n}"
        for n in range(load.alerts)
    }
    for n in range(dashboards):
        found[f"dash{n:03d}"] = (
            f"SELECT symbol, percentile(price, 0.9) AS p FROM trades {window} WHERE volume > {10 * n} "
            f"GROUP BY symbol{option}"
        )
    return found


def dashboards_for(session: SparkSession, load: Overload) -> tuple[int, float]:
    """Find how many dashboards take twice of what there is of the driver's time; also return what one takes.

    The more the stream has brought, the more a window holds: what counts is the middle of the files that are looked at.
    """
    short = replace(load, files=(load.first + load.files) // 2)
    with _running(session, short, load.probes, fresh=False) as (engine, looks, folder):
        _feed(engine, folder, short, looks, ())
        order = engine.stream("trades").pipeline.committer.order
        known = [order.costs.measured(engine.catalog.query(f"dash{n:03d}").id) for n in range(load.probes)]
    each = statistics.median(seconds for seconds in known if seconds is not None)
    return min(load.most, math.ceil(LOAD * load.every_seconds / each)), each


def stale(session: SparkSession, load: Overload, dashboards: int, *, fresh: bool) -> dict[str, Any]:
    """Run the stream once; tell how stale the dashboards were, and what became of the answers and the rows."""
    names = [f"dash{n:03d}" for n in range(dashboards)]
    with _running(session, load, dashboards, fresh=fresh) as (engine, looks, folder):
        _feed(engine, folder, load, looks, names)
        engine.stop()
        engine.streams.wait_for_sinks()
        skipped = engine.stream("trades").pipeline.progress.windows.skipped
        watermark = engine.stream("trades").pipeline.progress.clock.watermark_us or 0
        final = (watermark - START_US) // SECOND_US
        exact = [name for name in engine.catalog.query_names() if not (fresh and name in names)]
        lost = sum(final - len(looks.ends[name]) for name in exact)
        told = {engine.catalog.query(name).id: len(looks.ends[name]) for name in names}
        uncounted = sum(final - answered - skipped.get(number, 0) for number, answered in told.items())
    return {
        "staleness": round(statistics.fmean(looks.stale), 3),
        "most stale": round(max(looks.stale), 3),
        "unread": round(statistics.fmean(looks.unread), 3),
        "most unread": round(max(looks.unread), 3),
        "answers": sum(told.values()),
        "skipped": sum(skipped.values()),
        "lost": lost,
        "uncounted": uncounted,
    }


@contextmanager
def _running(
    session: SparkSession, load: Overload, dashboards: int, *, fresh: bool
) -> Iterator[tuple[Engine, Looks, Path]]:
    """Run an engine in the background on a folder that is empty but for its first file."""
    folder, looks = Path(tempfile.mkdtemp(prefix="penstock-live-")), Looks()
    try:
        (folder / "in").mkdir()
        with Engine(folder / "state", spark=session, sinks=[NotingMemory(looks.note)]) as engine:
            engine.execute(
                f"CREATE STREAM trades ({COLUMNS}) USING parquet OPTIONS (path = '{folder / 'in'}', "
                "maxFilesPerTrigger = '1', max_ahead = '36500 d') WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
            )
            engine.create_queries(queries(load, dashboards, fresh=fresh))
            write_file(folder / "in", 0, _sizes(load))
            engine.start()
            yield engine, looks, folder / "in"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _feed(engine: Engine, folder: Path, load: Overload, looks: Looks, dashboards: Sequence[str]) -> None:
    """Let a file appear at every beat once the first has been read, look on, and wait until the last has been."""
    pause = threading.Event()
    _wait_for(engine, 0)
    began = time.perf_counter()
    for number in range(1, load.files):
        while (left := began + number * load.every_seconds - time.perf_counter()) > 0:
            pause.wait(min(LOOK_S, left))
            if number > load.first:
                looks.look(engine, dashboards, number - 1)
        write_file(folder, number, _sizes(load))
    _wait_for(engine, load.files - 1)


def _wait_for(engine: Engine, number: int) -> None:
    """Wait until a file has been read."""
    until, pause = time.monotonic() + PATIENCE_S, threading.Event()
    while (engine.stream("trades").pipeline.progress.clock.last_us or 0) < START_US + number * SECOND_US:
        if time.monotonic() > until:
            raise TimeoutError("the stream did not read its last file")
        pause.wait(LOOK_S)


def _sizes(load: Overload) -> Neighbourhood:
    """Describe the files as the runs of alerts beside reports do."""
    return Neighbourhood(rows=load.rows, symbols=load.symbols)
