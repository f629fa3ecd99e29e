"""Times mixed loads: an airline's queries, an encyclopedia's, and drawn ones, as real projects have them.

34 queries of 13 groupings over a year of flights run together and one by one; some of them run as Structured Streaming
queries of their own, and in DuckDB. 90 queries of 7 groupings and 14 predicates run over small batches of edits, beside
micro-batches in which nothing is done. 44 queries run over an hour of real packets, where these are at hand. Up
to 300 drawn queries run; with --full 1,000, and batches of several sizes. All of them, and small versions of other
benchmarks, run with the default strategy, by cost, and with fixed ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench._frame import SETTINGS, Bench, Save, do_not_save, run_benchmark, scratch_folder, tell_quick_look
from bench._groupings.running import differing_sums
from bench._measure import Figures, Progress
from bench._mixed.alike import alike
from bench._mixed.comparing import Compared, compare
from bench._mixed.drawn import drawn_queries
from bench._mixed.real_packets import FILE, data_folder, real_packets
from bench._mixed.rivals import SAMPLE, duckdb_seconds, plain_seconds
from bench._mixed.running import STEADY, Ran, Runnable, bare_batches, run
from bench._mixed.workloads import edits, flights
from bench._report import print_targets
from penstock.model.strategy import DEFAULT_STRATEGY, Strategy
from penstock.spark.session.embedded import embedded

FLIGHTS: Final = 227_496
OTHERS: Final[tuple[Strategy, ...]] = ("shared paired", "unshared paired", "fragments")  # than the usual one, by cost
FEW_OTHERS: Final[tuple[Strategy, ...]] = ("shared paired", "fragments")  # for hundreds of queries
AS_GOOD: Final = 1.1  # times the best fixed strategy: as much may be lost where queries are alike …
BETTER: Final = 1.0  # … and none on the mixes
BATCH_SECONDS: Final = 60  # of the stream's time that a batch of drawn queries holds, whatever its size


@dataclass(frozen=True, slots=True)
class Workload:
    """The sizes of everything; other sizes than these are a quick look, not the benchmark."""

    flights: int = FLIGHTS
    months: int = 12
    edits: int = 39_244
    edit_batches: int = 30
    packets: int = 471_638
    packet_batches: int = 12
    drawn: tuple[int, ...] = (30, 100, 300)
    drawn_batch: int = 20_000
    drawn_batches: int = 12
    sizes: tuple[int, ...] = ()  # of batches, for the second number of drawn queries
    alone: tuple[str, ...] = ()  # queries that run alone; none: all
    alike_rows: int = 1_000_000  # of the workloads whose queries are alike
    repetitions: int = 1
    turns: int = 5  # in which strategies are compared
    seed: int = 1


def sized(rows: int, *, full: bool) -> Workload:
    """Make a workload of so many flights; a quick look is smaller in everything."""
    if rows >= FLIGHTS:
        more = Workload(rows, drawn=(30, 100, 300, 1_000), sizes=(1_000, 20_000, 500_000), repetitions=3)
        return more if full else Workload(rows)
    few = ("f00", "f07", "f22")
    quick = Workload(rows, 3, rows, 6, rows, 3, alone=few, alike_rows=rows)
    return replace(quick, drawn=(10, 20), drawn_batch=1_000, drawn_batches=5, turns=1)


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named."""
    workload = sized(rows or FLIGHTS, full=full)
    run_benchmark(path, lambda say, save: measure(embedded(settings=SETTINGS), workload, say, save), _print)
    tell_quick_look(workload.flights, FLIGHTS)


def measure(session: SparkSession, workload: Workload, say: Progress, save: Save = do_not_save) -> Figures:
    """Measure everything, one thing after the other; what is known is saved after each."""
    with scratch_folder() as scratch:
        bench = Bench(workload, session, scratch, say, save=save)
        for step in (_flights, _edits, _packets, _drawn, _alike, _sizes):
            bench.take(step)
        return bench.figures


