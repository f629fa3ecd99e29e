"""Lets hundreds of queries of very different cost fall due together again and again, and judges every answer.

*One midnight*: all slides are the same, and a batch is answered before the next one comes (:mod:`bench._live.replay`
records that). *Midnights*: slides differ, so that some queries are due with every batch and all of them now and then.
Batches come at a steady pace, and what is due takes as long as there is time, as measured before. So what is dear still
waits when cheap queries are due again, which is where policies differ: of work that came all at once, those by rate and
those by stretch have the same order (Sharaf 2007, §5).

A query's slowdown is how long it waited for its answer after its window was final, over what its own windows take by
themselves, the low quartile of its runs, and what every group of answers takes (Sharaf 2007, §3.1).
"""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from penstock.engine import Engine
from penstock.model.instants import wall_clock_us
from penstock.schedule.recorded import Recording
from penstock.sim.recorded_costs import RecordedCosts
from penstock.sinks.memory import MemorySink
from penstock.spark.market import Market, write_trades
from penstock.store.trace_files import read_trace

PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class Midnight:
    """How much is due."""

    rows: int = 100_000  # a batch: the shortest slide
    symbols: int = 3_000
    queries: int = 500
    batches: int = 6
    first: int = 3  # batches that are not counted: costs are learnt
    beats: int = 12  # batches that come at a steady pace, where slides differ
    load: float = 1.0  # what is due, over what there is time for


SLIDE_S = 600
SLIDES = (1, 2, 3, 6)  # in batches, where they differ: with every sixth batch, all queries are due
KINDS = (  # what a query asks, how many of a hundred ask it, and how soon they want it, in seconds
    ("SELECT count(*) AS n, avg(price) AS mean FROM trades {window} WHERE {where}", 50, 0.2),
    ("SELECT symbol, sum(volume) AS shares FROM trades {window} WHERE {where} GROUP BY symbol", 35, 0.8),
    ("SELECT symbol, percentile(price, 0.9) AS p FROM trades {window} WHERE {where} GROUP BY symbol", 15, 5.0),
)


def queries(load: Midnight, slides: Sequence[int] = (1,), seed: int = 1) -> dict[str, str]:
    """Draw queries of three kinds, in any order; ``slides`` are in batches."""
    draw, found = random.Random(seed), dict[str, str]()
    for number in range(load.queries):
        text, _, soon = draw.choices(KINDS, [share for _, share, _ in KINDS])[0]
        slide_s = SLIDE_S * draw.choice(slides)
        window = f"[RANGE {slide_s * draw.randint(1, 3)} s SLIDE {slide_s} s]"
        where = f"volume > {draw.randrange(0, 60_000, 100)}"
        asked = text.format(window=window, where=where)
        found[f"q{number:04d}"] = f"{asked} WITH (deadline = '{round(soon * 1_000)} ms')"
    return found


# -- midnights -------------------------------------------------------------------------------------------------------


@contextmanager
def midnight_files(session: SparkSession, load: Midnight) -> Iterator[list[Path]]:
    """Write the files of all batches, the same for all policies."""
    folder, count = Path(tempfile.mkdtemp(prefix="penstock-live-")), max(SLIDES) + load.beats
    try:
        market = Market(seed=1, rows=load.rows * count, symbols=load.symbols, rate=load.rows / SLIDE_S)
        yield write_trades(session, market, folder, count)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def beat_s(session: SparkSession, load: Midnight, files: Sequence[Path]) -> float:
    """Measure how far apart batches have to be for what is due to take ``load`` times as long as there is time.

    Batches that are all there at once are read and answered as fast as that goes, jobs beside answers.
    """
    with _folder() as folder, _running(session, load, files, "Hybrid", folder) as (engine, waiting):
        some, began = waiting[: max(SLIDES)], time.perf_counter()
        for file in some:
            _appear(file)
        engine.start()
        _wait_for(engine, max(SLIDES) + len(some))
        took = time.perf_counter() - began
        engine.stop()
    return took / len(some) / load.load


def midnights(
    session: SparkSession, load: Midnight, policy: str, files: Sequence[Path], every_s: float
) -> dict[str, float]:
    """Let batches come at a steady pace, and answer in the order of a policy; return what became of the windows."""
    with _folder() as folder:
        with _running(session, load, files, policy, folder) as (engine, waiting):
            since_us, began, pause = wall_clock_us(), time.perf_counter(), threading.Event()
            engine.start()
            for number, file in enumerate(waiting):
                pause.wait(max(0.0, began + number * every_s - time.perf_counter()))
                _appear(file)
            _wait_for(engine, len(files))
            engine.stop()
        return _judged(read_trace(folder / "state", since_us)) | {"seconds a batch": round(every_s, 3)}


def _wait_for(engine: Engine, batches: int) -> None:
    """Wait until so many batches have been read, and all that they made final is answered."""
    pipeline, pause = engine.stream("trades").pipeline, threading.Event()
    until = time.monotonic() + PATIENCE_S
    while pipeline.metrics.batches < batches or pipeline.committer.unanswered:
        if time.monotonic() > until:
            raise TimeoutError("the stream did not answer its last windows")
        pause.wait(0.02)


@contextmanager
def _folder() -> Iterator[Path]:
    """Make a folder for one run."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-live-"))
    try:
        (folder / "in").mkdir()
        (folder / "to come").mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(
    session: SparkSession, load: Midnight, files: Sequence[Path], policy: str, folder: Path
) -> Iterator[tuple[Engine, list[Path]]]:
    """Open an engine that has learnt what queries cost; the files that it has not read wait in another folder."""
    waiting = [Path(shutil.copy(file, folder / "to come" / file.name)) for file in files]
    with Engine(folder / "state", spark=session, sinks=[MemorySink()], policy=policy) as engine:
        engine.execute(
            f"CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT) USING parquet OPTIONS "
            f"(path = '{folder / 'in'}', maxFilesPerTrigger = '1', max_ahead = '36500 d') "
            "WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
        )
        engine.create_queries(queries(load, SLIDES))
        for file in waiting[: max(SLIDES)]:
            _appear(file)
            engine.process_available()
        yield engine, waiting[max(SLIDES) :]


def _appear(file: Path) -> None:
    """Let a file appear where the stream reads; those of later times are later."""
    file.touch()
    file.rename(file.parent.parent / "in" / file.name)


def _judged(recording: Recording) -> dict[str, float]:
    """Compare when each window was answered with what its query takes by itself, and with when it was wanted."""
    windows, group_us = recording.windows, RecordedCosts.of(recording).group_us
    took: dict[int, list[float]] = {}
    for one in windows:
        for query in one.queries:
            took.setdefault(query, []).append(1e6 * one.spent_s / one.answers)
    ideal = {query: max(1.0, group_us + float(np.quantile(some, 0.25))) for query, some in took.items()}
    each = [(one, query) for one in windows for query in one.queries for _ in range(one.windows)]
    slowdowns = np.array([max(1.0, (one.ended_us - one.final_us) / ideal[query]) for one, query in each])
    return {
        "answered": float(len(each)),
        "mean slowdown": round(float(slowdowns.mean()), 2),
        "maximum slowdown": round(float(slowdowns.max()), 2),
        "l2 slowdown": round(float(np.sqrt((slowdowns**2).sum())), 1),
        "kept": round(float(np.mean([one.ended_us <= one.due_us for one, _ in each])), 3),
    }
