"""Reproduces Sharaf 2007's figures on clusters and shared operators: 27 to 31."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Final

import numpy as np

from penstock.report.curves import Curve
from penstock.reproduce.figure import Figure, Judge, Size, below
from penstock.reproduce.s07_load import packets
from penstock.schedule.clusters import logarithmic, uniform
from penstock.schedule.registry import policy_named
from penstock.schedule.sharing import Segment, Strategy, shared
from penstock.sim import fates
from penstock.sim.clustered import ClusterTechnique, clustered
from penstock.sim.layout import Beliefs
from penstock.sim.metrics import summary
from penstock.sim.network import Group, Network, network
from penstock.sim.run import run
from penstock.sim.workloads import STEPS, three_operators

FULL: Final = 0.95
CLUSTERS: Final = (2, 4, 6, 8, 12, 16, 24, 48)
GROUP: Final = 10
MEASURE: Final = {
    "HR": ("response", False),
    "HNR": ("slowdown", False),
    "BRT": ("response", True),
    "BSD": ("slowdown", True),
}


def figures(size: Size) -> dict[str, Callable[[], Figure]]:
    """List the figures of this file."""
    made: dict[str, Callable[[], Figure]] = {"27": partial(_clusters, size), "28": partial(_techniques, size)}
    return made | {number: partial(_sharing, size, number) for number in ("29", "30", "31")}


# -- clusters ----------------------------------------------------------------------------------------------------


@cache
def norm(
    size: Size, kind: str, clusters: int, prune: bool = True, together: bool = True, charged: float = 1.0
) -> float:
    """Return the ℓ2 norm of slowdowns of BSD; each step of choosing costs as much as the cheapest operator."""
    size.say(f"{kind}, {clusters} clusters")
    arrivals = packets(size)
    net = network(three_operators(size.queries, size.seed, FULL, arrivals.gap))
    leaf, s = net.stream >= 0, net.segments
    rank = (s.selectivity / (s.mean_cost * s.ideal**2))[leaf]
    exact = np.arange(len(rank)), rank
    of, pseudo = exact if clusters == 0 else (logarithmic if kind == "BSD-Logarithmic" else uniform)(rank, clusters)
    charge = charged * float(s.cost.min())
    values = fates.uniform(len(arrivals), 3, size.seed, steps=STEPS)
    return summary(clustered(net, arrivals, values, ClusterTechnique(kind, of, pseudo, prune, together, charge))).norm


def _clusters(size: Size) -> Figure:
    """ℓ2 of slowdowns over the number of clusters."""
    ideal = norm(size, "BSD-Hypothetical", 0, False, False, 0.0)
    arrivals = packets(size)
    net = network(three_operators(size.queries, size.seed, FULL, arrivals.gap))
    values = fates.uniform(len(arrivals), 3, size.seed, steps=STEPS)
    hnr = summary(run(net, arrivals, values, policy_named("HNR")).slowdown).norm
    at = {kind: {m: norm(size, kind, m) for m in CLUSTERS} for kind in ("BSD-Uniform", "BSD-Logarithmic")}
    judge, log = Judge("s07", "Figure 27"), at["BSD-Logarithmic"]
    claims = (
        judge.percent(
            1, "12 logarithmic clusters above BSD-Hypothetical", 5, -below(log[12], ideal), charge_alone(size, ideal)
        ),
        judge.sign(
            2,
            "uniform clusters far worse at 12",
            at["BSD-Uniform"][12] > 1.2 * log[12],
            f"{at['BSD-Uniform'][12] / log[12]:.2f} times",
        ),
        judge.sign(3, "few logarithmic clusters worse than 12", log[2] > log[12], f"{log[2] / log[12]:.2f} times"),
    )
    flat = {"BSD-Hypothetical": ideal, "HNR": hnr}
    curves = [Curve(n, tuple((float(m), v) for m in CLUSTERS)) for n, v in flat.items()]
    curves += [Curve(kind, tuple((float(m), v) for m, v in found.items())) for kind, found in at.items()]
    return Figure(
        "s07",
        "Figure 27",
        "ℓ2 of slowdown vs. number of clusters",
        "clusters",
        "ℓ2 of slowdowns",
        tuple(curves),
        claims,
        True,
    )


CHARGES: Final = (0.0, 0.1, 0.5)


def charge_alone(size: Size, ideal: float) -> str:
    """Tell what 12 clusters cost when choosing takes less time: the rest is the load that choosing adds."""
    log = {c: 100 * (norm(size, "BSD-Logarithmic", 12, charged=c) / ideal - 1) for c in CHARGES}
    return "the time that choosing takes comes on top of a load of 0.95 here: 12 clusters are " + ", ".join(
        f"{v:.0f} % above with {c:g} of the charge" for c, v in log.items()
    )


LESS: Final = (0.01, 0.03, 0.1)


def naive_charge(size: Size, ideal: float) -> str:
    """Tell how far above naive BSD is when choosing takes less time."""
    at = {c: 100 * (norm(size, "BSD", 0, False, False, c) / ideal - 1) for c in LESS}
    return (
        "naive BSD computes the priority of every query at every scheduling point, and each takes as long as the "
        "cheapest operator; the thesis does not say how long. Nothing but that charge changed it is "
        + ", ".join(f"{v:.0f} % with {c:g} of it" for c, v in at.items())
    )


def _techniques(size: Size) -> Figure:
    """Each technique added to the ones before."""
    ideal = norm(size, "BSD-Hypothetical", 0, False, False, 0.0)
    steps = {
        "naive": norm(size, "BSD", 0, False, False),
        "with clusters": norm(size, "BSD-Logarithmic", 12, False, False),
        "and pruning": norm(size, "BSD-Logarithmic", 12, True, False),
        "and clustered processing": norm(size, "BSD-Logarithmic", 12, True, True),
    }
    above = {name: 100 * (value / ideal - 1) for name, value in steps.items()}
    judge, told = Judge("s07", "Figure 28"), ", ".join(f"{n} {v:.0f} %" for n, v in above.items())
    falling = all(a >= b for a, b in pairwise(above.values())) and above["naive"] > above["with clusters"]
    claims = (
        judge.percent(1, "naive BSD above BSD-Hypothetical by", 6470, above["naive"], naive_charge(size, ideal)),
        judge.sign(2, "each technique gains", falling, told),
        judge.percent(
            3, "all together above BSD-Hypothetical", 5, above["and clustered processing"], charge_alone(size, ideal)
        ),
    )
    curve = Curve("above BSD-Hypothetical", tuple((float(i), v) for i, v in enumerate(above.values(), 1)))
    return Figure(
        "s07",
        "Figure 28",
        "Efficient implementation of BSD",
        "technique",
        "ℓ2 above BSD-Hypothetical's, %",
        (curve,),
        claims,
        True,
        columns=tuple(steps),
    )


# -- shared operators --------------------------------------------------------------------------------------------


def beliefs(net: Network, policy: str, strategy: Strategy, whole: bool = False) -> Beliefs:
    """Give shared operators their priority; the segments of the priority-defining tree run with them (§3.6.2).

    The strategies differ in the priority only: with ``whole``, Sum runs all segments and Max one.
    """
    s, power = net.segments, {"HR": 0, "HNR": 1, "BSD": 2}[policy]
    selectivity, mean_cost, ideal = s.selectivity.copy(), s.mean_cost.copy(), s.ideal.copy()
    inline = [[True] * len(e) for e in net.edges]
    for leaf in np.flatnonzero(net.stream >= 0):
        members = net.edges[leaf]
        chance, cost = float(s.passed[leaf]), float(s.cost[leaf])
        parts = [
            Segment(chance * s.selectivity[m] / s.ideal[m] ** power, cost + chance * s.mean_cost[m]) for m in members
        ]
        found = shared(parts, cost, strategy)
        selectivity[leaf], mean_cost[leaf], ideal[leaf] = found.gain, found.mean_cost, 1.0
        run_with = found.chosen if whole else shared(parts, cost, Strategy.PDT).chosen
        inline[leaf] = [i in run_with for i in range(len(members))]
    return Beliefs(selectivity, mean_cost, ideal, tuple(map(tuple, inline)))


@cache
def grouped(size: Size, policy: str, strategy: Strategy, load: float, whole: bool = False) -> float:
    """Run groups of ten queries that share their selection (§3.8.4)."""
    size.say(f"{policy}-{strategy.value} at {load:g}")
    arrivals = packets(size)
    drawn = three_operators(size.queries, size.seed, load, arrivals.gap)
    groups = [drawn[i : i + GROUP] for i in range(0, len(drawn), GROUP)]
    net = network([Group(f"g{i}", g[0].operators[0], tuple(q.operators[1:] for q in g)) for i, g in enumerate(groups)])
    values = fates.uniform(len(arrivals), 3, size.seed, steps=STEPS)
    found = run(net, arrivals, values, policy_named(policy), beliefs=beliefs(net, policy, strategy, whole))
    measure, as_norm = MEASURE[policy]
    total = summary(getattr(found, measure))
    return total.norm if as_norm else total.average


def _sharing(size: Size, number: str) -> Figure:
    """Max, Sum and PDT over load."""
    policy, stated, words = {
        "29": ("HR", (21, 12), "Response time"),
        "30": ("HNR", (24, 18), "Slowdown"),
        "31": ("BSD", (10, 8), "ℓ2 of slowdowns"),
    }[number]
    loads, judge = (0.5, 0.7, 0.9, 1.2, 1.5), Judge("s07", f"Figure {number}")
    at = {st: [grouped(size, policy, st, u) for u in loads] for st in Strategy}
    gains = [
        max(below(p, o) for p, o in zip(at[Strategy.PDT], at[st], strict=True)) for st in (Strategy.MAX, Strategy.SUM)
    ]
    names = ("Max", "Sum")
    all_run = below(*(grouped(size, policy, st, 0.9, True) for st in (Strategy.PDT, Strategy.SUM)))
    split = (
        "the strategies differ in the shared operator's priority only; if Sum also runs all segments with it, "
        f"PDT is {all_run:.0f} % below it at 0.9"
    )
    claims = tuple(
        judge.percent(i, f"PDT's {words.lower()} below {n}'s, up to", s, g, split)
        for i, (n, s, g) in enumerate(zip(names, stated, gains, strict=True), 1)
    )
    curves = tuple(Curve(f"{policy}-{st.value}", tuple(zip(loads, found, strict=True))) for st, found in at.items())
    return Figure(
        "s07",
        f"Figure {number}",
        f"{words} for grouped queries",
        "load as if nothing were shared",
        words,
        curves,
        claims,
        note=f"{split[0].upper()}{split[1:]}. Of several readings of the paper this one gives its sizes.",
    )
