"""Runs a stream of arriving files while queries come and go, and notes every batch's latency."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine import Engine

START_US: Final = 1_767_571_200_000_000  # 2026-01-05
SYMBOLS: Final = tuple(f"S{number:03d}" for number in range(40))
COLUMNS: Final = "ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT, venue STRING"
KEPT_FILES: Final = 200  # that were read; older ones are removed
MOST_AHEAD: Final = 5  # files that wait to be read: what is measured is a batch, not a queue


@dataclass(frozen=True, slots=True)
class Pace:
    """How much comes how fast."""

    rows: int = 1_000  # a file
    file_seconds: float = 10.0  # of event time in a file
    every_seconds: float = 0.4  # a file appears

    @property
    def file_us(self) -> int:
        return int(self.file_seconds * 1e6)


def write_file(folder: Path, number: int, pace: Pace) -> Path:
    """Let a file of trades appear, whole; the same number has the same rows."""
    draw = np.random.default_rng(number)
    times = np.sort(draw.integers(0, pace.file_us, pace.rows)) + START_US + number * pace.file_us
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "symbol": pa.array(np.array(SYMBOLS)[draw.integers(0, len(SYMBOLS), pace.rows)]),
            "price": np.round(draw.uniform(5, 500, pace.rows), 2),
            "volume": draw.integers(1, 10_000, pace.rows).astype(np.int32),
            "venue": pa.array(np.array(["N", "Q", "D"])[draw.integers(0, 3, pace.rows)]),
        }
    )
    path = folder / f"{number:08d}.parquet"
    draft = folder / f".{number:08d}.draft"
    pq.write_table(table, draft)
    draft.replace(path)
    return path


def stream(folder: Path) -> str:
    """Write the statement of the stream of a folder, one file a batch."""
    return (
        f"CREATE STREAM trades ({COLUMNS}) USING parquet OPTIONS (path = '{folder}', maxFilesPerTrigger = '1', "
        "max_ahead = '36500 d') WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
    )


def query(draw: random.Random, options: str = "") -> str:
    """Draw a query: windows, constants and groups vary, columns do not."""
    slide = draw.choice([10, 20, 30, 60])
    window = f"[RANGE {slide * draw.randint(1, 4)} s SLIDE {slide} s]"
    key, grouped = draw.choice([("", ""), ("", ""), ("symbol, ", " GROUP BY symbol")])
    value = draw.choice(["sum(price * volume) AS value", "max(price) AS high", "count(*) AS n, avg(price) AS mean"])
    where = draw.choice(["", f" WHERE volume > {draw.randint(1, 99) * 100}"])
    return f"SELECT {key}{value} FROM trades {window}{where}{grouped}{options}"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: in what kind of stretch it began, when, and how long its answers took."""

    stretch: str
    began: float
    seconds: float


@dataclass(slots=True)
class Watched:
    """The batches of a running stream, from the moment Spark hands one over until its answers are in the log."""

    stretch: str = "start"
    batches: list[Batch] = field(default_factory=list)
    at_work: Any = None

    def watch(self, at_work: Any) -> None:
        """Note every batch of a stream that has not been started yet."""
        self.at_work = at_work
        process: Callable[..., None] = at_work.process

        def noting(*arguments: Any, **options: Any) -> None:
            stretch, began = self.stretch, time.perf_counter()
            process(*arguments, **options)
            with at_work.pipeline.step():
                at_work.pipeline.drain()  # its answers may lag behind
            self.batches.append(Batch(stretch, began, time.perf_counter() - began))

        at_work.process = noting

    def seconds(self, stretch: str) -> list[float]:
        return [batch.seconds for batch in self.batches if batch.stretch == stretch]

    def wait_for(self, number: int, patience_s: float = 300.0) -> None:
        """Wait until so many more batches are done."""
        wanted, until = len(self.batches) + number, time.monotonic() + patience_s
        while len(self.batches) < wanted:
            if not self.at_work.running:
                self.at_work.stop()  # raises what stopped it
            if time.monotonic() > until:
                raise TimeoutError(f"no {number} batches within {patience_s:.0f} s")
            time.sleep(0.02)


class Coming:
    """A thread that lets files appear at an even pace, or as fast as they are read."""

    def __init__(self, folder: Path, pace: Pace, watched: Watched) -> None:
        self.folder, self.pace, self.watched = folder, pace, watched
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="files", daemon=True)

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(self.pace.every_seconds):
            read = len(self.watched.batches)
            if number - read < MOST_AHEAD:
                write_file(self.folder, number, self.pace)
                (self.folder / f"{read - KEPT_FILES:08d}.parquet").unlink(missing_ok=True)
                number += 1

    def __enter__(self) -> Coming:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


@contextmanager
def running(engine: Engine) -> Iterator[None]:
    """Run an engine in the background for a while."""
    engine.start()
    try:
        yield
    finally:
        engine.stop()
