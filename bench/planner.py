"""Times and counts the planner's work, checks the sampler's bound, and compares live plans with predictions.

Planning is timed without any warm-up, in this process. The live part calibrates first, then runs the same queries
Shared, unshared and woven, in turns, at a low and a high rate, timed from the third batch on, when trees have been
chosen; ratios of times are held against ratios of predicted ones. Where no plan may beat Shared, all plans of classes
of the queries are priced, and those of few classes run.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench._frame import Save, run_benchmark, scratch_folder
from bench._measure import Figures, Progress, interleave
from bench._planner import evidence
from bench._planner import live as lives
from penstock.calibrate import calibrate
from penstock.model.strategy import Strategy
from penstock.reproduce import k06_workload
from penstock.reproduce.w11_workload import windows, woven_queries
from penstock.share.slices import Progression
from penstock.share.weave.baselines import exhaustive
from penstock.share.weave.costs import Rates, UnitCosts
from penstock.share.weave.counting import STEPS, counted_weave
from penstock.share.weave.density import scale_of
from penstock.share.weave.incremental import IncrementalPlanner
from penstock.share.weave.naive import Naive, Optimizations
from penstock.share.weave.sampling import sampled_density
from penstock.share.weave.weaving import weave_share
from penstock.spark.session.embedded import embedded
from penstock.store.rates import keep_rates

SECOND = 1_000_000
WAYS: tuple[Strategy, ...] = ("weave", "shared paired", "unshared paired")
SIZES = {"k06-c": 2, "w11": 1, "w11-mixed": 3}  # how many times the rows each workload has
SELDOM = 2  # runs of No Share that take most of a minute each, the first to warm up
NAMED = ("k06-c", "w11")  # the workloads for which all plans are looked at


@dataclass(frozen=True, slots=True)
class Workload:
    """How many queries, workloads and rows."""

    queries: int = 1_000
    added: int = 100
    rate: float = 50.0
    unions: int = 1_000
    small: int = 200
    twins: int = 100
    counted: int = 250
    live: bool = True
    rows: int = 200_000  # of W11's; K06's have twice as many, the mixed ones three times
    live_queries: int = 500
    shard_queries: int = 64
    low: float = 50.0  # rows a second of event time
    high: float = 1_000.0
    repetitions: int = 5
    calibration_rows: int = 400_000
    seed: int = 1


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named; ``--rows`` is for the live part."""
    workload = Workload(rows=rows or Workload().rows)

    def measure(say: Progress, save: Save) -> Figures:
        figures = plan(workload, say)
        save(figures)
        if workload.live:
            measure_live(workload, figures, say)
        return figures

    run_benchmark(path, measure)


def plan(workload: Workload, say: Callable[[str], None]) -> Figures:
    """Time and count what needs no engine."""
    figures = Figures({"workload": asdict(workload)})
    for step in (_time_planning, _count_operations, _sample, _compare_small):
        say(step.__name__.removeprefix("_").replace("_", " "))
        step(workload, figures)
    return figures


def _time_planning(workload: Workload, figures: Figures) -> None:
    """Weave all queries, then add some more one by one."""
    all_of_them = woven_queries(workload.queries, seed=workload.seed)
    began = time.perf_counter()
    planner = IncrementalPlanner(UnitCosts(workload.rate), dict(enumerate(all_of_them)))
    planned = time.perf_counter() - began
    more = woven_queries(workload.added, seed=workload.seed + 1)
    began = time.perf_counter()
    for number, woven_query in enumerate(more, workload.queries):
        planner.add(number, woven_query)
    added = time.perf_counter() - began
    figures.measurements["planning"] = {"seconds": planned, "adding_seconds": added, "trees": len(planner.trees)}
    figures.expect(f"{workload.queries} queries woven, seconds", planned, "<=", 20.0)
    figures.expect(f"{workload.added} more added, seconds", added, "<=", 2.0)


def _count_operations(workload: Workload, figures: Figures) -> None:
    """Count operations with none, one, two and all three optimizations (Guirguis et al. 2011, §8.4)."""
    counted = counted_weave(
        woven_queries(workload.counted, skew=0.7, overlap=10.0, seed=workload.seed), UnitCosts(100.0)
    )
    figures.measurements["operations"] = dict(zip(STEPS, counted.operations, strict=True))
    figures.expect("operations, naive / all three optimizations", counted.saving, ">=", 300.0)


def _sample(workload: Workload, figures: Figures) -> None:
    """Hold the sampler's bound against unions whose density is known."""
    draw, outside = random.Random(workload.seed), 0
    steps = [n for n in range(2, 200) if 720_720 % n == 0]
    for number in range(workload.unions):
        drawn = [Progression(draw.choice(steps), draw.randrange(200)) for _ in range(draw.randint(2, 14))]
        union = sorted(set(drawn))
        scale = scale_of(union)
        exact = int(scale.bits(union).sum()) / (scale.period * scale.granule)
        outside += not sampled_density(union, drawn=2_048, seed=number).holds(exact)
    figures.measurements["sampler"] = {"unions": workload.unions, "outside": outside}
    figures.expect(f"unions outside the 99.9 % bound, of {workload.unions}", float(outside), "<=", 5.0)


