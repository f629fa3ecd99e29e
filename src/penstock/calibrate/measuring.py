"""Finds the rates of the engine's steps from the differences between short runs over generated trades."""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from penstock.engine import Engine
from penstock.model.strategy import Strategy
from penstock.share.weave.costs import DEFAULT_RATES, Rates, crowding
from penstock.spark.market import Market, write_trades
from penstock.stream.machine_speed import PIECES, rates_at, seconds_of

FILES: Final = 4  # a batch each, after a first one that is not timed: in it code is generated and queries begin
TIMES: Final = 4  # as many batches of few rows: what they cost beside their rows is to be told well
MANY: Final = 64  # trees, against one
SOME: Final = 24  # trees with keys
CROWD: Final = 48  # the same, of many more groups
WARM: Final = 3  # rounds whose whole time does not count: the JVM compiles what runs often, bit by bit
FEW_ROWS: Final = 4_000
SYMBOLS: Final = 1_000
CROWD_SYMBOLS: Final = 8_000
LONG: Final = 60  # minutes that all trades take, and more than which slices of trees with keys take
NODES: Final = 2 * math.log2(2 * 20 * 60 / 7)  # of a tree, merged for a range of 20 min cut twice every 7 s
LEAST: Final = 1e-10  # seconds: a difference lost in noise
PIECES_EACH: Final = 20
BY_SPEED: Final = ("component", "column", "state", "sorted", "reduced", "tabled", "filed", "member")
ONE: Final = ("SELECT sum(volume) AS x FROM trades [RANGE 10 MIN SLIDE 10 MIN]",)
TREES: Final = tuple(f"SELECT sum(volume) AS x FROM trades [RANGE {7 + i} MIN SLIDE {7 + i} MIN]" for i in range(MANY))
QUERIES: Final = tuple(
    f"SELECT sum(volume) AS x FROM trades [RANGE {7 + i} MIN SLIDE {7 + i % MANY} MIN]" for i in range(8 * MANY)
)
ASKED: Final = tuple(text.replace("]", f"] WHERE volume > {i}") for i, text in enumerate(TREES))
FEW_PARTIALS: Final = ("SELECT symbol, sum(volume) AS x FROM trades [RANGE 20 MIN SLIDE 20 MIN] GROUP BY symbol",)
FINE: Final = tuple(f"SELECT sum(volume) AS x FROM trades [RANGE {60 + i} s SLIDE {2 + i % 3} s]" for i in range(MANY))
KEYED: Final = tuple(
    f"SELECT symbol, sum(volume) AS x FROM trades [RANGE {LONG + i} MIN SLIDE {LONG + i} MIN] GROUP BY symbol"
    for i in range(CROWD)
)
KEYED_FINE: Final = tuple(
    f"SELECT symbol, sum(volume) AS x FROM trades [RANGE {120 + i} s SLIDE {120 + i} s] GROUP BY symbol"
    for i in range(SOME)
)
MANY_PARTIALS: Final = ("SELECT symbol, sum(volume) AS x FROM trades [RANGE 20 MIN SLIDE 7 s] GROUP BY symbol",)
HELD: Final = (  # every symbol has a cell in every second
    "SELECT symbol, sum(price) AS x FROM trades [RANGE 20 MIN SLIDE 20 MIN] GROUP BY symbol",
    "SELECT sum(volume) AS x FROM trades [RANGE 1 s SLIDE 1 s]",
)
CELLS: Final = SYMBOLS * 3600
MERGED: Final = ("SELECT symbol, max(price) AS x FROM trades [RANGE 20 MIN SLIDE 7 s] GROUP BY symbol",)

WAYS: Final[dict[str, tuple[str, Sequence[str], Strategy]]] = {  # trades, queries, how they share
    "one query": ("trades", ONE, "shared paired"),
    "trees": ("trades", TREES, "unshared paired"),
    "trees with conditions": ("trades", ASKED, "unshared paired"),
    "fine trees": ("trades", FINE, "unshared paired"),
    "trees with keys": ("trades", KEYED[:SOME], "unshared paired"),
    "fine trees with keys": ("trades", KEYED_FINE, "unshared paired"),
    "crowd": ("crowd", KEYED, "unshared paired"),
    "few partials": ("trades", FEW_PARTIALS, "shared paired"),
    "many partials": ("trades", MANY_PARTIALS, "shared paired"),
    "merged": ("trades", MERGED, "shared paired"),
    "cells held": ("trades", HELD, "shared paired"),
    "windows": ("trades", FINE, "shared paired"),
    "small batches": ("few", ONE, "shared paired"),
    "small batches, queries": ("few", QUERIES, "shared paired"),
    "small batches, trees": ("few", TREES, "unshared paired"),
}


