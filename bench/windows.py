"""Times shared and unshared time windows: workload A of Krishnamurthy et al. (2006, §6) against plain Spark.

Ranges are whole seconds between 600 and 900, slides between 300 and 600, and every query sums price * volume over four
million generated trades, one hour of event time, in eight batches. Nothing here asserts a time: machines differ, the
ratios within a run much less.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench._frame import SETTINGS, Bench, Save, do_not_save, run_benchmark, scratch_folder, tell_quick_look
from bench._measure import Figures, PeakMemory, Progress, interleave, timing
from bench._memory import memory_apart, memory_here
from bench._penstock import Ran, Setting, run_penstock
from bench._plain import Source, Window, bare_limit, differences, hand_tuned, plain_answers, plain_seconds
from bench._report import print_windows
from penstock.share.plan import Strategy
from penstock.spark.market import Market, write_trades
from penstock.spark.session.embedded import embedded

HOUR_S = 3600
OVERLAPPING = Window(3600, 60)  # every row is in 60 windows
STRATEGIES: tuple[Strategy, ...] = ("shared paired", "shared paned", "unshared paired", "unshared paned")
# Operations for 256 queries over 1,138,636 rows (Krishnamurthy et al. 2006, Fig. 13): partial, final.
PUBLISHED: dict[Strategy, dict[str, int | None]] = {
    "unshared paired": {"partial": 291_490_816, "final": 6_813},
    "shared paired": {"partial": 1_138_636, "final": 1_462_391},
    "shared paned": {"partial": None, "final": 2_340_842},
}


@dataclass(frozen=True, slots=True)
class Workload:
    """The sizes of everything; other sizes than these are a quick look, not the benchmark."""

    rows: int = 4_000_000
    files: int = 8
    more_files: int = 32
    seed: int = 1
    repetitions: int = 3
    shared: tuple[int, ...] = (1, 16, 256, 1000, 10_000)
    foldered: tuple[int, ...] = (256, 1000)  # with a folder of Parquet files for each query, as sinks are by default
    plain: tuple[int, ...] = (1, 4, 16)
    by_symbol: tuple[int, ...] = (1, 16, 256)
    plain_by_symbol: tuple[int, ...] = (1, 16)
    overlapping: Window = OVERLAPPING
    compared: int = 4
    counted: int = 256
    small_rows: int = 10_000
    small_batches: int = 40
    small_queries: int = 100
    warm: bool = True
    fresh_processes: bool = True

    def windows(self, number: int) -> tuple[Window, ...]:
        """Draw windows; the first ones are the same for every number."""
        draw = random.Random(self.seed)
        return tuple(Window(draw.randint(600, 900), draw.randint(300, 600)) for _ in range(number))

    def short_windows(self) -> tuple[Window, ...]:
        """Draw windows of which several end in every small batch."""
        draw = random.Random(self.seed)
        return tuple(Window(draw.randint(120, 600), draw.randint(5, 120)) for _ in range(self.small_queries))


@dataclass(slots=True)
class WindowsBench(Bench[Workload]):
    """The benchmark of windows."""

    last: dict[str, Ran] = field(default_factory=dict)  # of each of Penstock's runs

    def write(self, name: str, rows: int, files: int, rate: float) -> Source:
        """Generate trades, cut into batches."""
        market = Market(seed=self.workload.seed, rows=rows, rate=rate)
        self.say(f"generating {rows:,} trades in {files} files")
        write_trades(self.session, market, self.scratch / name, files)
        return Source(self.scratch / name, files, rows, market.start_us // 1_000_000)

    def penstock(self, name: str, source: Source, setting: Setting) -> float:
        """Run Penstock and remember what it did."""
        self.last[name] = run_penstock(self.session, source, setting)
        return self.last[name].seconds


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named."""
    usual = Workload()
    workload = Workload(
        rows=rows or usual.rows,
        small_rows=min(usual.small_rows, (rows or usual.rows) // usual.small_batches),
        shared=tuple(sorted({*usual.shared, 64})) if full else usual.shared,
        plain=(*usual.plain, 64) if full else usual.plain,
    )
    run_benchmark(path, lambda say, save: measure(embedded(settings=SETTINGS), workload, say, save), print_windows)
    tell_quick_look(workload.rows, usual.rows)


def measure(session: SparkSession, workload: Workload, say: Progress, save: Save = do_not_save) -> Figures:
    """Measure everything, one thing after the other; what is known is saved after each."""
    with scratch_folder() as scratch:
        bench = WindowsBench(workload, session, scratch, say, save=save)
        source = bench.write("trades", workload.rows, workload.files, workload.rows / HOUR_S)
        if workload.warm:
            _warm_up(bench, source)
        _compare_answers(bench, source)
        for step in (_time_all, _time_small_batches, _watch_memory, _count_operations):
            bench.take(step, source)
        return bench.figures


def _warm_up(bench: WindowsBench, source: Source) -> None:
    """Let the JVM compile what every side runs; the larger plain runs warm up in their first repetition."""
    for name, run in _timed_runs(bench, source).items():
        if not name.startswith("plain") or name.endswith((" 1", " overlapping")):
            bench.say(f"warming up: {name}: {run():.2f} s")


def _compare_answers(bench: WindowsBench, source: Source) -> None:
    """Make sure, untimed, that all sides answer the same."""
    found = {}
    for name, windows, symbols in (
        ("windows", bench.workload.windows(bench.workload.compared), False),
        (str(bench.workload.overlapping), (bench.workload.overlapping,), False),
        ("by symbol", bench.workload.windows(1), True),
    ):
        ours = run_penstock(bench.session, source, Setting(windows, symbols=symbols), keep=len(windows)).kept
        theirs = [("plain Spark", plain_answers(bench.session, source, windows, symbols))]
        if not symbols:
            theirs.append(("hand-tuned", hand_tuned(bench.session, source, windows)[1]))
        for rival, answers in theirs:
            differing = [d for a, b in zip(ours, answers, strict=True) for d in differences(a, b)]
            found[f"{name}, {rival}"] = {"answers": sum(map(len, ours)), "differing": len(differing)}
            bench.say(f"answers compared, {name}, {rival}: {found[f'{name}, {rival}']} {differing[:3] or ''}")
    bench.figures.measurements["answers_compared"] = found
    right = all(f["answers"] and not f["differing"] for f in found.values())
    bench.figures.expect_true("answers equal plain Spark's", right)


def _time_all(bench: WindowsBench, source: Source) -> None:
    """Time all sides in turns."""
    with PeakMemory() as watched:
        seconds = interleave(_timed_runs(bench, source), bench.workload.repetitions, bench.say)
    times = {name: timing(each, bench.workload.rows) for name, each in seconds.items()}
    for name, ran in bench.last.items():
        times[name] |= {"creating_seconds": round(ran.creating_seconds, 3), "answers": ran.answers, "steps": ran.steps}
    bench.figures.measurements["times"] = times
    bench.figures.measurements["peak_memory"] = asdict(watched.peak)
    _expect_times(bench, {name: statistics.median(each) for name, each in seconds.items()})


def _timed_runs(bench: WindowsBench, source: Source) -> dict[str, Callable[[], float]]:
    """List the runs by name."""
    session, workload = bench.session, bench.workload
    runs: dict[str, Callable[[], float]] = {"bare limit": lambda: _elapsed(bare_limit(session, source))}

    def ours(name: str, windows: tuple[Window, ...], symbols: bool = False, layout: str = "columns") -> None:
        runs[name] = partial(bench.penstock, name, source, Setting(windows, symbols=symbols, layout=layout))

    def theirs(name: str, windows: tuple[Window, ...], symbols: bool = False) -> None:
        runs[name] = partial(plain_seconds, session, source, windows, symbols)

    for number in workload.shared:
        ours(f"penstock {number}", workload.windows(number))
    for number in workload.foldered:
        ours(f"penstock in folders {number}", workload.windows(number), layout="query")
    for number in workload.plain:
        theirs(f"plain {number}", workload.windows(number))
    runs["hand-tuned 1"] = lambda: hand_tuned(session, source, workload.windows(1))[0]
    ours("penstock overlapping", (workload.overlapping,))
    theirs("plain overlapping", (workload.overlapping,))
    for number in workload.by_symbol:
        ours(f"penstock by symbol {number}", workload.windows(number), symbols=True)
    for number in workload.plain_by_symbol:
        theirs(f"plain by symbol {number}", workload.windows(number), symbols=True)
    return runs


def _elapsed(batch_ends: Sequence[float]) -> float:
    """Return the time from the start to the last batch's end."""
    return batch_ends[-1] - batch_ends[0]


def _expect_times(bench: WindowsBench, median: dict[str, float]) -> None:
    """Compare the ratios with their targets."""
    expect = bench.figures.expect

    def at_most(name: str, over: str, bound: float) -> None:
        if name in median and over in median:
            expect(f"{name} / {over}", median[name] / median[over], "<=", bound)

    def at_least(name: str, over: str, bound: float) -> None:
        if name in median and over in median:
            expect(f"{name} / {over}", median[name] / median[over], ">=", bound)

    at_most("penstock 256", "penstock 1", 1.2)
    at_most("penstock 1000", "penstock 1", 1.4)
    at_most("penstock 256", "bare limit", 1.3)
    at_most("penstock 256", "hand-tuned 1", 1.05)
    at_most("penstock 1000", "hand-tuned 1", 1.15)
    at_most("penstock 10000", "hand-tuned 1", 1.5)
    at_most("penstock by symbol 256", "penstock by symbol 1", 3)
    at_least("plain 16", "penstock 16", 15)
    at_least("plain 64", "penstock 64", 60)
    at_least("plain by symbol 16", "penstock by symbol 16", 6)
    at_least("plain overlapping", "penstock overlapping", 8)


def _count_operations(bench: WindowsBench, source: Source) -> None:
    """Count operations of the papers' slice scan, once for each strategy: counts do not vary."""
    counted: dict[str, dict[str, Any]] = {}
    windows = bench.workload.windows(bench.workload.counted)
    for strategy in STRATEGIES:
        bench.say(f"counting operations: {strategy}, {len(windows)} queries")
        ran = run_penstock(bench.session, source, Setting(windows, on_disk=False, strategy=strategy, kernel="scan"))
        counted[strategy] = {
            "partial": ran.partial_operations,
            "final": ran.final_operations,
            "published": PUBLISHED.get(strategy),
            "seconds_once": round(ran.seconds, 3),
        }
    bench.figures.measurements["operations"] = counted
    unshared, shared = (counted[s]["partial"] + counted[s]["final"] for s in ("unshared paired", "shared paired"))
    bench.figures.expect("operations, unshared paired / shared paired", unshared / shared, ">=", 100)


def _watch_memory(bench: WindowsBench, source: Source) -> None:
    """Cut the same rows into more batches: memory should not notice."""
    workload = bench.workload
    more = bench.write("more", workload.rows, workload.more_files, workload.rows / HOUR_S)
    windows, found = workload.windows(max(workload.by_symbol)), {}
    for cut in (source, more):
        bench.say(f"watching memory over {cut.files} batches")
        apart = workload.fresh_processes
        found[cut.files] = memory_apart(cut, windows) if apart else memory_here(bench.session, cut, windows)
    bench.figures.measurements["memory"] = list(found.values())
    few, many = found[source.files], found[more.files]
    label = f"{more.files} batches / {source.files}"
    for name, key in (
        ("Python peak", "python_peak_bytes"),
        ("JVM peak", "jvm_peak_bytes"),
        ("JVM live", "jvm_live_bytes"),
    ):
        bench.figures.expect(f"{name} memory, {label}", many[key] / few[key], "<=", 1.15)
    growth = many["python_bytes_at_the_end"] / many["python_bytes_after_a_third"]
    bench.figures.expect(f"Python memory, end / a third of {more.files} batches", growth, "<=", 1.15)


def _time_small_batches(bench: WindowsBench, _: Source) -> None:
    """Time batches so small that the fixed cost of each one shows."""
    workload = bench.workload
    rows = workload.small_rows * workload.small_batches
    source = bench.write("small", rows, workload.small_batches, rows / (9.0 * workload.small_batches))
    settings = {
        "state in memory": Setting(workload.short_windows(), on_disk=False),
        "state on disk": Setting(workload.short_windows()),
    }
    periods: dict[str, list[float]] = {"bare": [], **{name: [] for name in settings}}

    def noting(name: str, batch_ends: Callable[[], list[float]]) -> float:
        each = [after - before for before, after in pairwise(batch_ends())]
        periods[name] += each
        return statistics.median(each)

    runs: dict[str, Callable[[], float]] = {
        "bare": partial(noting, "bare", lambda: bare_limit(bench.session, source)[1:])
    }
    for name, setting in settings.items():
        runs[name] = partial(noting, name, partial(_batch_ends, bench, f"small, {name}", source, setting))
    if workload.warm:
        interleave(runs, 1, lambda text: bench.say(f"warming up, {text} a batch"))
        periods.update({name: [] for name in periods})
    interleave(runs, workload.repetitions, lambda text: bench.say(f"{text} a batch"))
    _expect_small(bench, {name: statistics.median(each) for name, each in periods.items()})


def _batch_ends(bench: WindowsBench, name: str, source: Source, setting: Setting) -> list[float]:
    """Run Penstock and return when each batch ended."""
    bench.penstock(name, source, setting)
    return bench.last[name].batch_ends


def _expect_small(bench: WindowsBench, median: dict[str, float]) -> None:
    """Compare the latency of small batches with the bare one."""
    steps = {name: ran.steps for name, ran in bench.last.items() if name.startswith("small, ")}
    bench.figures.measurements["small_batches"] = {
        "median_batch_seconds": {name: round(value, 4) for name, value in median.items()},
        "steps": steps,
    }
    for name, bound in (("state in memory", 1.5), ("state on disk", 2.0)):
        bench.figures.expect(f"small batches, {name} / bare", median[name] / median["bare"], "<=", bound)
