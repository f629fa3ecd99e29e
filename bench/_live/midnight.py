"""Lets hundreds of queries of very different cost fall due together, and notes when each is answered.

A query's slowdown is how long it waited for its answer after its window was final, over what its own windows take by
themselves, as the engine has measured it, and what every answer takes until it is in a sink (Sharaf 2007, §3.1).
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from bench._noting import NotingMemory
from penstock.engine import Engine
from penstock.spark.market import Market, write_trades


@dataclass(frozen=True, slots=True)
class Midnight:
    """How much is due."""

    rows: int = 100_000  # a batch: one slide of all queries
    symbols: int = 3_000
    queries: int = 500
    batches: int = 6
    first: int = 3  # batches that are not counted: costs are learnt


SLIDE_S = 600
KINDS = (  # what a query asks, how many of a hundred ask it, and how soon they want it, in seconds
    ("SELECT count(*) AS n, avg(price) AS mean FROM trades {window} WHERE {where}", 50, 0.2),
    ("SELECT symbol, sum(volume) AS shares FROM trades {window} WHERE {where} GROUP BY symbol", 35, 0.8),
    ("SELECT symbol, percentile(price, 0.9) AS p FROM trades {window} WHERE {where} GROUP BY symbol", 15, 5.0),
)


def queries(load: Midnight, seed: int = 1) -> dict[str, str]:
    """Draw queries of three kinds, in any order."""
    draw, found = random.Random(seed), dict[str, str]()
    for number in range(load.queries):
        text, _, soon = draw.choices(KINDS, [share for _, share, _ in KINDS])[0]
        window = f"[RANGE {SLIDE_S * draw.randint(1, 3)} s SLIDE {SLIDE_S} s]"
        where = f"volume > {draw.randrange(0, 60_000, 100)}"
        asked = text.format(window=window, where=where)
        found[f"q{number:04d}"] = f"{asked} WITH (deadline = '{round(soon * 1_000)} ms')"
    return found


def midnight(session: SparkSession, load: Midnight, policy: str) -> dict[str, float]:
    """Answer some batches in the order of a policy; return what became of the queries of the last ones."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-live-"))
    came: list[tuple[float, Sequence[str]]] = []

    def note(number: int, tables: Sequence[pa.Table]) -> None:
        names = sorted({name for table in tables for name in table["query_name"].unique().to_pylist()})
        came.append((time.time(), names))

    try:
        (folder / "in").mkdir()
        market = Market(seed=1, rows=load.rows * load.batches, symbols=load.symbols, rate=load.rows / SLIDE_S)
        files = write_trades(session, market, folder / "made", load.batches)
        slowdowns: list[float] = []
        kept: list[bool] = []
        with Engine(spark=session, sinks=[NotingMemory(note)], policy=policy) as engine:
            engine.execute(
                f"CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT) USING parquet OPTIONS "
                f"(path = '{folder / 'in'}', max_ahead = '36500 d') WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
            )
            engine.create_queries(queries(load))
            for number, file in enumerate(files):
                file.rename(folder / "in" / file.name)
                came.clear()
                engine.process_available()
                if number >= load.first:
                    _judge(engine, came, slowdowns, kept)
        each = np.array(slowdowns)
        return {
            "answered": float(len(each)),
            "mean slowdown": round(float(each.mean()), 2),
            "maximum slowdown": round(float(each.max()), 2),
            "l2 slowdown": round(float(np.sqrt((each**2).sum())), 1),
            "kept": round(float(np.mean(kept)), 3),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _judge(
    engine: Engine, came: Sequence[tuple[float, Sequence[str]]], slowdowns: list[float], kept: list[bool]
) -> None:
    """Compare when each query was answered with what it takes by itself, and with when it was wanted."""
    unanswered = engine.stream("trades").pipeline.committer.unanswered
    responses = [(at - unanswered.added_us / 1e6, names) for at, names in came]
    least = min(response for response, _ in responses)  # log, thread and sink, which every answer takes
    for response, names in responses:
        for name in names:
            definition = engine.catalog.query(name)
            alone = unanswered.order.costs.measured(definition.id)
            if alone is not None:
                slowdowns.append(max(1.0, response / (least + alone)))
                kept.append(response <= unanswered.order.queries.wanted(definition)[1] / 1e6)