@dataclass(frozen=True, slots=True)
class Took:
    """What a run took, in seconds by step and in all, and how much it made."""

    whole: float
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
            "more for a row of a grouping with keys": self.rates.keyed,
            "more for it, at most, among many groups": self.rates.crowded,
            "a row asked for a condition, a tree": self.rates.asked,
            "a partial made, sent and stored": self.rates.partial,
            "the same without keys": self.rates.lone,
            "a group in a slice, with rows or without": self.rates.cell,
            "a partial merged": self.rates.merged,
            "a group of a window answered": self.rates.evaluation,
            "a window answered, whatever its groups": self.rates.window,
            "a batch": self.rates.batch,
            "more for one of several trees or conditions": self.rates.several,
            "a query of a batch": self.rates.query,
            "a tree of a batch": self.rates.tree,
            "more for a tree that answers in a batch": self.rates.turn,
            "a component updated by a copy of a row": self.rates.component,
            "a component of a partial sent and stored": self.rates.column,
            "a state of a partial": self.rates.state,
            "a row that was sent, sorted, a grouping": self.rates.sorted,
            "a component made of it": self.rates.reduced,
            "a state made of it": self.rates.tabled,
            "a partial made of such rows": self.rates.filed,
            "a grouping of a batch of such rows": self.rates.member,
        }
        return "\n".join(f"{name:44} {seconds * 1e9:10,.1f} ns" for name, seconds in steps.items())


def calibrate(rows: int, repetitions: int, say: Callable[[str], None]) -> Calibration:
    """Run the engine over generated trades in several ways, and take the differences apart."""
    with tempfile.TemporaryDirectory(prefix="penstock-calibrate-") as scratch:
        with Engine() as engine:
            say(f"generating {rows:,} trades")
            sizes = {
                "trades": (rows, SYMBOLS, FILES),
                "few": (TIMES * FEW_ROWS, SYMBOLS, TIMES * FILES),
                "crowd": (rows, CROWD_SYMBOLS, FILES),
            }
            for name, (count, symbols, files) in sizes.items():
                more = count + count // files
                market = Market(rows=more, rate=count / (60 * LONG), symbols=symbols, zipf=0.5)
                write_trades(engine.session, market, Path(scratch) / name, files + 1)
        runs: dict[str, list[Took]] = {name: [] for name in WAYS}
        for round_number in range(WARM + repetitions):
            for name, (trades, queries, strategy) in WAYS.items():
                say(f"round {round_number + 1} of {WARM + repetitions}: {name}")
                runs[name].append(_run(Path(scratch) / trades, queries, strategy))
    times = {name: TIMES if trades == "few" else 1 for name, (trades, _, _) in WAYS.items()}
    summed_up = {name: typical_run(found, times[name]) for name, found in runs.items()}
    return Calibration(with_speeds(rates_of(summed_up, rows)), rows, summed_up)


def with_speeds(rates: Rates) -> Rates:
    """Add the rates that no run tells, as fast as this machine is: what components cost, and the driver's own work."""
    here = rates_at({piece: min(seconds_of(piece) for _ in range(PIECES_EACH)) for piece in PIECES})
    return replace(rates, **{name: getattr(here, name) for name in BY_SPEED})


def _run(trades: Path, queries: Sequence[str], strategy: Strategy) -> Took:
    """Process all trades once, and time all batches but the first."""
    files = sorted(trades.glob("*.parquet"))
    scratch = tempfile.TemporaryDirectory(prefix="penstock-calibrate-")
    with scratch as folder, Engine(strategy=strategy, aggregation="executors") as engine:  # the driver's: by speed
        engine.execute(
            "CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT) USING parquet "
            f"OPTIONS (path = '{folder}', maxFilesPerTrigger = '1') WATERMARK FOR ts"
        )
        for number, text in enumerate(queries):
            engine.create_query(f"q{number}", text)
        let_come(engine, files[:1], Path(folder))
        before = replace(engine.stream("trades").pipeline.metrics)
        whole = let_come(engine, files[1:], Path(folder))
        done = engine.stream("trades").pipeline.metrics
        store = done.ingest + done.commit - before.ingest - before.commit
        made, answered = done.partials - before.partials, done.answers - before.answers
        return Took(whole, done.job - before.job, store, done.answer - before.answer, made, answered)


