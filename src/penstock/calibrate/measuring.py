"""Short runs over generated trades come in; the rates that their times are made of go out, by differences."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.engine import Engine
from penstock.model.strategy import Strategy
from penstock.share.weave.costs import DEFAULT_RATES, Rates
from penstock.spark.generator import Market, write_trades

FILES: Final = 4
MANY: Final = 8  # trees or groupings, against one
SYMBOLS: Final = 1_000
NODES: Final = 2 * math.log2(2 * 20 * 60 / 7)  # of a tree, merged for a range of 20 min cut twice every 7 s
LEAST: Final = 1e-10  # seconds: a difference lost in noise
ONE: Final = ("SELECT sum(volume) AS x FROM trades [RANGE 10 MIN SLIDE 10 MIN]",)
TREES: Final = tuple(f"SELECT sum(volume) AS x FROM trades [RANGE {7 + i} MIN SLIDE {7 + i} MIN]" for i in range(MANY))
GROUPINGS: Final = tuple(
    f"SELECT volume % {2 + i} AS g, sum(volume) AS x FROM trades [RANGE 10 MIN SLIDE 10 MIN] GROUP BY volume % {2 + i}"
    for i in range(MANY)
)
FEW_PARTIALS: Final = ("SELECT symbol, sum(volume) AS x FROM trades [RANGE 20 MIN SLIDE 20 MIN] GROUP BY symbol",)
MANY_PARTIALS: Final = ("SELECT symbol, sum(volume) AS x FROM trades [RANGE 20 MIN SLIDE 7 s] GROUP BY symbol",)
MERGED: Final = ("SELECT symbol, max(price) AS x FROM trades [RANGE 20 MIN SLIDE 7 s] GROUP BY symbol",)


@dataclass(frozen=True, slots=True)
class Took:
    """What a run took, in seconds by step, and how much it made."""

    job: float
    store: float
    answer: float
    partials: int
    answers: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """The rates found, and the runs they were found by."""

    rates: Rates
    rows: int
    runs: dict[str, Took] = field(default_factory=dict)

    def __str__(self) -> str:
        """Print the rates in nanoseconds."""
        steps = {
            "a row read": self.rates.scanned,
            "a row placed in its slice, a tree": self.rates.sliced,
            "a row copied and aggregated, a grouping": self.rates.copied,
            "a partial made, sent and stored": self.rates.partial,
            "a partial merged": self.rates.merged,
            "a window of a group answered": self.rates.evaluation,
        }
        return "\n".join(f"{name:42} {seconds * 1e9:10,.1f} ns" for name, seconds in steps.items())


def calibrate(rows: int, repetitions: int, say: Callable[[str], None]) -> Calibration:
    """Run the engine over generated trades in several ways, and take the differences apart."""
    with tempfile.TemporaryDirectory(prefix="penstock-calibrate-") as scratch:
        with Engine() as engine:
            say(f"generating {rows:,} trades")
            market = Market(rows=rows, rate=rows / 3600, symbols=SYMBOLS, zipf=0.5)
            write_trades(engine.session, market, Path(scratch) / "trades", FILES)
        ways: dict[str, tuple[Sequence[str], Strategy]] = {
            "one query": (ONE, "shared paired"),
            "trees": (TREES, "unshared paired"),
            "groupings": (GROUPINGS, "shared paired"),
            "few partials": (FEW_PARTIALS, "shared paired"),
            "many partials": (MANY_PARTIALS, "shared paired"),
            "merged": (MERGED, "shared paired"),
        }
        runs: dict[str, list[Took]] = {name: [] for name in ways}
        for repetition in range(repetitions + 1):  # the first one warms up
            for name, (queries, strategy) in ways.items():
                say(f"run {repetition + 1} of {repetitions + 1}: {name}")
                runs[name].append(_run(Path(scratch) / "trades", queries, strategy))
    middle = {name: _middle(found[1:]) for name, found in runs.items()}
    return Calibration(_apart(middle, rows), rows, middle)


def _run(folder: Path, queries: Sequence[str], strategy: Strategy) -> Took:
    """Process all trades once."""
    with Engine(strategy=strategy) as engine:
        engine.execute(
            "CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT) USING parquet "
            f"OPTIONS (path = '{folder}', maxFilesPerTrigger = '1') WATERMARK FOR ts"
        )
        for number, text in enumerate(queries):
            engine.create_query(f"q{number}", text)
        engine.process_available(flush=True)
        done = engine.stream("trades").pipeline.metrics
        return Took(done.job, done.ingest + done.commit, done.answer, done.partials, done.answers)


def _middle(runs: Sequence[Took]) -> Took:
    """Take the median of every step."""
    job, store, answer = (statistics.median(getattr(r, name) for r in runs) for name in ("job", "store", "answer"))
    return Took(job, store, answer, runs[0].partials, runs[0].answers)


def _apart(runs: dict[str, Took], rows: int) -> Rates:
    """Find each rate by the difference of two runs; what noise swallows keeps the least value, or the usual one."""
    one, few, many, merged = (runs[name] for name in ("one query", "few partials", "many partials", "merged"))
    copied = (runs["groupings"].job - one.job) / (rows * (MANY - 1))
    sliced = (runs["trees"].job - one.job) / (rows * (MANY - 1)) - copied
    made = many.partials - few.partials
    partial = ((many.job + many.store) - (few.job + few.store)) / made if made else DEFAULT_RATES.partial
    evaluation = (many.answer - few.answer) / max(1, many.answers - few.answers)
    merging = (merged.answer - many.answer) / max(1, merged.answers) / NODES
    usual = DEFAULT_RATES
    return Rates(
        scanned=max(LEAST, one.job / rows - max(LEAST, copied)),
        sliced=sliced if sliced > LEAST else usual.sliced,
        copied=copied if copied > LEAST else usual.copied,
        partial=partial if partial > LEAST else usual.partial,
        merged=merging if merging > LEAST else usual.merged,
        evaluation=evaluation if evaluation > LEAST else usual.evaluation,
    )
