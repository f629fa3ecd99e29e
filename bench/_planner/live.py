"""A workload and a strategy in, seconds of a live run out; and what the cost model says of the same plans."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.engine import Engine
from penstock.model.strategy import Strategy
from penstock.share.plan import plan_queries
from penstock.share.weave.board import Board
from penstock.share.weave.costs import Rates
from penstock.share.weave.queries import Numbers, Standing
from penstock.spark.generator import Market, write_trades

SYMBOLS = 3_000


@dataclass(frozen=True, slots=True)
class Live:
    """Trades in files, and queries over them."""

    name: str
    folder: Path
    rows: int
    rate: float  # rows a second of event time
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run took, the trees it ended with, and what the cost model says of its plan, in seconds."""

    seconds: float
    trees: int
    predicted: float


def write(session: SparkSession, scratch: Path, name: str, rows: int, rate: float, queries: Sequence[str]) -> Live:
    """Generate the trades of a workload."""
    folder = scratch / name
    write_trades(session, Market(rows=rows, rate=rate, symbols=SYMBOLS), folder, 4)
    return Live(name, folder, rows, rate, tuple(queries))


def run(session: SparkSession, live: Live, strategy: Strategy, rates: Rates) -> Ran:
    """Process all trades once, from a fresh engine; the time is that of the batches."""
    scratch = tempfile.TemporaryDirectory(prefix="penstock-bench-")
    with scratch as folder, Engine(Path(folder) / "state", spark=session, strategy=strategy) as engine:
        engine.execute(
            "CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT) USING parquet "
            f"OPTIONS (path = '{live.folder}', maxFilesPerTrigger = '1') WATERMARK FOR ts"
        )
        engine.execute(";\n".join(f"CREATE QUERY q{i} AS {text}" for i, text in enumerate(live.queries)))
        pipeline = engine.stream("trades").pipeline
        began = time.perf_counter()
        engine.process_available(flush=True)
        seconds = time.perf_counter() - began
        assert pipeline.layout is not None
        standing = Standing(pipeline.weaving.seen(), rates, dict(pipeline.weaving.trees))
        return Ran(seconds, len(pipeline.layout.plan.trees), predicted(engine, strategy, standing, live))


def predicted(engine: Engine, strategy: Strategy, standing: Standing, live: Live) -> float:
    """Return what the cost model says of a plan: rows read, and its trees for the length of the stream."""
    definitions = engine.catalog.definitions("trades")
    woven = standing.woven(definitions) if strategy == "weave" else None
    plan = plan_queries(definitions, strategy, 0, None, woven)
    numbers = Numbers()
    place = {d.id: i for i, d in enumerate(plan.definitions)}
    strands = [numbers.strand(d) for d in plan.definitions]
    trees = [[place[d.id] for d in tree.definitions] for tree in plan.trees]
    cost = Board(strands, numbers.costs(standing.rates, standing.seen), trees).woven().cost
    return live.rows * standing.rates.scanned + cost * live.rows / live.rate


def shards(count: int, windows: Sequence[tuple[int, int]]) -> list[str]:
    """Write K06's workload C: √n windows × √n predicates, here by symbol."""
    each = round(count**0.5)
    volumes = [100 * (i + 1) for i in range(each)]
    return [
        f"SELECT symbol, sum(price * volume) AS value FROM trades [RANGE {r} s SLIDE {s} s] "
        f"WHERE volume > {v} GROUP BY symbol"
        for r, s in windows[:each]
        for v in volumes
    ]


def acqs(windows: Sequence[tuple[int, int]]) -> list[str]:
    """Write W11's workload: queries that differ in their windows alone."""
    return [f"SELECT sum(price * volume) AS value FROM trades [RANGE {r} s SLIDE {s} s]" for r, s in windows]


def mixed(count: int) -> list[str]:
    """Write what dashboards ask: totals every few seconds, and every symbol every few minutes."""
    totals = [f"SELECT sum(volume) AS x FROM trades [RANGE {10 + i} s SLIDE {1 + i % 5} s]" for i in range(count // 2)]
    return totals + [
        f"SELECT symbol, sum(volume) AS x FROM trades [RANGE {20 + i} MIN SLIDE {10 + 5 * (i % 3)} MIN] GROUP BY symbol"
        for i in range(count - count // 2)
    ]
