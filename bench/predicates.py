"""Times hundreds of predicates in one pass: workloads B and C of Krishnamurthy et al. (2006, §6).

Every query sums price * vol over trades joined with the tables close and index. B: all predicates different, one
tumbling window of 600 s. C regular: √n windows × √n predicates. C low sharing: n windows and n predicates, all
different. Constants are the values of random trades. Four million generated trades at the paper's rate, three and a
half hours of event time, in eight batches. Nothing here asserts a time: machines differ, the ratios within a run much
less.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from pyspark.sql import SparkSession

from bench._frame import SETTINGS, Bench, Save, do_not_save, run_benchmark, scratch_folder, tell_quick_look
from bench._measure import Figures, Progress, interleave, timing
from bench._predicates.case import case_answers, case_timing, case_timing_apart
from bench._predicates.counting import PUBLISHED, count
from bench._predicates.market import RATE, Exchange, Volumes, first_rows, with_round_lots, write_exchange
from bench._predicates.oracle import oracle
from bench._predicates.queries import Drawing, Kind
from bench._predicates.report import print_predicates
from bench._predicates.running import SHARED, UNSHARED, Ran, bare_limit, differences, run
from bench._predicates.searching import COUNTS, compare_searches
from bench._predicates.thousands import Crowd, live_with_thousands
from penstock.share.plan import Strategy
from penstock.spark.session.embedded import embedded

# As in bench windows: Spark keeps the code of all plans, so that every side is measured with its code compiled.
QUICK_ROWS: Final = 1_000_000  # fewer rows than these are a quick look, with fewer queries
SAMPLE: Final = 20_000  # trades whose values become constants
UNSHARED_ROWS: Final = (100_000, 500_000)  # that queries without sharing are measured on

Data = tuple[Exchange, Drawing]


@dataclass(frozen=True, slots=True)
class Workload:
    """The sizes of everything; other sizes than these are a quick look, not the benchmark."""

    rows: int = 4_000_000
    files: int = 8
    seed: int = 1
    repetitions: int = 3
    same_window: tuple[int, ...] = (16, 64, 256, 1024)  # B
    regular: tuple[int, ...] = (16, 64, 256)  # C
    low_sharing: tuple[int, ...] = (16, 64, 256)  # C
    at: int = 256  # where the sides are compared
    most: int = 1024  # and where two of them are compared again
    compared: int = 16  # queries of C whose answers are looked at
    volumes: Volumes = "as generated"  # the other ones are looked at once; the paper's were round lots
    patience_s: float = 180.0  # beyond, a rival is measured on fewer files
    default_jvm: bool = True
    warm: bool = True
    crowd: Crowd = field(default_factory=Crowd)

    @property
    def other_volumes(self) -> Volumes:
        return "round lots" if self.volumes == "as generated" else "as generated"


def sized(rows: int, full: bool) -> Workload:
    """Make a workload of so many rows; a quick look has fewer queries too."""
    if rows >= QUICK_ROWS:
        return Workload(rows=rows, repetitions=5 if full else 3)
    crowd = Crowd(windows=5, predicates=10, batch_rows=1_000, warm_batches=3, additions=2, compared=10)
    few = (16, 64) if full else (16,)
    return Workload(
        rows=rows,
        files=4,
        repetitions=1,
        same_window=few,
        regular=few,
        low_sharing=few,
        at=16,
        most=few[-1],
        warm=False,
        crowd=crowd,
    )


@dataclass(slots=True)
class PredicatesBench(Bench[Workload]):
    """The benchmark of predicates."""

    last: dict[str, Ran] = field(default_factory=dict)  # of each of Penstock's runs

    def write(self, name: str, rows: int, files: int, rate: float) -> Data:
        """Generate trades, cut into batches."""
        self.say(f"generating {rows:,} trades in {files} files")
        seed, folder = self.workload.seed, self.scratch / name
        return self.drawn_from(write_exchange(self.session, folder, rows, files, seed=seed, rate=rate))

    def drawn_from(self, exchange: Exchange) -> Data:
        """Look at some trades, to draw constants from."""
        return exchange, Drawing(exchange.sample(SAMPLE, self.workload.seed), self.workload.seed)

    def penstock(self, name: str, data: Data, kind: Kind, number: int, strategy: Strategy = SHARED) -> float:
        """Run Penstock and remember what it did."""
        exchange, drawing = data
        self.last[name] = run(self.session, exchange, drawing.questions(kind, number), strategy=strategy)
        return self.last[name].seconds

    def note(self, name: str, seconds: list[float], **more: Any) -> None:
        """Keep the times of one side, and what Penstock did in its last run."""
        found = timing(seconds, self.workload.rows) | more
        if name in self.last:
            ran = self.last[name]
            found |= {"creating_seconds": round(ran.creating_seconds, 3), "answers": ran.answers}
            found |= {"steps": ran.steps, "work": ran.work}
        self.figures.measurements.setdefault("times", {})[name] = found


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named."""
    usual = Workload()
    workload = sized(rows or usual.rows, full)
    run_benchmark(path, lambda say, save: measure(embedded(settings=SETTINGS), workload, say, save), print_predicates)
    tell_quick_look(workload.rows, usual.rows)


