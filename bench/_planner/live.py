"""Runs a workload live under a sharing strategy, and compares its time with the cost model's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from penstock.calibrate import let_come
from penstock.engine import Engine
from penstock.evaluate.typed import Definition
from penstock.model.strategy import Strategy
from penstock.share.weave.costs import MeasuredCosts, Rates
from penstock.share.weave.plan_queries import PlanQuery
from penstock.share.weave.queries import Numbers, ObservedLoad
from penstock.share.weave.tree_costs import beside
from penstock.spark.market import Market, write_trades

SYMBOLS = 3_000
STEPS = ("plan", "job", "ingest", "commit", "answer")
FILES = 8  # a batch each
LEAD = 2  # batches before any is timed: trees are chosen by what the first one tells, and taken over in the second
SELDOM_S = 1_000  # slides from which queries of the mixed workload ask for every symbol


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
    """What one run took, by step too, the trees it ended with, and what the cost model says of its plan, in seconds.

    ``second`` is the batch in which trees that were chosen are taken over.
    """

    seconds: float
    second: float
    steps: dict[str, float]
    partials: int
    trees: int
    predicted: float


@dataclass(frozen=True, slots=True)
class Pricing:
    """Queries as the cost model sees them once their stream is known."""

    live: Live
    rates: Rates
    definitions: tuple[Definition, ...]
    woven_queries: tuple[PlanQuery, ...]
    costs: MeasuredCosts

    def whole(self, cost: float, trees: int = 1) -> float:
        """Return the seconds of all batches that are timed: rows read, batches, and what trees cost meanwhile."""
        rows, plain = (
            self.live.rows * (FILES - LEAD) / FILES,
            trees == 1 and len({s.lane for s in self.woven_queries}) == 1,
        )
        each = self.rates.whatever(len(self.woven_queries), plain=plain)
        return rows * self.rates.scanned + (FILES - LEAD) * each + cost * rows / self.live.rate


def write(session: SparkSession, scratch: Path, name: str, rows: int, rate: float, queries: Sequence[str]) -> Live:
    """Generate the trades of a workload."""
    folder = scratch / name
    write_trades(session, Market(rows=rows, rate=rate, symbols=SYMBOLS), folder, FILES)
    return Live(name, folder, rows, rate, tuple(queries))


def opened(session: SparkSession, live: Live, strategy: Strategy, folder: Path) -> Engine:
    """Open a fresh engine with the queries of a workload, over the files of a folder."""
    engine = Engine(spark=session, strategy=strategy)
    engine.execute(
        "CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT) USING parquet "
        f"OPTIONS (path = '{folder}', maxFilesPerTrigger = '1') WATERMARK FOR ts"
    )
    engine.execute(";\n".join(f"CREATE QUERY q{i} AS {text}" for i, text in enumerate(live.queries)))
    return engine


def run(session: SparkSession, live: Live, strategy: Strategy, rates: Rates) -> Ran:
    """Process all trades once, from a fresh engine; the time is that of all batches but the first two."""
    with (
        TemporaryDirectory(prefix="penstock-bench-") as scratch,
        opened(session, live, strategy, Path(scratch)) as engine,
    ):
        files = sorted(live.folder.glob("*.parquet"))
        let_come(engine, files[:1], Path(scratch))
        pipeline = engine.stream("trades").pipeline
        pipeline.weaving.wait()
        second = let_come(engine, files[1:LEAD], Path(scratch))
        pipeline.weaving.wait()
        before = {name: getattr(pipeline.metrics, name) for name in (*STEPS, "partials")}
        seconds = let_come(engine, files[LEAD:], Path(scratch))
        done = {name: getattr(pipeline.metrics, name) - was for name, was in before.items()}
        assert pipeline.layout is not None
        trees = [[d.id for d in tree.definitions] for tree in pipeline.layout.plan.trees]
        told = predicted(_priced(engine, live, rates, pipeline.weaving.seen()), trees)
        return Ran(seconds, second, {name: done[name] for name in STEPS}, int(done["partials"]), len(trees), told)


def predicted(pricing: Pricing, trees: Sequence[Sequence[int]]) -> float:
    """Return what the cost model says of trees of definitions, in seconds of a run."""
    place = {d.id: i for i, d in enumerate(pricing.definitions)}
    rows = [[place[number] for number in tree] for tree in trees]
    return pricing.whole(beside(pricing.woven_queries, pricing.costs, rows).woven().cost, len(trees))


def pricing(session: SparkSession, live: Live, rates: Rates) -> Pricing:
    """Run a workload in one tree, and price its queries by what its stream was seen to bring."""
    with opened(session, live, "shared paired", live.folder) as engine:
        engine.process_available()
        return _priced(engine, live, rates, engine.stream("trades").pipeline.weaving.seen())


def _priced(engine: Engine, live: Live, rates: Rates, seen: ObservedLoad) -> Pricing:
    """See the queries of an engine as the cost model does."""
    definitions, numbers = tuple(engine.catalog.definitions("trades")), Numbers()
    woven_queries = tuple(numbers.woven_query(d) for d in definitions)
    return Pricing(live, rates, definitions, woven_queries, numbers.costs(rates, seen))


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


def mixed(windows: Sequence[tuple[int, int]]) -> list[str]:
    """Write W11's workload with its §5.3, different group-by attributes: every symbol seldom, totals often."""
    return [
        f"SELECT symbol, sum(price * volume) AS value FROM trades [RANGE {r} s SLIDE {s} s] GROUP BY symbol"
        if s >= SELDOM_S
        else f"SELECT sum(price * volume) AS value FROM trades [RANGE {r} s SLIDE {s} s]"
        for r, s in windows
    ]
