"""Lets 500 queries of mixed cost fall due together at every midnight, and judges every answer.

A midnight is a batch: all slides are the same, so each batch makes a window of every query final at once. Queries ask
for so many groups as is drawn for them, evenly by magnitude: their costs differ up to a hundredfold, and no two need be
the same (Sharaf 2007, §3.7: costs and selectivities in some fifty classes).

*One midnight*: a batch is answered before the next one comes (:mod:`bench._live.replay` records that). *Midnights*: an
engine in the background has stood still for ``backlog`` midnights, whose batches are all there when it starts; from
then on they come at a steady pace, at which reading and answering each by itself takes ``load`` of the time, as
measured before. So while old windows wait, new ones become due, which is where policies differ: of work that came all
at once, those by rate and those by stretch have the same order (Sharaf 2007, §5). Every policy gets the same batches at
the same times. A query should be answered the sooner the less it asks for: its deadline is in proportion to its groups.

A query's slowdown is how long it waited for its answer after its window was final, over what one of its windows takes
by itself: the low quartile of its runs of one window, and what every group of answers takes, as the engine has learnt
it (Sharaf 2007, §3.1). This ideal time is one for all policies: it is known when all of them have run.
"""

from __future__ import annotations

import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from bench._live.neighbours import COLUMNS, Neighbourhood, write_file
from penstock.engine import Engine
from penstock.errors import StateError
from penstock.model.instants import wall_clock_us
from penstock.schedule.recorded import RecordedWindows, Recording
from penstock.sim.recorded_costs import by_group
from penstock.sinks.memory import MemorySink
from penstock.store.trace_files import read_trace

PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class Midnight:
    """How much is due."""

    rows: int = 6_000  # a batch
    symbols: int = 3_000
    queries: int = 500
    fewest: int = 30  # groups that a query asks for
    first: int = 4  # batches before the others: costs are learnt
    backlog: int = 6  # batches that are there at once: so many, that first come, first served keeps few deadlines
    beats: int = 10  # batches that come at a steady pace after these
    load: float = 0.95  # of the time between two, that each takes by itself
    patience: float = 2.0  # midnights until an answer of a mean number of groups is wanted
    batches: int = 8  # of a recording, the first ones included


SLIDE_S = 1  # of the stream's time: a midnight comes when its batch does
ASKED = "SELECT symbol, percentile(price, 0.9) AS p FROM trades {window} WHERE {where} GROUP BY symbol"


def groups(load: Midnight, seed: int = 1) -> list[int]:
    """Draw how many groups each query asks for, evenly by magnitude."""
    draw, most = random.Random(seed), min(load.symbols, 9_999)
    return [round(load.fewest * (most / load.fewest) ** draw.random()) for _ in range(load.queries)]


def queries(load: Midnight, midnight_s: float = 1.0, seed: int = 1) -> dict[str, str]:
    """Write queries of mixed cost, in any order; answering all of them once takes ``midnight_s``."""
    asked, draw, found = groups(load, seed), random.Random(seed + 1), dict[str, str]()
    mean = sum(asked) / len(asked)
    for number, many in enumerate(asked):
        window = f"[RANGE {SLIDE_S * draw.randint(1, 3)} s SLIDE {SLIDE_S} s]"
        text = ASKED.format(window=window, where=f"symbol < 'S{many:04d}'")
        soon_ms = max(1, round(1_000 * midnight_s * (0.25 + load.patience * many / mean)))
        found[f"q{number:04d}"] = f"{text} WITH (deadline = '{soon_ms} ms')"
    return found


# -- midnights -------------------------------------------------------------------------------------------------------


def midnight_s(session: SparkSession, load: Midnight) -> float:
    """Measure what a midnight takes by itself: the next batch comes when all is answered."""
    with run_folder() as folder, running(session, load, "Hybrid", folder) as engine:
        engine.start()
        took = list[float]()
        for number in range(load.first, load.first + load.backlog + 1):
            began = time.perf_counter()
            appear(folder, load, number)
            _wait_for(engine, number + 1)
            took.append(time.perf_counter() - began)
        engine.stop()
    return statistics.median(took)


@dataclass(frozen=True, slots=True)
class Ran:
    """What an engine did under one policy."""

    recording: Recording
    group_s: float  # what a group of answers takes beyond its windows, as the engine has learnt it