def measure(session: SparkSession, workload: Workload, say: Progress, save: Save = do_not_save) -> Figures:
    """Measure everything, one thing after the other; what is known is saved after each."""
    with scratch_folder() as scratch:
        bench = PredicatesBench(workload, session, scratch, say, save=save)
        sizes = workload.rows, workload.files, RATE * workload.rows / Workload().rows  # the same hours in a quick look
        data = bench.write("trades", *sizes)
        other = bench.drawn_from(with_round_lots(data[0], scratch / "lots"))
        if workload.volumes == "round lots":
            data, other = other, data
        bench.take(_compare_answers, data)
        for step in (_time_shared, _time_unshared, _live_with_thousands, _search, _count, _time_rival):
            bench.take(step, data, other)
        bench.take(_expect)
        return bench.figures


def _search(bench: PredicatesBench, data: Data, other: Data) -> None:
    """Compare the ways to find a row's place among constants."""
    counts = tuple(count for count in COUNTS if count <= bench.workload.most)
    bench.say("comparing searches")
    found = compare_searches(bench.session, data[0], bench.workload.repetitions, counts)
    bench.figures.measurements["search"] = found


def _compare_answers(bench: PredicatesBench, data: Data) -> None:
    """Make sure, untimed, that all sides answer the same: B as the rival, C as the oracle."""
    workload, (exchange, drawing), found = bench.workload, data, {}
    sets: list[tuple[Kind, int]] = [("B", workload.at), ("C regular", workload.at), ("C low", workload.at)]
    for kind, number in sets:
        questions = drawing.questions(kind, number)
        chosen = range(number) if kind == "B" else range(0, number, max(1, number // workload.compared))
        ours = run(bench.session, exchange, questions, keep=chosen).kept
        if kind == "B":
            theirs = case_answers(bench.session, exchange, drawing.predicates(number))
        else:
            theirs = oracle(exchange, [questions[n] for n in chosen])
        differing = [d for a, b in zip(ours, theirs, strict=True) for d in differences(a, b)]
        found[f"{kind} {number}"] = {"answers": sum(map(len, ours)), "differing": len(differing)}
        bench.say(f"answers compared, {kind} {number}: {found[f'{kind} {number}']} {differing[:3] or ''}")
    bench.figures.measurements["answers_compared"] = found
    right = all(f["answers"] and not f["differing"] for f in found.values())
    bench.figures.expect_true("answers equal one CASE per query's and the oracle's", right)


def _time_shared(bench: PredicatesBench, data: Data, other: Data) -> None:
    """Time all that is quick, in turns."""
    runs = _quick_runs(bench, data, other)
    if bench.workload.warm:
        for name, warm in runs.items():
            bench.say(f"warming up: {name}: {warm():.2f} s")
    for name, seconds in interleave(runs, bench.workload.repetitions, bench.say).items():
        bench.note(name, seconds)


def _quick_runs(bench: PredicatesBench, data: Data, other: Data) -> dict[str, Callable[[], float]]:
    """List the runs by name."""
    workload = bench.workload
    runs: dict[str, Callable[[], float]] = {"bare limit": partial(bare_limit, bench.session, data[0])}

    def ours(name: str, kind: Kind, number: int, over: Data = data) -> None:
        runs[name] = partial(bench.penstock, name, over, kind, number)

    ours(f"no predicates {workload.at}", "no predicates", workload.at)
    for number in workload.same_window:
        ours(f"B {number}", "B", number)
    for number in workload.regular:
        ours(f"C regular {number}", "C regular", number)
    for number in workload.low_sharing:
        ours(f"C low {number}", "C low", number)
    ours(f"B {workload.at}, {workload.other_volumes}", "B", workload.at, other)
    return runs


def _time_unshared(bench: PredicatesBench, data: Data, _: Data) -> None:
    """Time the same queries without sharing on few rows, at two sizes after a warm-up; the difference is scaled.

    Every row is copied to every query's tree: all of them would take an hour. Planning and compiling 256 trees takes
    longer than few rows do, and is left out by taking the difference.
    """
    workload, at = bench.workload, bench.workload.at
    kinds: tuple[Kind, ...] = ("B", "C regular", "C low")
    sizes = [min(rows, workload.rows) for rows in UNSHARED_ROWS]
    parts = [(first_rows(data[0], bench.scratch / f"first{n}", rows), data[1]) for n, rows in enumerate(sizes)]
    for kind in kinds:
        name = f"{kind} {at}, unshared"
        bench.penstock(name, parts[0], kind, at, UNSHARED)
        few, more = (bench.penstock(name, part, kind, at, UNSHARED) for part in parts)
        bench.say(f"{name}: {few:.2f} and {more:.2f} s for {sizes[0]:,} and {sizes[1]:,} rows")
        each = max(0.0, more - few) / max(1, sizes[1] - sizes[0])  # what is not spent on rows is left out
        scaled = {"scaled_from_rows": list(sizes), "measured_seconds": [round(few, 3), round(more, 3)]}
        bench.note(name, [each * workload.rows if each else more], **scaled)


def _time_rival(bench: PredicatesBench, data: Data, _: Data) -> None:
    """Time one CASE per query, on this JVM and on one with default options."""
    workload, (exchange, drawing) = bench.workload, data
    for number in dict.fromkeys((workload.at, workload.most)):
        predicates = drawing.predicates(number)
        wanted = (predicates, workload.repetitions, workload.patience_s)
        sides: dict[str, Callable[[], dict[str, Any]]] = {
            "compiled": partial(case_timing, bench.session, exchange, *wanted)
        }
        if workload.default_jvm:
            sides["default JVM"] = partial(case_timing_apart, exchange, *wanted)
        for side, timed in sides.items():
            found = timed()
            name = f"CASE {number}, {side}"
            bench.note(name, found.pop("seconds"), **found)
            middle = bench.figures.measurements["times"][name]["median_seconds"]
            bench.say(f"{name}: {middle:.2f} s {found if 'of_files' in found else ''}")


def _count(bench: PredicatesBench, data: Data, other: Data) -> None:
    """Count the paper's operations for every query set, and put its own figures beside them."""
    workload, counted = bench.workload, {}
    sets: list[tuple[str, Data, Kind, int]] = [
        *((f"B {n}", data, "B", n) for n in workload.same_window),
        *((f"C regular {n}", data, "C regular", n) for n in workload.regular),
        *((f"C low {n}", data, "C low", n) for n in workload.low_sharing),
        (f"B {workload.at}, {workload.other_volumes}", other, "B", workload.at),
    ]
    for name, (exchange, drawing), kind, number in sets:
        bench.say(f"counting operations: {name}")
        counted[name] = count(exchange, drawing.questions(kind, number)).described()
    bench.figures.measurements["counts"] = counted
    bench.figures.measurements["published"] = PUBLISHED


def _expect(bench: PredicatesBench) -> None:
    """Compare the ratios with their targets."""
    times, at, most = bench.figures.measurements["times"], bench.workload.at, bench.workload.most
    middle = {name: statistics.median(run["seconds"]) for name, run in times.items()}

    bounds: list[tuple[str, str, Literal["<=", ">="], float]] = [
        (f"B {at}", f"no predicates {at}", "<=", 1.8),
        (f"CASE {at}, default JVM", f"B {at}", ">=", 20),
        (f"CASE {at}, compiled", f"B {at}", ">=", 2),
        (f"C regular {at}, unshared", f"C regular {at}", ">=", 10),
        (f"C low {at}, unshared", f"C low {at}", ">=", 3),
        (f"C low {at}", f"C regular {at}", "<=", 2.5),
    ]
    if most != at:
        bounds += [(f"CASE {most}, compiled", f"B {most}", ">=", 8), (f"B {most}", f"B {at}", "<=", 2.5)]
    for name, over, sign, bound in bounds:
        if name in middle:  # a side may be left out
            bench.figures.expect(f"{name} / {over}", middle[name] / middle[over], sign, bound)


def _live_with_thousands(bench: PredicatesBench, data: Data, other: Data) -> None:
    """Run thousands of queries in small batches, and add some."""
    crowd = bench.workload.crowd
    rows, rate = crowd.batch_rows * crowd.batches, RATE * crowd.batch_rows / Crowd().batch_rows
    exchange, drawing = bench.write("crowd", rows, crowd.batches, rate)
    found = live_with_thousands(bench.session, exchange, drawing, crowd, bench.say)
    bench.figures.measurements["thousands"] = found
    name = f"{found['queries_compared']} of {found['queries']:,} queries equal the oracle"
    bench.figures.expect_true(name, found["answers_compared"] > 0 and not found["differing"])
    bench.figures.expect("one query more, ms at the next batch", found["extra_ms"], "<=", 50)
