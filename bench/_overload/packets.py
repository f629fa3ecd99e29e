"""Lets packets of LBL-PKT-4 arrive in files while an engine runs, and computes counted work over them.

A tick is a file: the packets of a stretch of the trace are counted tick by tick, and each packet brings so many rows
(Babcock et al. 2004, §6.1.1, let a block of tuples come with each). The stretch with the trace's largest burst is used.
Work is counted in rounds of a hash, so it is the same everywhere; how long a tick lasts is measured first.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench._live.neighbours import FILES_FROM_S, SECOND_US, START_US
from penstock.engine import Engine
from penstock.model.instants import wall_clock_us
from penstock.schedule.recorded_operators import OperatorRecording
from penstock.sim.arrivals import lbl_pkt_4
from penstock.sinks.memory import MemorySink
from penstock.store.operator_trace import read_operators

LARGEST_BURST: Final = 8_000  # the packet with which the stretch begins that has the largest burst
COLUMNS: Final = "ts TIMESTAMP, id BIGINT, source STRING, size BIGINT, payload STRING"
PATIENCE_S: Final = 600.0
LOOK_S: Final = 0.05
SOURCES: Final = 10


def hashed(rounds: int, salt: int, payload: str) -> float:
    """Hash so often, and return a number from 0 to 1."""
    digest = f"{salt} {payload}".encode()
    for _ in range(rounds):
        digest = hashlib.sha256(digest).digest()
    return int.from_bytes(digest[:6], "little") / 2**48


def digested(rounds: int, payload: str) -> str:
    """Hash so often, and return a text."""
    digest = payload.encode()
    for _ in range(rounds):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()


@dataclass(frozen=True, slots=True)
class PacketArrivals:
    """What arrives: packets of the trace in so many ticks, each with so many rows."""

    packets: int = 800
    ticks: int = 20
    rows_of_packet: int = 5
    payload: int = 200  # characters of a row

    @property
    def rows(self) -> list[int]:
        """Count the rows of each tick."""
        times = lbl_pkt_4()[LARGEST_BURST : LARGEST_BURST + self.packets]
        counts, _ = np.histogram(times, bins=self.ticks)
        return [int(count) * self.rows_of_packet for count in counts]


@dataclass(slots=True)
class PacketFeed:
    """An engine that runs on a folder, and the files that have appeared in it."""

    engine: Engine
    folder: Path
    payload: int
    files: int = 0
    rows: int = 0
    last_us: int = START_US

    def appear(self, rows: int, seconds: int = 1) -> None:
        """Let a file appear, whole: a second of event time a tick. A tick without rows has no file."""
        first_us, number = START_US + self.files * SECOND_US, self.files
        self.files += seconds
        if not rows:
            return
        draw, times = np.random.default_rng(number), first_us + np.arange(rows) * seconds * SECOND_US // rows
        text = draw.bytes(rows * self.payload // 2).hex()
        payload = [text[at : at + self.payload] for at in range(0, rows * self.payload, self.payload)]
        table = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
                "id": np.arange(self.rows, self.rows + rows),
                "source": [f"host{one}" for one in draw.integers(0, SOURCES, rows)],
                "size": draw.integers(40, 1_500, rows),
                "payload": payload,
            }
        )
        draft = self.folder / "in" / f".{number:08d}.draft"
        pq.write_table(table, draft)
        os.utime(draft, (FILES_FROM_S + number, FILES_FROM_S + number))
        draft.replace(self.folder / "in" / f"{number:08d}.parquet")
        self.rows, self.last_us = self.rows + rows, int(times[-1])

    def run(self, rows: Sequence[int], tick_s: float) -> OperatorRecording:
        """Let files appear at an even pace, and wait until all is answered; return what ran."""
        since_us, before, began, pause = wall_clock_us(), self.rows, time.perf_counter(), threading.Event()
        self.engine.start()
        for number, some in enumerate(rows):
            pause.wait(max(0.0, began + number * tick_s - time.perf_counter()))
            self.appear(some)
        self.wait()
        self.engine.stop()
        return self.recorded(since_us, self.rows - before)

    @property
    def is_drained(self) -> bool:
        """Tell whether all rows have been read, and nothing waits."""
        pipeline = self.engine.stream("packets").pipeline
        waits = pipeline.continuous.operators.commits or pipeline.committer.unanswered
        return (pipeline.progress.clock.last_us or 0) >= self.last_us and not waits

    def wait(self) -> None:
        """Wait until all that has appeared is answered, seen at several looks: rows are queued after their commit."""
        until, seen, pause = time.monotonic() + PATIENCE_S, 0, threading.Event()
        while seen < 5:
            seen = seen + 1 if self.is_drained else 0
            if time.monotonic() > until:
                raise TimeoutError("the stream did not answer all of its rows")
            pause.wait(LOOK_S)

    def recorded(self, since_us: int, rows: int) -> OperatorRecording:
        """Read the trace once it tells of all rows: it is written a moment after they are answered."""
        until, pause = time.monotonic() + PATIENCE_S, threading.Event()
        while time.monotonic() < until:
            found = read_operators(self.folder / "state", since_us)
            if is_whole(found, rows):
                return found
            pause.wait(0.2)
        raise TimeoutError("the trace does not tell of all answers")


def is_whole(recording: OperatorRecording, rows: int) -> bool:
    """Tell whether every query of a recording has waited with so many rows, and has answered its commits."""
    first: dict[tuple[int, int, int], int] = {}
    for one in recording.steps:
        for query, wanted in zip(one.queries, one.wanted, strict=True):
            first.setdefault((query, one.commit, one.block), wanted)
    by_query: dict[int, int] = {}
    for (query, *_), wanted in first.items():
        by_query[query] = by_query.get(query, 0) + wanted
    answered = {(query, one.commit) for one in recording.answers for query in one.queries}
    return set(by_query.values()) == {rows} and {key[:2] for key in first} <= answered


@contextmanager
def packet_feed(session: SparkSession, queries: Mapping[str, str], payload: int, **told: Any) -> Iterator[PacketFeed]:
    """Open an engine with queries over packets, one worker for its functions, and nothing read."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-overload-"))
    try:
        (folder / "in").mkdir()
        with Engine(folder / "state", spark=session, sinks=[MemorySink()], **told) as engine:
            engine.streams.settings.desk.operators.slots = 1  # the papers' single processor
            engine.execute(
                f"CREATE STREAM packets ({COLUMNS}) USING parquet OPTIONS (path = '{folder / 'in'}', "
                "maxFilesPerTrigger = '1', max_ahead = '36500 d') WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
            )
            for function in (hashed, digested):
                engine.create_function(function.__name__, function, expensive=True)
            engine.create_queries(queries)
            yield PacketFeed(engine, folder, payload)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
