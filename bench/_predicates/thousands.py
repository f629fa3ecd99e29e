"""Runs five thousand queries at once in small batches, checks answers, and times one query more.

The files come one at a time. After batches without additions, a query with a new constant over columns in use is
entered before every sixth batch; the last two batches before each addition are the quiet ones it is compared with.
A plan that has just changed runs interpreted for a while (decision 0016), so the batches between are told apart.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from bench._frame import scratch_folder
from bench._living import Watched
from bench._predicates.market import Exchange
from bench._predicates.oracle import oracle
from bench._predicates.queries import Drawing, Question, crossed
from bench._predicates.running import Left, differences, read_answers, script, steps_of, work_of
from penstock.engine import Engine

APART: Final = 6  # batches from one addition to the next
QUIET: Final = 2  # of them, at the end


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many queries, batches and additions."""

    windows: int = 50
    predicates: int = 100
    batch_rows: int = 20_000
    warm_batches: int = 8
    additions: int = 20
    compared: int = 50

    @property
    def batches(self) -> int:
        return self.warm_batches + self.additions * APART


@dataclass(slots=True)
class Found:
    """What the run of a crowd showed."""

    watched: Watched = field(default_factory=Watched)
    creating_seconds: float = 0.0
    entering_seconds: list[float] = field(default_factory=list)  # of each addition, until it was acknowledged
    differing: list[str] = field(default_factory=list)
    compared: int = 0
    answers: int = 0
    steps: dict[str, float] = field(default_factory=dict)
    work: dict[str, int | None] = field(default_factory=dict)


def live_with_thousands(
    session: SparkSession, exchange: Exchange, drawing: Drawing, crowd: Crowd, say: Callable[[str], None]
) -> dict[str, Any]:
    """Run the crowd over the files, one a batch; the answers of a sample must be the oracle's."""
    predicates = drawing.predicates(crowd.predicates + crowd.additions)
    windows = drawing.windows(crowd.windows)
    questions = crossed(windows, predicates[: crowd.predicates])
    more = [Question(windows[n % len(windows)], p) for n, p in enumerate(predicates[crowd.predicates :])]
    found = Found()
    with scratch_folder() as scratch:
        coming = scratch / "coming"
        coming.mkdir()
        with Engine(scratch / "state", spark=session) as engine:
            began = time.perf_counter()
            engine.execute(script(exchange, questions, coming))
            found.creating_seconds = time.perf_counter() - began
            say(f"{len(questions):,} queries created in {found.creating_seconds:.1f} s")
            found.watched.watch(engine.stream("trades"))
            left = Left().watch(engine.stream("trades").pipeline)
            _feed(engine, exchange, coming, crowd, more, found, say)
            engine.process_available(flush=True)
            pipeline = engine.stream("trades").pipeline
            found.answers, found.steps = pipeline.metrics.answers, steps_of(pipeline)
            found.work = left.described() | work_of(pipeline)
            _compare(engine, exchange, questions, crowd, found)
    say(f"{found.compared} answers of {crowd.compared} queries compared, {len(found.differing)} differ")
    return _described(crowd, len(questions), found)


def _feed(
    engine: Engine,
    exchange: Exchange,
    coming: Path,
    crowd: Crowd,
    more: list[Question],
    found: Found,
    say: Callable[[str], None],
) -> None:
    """Let the files come, and enter a query before some of them."""
    watched = found.watched
    for number, path in enumerate(exchange.paths()):
        addition, place = divmod(number - crowd.warm_batches, APART)
        watched.stretch = "warm" if number < crowd.warm_batches else _stretch(place)
        if number >= crowd.warm_batches and place == 0:
            began = time.perf_counter()
            engine.create_query(f"more{addition}", str(more[addition]))
            found.entering_seconds.append(time.perf_counter() - began)
        (coming / path.name).hardlink_to(path)
        engine.process_available()
        if number % 20 == 0:
            say(f"batch {number + 1} of {exchange.files}: {watched.batches[-1].seconds:.3f} s ({watched.stretch})")


def _stretch(place: int) -> str:
    """Name what a batch is, by its place after an addition."""
    return "added" if place == 0 else "quiet" if place >= APART - QUIET else "after"


def _compare(engine: Engine, exchange: Exchange, questions: tuple[Question, ...], crowd: Crowd, found: Found) -> None:
    """Compare a sample of the queries with the oracle."""
    chosen = random.Random(crowd.windows).sample(range(len(questions)), min(crowd.compared, len(questions)))
    right = oracle(exchange, [questions[n] for n in chosen])
    for number, theirs in zip(chosen, right, strict=True):
        ours = read_answers(engine.results(f"q{number}"))
        found.compared += len(theirs)
        found.differing += [f"q{number}, {text}" for text in differences(ours, theirs)]


def _described(crowd: Crowd, queries: int, found: Found) -> dict[str, Any]:
    """Sum up."""
    watched = found.watched
    quiet = statistics.median(watched.seconds("quiet"))
    added, after = watched.seconds("added"), watched.seconds("after")
    return {
        "queries": queries,
        "creating_seconds": round(found.creating_seconds, 2),
        "answers": found.answers,
        "queries_compared": min(crowd.compared, queries),
        "answers_compared": found.compared,
        "differing": found.differing[:10],
        "batches": len(watched.batches),
        "batch_rows": crowd.batch_rows,
        "quiet_batch_seconds": round(quiet, 4),
        "batch_after_addition_seconds": [round(s, 4) for s in added],
        "batches_following_seconds": round(statistics.median(after), 4),
        "entering_seconds": round(statistics.median(found.entering_seconds), 4),
        "extra_ms": round(1000 * (statistics.median(added) - quiet), 1),
        "steps": found.steps,
        "work": found.work,
    }
