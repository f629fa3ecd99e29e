"""Reproduces Sharaf 2007's figures on selectivity, oracles, time, joins and aggregates: 15 to 24."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Final

import numpy as np

from penstock.report.curves import Curve
from penstock.reproduce.figure import Figure, Judge, Size, below
from penstock.reproduce.s07_load import packets
from penstock.schedule.registry import policy_named
from penstock.sim import fates
from penstock.sim.arrivals import merged, poisson
from penstock.sim.layout import Level, SimSettings
from penstock.sim.metrics import SimOutcome, Summary, summary, tardiness
from penstock.sim.network import JoinQuery, Operator, SimQuery, network
from penstock.sim.run import run
from penstock.sim.workloads import STEPS, three_operators

HIGHEST: Final = (0.1, 0.3, 0.5, 0.7, 1.0)
FULL: Final = 0.97


def figures(size: Size) -> dict[str, Callable[[], Figure]]:
    """List the figures of this file."""
    made: dict[str, Callable[[], Figure]] = {"15": partial(_selectivity, size), "16": partial(_oracle, size)}
    made |= {number: partial(_over_time, size, number) for number in OVER_TIME}
    made |= {"21": partial(_joins, size)}
    return made | {number: partial(_aggregates, size, number) for number in ("22", "23", "24")}


@cache
def by_selectivity(
    size: Size, policy: str, highest: float, *, one_cost: bool = True, own: bool = False
) -> tuple[Summary, Summary]:
    """Run queries of one cost whose selectivities reach up to a maximum (§3.8.1.9); return response and slowdown.

    With ``own``, every predicate tests an attribute of its own, so that fates do not depend on each other.
    """
    size.say(f"{policy} with selectivities up to {highest:g}")
    arrivals = packets(size)
    queries = three_operators(size.queries, size.seed, FULL, arrivals.gap, highest=highest, one_cost=one_cost)
    queries = own_attributes(queries) if own else queries
    attributes = 3 * len(queries) if own else 3
    values = fates.uniform(len(arrivals), attributes, size.seed, steps=0 if own else STEPS)
    found = run(network(queries), arrivals, values, policy_named(policy))
    return summary(found.response), summary(found.slowdown)


def own_attributes(queries: Sequence[SimQuery]) -> list[SimQuery]:
    """Let every predicate test an attribute that no other tests."""
    return [
        SimQuery(q.name, tuple(Operator(o.cost, o.selectivity, 3 * n + i) for i, o in enumerate(q.operators)), q.stream)
        for n, q in enumerate(queries)
    ]


def _selectivity(size: Size) -> Figure:
    """ℓ2 of slowdowns over the maximum selectivity; with one cost, and with the five classes of the other figures."""
    names = ("HR", "HNR", "BSD")
    at = {(p, h): by_selectivity(size, p, h)[1].norm for p in names for h in HIGHEST}
    five = {(p, h): by_selectivity(size, p, h, one_cost=False)[1].norm for p in names for h in (0.5, 1.0)}
    judge, claims = Judge("s07", "Figure 15"), []
    for i, (h, pair) in enumerate([(0.5, (44, 19)), (1.0, (61, 27))]):
        for j, (p, stated) in enumerate(zip(("HR", "HNR"), pair, strict=True), 1):
            why = (
                "with one cost HR and HNR order alike by Eq. 3.1 and 3.4, so that both cannot hold; with the five cost "
                f"classes of the other figures it is {below(five['BSD', h], five[p, h]):.0f} %"
            )
            gain = below(at["BSD", h], at[p, h])
            claims.append(judge.percent(2 * i + j, f"BSD's ℓ2 below {p}'s at {h}", stated, gain, why))
    same = [at[p, 0.1] for p in names]
    claims.append(judge.sign(5, "all alike at 0.1", max(same) < 1.1 * min(same), ", ".join(f"{v:.3g}" for v in same)))
    curves = [Curve(p, tuple((h, at[p, h]) for h in HIGHEST)) for p in names]
    curves += [Curve(f"{p}, five costs", tuple((h, five[p, h]) for h in (0.5, 1.0))) for p in names]
    title = "ℓ2 of slowdown vs. maximum operator selectivity"
    return Figure(
        "s07", "Figure 15", title, "maximum selectivity", "ℓ2 of slowdowns", tuple(curves), tuple(claims), True
    )


def _oracle(size: Size) -> Figure:
    """What knowing the fates gains; fates of one tuple are the same for all queries, or drawn for each apart."""
    size = Size(min(size.tuples, 2_000), min(size.queries, 200), size.seed, size.say)
    measures = {"HR": 0, "HNR": 1}

    def gain(policy: str, highest: float, own: bool) -> float:
        found = (by_selectivity(size, n, highest, own=own)[measures[policy]].average for n in (f"{policy}-O", policy))
        return below(*found)

    gains = {(p, own): {h: gain(p, h, own) for h in HIGHEST} for p in measures for own in (False, True)}
    judge, claims = Judge("s07", "Figure 16"), []
    for i, (h, stated) in enumerate([(0.1, 80), (1.0, 12)]):
        for j, p in enumerate(measures, 1):
            why = f"{TOGETHER} {gains[p, True][h]:.0f} %"
            words = f"{p}-O's gain at {h}:" + (" up to" if h == 0.1 else "")
            claims.append(judge.percent(2 * i + j, words, stated, gains[p, False][h], why))
    falling = all(found[0.1] > found[1.0] > 0 for found in gains.values())
    told = "; ".join(f"{p} {found[0.1]:.0f} to {found[1.0]:.0f} %" for (p, own), found in gains.items() if not own)
    claims.append(judge.sign(5, "the gain falls with selectivity", falling, told))
    curves = tuple(
        Curve(f"{p}-O vs. {p}" + (", fates apart" if own else ""), tuple((h, 100 - g) for h, g in found.items()))
        for (p, own), found in gains.items()
    )
    title, note = "Performance of an oracle scheduling policy", f"{size.queries} queries over {size.tuples:,} packets."
    return Figure(
        "s07",
        "Figure 16",
        title,
        "maximum selectivity",
        "percent of the policy without",
        curves,
        tuple(claims),
        note=note,
    )


TOGETHER: Final = (
    "all queries test the same two attributes of a packet, so that at 0.1 a packet passes all of them or none, and an "
    "oracle can choose little; with attributes drawn for each query apart it is"
)
OVER_TIME: Final = {
    "17": ("Response time over time", ("HR", "HNR", "FCFS"), "response", False),
    "18": ("Slowdown over time", ("HNR", "HR", "LSF"), "slowdown", False),
    "19": ("ℓ2 of response times over time", ("BRT", "HR", "FCFS"), "response", True),
    "20": ("ℓ2 of slowdowns over time", ("BSD", "HNR", "LSF"), "slowdown", True),
}


@cache
def timed(size: Size, policy: str) -> SimOutcome:
    """Run one policy at a high load."""
    size.say(f"{policy} over time")
    arrivals = packets(size)
    queries = three_operators(size.queries, size.seed, FULL, arrivals.gap)
    return run(
        network(queries), arrivals, fates.uniform(len(arrivals), 3, size.seed, steps=STEPS), policy_named(policy)
    )


def _over_time(size: Size, number: str) -> Figure:
    """Average or norm of a measure in stretches of time."""
    title, names, measure, norm = OVER_TIME[number]
    edges = np.linspace(0, packets(size).time[-1], 25)
    curves, totals = [], {}
    for name in names:
        found = timed(size, name)
        values, of = getattr(found, measure), np.digitize(found.done, edges)
        parts = [values[of == i] for i in range(1, len(edges))]
        heights = [0.0 if not len(p) else float(np.sqrt(np.square(p).sum()) if norm else p.mean()) for p in parts]
        curves.append(Curve(name, tuple(zip(edges[1:].tolist(), heights, strict=True))))
        totals[name] = summary(values).norm if norm else summary(values).average
    told = ", ".join(f"{n} {v:.3g}" for n, v in totals.items())
    best = Judge("s07", f"Figure {number}").sign(
        1, f"{names[0]} lowest over all", totals[names[0]] == min(totals.values()), told
    )
    return Figure("s07", f"Figure {number}", title, "time, s", title.split(" over")[0], tuple(curves), (best,))


def join_queries(size: Size, queries: int, load: float, gap: float) -> list[JoinQuery]:
    """Draw window joins of two streams: windows of 1 to 10 s, costs and selectivities as before (§3.8.1.12)."""
    draw = np.random.default_rng([size.seed, 2])
    shape = [
        (float(2.0 ** draw.integers(0, 5)), float(draw.uniform(0.1, 1.0)), float(draw.uniform(1, 10)))
        for _ in range(queries)
    ]

    def made(unit: float) -> list[JoinQuery]:
        found = []
        for number, (cost, chance, window) in enumerate(shape):
            select, join, project = (
                Operator(cost * unit, chance, 0),
                Operator(cost * unit, chance, 1),
                Operator(cost * unit),
            )
            found.append(JoinQuery(f"j{number}", (select,), (select,), join, (project,), window, gaps=(gap, gap)))
        return found

    net = network(made(1.0))
    return made(load * gap / float(net.segments.mean_cost[net.stream >= 0].sum()))


def _joins(size: Size) -> Figure:
    """ℓ2 of slowdowns of two-stream queries over load."""
    names, gap, tuples, queries = (
        ("RR", "FCFS", "HNR", "BSD"),
        1.0,
        max(100, size.tuples // 12),
        max(10, size.queries // 5),
    )
    arrivals = merged([poisson(tuples, gap, size.seed + i) for i in (11, 12)])
    values, at = fates.uniform(len(arrivals), 3, size.seed, steps=STEPS), {}
    loads = (0.3, 0.5, 0.7, 0.9, 0.95)
    for load in loads:
        net = network(join_queries(size, queries, load, gap))
        whole = SimSettings(seed=size.seed)
        sliced = SimSettings(seed=size.seed, level=Level.PREEMPTIVE, quantum=float(net.segments.cost.min()))
        for name in names:
            size.say(f"{name} on two streams at {load:g}")
            at[name, load] = summary(run(net, arrivals, values, policy_named(name), whole).slowdown).norm
        at[SLICED, load] = summary(run(net, arrivals, values, policy_named("RR"), sliced).slowdown).norm
    judge = Judge("s07", "Figure 21")
    why = "arrival rates are not given, and decide how many pairs there are"
    best = max(below(at["BSD", u], at["HNR", u]) for u in loads)
    claims = (
        judge.percent(1, "BSD's ℓ2 below HNR's, up to", 14, best, why),
        judge.factor(2, "RR's ℓ2 at 0.9 is BSD's", 17, at["RR", 0.9] / at["BSD", 0.9], why),
        judge.factor(3, "FCFS's ℓ2 at 0.9 is BSD's", 15, at["FCFS", 0.9] / at["BSD", 0.9], why),
    )
    curves = tuple(Curve(n, tuple((u, at[n, u]) for u in loads)) for n in (*names, SLICED))
    title = "ℓ2 of slowdown for multi-stream queries"
    note = (
        "RR runs a whole tuple a turn here; with the time slices of Figure 7 it is "
        f"{at[SLICED, 0.9] / at['BSD', 0.9]:.1f} times BSD's at 0.9: no one length of a turn gives both figures."
    )
    return Figure("s07", "Figure 21", title, "system utilization", "ℓ2 of slowdowns", curves, claims, True, note)


SLICED: Final = "RR, time slices"


SLIDES: Final = (1.0, 10.0)  # mean gaps between packets


@cache
def late(size: Size, policy: str, load: float) -> float:
    """Return the average tardiness of aggregates with random slides (§3.8.1.13)."""
    size.say(f"{policy} on aggregates at {load:g}")
    tuples, queries = max(200, size.tuples // 5), max(10, size.queries // 5)
    arrivals = packets(Size(tuples, queries, size.seed, size.say))
    draw = np.random.default_rng([size.seed, 3])
    costs, slides = 2.0 ** draw.integers(0, 5, queries), arrivals.gap * draw.uniform(*SLIDES, queries)
    unit = load * arrivals.gap / costs.sum()
    made = [
        SimQuery(f"a{i}", (Operator(c * unit),), slide=s) for i, (c, s) in enumerate(zip(costs, slides, strict=True))
    ]
    found = run(network(made), arrivals, np.ones((tuples, 1)), policy_named(policy))
    return float(tardiness(found, slides, float(arrivals.time[-1])).mean())


def _aggregates(size: Size, number: str) -> Figure:
    """Tardiness over load."""
    loads = {"22": (0.3, 0.5, 0.7, 0.9, 1.0, 1.2), "23": (0.3, 0.4, 0.5, 0.6), "24": (0.9, 1.0, 1.1, 1.2)}[number]
    names = ("EDF", "HR", "Hybrid")
    at = {name: [late(size, name, load) for load in loads] for name in names}
    ratios = [h / max(min(e, r), 1e-300) for e, r, h in zip(*(at[n] for n in names), strict=True)]
    told = "times the better of both: " + ", ".join(f"{r:.2f} at {u:g}" for r, u in zip(ratios, loads, strict=True))
    worst = max(ratios)
    claim = Judge("s07", f"Figure {number}").sign(1, "hybrid below EDF and HR at every utilization", worst < 1.0, told)
    curves = tuple(Curve(n, tuple(zip(loads, at[n], strict=True))) for n in names)
    title = {
        "22": "Tardiness of aggregate CQs",
        "23": "Tardiness at low utilization",
        "24": "Tardiness at high utilization",
    }[number]
    return Figure(
        "s07", f"Figure {number}", title, "utilization", "average tardiness, s", curves, (claim,), True, SHORT
    )


SHORT: Final = (
    "The thesis gives no slides; here they are 1 to 10 mean gaps between packets. With 10 to 100, EDF is in time up to "
    "a load of 0.7 but for the last packet of a slide, and the hybrid does the same."
)
