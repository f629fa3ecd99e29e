"""Makes small versions of the other benchmarks, whose queries are alike, to compare strategies over them too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from bench._groupings.workloads import TRADE_KEYS, grouped_queries, trades
from bench._penstock import Setting
from bench._penstock import script as windows_script
from bench._plain import Source
from bench._predicates.market import write_exchange
from bench._predicates.queries import Drawing, Kind
from bench._predicates.running import script as predicates_script
from bench.windows import Workload as Windows
from penstock.spark.market import Market, write_trades

FILES: Final = 6
RATE: Final = 300.0  # trades a second
WINDOWS: Final = 256
PREDICATES: Final = 64
SAMPLE: Final = 2_000
KINDS: Final[tuple[Kind, ...]] = ("B", "C regular", "C low")


@dataclass(frozen=True, slots=True)
class Scripted:
    """Statements over a stream in files, one a batch."""

    name: str
    text: str
    stream: str
    files: int = FILES

    def script(self, names: Sequence[str] | None = None) -> str:
        """Return all statements; these queries run together only."""
        return self.text


def alike(session: SparkSession, folder: Path, rows: int, seed: int) -> Iterator[Scripted]:
    """Make the workloads one by one: windows alone, predicates of three kinds, and groupings of trades."""
    yield Scripted("256 windows", _windows(session, folder / "windows", rows, seed), "trades")
    exchange = write_exchange(session, folder / "exchange", rows, FILES, seed=seed, rate=RATE)
    questions = partial(Drawing(exchange.sample(SAMPLE, seed), seed).questions, number=PREDICATES)
    for kind in KINDS:
        yield Scripted(f"64 predicates, {kind}", predicates_script(exchange, questions(kind)), "trades")
    stream = trades(session, folder / "groupings", rows, FILES, seed)
    grouped = ";\n".join([stream.declared, *(query.statement for query in grouped_queries(TRADE_KEYS, 60))])
    yield Scripted("8 groupings of trades", grouped, "s")


def _windows(session: SparkSession, folder: Path, rows: int, seed: int) -> str:
    """Write trades, and windows over them."""
    market = Market(seed=seed, rows=rows, rate=RATE)
    write_trades(session, market, folder, FILES)
    source = Source(folder, FILES, rows, market.start_us // 1_000_000)
    return windows_script(source, Setting(Windows(seed=seed).windows(WINDOWS)))
