"""Times different groupings of one stream, shared and alone; percentiles; distinct counts; a million keys.

64 queries with eight groupings run in one pipeline, then the eight queries of each grouping in a pipeline of their own,
one after the other: real bars of option contracts, and an hour of generated trades of 3,000 symbols. The 240 queries of
Golab, Bijay and Özsu (2006, §5.1) run shared and, every tenth of them, unshared. Fifty queries over a hundred thousand
and over a million keys run on executors in processes of their own with a driver of 2 GB.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench._frame import SETTINGS, Bench, Save, do_not_save, run_benchmark, scratch_folder, tell_quick_look
from bench._groupings.million import Crowd, run_crowd
from bench._groupings.running import Ran, differing, run
from bench._groupings.workloads import (
    OPTION_KEYS,
    TRADE_KEYS,
    Query,
    Stream,
    grouped_queries,
    option_bars,
    packet_queries,
    packets,
    trades,
)
from bench._measure import Figures, Progress, interleave, timing
from bench._report import print_targets
from penstock.model.strategy import Strategy
from penstock.spark.session.embedded import embedded

QUICK_ROWS: Final = 1_000_000  # fewer rows than these are a quick look


@dataclass(frozen=True, slots=True)
class Workload:
    """The sizes of everything; other sizes than these are a quick look, not the benchmark."""

    rows: int = 4_000_000
    files: int = 8
    seed: int = 1
    repetitions: int = 3
    each: int = 8  # queries of each of eight groupings
    packet_seconds: int = 200
    packet_rate: int = 1_500
    packet_queries: int = 30  # of each of eight groups
    unshared_of: int = 10  # every so many-th query runs unshared, and its time counts so many times
    few: Crowd = field(default_factory=lambda: Crowd(keys=100_000))
    many: Crowd = field(default_factory=Crowd)
    warm: bool = True


def sized(rows: int) -> Workload:
    """Make a workload of so many rows; a quick look is smaller in everything."""
    if rows >= QUICK_ROWS:
        return Workload(rows=rows)
    few, many = (Crowd(keys=keys, rows=rows, queries=10, sampled=50) for keys in (rows // 8, rows // 2))
    return Workload(rows, 4, repetitions=1, packet_seconds=40, packet_queries=5, few=few, many=many, warm=False)


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named."""
    workload, usual = sized(rows or Workload().rows), Workload()
    run_benchmark(path, lambda say, save: measure(embedded(settings=SETTINGS), workload, say, save), _print)
    tell_quick_look(workload.rows, usual.rows)


def measure(session: SparkSession, workload: Workload, say: Progress, save: Save = do_not_save) -> Figures:
    """Measure everything, one thing after the other; what is known is saved after each."""
    with scratch_folder() as scratch:
        bench = Bench(workload, session, scratch, say, save=save)
        for step in (_option_bars, _trades, _packets, _million):
            bench.take(step)
        return bench.figures


def _option_bars(bench: Bench[Workload]) -> None:
    """Group the bars of option contracts."""
    stream = option_bars(bench.scratch / "bars", bench.workload.files)
    if stream is None:
        _skip(bench, "option bars", "the data set is not here; set PENSTOCK_DATA to its folder")
        return
    _compare(bench, stream, grouped_queries(OPTION_KEYS, 300, bench.workload.each))


def _trades(bench: Bench[Workload]) -> None:
    """Group generated trades."""
    workload = bench.workload
    bench.say(f"generating {workload.rows:,} trades in {workload.files} files")
    stream = trades(bench.session, bench.scratch / "trades", workload.rows, workload.files, workload.seed)
    _compare(bench, stream, grouped_queries(TRADE_KEYS, 60, workload.each))


def _compare(bench: Bench[Workload], stream: Stream, queries: Sequence[Query]) -> None:
    """Time all groupings together and each alone, in turns; answers must be the same."""
    last: dict[str, list[Ran]] = {}
    groupings = list(dict.fromkeys(query.by for query in queries))

    def together() -> float:
        last["together"] = [run(bench.session, stream, queries)]
        return last["together"][0].seconds

    def alone() -> float:
        each = ([query for query in queries if query.by == by] for by in groupings)
        last["alone"] = [run(bench.session, stream, some) for some in each]
        return sum(ran.seconds for ran in last["alone"])

    runs: dict[str, Callable[[], float]] = {"together": together, "each grouping alone": alone}
    if bench.workload.warm:
        for name, warm in runs.items():
            bench.say(f"warming up: {stream.name}, {name}: {warm():.2f} s")
    seconds = interleave(runs, bench.workload.repetitions, lambda text: bench.say(f"{stream.name}: {text}"))
    (shared,), apart = last["together"], last["alone"]
    summed = Ran(0.0, 0, {}, {}, {}, {name: found for ran in apart for name, found in ran.sums.items()})
    wrong = differing(shared, summed)
    bench.figures.measurements[stream.name] = {
        "queries": len(queries),
        "rows": stream.rows,
        "times": {name: timing(each, stream.rows) for name, each in seconds.items()},
        "answers": shared.answers,
        "differing": wrong,
        "steps": shared.steps,
        "feeding": shared.feeding,
        "estimates": shared.estimates,
        "each": [{"by": list(by), "seconds": round(ran.seconds, 3)} for by, ran in zip(groupings, apart, strict=True)],
    }
    bench.figures.expect_true(f"{stream.name}: answers of groupings together equal those of each alone", not wrong)
    ratio = statistics.median(seconds["each grouping alone"]) / statistics.median(seconds["together"])
    bench.figures.expect(f"{stream.name}: {len(groupings)} groupings, each alone / together", ratio, ">=", 3)