def let_come(engine: Engine, files: Sequence[Path], folder: Path) -> float:
    """Let some files come, and return the seconds that they take."""
    for file in files:
        os.link(file, folder / file.name)
    began = time.perf_counter()
    engine.process_available()
    return time.perf_counter() - began


def typical_run(runs: Sequence[Took], times: int) -> Took:
    """Take the least of every step, as what disturbs a run only adds, and the median of the whole, once it is warm.

    Times are for as many batches as all runs are told of.
    """

    def of(step: str) -> float:
        return min(float(getattr(run, step)) for run in runs) / times

    whole = statistics.median(run.whole for run in runs[WARM:]) / times
    return Took(whole, of("job"), of("store"), of("answer"), runs[0].partials // times, runs[0].answers // times)


def rates_of(runs: dict[str, Took], rows: int) -> Rates:
    """Find each rate by the difference of two runs; what noise swallows keeps the usual one.

    What a tree costs a row is parted into placing and copying as usual: groupings of one tree would feed each other.
    """
    small, one, few, many = (runs[name] for name in ("small batches", "one query", "few partials", "many partials"))
    merged, empty, trees, fine = (runs[n] for n in ("merged", "small batches, trees", "trees", "fine trees"))
    scanned = (one.job - small.job) / (rows - FEW_ROWS)  # copied once, too
    copied = ((trees.job - empty.job) / (rows - FEW_ROWS) - scanned) / (MANY - 1)  # placed in its slice, too
    placing = DEFAULT_RATES.sliced / (DEFAULT_RATES.sliced + DEFAULT_RATES.copied)
    coarse, cut, queries = (runs[n] for n in ("trees with keys", "fine trees with keys", "small batches, queries"))
    more, times, idle = FILES * (len(QUERIES) - 1), FILES * (MANY - 1), small.store + small.answer
    query = (queries.store + queries.answer - idle) / more  # but for what is aside from all steps
    # Fine trees answer in every batch; of few rows, each window in one of its own.
    seldom = empty.answer - small.answer - times * query
    turn = (fine.answer - runs["windows"].answer - seldom) / max(1, times - empty.answers)
    evaluation = (many.answer - few.answer) / max(1, many.answers - few.answers)
    fed = runs["windows"].answer - one.answer - times * query
    keyed, crowded = _keyed(runs, rows, scanned - copied)
    found = {
        "scanned": scanned - copied,
        "sliced": copied * placing,
        "copied": copied * (1 - placing),
        "keyed": keyed - copied,
        "crowded": crowded,
        "asked": (runs["trees with conditions"].job - trees.job) / (rows * MANY),
        "partial": ((cut.job + cut.store) - (coarse.job + coarse.store)) / max(1, cut.partials - coarse.partials),
        "lone": ((fine.job + fine.store) - (trees.job + trees.store)) / max(1, fine.partials - trees.partials),
        "cell": (runs["cells held"].answer - few.answer) / CELLS,
        "merged": (merged.answer - many.answer) / max(1, merged.answers) / NODES,
        "evaluation": evaluation,
        "window": fed / max(1, runs["windows"].answers - one.answers) - evaluation,
        "batch": small.whole / FILES,
        "several": (empty.job - small.job - FEW_ROWS * (MANY - 1) * copied) / FILES,
        "query": (queries.whole - small.whole) / more,
        "tree": (empty.store + empty.answer - idle - empty.answers * turn) / times - query,
        "turn": turn,
    }
    return replace(DEFAULT_RATES, **{name: rate for name, rate in found.items() if rate > LEAST})


def _keyed(runs: dict[str, Took], rows: int, scanned: float) -> tuple[float, float]:
    """Return what a row costs a tree with keys where groups are few, and how much more where they are beyond number.

    The jobs of two runs, of few groups and of many, tell both; batches and trees cost what they do without rows.
    """
    coarse, cut, empty = (runs[n] for n in ("trees with keys", "fine trees with keys", "small batches, trees"))
    partial = max(0.0, (cut.job - coarse.job) / max(1, cut.partials - coarse.partials))  # without what storing costs
    spent, far = list[float](), list[float]()
    for name, trees in (("trees with keys", SOME), ("crowd", CROWD)):
        run = runs[name]
        copying = run.job - empty.job - rows * scanned - run.partials * partial
        spent.append(copying / (rows * trees))
        filled = run.partials / (FILES + 1)  # slices of a tree, but for the few that are cut twice
        far.append(float(crowding(np.array(filled))))
    crowded = (spent[1] - spent[0]) / (far[1] - far[0])
    return spent[0] - crowded * far[0], crowded
