"""Measures what running queries notice of others that come and go.

A stream of small files runs, with queries that stay. Quiet stretches alternate with stretches in which queries are
added and dropped between the batches. Compared is how long the answers of a batch take, from the moment Spark hands the
batch over. A query that needs a new column restarts the stateless Spark query: that is timed apart. So is how long
many queries take that are entered at once, alike or mixed, and how long a thousand mixed ones take to be planned.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

from bench._frame import run_benchmark, scratch_folder
from bench._living import Coming, Pace, Watched, query, running, stream
from bench._measure import Figures
from bench._mixed.drawn import drawn_queries
from penstock.engine import Engine
from penstock.share.layout import lay_out
from penstock.share.plan import plan_queries
from penstock.sinks.parquet import ParquetSink
from penstock.spark.session.embedded import embedded

MEDIAN_RATIO = 1.25
WORST_RATIO = 2.0
ENTERED_S = 15.0  # in which many queries are entered, …
PLANNED_S = 1.0  # … and a tenth of them are planned
EDITS = (
    "CREATE STREAM s (ts TIMESTAMP, wiki STRING, kind STRING, namespace INT, bot BOOLEAN, minor BOOLEAN, user STRING, "
    "page STRING, delta INT, length INT) USING parquet OPTIONS (path = '{path}') "
    "WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
)


@dataclass(frozen=True, slots=True)
class Workload:
    """How many queries stay, how many come and go, and in how many stretches."""

    staying: int = 200
    passing: int = 1_000
    stretches: int = 10
    batches: int = 30  # of a stretch
    warm_batches: int = 30
    entered: int = 10_000  # at once
    seed: int = 1
    pace: Pace = field(default_factory=Pace)


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named."""
    usual = Workload()
    workload = Workload(batches=60 if full else usual.batches, pace=Pace(rows=rows or usual.pace.rows))
    run_benchmark(path, lambda say, save: measure(workload, say))


def measure(workload: Workload, say: Callable[[str], None]) -> Figures:
    """Run the stream, stretch by stretch."""
    draw, watched, figures = random.Random(workload.seed), Watched(), Figures()
    with scratch_folder() as scratch:
        files = scratch / "files"
        files.mkdir()
        sinks = [ParquetSink(scratch / "answers", layout="columns")]
        with Engine(scratch / "state", spark=embedded(), sinks=sinks) as engine:
            engine.execute(stream(files))
            stays = "; ".join(f"CREATE QUERY stays{n} AS {query(draw)}" for n in range(workload.staying))
            engine.execute(stays)
            watched.watch(engine.stream("trades"))
            with Coming(files, workload.pace, watched), running(engine):
                watched.wait_for(workload.warm_batches)
                changed = _alternate(engine, watched, workload, draw, say)
                restart = _new_column(engine, watched)
        _enter_many(figures, workload, scratch, say)
    _sum_up(figures, watched, workload, changed, restart)
    return figures


def _alternate(
    engine: Engine, watched: Watched, workload: Workload, draw: random.Random, say: Callable[[str], None]
) -> int:
    """Let quiet and busy stretches take turns; return how many queries came and went."""
    changed, each = 0, -(-workload.passing // workload.stretches)
    for number in range(workload.stretches):
        watched.stretch = "between"  # what the last change does to the next batch is not quiet
        watched.wait_for(2)
        watched.stretch = "quiet"
        watched.wait_for(workload.batches)
        watched.stretch = "churn"
        for batch in range(workload.batches):
            part = each * (batch + 1) // workload.batches - each * batch // workload.batches
            names = [f"passes{changed + n}" for n in range(part)]
            for name in names:
                engine.create_query(name, query(draw))
            watched.wait_for(1)
            for name in names:
                engine.drop_query(name)
            changed += part
        quiet, busy = (statistics.median(watched.seconds(name)) for name in ("quiet", "churn"))
        say(f"stretch {number + 1} of {workload.stretches}: quiet {quiet:.3f} s, churn {busy:.3f} s")
    return changed


def _new_column(engine: Engine, watched: Watched) -> float:
    """Time the gap that a query over a new column makes: until the batch after the restart is done."""
    watched.stretch = "new column"
    watched.wait_for(3)
    began = len(watched.batches)
    engine.create_query("venues", "SELECT venue, count(*) AS n FROM trades [RANGE 30 s SLIDE 30 s] GROUP BY venue")
    watched.wait_for(5)
    ends = [batch.began + batch.seconds for batch in watched.batches[began - 1 :]]
    return max(b - a for a, b in pairwise(ends))


def _enter_many(figures: Figures, workload: Workload, scratch: Path, say: Callable[[str], None]) -> None:
    """Time how long queries take that are entered at once into a state folder, and how long some take to be planned."""
    draw = random.Random(workload.seed)
    asked = {
        "alike": {f"q{n}": query(draw) for n in range(workload.entered)},
        "mixed": drawn_queries(workload.entered, workload.seed),
    }
    found: dict[str, dict[str, float]] = {}
    for kind, queries in asked.items():
        with Engine(scratch / kind, spark=embedded()) as engine:
            engine.execute(stream(scratch / "files") if kind == "alike" else EDITS.format(path=scratch / "files"))
            began, cpu = time.perf_counter(), time.process_time()
            engine.create_queries(queries)
            found[kind] = {"seconds": time.perf_counter() - began, "python_seconds": time.process_time() - cpu}
            version, definitions = engine.catalog.snapshot("trades" if kind == "alike" else "s")
            some, began = definitions[: max(1, workload.entered // 10)], time.perf_counter()
            lay_out(plan_queries(some, engine.strategy, version), "ts")
            found[kind]["planned_seconds"] = time.perf_counter() - began
        say(f"{workload.entered:,} queries, {kind}, entered in {found[kind]['seconds']:.1f} s")
    figures.measurements["entered"] = {k: {n: round(s, 3) for n, s in one.items()} for k, one in found.items()}
    for kind, one in found.items():
        figures.expect(
            f"{workload.entered:,} queries entered at once, {kind}, seconds", one["seconds"], "<=", ENTERED_S
        )
    few = f"{max(1, workload.entered // 10):,} mixed queries planned, seconds"
    figures.expect(few, found["mixed"]["planned_seconds"], "<=", PLANNED_S)


def _sum_up(figures: Figures, watched: Watched, workload: Workload, changed: int, restart: float) -> None:
    """Compare the stretches."""
    quiet, churn = (sorted(watched.seconds(name)) for name in ("quiet", "churn"))
    middle = statistics.median(quiet)
    slow = [seconds for seconds in churn if seconds > WORST_RATIO * middle]
    figures.measurements |= {
        "workload": asdict(workload),
        "queries_passed": changed,
        "quiet": _described(quiet) | {"over_twice": sum(s > WORST_RATIO * middle for s in quiet)},
        "churn": _described(churn) | {"over_twice": len(slow)},
        "new_column_restart_seconds": round(restart, 3),
    }
    figures.expect("median latency, churn / quiet", statistics.median(churn) / middle, "<=", MEDIAN_RATIO)
    figures.expect("slowest batch in churn / quiet median", churn[-1] / middle, "<=", WORST_RATIO)
    figures.expect("queries that came and went", changed, ">=", workload.passing)


def _described(seconds: list[float]) -> dict[str, float]:
    """Sum up sorted latencies."""
    return {
        "batches": len(seconds),
        "median_seconds": round(statistics.median(seconds), 4),
        "p95_seconds": round(seconds[int(0.95 * (len(seconds) - 1))], 4),
        "max_seconds": round(seconds[-1], 4),
    }