def midnights(engine: Engine, load: Midnight, folder: Path, policy: str, each_s: float) -> Ran:
    """Let batches come, and answer in the order of a policy; return what ran when.

    One run follows the other in the same engine, which has learnt what queries cost.
    """
    engine.set_policy(policy)
    next_file = files_so_far(folder)
    for number in range(load.backlog):
        appear(folder, load, next_file + number)
    since_us, began, pause = wall_clock_us(), time.perf_counter(), threading.Event()
    engine.start()
    for number in range(load.beats):
        pause.wait(max(0.0, began + (number + 1) * each_s / load.load - time.perf_counter()))
        appear(folder, load, next_file + load.backlog + number)
    _wait_for(engine, next_file + load.backlog + load.beats)
    engine.stop()
    recording = written(folder, since_us, load.queries * (load.backlog + load.beats))
    return Ran(recording, engine.stream("trades").pipeline.committer.order.groups.seconds)


def written(folder: Path, since_us: int, answers: int) -> Recording:
    """Read the trace once it tells of so many answers: it is written a moment after they are given."""
    until, pause = time.monotonic() + PATIENCE_S, threading.Event()
    while time.monotonic() < until:
        with suppress(StateError):  # nothing is written yet
            recording = read_trace(folder / "state", since_us)
            if sum(one.answers for one in recording.windows) >= answers:
                return recording
        pause.wait(0.1)
    raise TimeoutError("the trace does not tell of all answers")


def files_so_far(folder: Path) -> int:
    """Count the files of a run that have appeared."""
    return len(list((folder / "in").glob("*.parquet")))


def _wait_for(engine: Engine, batches: int) -> None:
    """Wait until so many batches have been read, and all that they made final is answered."""
    pipeline, pause = engine.stream("trades").pipeline, threading.Event()
    until = time.monotonic() + PATIENCE_S
    while pipeline.metrics.batches < batches or pipeline.committer.unanswered:
        if time.monotonic() > until:
            raise TimeoutError("the stream did not answer its last windows")
        pause.wait(0.02)


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder for one run."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-live-"))
    try:
        (folder / "in").mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running(session: SparkSession, load: Midnight, policy: str, folder: Path, each_s: float = 1.0) -> Iterator[Engine]:
    """Open an engine that has learnt what queries cost."""
    with opened(session, folder, policy) as engine:
        engine.create_queries(queries(load, each_s))
        for number in range(load.first):
            appear(folder, load, number)
            engine.process_available()
        yield engine


@contextmanager
def opened(session: SparkSession, folder: Path, policy: str) -> Iterator[Engine]:
    """Open an engine on the files of a folder."""
    with Engine(folder / "state", spark=session, sinks=[MemorySink()], policy=policy) as engine:
        engine.execute(
            f"CREATE STREAM trades ({COLUMNS}) USING parquet OPTIONS (path = '{folder / 'in'}', "
            "maxFilesPerTrigger = '1', max_ahead = '36500 d') WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
        )
        yield engine


def appear(folder: Path, load: Midnight, number: int) -> None:
    """Let a batch appear: it begins where the windows end that it makes final."""
    write_file(folder / "in", number, Neighbourhood(rows=load.rows, symbols=load.symbols))


def ideal_us(runs: Sequence[Ran]) -> dict[int, float]:
    """Return what answering a window of each query takes by itself, in microseconds, whatever the policy.

    Windows of a query that run together are cheaper, so only runs of the fewest windows count: of one, as a rule.
    """
    took: dict[int, dict[int, list[float]]] = {}
    for windows in (run.recording.windows for run in runs):
        for places in by_group(windows):
            for query, (number, spent_s) in _spent_by_query([windows[place] for place in places]).items():
                took.setdefault(query, {}).setdefault(number, []).append(1e6 * spent_s / number)
    group_us = 1e6 * statistics.median(run.group_s for run in runs)
    return {query: group_us + float(np.quantile(some[min(some)], 0.25)) for query, some in took.items()}


def _spent_by_query(group: Sequence[RecordedWindows]) -> dict[int, tuple[int, float]]:
    """Return how many windows of each query a group had, and what they took."""
    found: dict[int, tuple[int, float]] = {}
    for one in group:
        for query in one.queries:
            number, spent_s = found.get(query, (0, 0.0))
            found[query] = number + one.windows, spent_s + one.spent_s / len(one.queries)
    return found


def judged(recording: Recording, ideal: Mapping[int, float]) -> dict[str, float]:
    """Compare when each window was answered with what its query takes by itself, and with when it was wanted."""
    each = [(one, query) for one in recording.windows for query in one.queries for _ in range(one.windows)]
    slowdowns = np.array([max(1.0, (one.ended_us - one.final_us) / ideal[query]) for one, query in each])
    return {
        "answered": float(len(each)),
        "mean slowdown": round(float(slowdowns.mean()), 2),
        "maximum slowdown": round(float(slowdowns.max()), 2),
        "l2 slowdown": round(float(np.sqrt((slowdowns**2).sum())), 1),
        "kept": round(float(np.mean([one.ended_us <= one.due_us for one, _ in each])), 3),
    }
