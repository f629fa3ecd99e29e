"""Runs cheap alerts beside dear reports, a slow sink and a backfill, and notes how long each alert's answer takes.

Files of trades appear at an even pace, a second of event time in each. An answer's response is the time from when the
file appeared that made its window final, to when a sink in memory was given the answer.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench._noting import NotingMemory
from penstock.engine import Engine
from penstock.sinks.memory import MemorySink
from penstock.sinks.protocol import Progressing, SinkWriter
from penstock.stream import evaluation_order

START_US: Final = 1_767_571_200_000_000  # 2026-01-05
FILES_FROM_S: Final = 1_700_000_000  # when the first file was changed, as far as its reader can tell
SECOND_US: Final = 1_000_000
PAST_MINUTES: Final = 10  # of rows in a file of the past
PAST_QUERY: Final = (
    "SELECT symbol, avg(price) AS p, count(*) AS n FROM trades [RANGE 60 s SLIDE 60 s] GROUP BY symbol "
    "WITH (from = 'beginning')"
)
PATIENCE_S: Final = 300.0
COLUMNS: Final = "ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT"


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """How much comes, and who asks."""

    rows: int = 4_000  # a file
    symbols: int = 3_000
    files: int = 40
    first: int = 14  # files whose answers are not counted: Java compiles, and costs are learnt
    every_seconds: float = 1.0
    alerts: int = 200
    reports: int = 40
    report_slide: int = 5  # seconds: all reports fall due together
    report_range: int = 60
    sleep_seconds: float = 2.0  # of the slow sink, for each of its answers
    past_minutes: int = 60  # of rows that are there before the first file, for the backfill
    backfill_at: int = 18  # the file with which a query comes that asks for them
    first_every_seconds: float = 0.4  # between the files whose answers are not counted

    @property
    def past_windows(self) -> int:
        """Count the windows of a minute up to the start: the first file begins before it, and so the past earlier."""
        return self.past_minutes + 1


@dataclass(slots=True)
class Responses:
    """When files appeared and when answers came."""

    appeared: dict[int, float] = field(default_factory=dict)  # number of the file → time
    seconds: list[tuple[int, float]] = field(default_factory=list)  # second of the stream that the window ends at
    reports: list[float] = field(default_factory=list)
    past: set[int] = field(default_factory=set)  # ends of the windows that the backfill has answered, in seconds

    def note(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Note when the answers of windows came."""
        now = time.perf_counter()
        for table in tables:
            names = table["query_name"].cast(pa.string())
            hours = table.filter(pc.starts_with(names, "hour"))
            self.past |= set(((hours["window_end"].cast(pa.int64()).to_numpy() - START_US) // SECOND_US).tolist())
            for prefix, into in (("alert", self.seconds), ("report", None)):
                mine = table.filter(pc.starts_with(names, prefix))
                ends = np.unique(np.asarray(mine["window_end"].cast(pa.int64()).to_numpy(), np.int64))
                for end in ((ends - START_US) // SECOND_US).tolist():
                    if end in self.appeared:  # the file that begins where the window ends has made it final
                        took = now - self.appeared[end]
                        self.reports.append(took) if into is None else into.append((end, took))


class SlowSink(MemorySink):
    """A sink that sleeps whenever it is given something."""

    def __init__(self, seconds: float) -> None:
        """Sleep so long."""
        super().__init__()
        self.seconds, self.awake = seconds, threading.Event()
        self.awake.set()  # until answers are counted

    def open(self, stream: str, memory: Progressing) -> SinkWriter:  # type: ignore[override]
        """Open the writer of one stream."""
        writer: Any = super().open(stream, memory)
        deliver: Callable[..., None] = writer.deliver

        def slowly(number: int, tables: Sequence[pa.Table]) -> None:
            self.awake.wait(self.seconds)
            deliver(number, tables)

        writer.deliver = slowly
        return writer  # type: ignore[no-any-return]


def write_file(folder: Path, number: int, load: Neighbourhood, lead_seconds: int = 0) -> None:
    """Let a file of trades appear, whole: one second of event time and so many before, a row at its very beginning.

    Files are read in order of their times of change, so each file's is a second after that of the one before.
    """
    seconds = lead_seconds + 1
    table = trades(number, load, seconds * load.rows, (number - lead_seconds) * SECOND_US, seconds)
    pq.write_table(table, folder / f".{number:08d}.draft")
    os.utime(folder / f".{number:08d}.draft", (FILES_FROM_S + number, FILES_FROM_S + number))
    (folder / f".{number:08d}.draft").replace(folder / f"{number:08d}.parquet")


def trades(seed: int, load: Neighbourhood, rows: int, first_us: int, seconds: int) -> pa.Table:
    """Draw trades of some seconds from a time on, counted from the start, in order of time."""
    draw = np.random.default_rng(seed)
    times = np.sort(draw.integers(0, seconds * SECOND_US, rows))
    times[0] = 0
    symbols = np.array([f"S{n:04d}" for n in range(load.symbols)])
    return pa.table(
        {
            "ts": pa.array(times + START_US + first_us, pa.timestamp("us", tz="UTC")),
            "symbol": pa.array(symbols[draw.integers(0, load.symbols, rows)]),
            "price": np.round(draw.uniform(5, 500, rows), 2),
            "volume": draw.integers(1, 10_000, rows).astype(np.int32),
        }
    )


def write_past(folder: Path, load: Neighbourhood) -> None:
    """Write the rows of the minutes before the first file, ten minutes a file, as many a minute as a file has."""
    for number, first in enumerate(range(-load.past_minutes, 0, PAST_MINUTES)):
        minutes = min(PAST_MINUTES, -first)
        first_us = (60 * first - load.report_range) * SECOND_US
        path = folder / f"0-past-{number:04d}.parquet"
        pq.write_table(trades(1_000_000 + number, load, load.rows * minutes, first_us, 60 * minutes), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark reads files in this order


def queries(load: Neighbourhood, *, reports: bool) -> dict[str, str]:
    """Write the alerts, and the reports if they are wanted."""
    found = {
        f"alert{n:03d}": f"SELECT max(price) AS high, count(*) AS n FROM trades [RANGE 10 s SLIDE 1 s] "
        f"WHERE volume > {50 * n} WITH (deadline = '500 ms')"
        for n in range(load.alerts)
    }
    window = f"[RANGE {load.report_range} s SLIDE {load.report_slide} s]"
    for n in range(load.reports if reports else 0):
        found[f"report{n:03d}"] = (
            f"SELECT symbol, percentile(price, 0.{n % 50 + 50}) AS p FROM trades {window} "
            f"WHERE volume > {200 * n} GROUP BY symbol"
        )
    return found


def respond(
    session: SparkSession, load: Neighbourhood, *, reports: bool, policy: str = "Hybrid", apart: bool = True
) -> Responses:
    """Run the stream once.

    Unless answers and sinks are ``apart`` from batches, all happens inside the batch, as it did before there was a
    scheduler: what is due is answered in one go, and the next batch waits for that and for every sink.
    """
    folder = Path(tempfile.mkdtemp(prefix="penstock-live-"))
    found, usual = Responses(), evaluation_order.GROUP_S
    try:
        vars(evaluation_order)["GROUP_S"] = usual if apart else math.inf
        (folder / "in").mkdir()
        slow = SlowSink(load.sleep_seconds)
        sinks = [NotingMemory(found.note), *([slow] if reports else [])]
        with Engine(folder / "state", spark=session, sinks=sinks, policy=policy) as engine:
            engine.execute(
                f"CREATE STREAM trades ({COLUMNS}) USING parquet OPTIONS (path = '{folder / 'in'}', "
                "maxFilesPerTrigger = '1', max_ahead = '36500 d') WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
            )
            backfills = reports and load.past_minutes > 0
            if backfills:  # rows that were read before the alerts came
                engine.create_query("steady", "SELECT count(*) AS n FROM trades [RANGE 60 s SLIDE 60 s]")
                write_past(folder / "in", load)
                engine.process_available()
            engine.create_queries(queries(load, reports=reports))
            write_file(folder / "in", 0, load, load.report_range)  # so that windows of reports are covered from here on
            engine.start()
            _let_files_appear(folder / "in", load, found, 1, load.first)
            _wait_until_read(engine, load.first - 1)
            slow.awake.clear()
            if not apart:
                _keep_together(engine)
            _let_files_be_counted(engine, folder / "in", load, found, backfills=backfills)
            slow.awake.set()
            engine.stop()
    finally:
        vars(evaluation_order)["GROUP_S"] = usual
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _keep_together(engine: Engine) -> None:
    """Let each batch wait for its answers, and these for every sink."""
    runner = engine.stream("trades")
    runner.let_answers_lag(may=False)
    targets: Any = runner.pipeline.committer.targets
    deliver: Callable[..., None] = targets.deliver

    def and_wait(number: int, tables: Sequence[pa.Table]) -> None:
        deliver(number, tables)
        runner.delivery.wait()

    targets.deliver = and_wait


def _let_files_be_counted(
    engine: Engine, folder: Path, load: Neighbourhood, found: Responses, *, backfills: bool
) -> None:
    """Let the other files appear, and wait until the last one has been read.

    With one of them comes a query that asks for the hour before, in another thread: an engine that stops its stream for
    that must not keep the files waiting.
    """
    asking = threading.Thread(target=engine.create_query, args=("hour", PAST_QUERY), daemon=True)
    with_query = (load.backfill_at, asking.start) if backfills else None
    _let_files_appear(folder, load, found, load.first, load.files, with_query)
    _wait_until_read(engine, load.files - 1)
    until = time.monotonic() + PATIENCE_S
    while backfills and len(found.past) < load.past_windows and time.monotonic() < until:
        time.sleep(0.05)
    if asking.ident is not None:
        asking.join()


def _let_files_appear(
    folder: Path,
    load: Neighbourhood,
    found: Responses,
    first: int,
    end: int,
    beside: tuple[int, Callable[[], None]] | None = None,
) -> None:
    """Let files appear one after the other, with one of which something else is done."""
    began = time.perf_counter()
    every_s = load.every_seconds if first >= load.first else min(load.every_seconds, load.first_every_seconds)
    for number in range(first, end):
        threading.Event().wait(max(0.0, began + (number - first + 1) * every_s - time.perf_counter()))
        if beside is not None and number == beside[0]:
            beside[1]()
        found.appeared[number] = time.perf_counter()
        write_file(folder, number, load)


def _wait_until_read(engine: Engine, number: int) -> None:
    """Wait until a file has been read."""
    until = time.monotonic() + PATIENCE_S
    while (engine.stream("trades").pipeline.progress.clock.last_us or 0) < START_US + number * SECOND_US:
        if time.monotonic() > until:
            return
        time.sleep(0.05)