def _compare_small(workload: Workload, figures: Figures) -> None:
    """Hold plans of few queries against the naive algorithm's, and against the best of all."""
    draw, equal, worst, same = random.Random(workload.seed), 0, 0.0, 0
    for number in range(workload.small):
        some = woven_queries(draw.randint(2, 9), overlap=draw.choice((5.0, 10.0, 50.0)), seed=number)
        costs = UnitCosts(draw.choice((0.3, 1.2, 5.0, 20.0, 50.0, 200.0)))
        ours, best = weave_share(some, costs).cost, exhaustive(some, costs).cost
        equal, worst = equal + (ours <= best * (1 + 1e-9)), max(worst, ours / best - 1)
    for number in range(workload.twins):
        some = [s for s in woven_queries(10, overlap=10.0, seed=number) if s.window.slide <= 100 * SECOND]
        costs = UnitCosts(draw.choice((0.3, 1.2, 5.0, 20.0)))
        same += not some or Naive(some, costs, Optimizations()).run().trees == weave_share(some, costs).trees
    figures.measurements["small"] = {"equal": equal, "of": workload.small, "worst_dearer": worst, "same_as_naive": same}
    figures.expect("plans as cheap as the best of all, of 100", 100.0 * equal / workload.small, ">=", 90.0)
    figures.expect_true("the naive algorithm's plans", same == workload.twins)


def measure_live(workload: Workload, figures: Figures, say: Progress) -> None:
    """Run workloads woven, shared and unshared, in turns."""
    session, found, seen = embedded(), dict[str, Any](), dict[str, Any]()
    with scratch_folder() as scratch:
        rates = _calibrated(workload, scratch, figures, say)
        for rate in (workload.low, workload.high):
            for name, queries in _live_queries(workload).items():
                rows, called = SIZES[name] * workload.rows, f"{name} at {rate:g} rows/s"
                case = lives.write(session, scratch, f"{name}-{rate:g}", rows, rate, queries)
                say(f"{called}: {len(queries)} queries, {rows:,} rows")
                found[called] = _in_turns(case, workload, rates, say, named=name in NAMED)
                if name in NAMED:
                    say(f"{called}: all plans of {evidence.RUN} classes")
                    seen[called] = evidence.look(session, case, rates, workload.repetitions, say)
    figures.measurements |= {"live": found, "evidence": seen}
    _judge_live(found, seen, figures)


def _calibrated(workload: Workload, scratch: Path, figures: Figures, say: Progress) -> Rates:
    """Measure the rates of this machine now, and let the engines of this process go by them."""
    rates = calibrate(workload.calibration_rows, 3, say).rates
    os.environ["PENSTOCK_HOME"] = str(scratch)
    keep_rates(rates)
    figures.measurements["rates_seconds"] = asdict(rates)
    return rates


def _live_queries(workload: Workload) -> dict[str, list[str]]:
    """Write the queries of every workload: K06's C, W11's, and W11's with two groupings."""
    shards = [(w.length, w.slide) for w in k06_workload.windows(32, workload.seed)]
    drawn = [(w.length // SECOND, w.slide // SECOND) for w in windows(workload.live_queries, seed=workload.seed)]
    return {
        "k06-c": lives.shards(workload.shard_queries, shards),
        "w11": lives.acqs(drawn),
        "w11-mixed": lives.mixed(drawn),
    }


def _in_turns(case: lives.Live, workload: Workload, rates: Rates, say: Progress, *, named: bool) -> dict[str, Any]:
    """Run all strategies in turns, the first runs of each to warm up; of a workload not named, No Share twice only."""
    session, runs = embedded(), dict[str, list[lives.Ran]]({way: [] for way in WAYS})

    def once(way: Strategy) -> float:
        runs[way].append(lives.run(session, case, way, rates))
        return runs[way][-1].seconds

    ways = WAYS if named else WAYS[:2]
    for way in (*ways, *WAYS[:2]):
        once(way)
    for way in ways:
        runs[way].clear()
    interleave({w: (lambda w=w: once(w)) for w in ways}, workload.repetitions, say)  # type: ignore[misc]
    for way in WAYS[len(ways) :]:
        for number in range(SELDOM):
            say(f"run {number + 1} of {SELDOM}: {way}: {once(way):.2f} s")
        del runs[way][0]
    return {way: _summed_up(runs[way]) for way in WAYS}


def _summed_up(runs: list[lives.Ran]) -> dict[str, Any]:
    """Take medians of runs alike."""
    last = runs[-1]
    return {
        "median_seconds": statistics.median(run.seconds for run in runs),
        "seconds": [run.seconds for run in runs],
        "second_batch_seconds": statistics.median(run.second for run in runs),
        "steps": {step: statistics.median(run.steps[step] for run in runs) for step in last.steps},
        "partials": last.partials,
        "trees": last.trees,
        "predicted_seconds": last.predicted,
    }


def _judge_live(found: dict[str, Any], seen: dict[str, Any], figures: Figures) -> None:
    """Compare woven plans with the better rival, and predicted ratios with measured ones."""
    gains = {}
    for name, runs in found.items():
        woven, shared, apart = (runs[way]["median_seconds"] for way in WAYS)
        figures.expect(f"{name}: woven / better of shared and unshared", woven / min(shared, apart), "<=", 1.1)
        gains[name] = min(shared, apart) / woven
        for way in WAYS[1:]:
            measured = runs[way]["median_seconds"] / woven
            told = runs[way]["predicted_seconds"] / runs["weave"]["predicted_seconds"]
            figures.expect(f"{name}: predicted / measured, {way} to woven", _off(told / measured), "<=", 1.3)
    best = max(gains, key=lambda name: gains[name])
    figures.expect(f"better of shared and unshared / woven, {best}", gains[best], ">=", 1.2)
    for name, plans in seen.items():
        priced, run = plans["shared_to_best_priced"], plans["shared_to_fastest_run"]
        figures.expect(f"{name}: shared / best of all plans of {plans['classes']} classes, priced", priced, "<=", 1.2)
        figures.expect(f"{name}: shared / fastest of {len(plans['plans_run'])} plans, run", run, "<=", 1.2)


def _off(ratio: float) -> float:
    """Return by what factor a ratio is off, either way."""
    return max(ratio, 1 / ratio)
