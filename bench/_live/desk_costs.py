"""Measures what it costs to answer in order of urgency: in throughput, and in processor time of choosing.

*Throughput*: the same files are read and answered with the order of urgency, in the background, and with everything in
one go before the next batch, in turns, each time the other one first; Java is warm before. *Choosing*: what a thread
spends on describing, ordering and taking the windows of a thousand queries, noted where it happens, for each batch.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from bench._live.neighbours import COLUMNS
from penstock.engine import Engine
from penstock.spark.market import Market, write_trades
from penstock.stream import evaluation_order
from penstock.stream.pipeline import Pipeline

PATIENCE_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class DeskLoad:
    """How much is read, and how many ask."""

    rows: int = 200_000  # a batch
    batches: int = 14
    first: int = 2  # batches that are not counted: Java compiles, and costs are learnt
    windows: int = 64  # queries of the throughput
    queries: int = 1_000  # of the choosing
    turns: int = 7  # single ones differ by a fifth


def window_queries(number: int) -> dict[str, str]:
    """Write queries that differ in their windows only, as the benchmark of windows has them."""
    return {
        f"w{n:04d}": f"SELECT sum(volume) AS shares, max(price) AS high FROM trades [RANGE {30 + n} s SLIDE {5 + n} s]"
        for n in range(number)
    }


def condition_queries(number: int) -> dict[str, str]:
    """Write queries that differ in their conditions: each is a lane, though all are merged together."""
    return {
        f"c{n:04d}": f"SELECT count(*) AS n FROM trades [RANGE 60 s SLIDE 10 s] WHERE volume > {10 * n}"
        for n in range(number)
    }


class Spent:
    """Adds up the processor time of choosing, in whatever thread it happens."""

    def __init__(self, pipeline: Pipeline) -> None:
        """Stand before the methods by which a stream describes, orders and takes what waits."""
        self.seconds, self.calls = 0.0, 0
        self._inside = threading.local()
        unanswered: Any = pipeline.committer.unanswered
        for owner, name in ((unanswered, "add"), (unanswered, "take"), (unanswered.order, "first")):
            setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, do: Callable[..., Any]) -> Callable[..., Any]:
        """Time a method, but not what another timed one calls."""

        def timed(*arguments: Any, **options: Any) -> Any:
            if getattr(self._inside, "here", False):
                return do(*arguments, **options)
            self._inside.here, began = True, time.thread_time()
            try:
                return do(*arguments, **options)
            finally:
                self.seconds, self._inside.here = self.seconds + time.thread_time() - began, False
                self.calls += 1

        return timed


@contextmanager
def desk_files(session: SparkSession, load: DeskLoad) -> Iterator[list[Path]]:
    """Write the files of all batches, the same for all runs."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-live-"))
    try:
        market = Market(seed=1, rows=load.rows * load.batches, symbols=100, rate=load.rows / 10)
        yield write_trades(session, market, folder, load.batches)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def throughput(session: SparkSession, load: DeskLoad, files: Sequence[Path], *, ordered: bool) -> float:
    """Return the rows a second that are read and answered."""
    usual = evaluation_order.GROUP_S
    vars(evaluation_order)["GROUP_S"] = usual if ordered else math.inf
    try:
        seconds, _ = _run(session, load, window_queries(load.windows), files, lags=ordered)
    finally:
        vars(evaluation_order)["GROUP_S"] = usual
    return load.rows * (load.batches - load.first) / seconds


def choosing(session: SparkSession, load: DeskLoad) -> dict[str, float]:
    """Return the processor time of choosing for a batch of a thousand queries, in milliseconds."""
    few = DeskLoad(load.rows // 10, load.batches + 2, load.first + 2)  # the first two files make no window final
    with desk_files(session, few) as files:
        _, spent = _run(session, few, condition_queries(load.queries), files, lags=True)
    batches = few.batches - few.first
    return {"milliseconds a batch": round(1e3 * spent.seconds / batches, 3), "calls a batch": spent.calls / batches}


def _run(
    session: SparkSession, load: DeskLoad, queries: dict[str, str], files: Sequence[Path], *, lags: bool
) -> tuple[float, Spent]:
    """Read the files that are counted, all there at once, until all is answered; return the seconds."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-live-"))
    try:
        (folder / "in").mkdir()
        with Engine(folder / "state", spark=session) as engine:
            engine.execute(
                f"CREATE STREAM trades ({COLUMNS}) USING parquet OPTIONS (path = '{folder / 'in'}', "
                "maxFilesPerTrigger = '1', max_ahead = '36500 d') WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
            )
            engine.create_queries(queries)
            for file in files[: load.first]:
                os.link(file, folder / "in" / file.name)
                engine.process_available()
            for file in files[load.first :]:
                os.link(file, folder / "in" / file.name)
            pipeline = engine.stream("trades").pipeline
            spent, began = Spent(pipeline), time.perf_counter()
            engine.start()
            engine.stream("trades").let_answers_lag(may=lags)
            _wait_for(pipeline, load.batches)
            engine.stop()
            return time.perf_counter() - began, spent
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(pipeline: Pipeline, batches: int) -> None:
    """Wait until so many batches have been read."""
    until = time.monotonic() + PATIENCE_S
    while pipeline.metrics.batches < batches:
        if time.monotonic() > until:
            raise TimeoutError("the stream did not read its last file")
        time.sleep(0.002)