def _packets(bench: Bench[Workload]) -> None:
    """Run the paper's percentiles and distinct counts, shared and unshared."""
    workload = bench.workload
    sizes = workload.packet_seconds, workload.packet_rate, workload.files
    stream = packets(bench.scratch / "packets", *sizes, workload.seed)
    queries = packet_queries(workload.packet_queries, workload.seed)
    some = queries[:: workload.unshared_of]
    if workload.warm:
        ways: tuple[tuple[Strategy, list[Query]], ...] = (("shared paired", queries), ("unshared paired", some))
        for way, asked in ways:
            seconds = run(bench.session, stream, asked, way).seconds
            bench.say(f"warming up: packets, {len(asked)} queries, {way}: {seconds:.2f} s")
    shared = run(bench.session, stream, queries)
    bench.say(f"packets: shared {shared.seconds:.2f} s; now {len(some)} of {len(queries)} queries unshared")
    unshared = run(bench.session, stream, some, "unshared paired")
    kept = Ran(0.0, 0, {}, {}, {}, {query.name: shared.sums[query.name] for query in some})
    wrong, whole = differing(kept, unshared), unshared.seconds * len(queries) / len(some)
    bench.figures.measurements["percentiles and distinct counts"] = {
        "queries": len(queries),
        "shared_seconds": round(shared.seconds, 3),
        "unshared_queries": len(some),
        "unshared_seconds": round(unshared.seconds, 3),
        "unshared_seconds_of_all": round(whole, 3),
        "answers": shared.answers,
        "differing": wrong,
        "feeding": shared.feeding,
    }
    bench.figures.expect_true("percentiles and distinct counts: answers shared equal those unshared", not wrong)
    bench.figures.expect("percentiles and distinct counts: unshared / shared", whole / shared.seconds, ">=", 10)


def _million(bench: Bench[Workload]) -> None:
    """Run fifty queries over many keys on executors of their own, in a process for each number of keys."""
    found = {}
    for crowd in (bench.workload.few, bench.workload.many):
        bench.say(f"{crowd.keys:,} keys, {crowd.queries} queries, {crowd.rows:,} rows on executors")
        found[crowd.keys] = run_crowd(crowd)
        bench.say(
            f"{crowd.keys:,} keys: {found[crowd.keys]['seconds']:.1f} s, {found[crowd.keys]['answers']:,} answers"
        )
    few, many = found.values()
    bench.figures.measurements["many keys"] = list(found.values())
    bench.figures.expect_true(
        "many keys: answers about sampled keys equal the oracle's", not few["differing"] and not many["differing"]
    )
    bench.figures.expect_true("many keys: the executors keep the partials", bool(many["spread_groupings"]))
    held = [one["driver_heap_bytes"] + one["driver_python_bytes"] for one in (few, many)]
    keys = f"{bench.workload.many.keys:,} keys / {bench.workload.few.keys:,}"
    bench.figures.expect(f"driver heap and Python, {keys}", held[1] / held[0], "<=", 1.2)


def _skip(bench: Bench[Workload], name: str, reason: str) -> None:
    """Note what was not measured."""
    bench.say(f"skipped: {name}: {reason}")
    bench.figures.measurements[name] = {"skipped": reason}


def _print(figures: Figures) -> None:
    """Print times and targets."""
    table = Table(title="Groupings, medians", title_justify="left")
    for name in ("stream", "queries", "together", "each grouping alone"):
        table.add_column(name, justify="left" if name == "stream" else "right")
    for name, found in figures.measurements.items():
        if "times" in found:
            times = [f"{one['median_seconds']:.2f} s" for one in found["times"].values()]
            table.add_row(name, str(found["queries"]), *times)
    console = Console()
    console.print(table)
    for name, found in figures.measurements.items():
        if "skipped" in found:
            console.print(f"Skipped: {name}: {found['skipped']}")
    print_targets(console, figures.targets)
