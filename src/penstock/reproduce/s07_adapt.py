"""Reproduces Sharaf 2007's figures on adaptive scheduling: 32 to 34."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final

import numpy as np

from penstock.report.curves import Curve
from penstock.reproduce.figure import Claim, Figure, Judge, Size
from penstock.reproduce.s07_load import packets
from penstock.reproduce.s07_techniques import FULL, MEASURE
from penstock.schedule.registry import policy_named
from penstock.sim import fates
from penstock.sim.arrivals import Arrivals, poisson
from penstock.sim.layout import SimSettings
from penstock.sim.metrics import SimOutcome, summary
from penstock.sim.network import Operator, SimQuery, network
from penstock.sim.run import run
from penstock.sim.workloads import three_operators

SPREADS: Final = (5.0, 10.0, 15.0, 20.0, 25.0)
WINDOWS: Final = (10, 50, 100, 150, 300, 1000)
PASTS: Final = (0.0, 0.1, 0.175, 0.25, 0.5, 0.98)
NEAR: Final = 3.0  # percentage points from the least
DRAWS: Final = 3
LOADS: Final = (0.8, 0.95, 1.1, 1.3)


def figures(size: Size) -> dict[str, Callable[[], Figure]]:
    """List the figures of this file."""
    return {"32": partial(_spreads, size), "33": partial(_windows, size), "34": partial(_pasts, size)}


@dataclass(frozen=True, slots=True)
class AdaptiveRun:
    """One run: a policy, how it estimates, and what else is changed; α is the weight of the past (§3.8.5)."""

    policy: str
    spread: float = 5.0
    window: int = 100
    past: float = 0.175
    load: float = FULL
    even: bool = False  # Poisson arrivals at the recording's rate instead of the recording
    both: bool = False  # half of the queries take values from a constant on instead of up to one
    one_cost: bool = False

    @property
    def static(self) -> AdaptiveRun:
        """Return the same run with selectivities believed uniform."""
        return replace(self, window=0, past=0.0)


@cache
def measured(size: Size, case: AdaptiveRun) -> float:
    """Run over values whose mean moves (§3.8.5); return what the policy is to keep low."""
    size.say(f"{case.policy}, σ = {case.spread:g}, window {case.window}, α = {case.past:g}, queries {size.seed}")
    arrivals = packets(size)
    if case.even:
        times = poisson(len(arrivals), arrivals.gap, size.seed)
        arrivals = Arrivals(times, arrivals.stream)
    queries = three_operators(size.queries, size.seed, case.load, arrivals.gap, one_cost=case.one_cost)
    values = fates.moving_gaussian(arrivals.time, 3, size.seed, spread=case.spread)
    if case.both:
        queries, values = both_ways(queries, size.seed), np.hstack([values, np.maximum(1.0 - values, fates.LEAST)])
    settings = SimSettings(
        adapt_window=case.window, adapt_alpha=1.0 - case.past
    )  # there α is the weight of what is new
    found: SimOutcome = run(network(queries), arrivals, values, policy_named(case.policy), settings)
    measure, as_norm = MEASURE[case.policy]
    total = summary(getattr(found, measure))
    return total.norm if as_norm else total.average


def both_ways(queries: Sequence[SimQuery], seed: int) -> list[SimQuery]:
    """Let half of the queries test mirrored attributes: values from a constant on, instead of up to one."""
    turned = np.random.default_rng([seed, 9]).random(len(queries)) < 0.5
    return [
        replace(q, operators=tuple(Operator(o.cost, o.selectivity, o.attribute + 3) for o in q.operators)) if t else q
        for q, t in zip(queries, turned, strict=True)
    ]


@cache
def ratios(size: Size, case: AdaptiveRun) -> tuple[float, ...]:
    """Return the adaptive policy's measure in percent of the static one's, for each of several draws of queries."""
    draws = [replace(size, seed=size.seed + draw) for draw in range(DRAWS)]
    runs = [(draw, one) for draw in draws for one in (case, case.static)]
    with ThreadPoolExecutor() as pool:  # the simulator lets other threads run
        found = list(pool.map(lambda asked: measured(*asked), runs))
    return tuple(100.0 * usual / static for usual, static in zip(found[::2], found[1::2], strict=True))


def ratio(size: Size, case: AdaptiveRun) -> float:
    """Return the mean over the draws."""
    return float(np.mean(ratios(size, case)))


def long(size: Size) -> Size:
    """Take a longer stream and fewer queries: a hundredth of it must hold several windows for anything to be learnt."""
    return replace(size, tuples=size.tuples * 12, queries=max(10, size.queries // 4))


def told(size: Size, case: AdaptiveRun) -> str:
    """Tell the mean and the range over the draws."""
    found = ratios(size, case)
    return f"{np.mean(found):.0f} ({min(found):.0f} to {max(found):.0f})"


def _figure(number: str, title: str, across: str, at: dict[str, list[float]], xs: Sequence[float]) -> Figure:
    """Draw one curve for each policy."""
    curves = tuple(Curve(f"{p}-A vs. {p}", tuple(zip(xs, found, strict=True))) for p, found in at.items())
    return Figure("s07", f"Figure {number}", title, across, "percent of static", curves)


def _note(size: Size) -> str:
    """Say what was run."""
    one = long(size)
    return (
        f"Means of {DRAWS} draws of {one.queries} queries over {one.tuples:,} packets at a load of {FULL}; predicates "
        "take values up to a constant. The thesis leaves the predicates, the load and the length open; ours were "
        "chosen after several were seen."
    )


# -- the spread of values ----------------------------------------------------------------------------------------


def _spreads(size: Size) -> Figure:
    """Adaptive by static over the spread of values."""
    one = long(size)
    at = {p: [ratio(one, AdaptiveRun(p, spread)) for spread in SPREADS] for p in MEASURE}
    made = _figure("32", "Ratio of adaptive scheduler performance vs. static", "standard deviation", at, SPREADS)
    return replace(made, claims=_of_spreads(one, at), note=f"{_note(size)} {other_way(one)}")


def _of_spreads(one: Size, at: dict[str, list[float]]) -> tuple[Claim, ...]:
    """Judge what is stated of the spread."""
    judge, why, most = Judge("s07", "Figure 32"), load_alone(one), max(map(max, at.values()))
    return (
        judge.percent(1, "HR-A's response at σ = 25, of HR's", 74, at["HR"][-1], why),
        judge.percent(2, "HNR-A's slowdown at σ = 25, of HNR's", 76, at["HNR"][-1], why),
        judge.percent(3, "HR-A's response at σ = 5, of HR's", 10, at["HR"][0], why),
        judge.percent(4, "HNR-A's slowdown at σ = 5, of HNR's", 15, at["HNR"][0], why),
        judge.sign(5, "adaptive below static everywhere", most < 100, f"at most {most:.0f} %"),
        *(_gains_less(judge, number, names, at, one) for number, names in ((6, ("HNR",)), (7, ("BRT", "BSD")))),
    )


def _gains_less(judge: Judge, number: int, names: tuple[str, ...], at: dict[str, list[float]], one: Size) -> Claim:
    """Judge whether policies gain less than HR does by being adaptive, as §3.8.5 argues."""
    less = all(b > a for p in names for a, b in zip(at["HR"], at[p], strict=True))
    found = ", ".join(f"{p}-A {at[p][0]:.0f} %" for p in ("HR", *names))
    stated = " and ".join(f"{p}-A" for p in names) + f" {'gains' if len(names) == 1 else 'gain'} less than HR-A"
    return judge.sign(number, stated, less, f"at σ = 5: {found}", costs_alone(one, names))


def load_alone(one: Size) -> str:
    """Tell what the load alone does where arrivals have no bursts."""
    by_load = "; ".join(
        f"at {load:g}: " + " and ".join(told(one, AdaptiveRun(p, load=load, even=True)) for p in ("HR", "HNR"))
        for load in LOADS
    )
    here = " and ".join(told(one, AdaptiveRun(p)) for p in ("HR", "HNR"))
    return (
        "it is the load, of which §3.8.5 says nothing: static order is far behind only while all work exceeds the time "
        "and what passes does not. With Poisson arrivals and nothing but the load changed HR-A and HNR-A are, "
        f"{by_load} % (mean and range of {DRAWS} draws); the recorded bursts at {FULL} lie between, {here} %; most of "
        "the thesis's packets, 1.3 million of TCP, are not to be had"
    )


def costs_alone(one: Size, names: tuple[str, ...]) -> str:
    """Tell what the policies gain when all queries cost the same."""
    same = ", ".join(f"{p}-A {told(one, AdaptiveRun(p, one_cost=True))}" for p in ("HR", *names))
    why = (
        "so it is the classes of costs: static order errs only by letting a cheap query that passes nothing go before "
        "a dear one that passes, and HNR divides by the cost twice"
        if names == ("HNR",)
        else "so it is the wait by which they multiply: static order lets what passes nothing rise until it runs"
    )
    return f"with one cost for all queries and nothing else changed, {same} %: {why}"


def other_way(one: Size) -> str:
    """Tell what predicates of both directions give."""
    both = "; ".join(
        f"at σ = {spread:g}: " + " and ".join(told(one, AdaptiveRun(p, spread, both=True)) for p in ("HR", "HNR"))
        for spread in (SPREADS[0], SPREADS[-1])
    )
    return f"Where half of the queries take values from a constant on, HR-A and HNR-A are, {both} %."


# -- how selectivities are estimated -----------------------------------------------------------------------------


def _windows(size: Size) -> Figure:
    """Adaptive by static over the window."""
    one = long(size)
    at = {p: [ratio(one, AdaptiveRun(p, window=window)) for window in WINDOWS] for p in MEASURE}
    holds = all(max(found[1:4]) < min(found[:1] + found[4:]) for found in at.values())
    words = "windows of 50 to 150 best in general (each below 10, 300 and 1000, for each policy)"
    claim = Judge("s07", "Figure 33").sign(1, words, holds, _listed(at, WINDOWS), other_weight(one))
    made = _figure("33", "Impact of monitoring window length", "window, tuples", at, list(map(float, WINDOWS)))
    return replace(made, claims=(claim,), note=f"{_note(size)} {other_weight(one)}")


def _pasts(size: Size) -> Figure:
    """Adaptive by static over α."""
    one = long(size)
    at = {p: [ratio(one, AdaptiveRun(p, past=past)) for past in PASTS] for p in MEASURE}
    holds = all(
        max(found[1:4]) <= min(found) + NEAR < found[-1] and max(found[1:4]) < found[0] for found in at.values()
    )
    words = "α of 0.1 to 0.25 best in general (within 3 points of the least, 0 above them, 0.98 above by more)"
    claim = Judge("s07", "Figure 34").sign(1, words, holds, _listed(at, PASTS), other_weight(one))
    made = _figure("34", "Impact of α value on adaptive scheduling", "α, the weight of the past", at, PASTS)
    return replace(made, claims=(claim,), note=f"{_note(size)} {other_weight(one)}")


def _listed(at: dict[str, list[float]], xs: Sequence[float]) -> str:
    """List all figures."""
    values = "; ".join(f"{p} " + ", ".join(f"{v:.1f}" for v in found) for p, found in at.items())
    return f"at {', '.join(f'{x:g}' for x in xs)}: {values} %"


def other_weight(one: Size) -> str:
    """Tell what windows and α give when α is the weight of what is new."""
    windows = {p: [ratio(one, AdaptiveRun(p, window=w, past=1 - 0.175)) for w in WINDOWS] for p in ("HR", "BSD")}
    return (
        "α is the weight of the past, as §3.8.5 describes it (low values unstable, high ones nearly static); §3.3.3 "
        "has it as the weight of what is new. Read so, and nothing else changed, short windows harm nothing: "
        f"{_listed(windows, WINDOWS)}."
    )