def _flights(bench: Bench[Workload]) -> None:
    """Run the airline's queries together, one by one, and some of them without Penstock."""
    workload = bench.workload
    load = flights(bench.scratch / "flights", workload.flights, workload.months, workload.seed)
    compared = _compared(bench, load, OTHERS)
    together, unshared = compared.middle(DEFAULT_STRATEGY), compared.middle("unshared paired")
    bench.say(f"flights: {len(load.queries)} queries together {together.seconds:.1f} s")
    alone: dict[str, Ran] = {}
    for name in workload.alone or load.queries:
        alone[name] = run(bench.session, load, [name])
    dearest = max(alone, key=lambda name: alone[name].seconds)
    bench.say(f"flights: the most expensive query alone, {dearest}, {alone[dearest].seconds:.1f} s")
    plain_seconds(bench.session, load)
    plain, duck = plain_seconds(bench.session, load), duckdb_seconds(load)
    exact = [name for name, text in load.queries.items() if "approx_" not in text]  # sketches depend on how they merge
    wrong = [name for name in exact if differing_sums(_only(together, name), _only(unshared, name))]
    wrong += [n for n in alone if n in exact and differing_sums(_only(together, n), _only(alone[n], n))]
    scale = len(load.queries) / len(SAMPLE)
    bench.figures.measurements["flights"] = {
        "queries": len(load.queries),
        "rows": load.rows,
        "together": together.record(),
        "unshared": unshared.record(),
        "strategies": compared.record(),
        "alone_seconds": {name: round(ran.seconds, 3) for name, ran in alone.items()},
        "alone_cpu_seconds": round(sum(ran.cpu_seconds for ran in alone.values()), 1),
        "plain_seconds": plain,
        "plain_seconds_of_all": round(sum(plain.values()) * scale, 1),
        "duckdb_seconds": duck,
        "duckdb_seconds_of_all": round(sum(duck.values()) * scale, 2),
        "differing": wrong,
    }
    expect = bench.figures.expect
    bench.figures.expect_true("flights: exact answers together equal those alone and unshared", not wrong)
    expect("flights: by cost / the best fixed strategy", compared.ratio, "<=", BETTER)
    expect("flights: together / the most expensive query alone", together.seconds / alone[dearest].seconds, "<=", 4)
    expect("flights: separate Spark queries / together", sum(plain.values()) * scale / together.seconds, ">=", 6)


def _cpu(ran: Ran) -> float:
    """Return the processor time of a run, first batches and all."""
    return ran.cpu_seconds


def _steady_cpu(ran: Ran) -> float:
    """Return the processor time of a run's batches after the first ones."""
    return ran.steady_cpu_seconds


def _compared(
    bench: Bench[Workload], load: Runnable, strategies: tuple[Strategy, ...], measured: Callable[[Ran], float] = _cpu
) -> Compared:
    """Run all queries by cost and with some fixed strategies, in turns, and compare their processor time."""
    return compare(bench.session, load, strategies, bench.workload.turns, bench.say, measured)


def _only(ran: Ran, name: str) -> dict[str, tuple[int, float]]:
    """Return what a run answered to one query."""
    return {name: ran.sums[name]} if name in ran.sums else {}


def _edits(bench: Bench[Workload]) -> None:
    """Run the encyclopedia's queries over small batches, beside batches in which nothing is done."""
    workload = bench.workload
    load = edits(bench.scratch / "edits", workload.edits, workload.edit_batches, workload.seed)
    run(bench.session, load)
    bare_batches(bench.session, load, lambda batch: None)
    empty, counted, ours = [], [], list[Ran]()
    for _ in range(max(2, workload.repetitions)):
        empty += bare_batches(bench.session, load, lambda batch: None)[STEADY:]
        counted += bare_batches(bench.session, load, lambda batch: batch.groupBy().count().collect())[STEADY:]
        ours.append(run(bench.session, load))
    steady = statistics.median(seconds for ran in ours for seconds in ran.batches[STEADY:])
    nothing = statistics.median(empty)
    compared = _compared(bench, load, OTHERS, _steady_cpu)
    bench.say(f"edits: a batch {steady:.3f} s, an empty one {nothing:.3f} s")
    bench.figures.measurements["edits"] = {
        "queries": len(load.queries),
        "rows": load.rows,
        "batch_rows": load.rows // load.files,
        "together": ours[-1].record(),
        "empty_batch_seconds": round(nothing, 4),
        "counted_batch_seconds": round(statistics.median(counted), 4),
        "batch_seconds": round(steady, 4),
        "strategies": compared.record(),
    }
    bench.figures.expect("edits: a batch / an empty micro-batch", steady / nothing, "<=", 2.5)
    bench.figures.expect("edits: a batch, by cost / the best fixed strategy", compared.ratio, "<=", BETTER)


