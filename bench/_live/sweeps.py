"""Lets 240 percentiles of eight synopses fall behind, and counts what each technique of running together makes of it.

The workload of Golab, Bijay and Özsu (2006, §5.1): eight groups of 30 queries, each group over one synopsis, windows of
20 to 100 updates, slides from one update to half of the window. All ask for fresh answers: a slide is an upper bound.
Updates come one after the other; between two of them, evaluations may merge so many partials and no more, which is less
than answering everything takes. So counts do not depend on the machine: what is measured is who answers most.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from pyspark.sql import SparkSession

from penstock.engine import Engine
from penstock.kernel.pending import Pending
from penstock.model.duration import SECOND
from penstock.schedule.live_policy import live_policy_named
from penstock.schedule.running_together import synchronization_named
from penstock.spark.market import Market, write_trades
from penstock.stream.pipeline import Pipeline
from penstock.stream.query_windows import QueryWindows
from penstock.stream.unanswered import UnansweredWindows

GROUPS: Final = 8
TECHNIQUES: Final = ("No-S", "AS", "CS", "HS", "H-LS", "H-LP", "C-LP")
# Who answers more than whom (Golab, Bijay and Özsu 2006, Figures 5 and 7). C-LP, the default, is not in the paper.
PAPERS_ORDER: Final = (("CS", "No-S"), ("HS", "CS"), ("AS", "HS"), ("H-LS", "CS"), ("H-LP", "CS"), ("H-LP", "HS"))
KERNELS: Final[dict[str, tuple[Literal["fast", "scan"], str]]] = {
    "state lanes": ("fast", "approx_percentile(price, {rank}, 100) AS p"),
    "scan kernel": ("scan", "percentile(price, {rank}) AS p"),
}


@dataclass(frozen=True, slots=True)
class SweptQueries:
    """How much is asked for, and how much may be done."""

    queries: int = 240
    updates: int = 200  # synopses are updated once a second
    rows: int = 30_000
    symbols: int = 10
    share: float = 0.35  # of what No-S would merge to keep up, that may be merged


def queries(load: SweptQueries, asked: str, seed: int = 1) -> dict[str, str]:
    """Draw windows and slides as the paper does; a group is a condition, and its queries ask for one of three ranks."""
    draw, found = np.random.default_rng(seed), dict[str, str]()
    for number in range(load.queries):
        reach = int(draw.integers(20, 101))
        slide, rank = int(draw.integers(1, reach // 2 + 1)), (0.5, 0.9, 0.99)[number // GROUPS % 3]
        window, where = f"[RANGE {reach} s SLIDE {slide} s]", f"volume > {100 * (number % GROUPS)}"
        found[f"q{number:03d}"] = (
            f"SELECT symbol, {asked.format(rank=rank)} FROM trades {window} WHERE {where} GROUP BY symbol "
            "WITH (emit = 'fresh', deadline = '1 s')"
        )
    return found


def sweeps(session: SparkSession, load: SweptQueries, name: str) -> dict[str, dict[str, float]]:
    """Run every technique over the same synopses; return what became of the queries."""
    kernel, asked = KERNELS[name]
    found, budget = dict[str, dict[str, float]](), 0.0
    for alike in _with_the_same_periods():
        with _filled(session, load, kernel, queries(load, asked), alike[0]) as pipeline:
            due = [_due(pipeline, update) for update in range(1, load.updates + 1)]
            if not budget:
                whole = _run(pipeline, load, due, "No-S", float("inf"))
                budget = load.share * whole["operations"] / load.updates
            found |= {technique: _run(pipeline, load, due, technique, budget) for technique in alike}
    return {technique: found[technique] for technique in TECHNIQUES}


def _with_the_same_periods() -> list[list[str]]:
    """Put techniques together that choose the same periods: they read the same slices. No-S is among the first."""
    found: dict[object, list[str]] = {}
    for name in TECHNIQUES:
        found.setdefault(synchronization_named(name).periods, []).append(name)
    return list(found.values())


@contextmanager
def _filled(
    session: SparkSession, load: SweptQueries, kernel: Literal["fast", "scan"], asked: dict[str, str], periods: str
) -> Iterator[Pipeline]:
    """Fill the synopses in one batch, cut as the periods of a technique need; no window is final until it is said."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-live-"))
    try:
        market = Market(seed=1, rows=load.rows, symbols=load.symbols, rate=load.rows / load.updates)
        write_trades(session, market, folder / "in", 1)
        with Engine(spark=session, kernel=kernel, strategy="shared paired", synchronize=periods) as engine:
            engine.execute(
                f"CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT) USING parquet OPTIONS "
                f"(path = '{folder / 'in'}', max_ahead = '36500 d') WATERMARK FOR ts AS ts - INTERVAL 1 HOUR"
            )
            engine.create_queries(asked)
            engine.process_available()
            yield engine.stream("trades").pipeline
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _due(pipeline: Pipeline, update: int) -> list[Pending]:
    """List the windows that an update makes final."""
    layout, first_us = pipeline.layout, pipeline.progress.clock.first_us
    assert layout is not None
    assert first_us is not None
    return pipeline.due_windows.due(layout, first_us - first_us % SECOND + update * SECOND)


def _run(
    pipeline: Pipeline, load: SweptQueries, due: list[list[Pending]], technique: str, budget: float
) -> dict[str, float]:
    """Update so many times; after each update, run what the technique says until the budget is spent."""
    now, synopsis, answering = 0, pipeline.synopsis, pipeline.committer.answering
    policy, sharing = live_policy_named("EDF"), synchronization_named(technique)
    windows = QueryWindows(pipeline.progress.clock)
    waiting = UnansweredWindows(answering, lambda: policy, lambda: sharing, lambda: now, windows)
    began, first, answered, late, spent = time.process_time(), synopsis.final_operations, 0, 0, 0.0
    last: dict[int, int] = {}
    for update, final in enumerate(due, 1):
        now, spent = update * SECOND, max(0.0, spent - budget)
        waiting.add(final)
        while waiting and spent < budget:
            before, keys = synopsis.final_operations, list(waiting.items)
            place = waiting.order.first([waiting.items[key] for key in keys])[0]
            taken = waiting.take([keys[place]])
            answering.answer([one.due() for one in taken])
            spent += synopsis.final_operations - before
            for one in taken:
                number, slide = one.definition.id, one.definition.asked.slide // SECOND
                late += max(0, update - last.get(number, 0) - slide)
                last[number], answered = update, answered + 1
    operations, seconds = synopsis.final_operations - first, time.process_time() - began
    return {
        "answers": float(answered),
        "operations": float(operations),
        "operations an answer": round(operations / max(1, answered), 1),
        "milliseconds an answer": round(1_000 * seconds / max(1, answered), 3),
        "late": round(late / max(1, answered), 2),
    }
