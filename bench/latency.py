"""Times batches from when Spark offers them to when their answers are in a sink: 100 and 1,000 mixed queries.

Queries are drawn by the grammar of the mixed loads, batches have 10,000 edits. Beside them stand micro-batches of plain
Spark over the same files: in which nothing is done, and in which rows are counted, which is the least that reads them.
Then a fresh process goes on with all queries after a restart, beside a fresh one in which Spark aggregates alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench._frame import SETTINGS, Bench, Save, do_not_save, run_benchmark, scratch_folder, tell_quick_look
from bench._measure import Figures, Progress
from bench._mixed.drawn import drawn_queries
from bench._mixed.restarting import BEFORE, restarted
from bench._mixed.running import bare_batches, run
from bench._mixed.workloads import edits
from bench._report import print_targets
from penstock.spark.session.embedded import embedded

BATCH: Final = 10_000
BATCH_SECONDS: Final = 60  # of the stream's time that a batch holds
TENTH: Final = 10
MOST: Final = {100: 2.0, 1_000: 3.5}  # times a bare batch that so many queries may take


@dataclass(frozen=True, slots=True)
class Workload:
    """The sizes of everything; other sizes than these are a quick look, not the benchmark."""

    batch: int = BATCH
    batches: int = 30
    first: int = 10  # batches that are not counted: queries begin, and Java compiles
    queries: tuple[int, ...] = (100, 1_000)
    restarted: int = BEFORE + 12  # batches of which a process goes on with the last ones
    seed: int = 1


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named; ``rows`` are those of a batch."""
    workload = Workload() if rows is None or rows >= BATCH else Workload(rows, 8, 3, (10, 20), BEFORE + 2)
    workload = replace(workload, batches=100) if full else workload
    run_benchmark(path, lambda say, save: measure(embedded(settings=SETTINGS), workload, say, save), _print)
    tell_quick_look(workload.batch, BATCH)


def measure(session: SparkSession, workload: Workload, say: Progress, save: Save = do_not_save) -> Figures:
    """Measure bare batches, then those of more and more queries."""
    with scratch_folder() as scratch:
        bench = Bench(workload, session, scratch, say, save=save)
        bench.take(_batches)
        bench.take(_restart)
        return bench.figures


def _batches(bench: Bench[Workload]) -> None:
    """Time the batches of every number of queries, and bare ones before and after."""
    workload = bench.workload
    rows, rate = workload.batch * workload.batches, workload.batch / BATCH_SECONDS
    load = edits(bench.scratch / "edits", rows, workload.batches, workload.seed, rate)
    bare: dict[str, list[float]] = {"nothing is done": [], "rows are counted": []}

    def look() -> None:
        bare["nothing is done"] += bare_batches(bench.session, load, lambda batch: None)[workload.first :]
        bare["rows are counted"] += bare_batches(bench.session, load, lambda batch: batch.groupBy().count().collect())[
            workload.first :
        ]

    bare_batches(bench.session, load, lambda batch: batch.groupBy().count().collect())
    look()
    found = {}
    for count in workload.queries:
        asked = replace(load, queries=drawn_queries(count, workload.seed))
        run(bench.session, asked)
        ran = run(bench.session, asked)
        taken = {"steps": ran.steps, "spark_steps": ran.spark_steps, "transferred_bytes": ran.transferred_bytes}
        found[str(count)] = {**percentiles(ran.batches[workload.first :]), **taken, "answers": ran.answers}
        bench.say(f"{count:,} queries: a batch {found[str(count)]['p50']:.3f} s, p99 {found[str(count)]['p99']:.3f} s")
    look()
    bench.figures.measurements["bare"] = {name: percentiles(seconds) for name, seconds in bare.items()}
    bench.figures.measurements["queries"] = found
    least = statistics.median(bare["rows are counted"])
    for count in workload.queries:
        one = found[str(count)]
        if count in MOST:
            name = f"{count:,} mixed queries: a batch / a bare foreachBatch that counts rows, p50"
            bench.figures.expect(name, one["p50"] / least, "<=", MOST[count])
        bench.figures.expect(f"{count:,} mixed queries: p99 / p50", one["p99"] / one["p50"], "<=", 2.5)


def _restart(bench: Bench[Workload]) -> None:
    """Restart with the greatest number of queries in a fresh process, and time its first batches."""
    workload = bench.workload
    count, rate = max(workload.queries), workload.batch / BATCH_SECONDS
    load = edits(bench.scratch / "again", workload.batch * workload.restarted, workload.restarted, workload.seed, rate)
    found = restarted(load, bench.scratch, count, workload.seed)
    bench.figures.measurements["restart"] = {"queries": count, **found}
    ours, plain = found["restarted"], found["plain"]
    each = [b - a for a, b in pairwise([0.0, *ours])]
    bench.say(f"after a restart: the first answers after {ours[0]:.2f} s, Spark's own first batch {plain[0]:.2f} s")
    expect = bench.figures.expect
    expect(f"{count:,} mixed queries after a restart: first answers / Spark's first batch", ours[0] / plain[0], "<=", 2)
    if len(each) >= TENTH:
        expect(f"{count:,} mixed queries: the second batch / the tenth", each[1] / each[TENTH - 1], "<=", 1.5)


def percentiles(seconds: Sequence[float]) -> dict[str, Any]:
    """Return the median and the 99th percentile of some times."""
    p50, p99 = np.percentile(np.array(seconds), [50, 99])
    return {"batches": len(seconds), "p50": round(float(p50), 4), "p99": round(float(p99), 4)}


def _print(figures: Figures) -> None:
    """Print times and targets."""
    table = Table(
        title=f"Seconds of a batch of {figures.measurements['workload']['batch']:,} rows", title_justify="left"
    )
    for name in ("run", "p50", "p99"):
        table.add_column(name, justify="left" if name == "run" else "right")
    for name, one in figures.measurements["bare"].items():
        table.add_row(f"plain Spark: {name}", f"{one['p50']:.3f}", f"{one['p99']:.3f}")
    for count, one in figures.measurements["queries"].items():
        table.add_row(f"{int(count):,} mixed queries", f"{one['p50']:.3f}", f"{one['p99']:.3f}")
    console = Console()
    console.print(table)
    print_targets(console, figures.targets)