def _packets(bench: Bench[Workload]) -> None:
    """Run mixed queries over real packets, shared and not, if there are any."""
    workload = bench.workload
    load = real_packets(bench.scratch / "packets", workload.packets, workload.packet_batches)
    if load is None:
        bench.figures.measurements["packets"] = {"skipped": f"no {FILE} in the folder that PENSTOCK_DATA names"}
        bench.say(f"packets: skipped, no {data_folder() / FILE}")
        return
    compared = _compared(bench, load, OTHERS)
    together = compared.middle(DEFAULT_STRATEGY)
    bench.say(f"packets: {len(load.queries)} queries together {together.seconds:.1f} s")
    bench.figures.measurements["packets"] = {
        "queries": len(load.queries),
        "rows": load.rows,
        "together": together.record(),
        "strategies": compared.record(),
    }
    wrong = differing_sums(together.sums, compared.middle("unshared paired").sums)
    bench.figures.expect_true("packets: answers together equal those unshared", not wrong)
    bench.figures.expect("packets: by cost / the best fixed strategy", compared.ratio, "<=", BETTER)


def _drawn(bench: Bench[Workload]) -> None:
    """Run more and more drawn queries."""
    workload = bench.workload
    rows = workload.drawn_batch * workload.drawn_batches
    rate = workload.drawn_batch / BATCH_SECONDS
    load = edits(bench.scratch / "drawn", rows, workload.drawn_batches, workload.seed, rate)
    found = {}
    for count in workload.drawn:
        asked = replace(load, queries=drawn_queries(count, workload.seed))
        run(bench.session, asked)
        found[count] = min((run(bench.session, asked) for _ in range(workload.repetitions)), key=lambda ran: ran.steady)
        bench.say(f"drawn: {count:,} queries, a batch of {workload.drawn_batch:,} rows {found[count].steady:.2f} s")
    bench.figures.measurements["drawn"] = {str(count): ran.record() for count, ran in found.items()}
    if {100, 300} <= found.keys():
        ratio = found[300].steady / found[100].steady
        bench.figures.expect("drawn: a batch with 300 queries / with 100", ratio, "<=", 2.5)
    some = workload.drawn[1]
    asked = replace(load, queries=drawn_queries(some, workload.seed))
    compared = _compared(bench, asked, FEW_OTHERS, _steady_cpu)
    bench.figures.measurements["drawn_strategies"] = compared.record()
    name = f"{some} drawn queries: a batch, by cost / the best fixed strategy"
    bench.figures.expect(name, compared.ratio, "<=", BETTER)


def _alike(bench: Bench[Workload]) -> None:
    """Compare strategies where queries are alike: there, deciding by cost must not be lost time.

    Processor time is compared: first batches, in which the plan is found, count too.
    """
    workload, measured = bench.workload, {}
    for load in alike(bench.session, bench.scratch / "alike", workload.alike_rows, workload.seed):
        bench.say(f"strategies over {load.name}")
        compared = _compared(bench, load, FEW_OTHERS)
        measured[load.name] = compared.record()
        bench.figures.expect(f"{load.name}: by cost / the best fixed strategy", compared.ratio, "<=", AS_GOOD)
    bench.figures.measurements["alike"] = measured


def _sizes(bench: Bench[Workload]) -> None:
    """Run the same drawn queries over batches of several sizes."""
    workload, found = bench.workload, {}
    for size in workload.sizes:
        rows, rate = size * STEADY * 2, size / BATCH_SECONDS
        load = edits(bench.scratch / f"sizes{size}", rows, STEADY * 2, workload.seed, rate)
        asked = replace(load, queries=drawn_queries(workload.drawn[1], workload.seed))
        run(bench.session, asked)
        found[str(size)] = run(bench.session, asked).record()
        bench.say(f"batches of {size:,} rows: {found[str(size)]['steady_seconds']:.2f} s")
    bench.figures.measurements["sizes"] = found


def _print(figures: Figures) -> None:
    """Print times and targets."""
    table = Table(title="Mixed loads", title_justify="left")
    for name in ("load", "queries", "seconds", "a batch, s", "answers"):
        table.add_column(name, justify="left" if name == "load" else "right")
    for name in ("flights", "edits"):
        found = figures.measurements[name]
        ran = found["together"]
        steady = f"{ran['steady_seconds']:.3f}"
        table.add_row(name, str(found["queries"]), f"{ran['seconds']:.1f}", steady, f"{ran['answers']:,}")
    for count, ran in figures.measurements["drawn"].items():
        table.add_row("drawn", count, f"{ran['seconds']:.1f}", f"{ran['steady_seconds']:.3f}", f"{ran['answers']:,}")
    console = Console()
    console.print(table)
    print_targets(console, figures.targets)
