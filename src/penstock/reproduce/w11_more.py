"""Reproduces the figures of Guirguis et al. 2011 on the weaver itself: kept plans, counted operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Final

from penstock.report.curves import Curve
from penstock.reproduce.figure import Figure, Judge, Size
from penstock.reproduce.w11 import TEMPLATES
from penstock.reproduce.w11_workload import woven_queries
from penstock.share.weave.costs import UnitCosts
from penstock.share.weave.counting import STEPS, counted_weave
from penstock.share.weave.incremental import IncrementalPlanner
from penstock.share.weave.weaving import weave_share

TOLERANCES: Final = (0.0, 0.1, 0.2, 0.3, 0.5, math.inf)
RATE: Final = 50.0
LOOKED: Final = 10  # additions between two comparisons with a plan from scratch


def figures(size: Size) -> dict[str, Callable[[], Figure]]:
    """List the figures on the weaver."""
    return {"11": partial(_tolerances, size), "14": partial(_optimizations, size)}


def kept(count: int, tolerance: float, seed: int) -> tuple[float, int, int]:
    """Add queries one by one; return the mean relative error in percent, pairs compared and plans woven anew."""
    pool = woven_queries(count, seed=seed)
    begun = count // 5
    planner = IncrementalPlanner(UnitCosts(RATE), dict(enumerate(pool[:begun])), tolerance)
    errors = []
    for number in range(begun, count):
        planner.add(number, pool[number])
        if planner.owing:
            planner.reconstruct()
        if number % LOOKED == 0:
            best = weave_share(pool[: number + 1], UnitCosts(RATE)).cost
            errors.append(100.0 * (planner.cost / best - 1))
    return sum(errors) / len(errors), planner.comparisons, planner.reconstructions


def _tolerances(size: Size) -> Figure:
    """Vary the tolerance (§7.2)."""
    judge, count = Judge("w11", "Figure 11"), max(30, min(250, size.queries // 2))
    found = {}
    for tolerance in TOLERANCES:
        size.say(f"tolerance {tolerance:g}")
        found[tolerance] = kept(count, tolerance, size.seed)
    within = all(error <= 100 * t + 1e-9 or not t for t, (error, _, _) in found.items())
    work = [compared for _, compared, _ in found.values()]
    words = "; ".join(f"{t:g}: {e:.1f} %, {c:,} pairs, {n} anew" for t, (e, c, n) in found.items())
    claims = (
        judge.sign(1, "the error is at most the tolerance", within, words),
        judge.sign(2, "more tolerance, less work", work[0] >= work[2] >= work[-1], words),
        judge.sign(3, "at 20 to 30 % both are small", found[0.2][0] <= 20 and work[2] < work[0], words),
    )
    points = tuple((float(c), e) for e, c, _ in sorted(found.values(), key=lambda one: one[1]))
    note = f"{TEMPLATES} {count} queries, one by one after the first {count // 5}, at {RATE:g} tuples/s."
    curves = (Curve("tolerances from infinite to 0", points),)
    return Figure(
        "w11", "Figure 11", "Error against work", "pairs compared", "percent above", curves, claims, False, note
    )


def _optimizations(size: Size) -> Figure:
    """Count operations as optimizations are added (§8.4)."""
    judge, count = Judge("w11", "Figure 14"), min(250, size.queries)
    counted = counted_weave(woven_queries(count, skew=0.7, overlap=10.0, seed=size.seed), UnitCosts(100.0))
    steps = counted.operations
    saved = [a / b for a, b in pairwise(steps)]
    words = ", ".join(f"{name} {value:.3g}" for name, value in zip(STEPS, steps, strict=True))
    claims = (
        judge.sign(1, "each optimization saves about an order of magnitude", min(saved) >= 3, words),
        judge.sign(2, "together three orders of magnitude", counted.saving >= 300, f"{counted.saving:,.0f} times"),
    )
    curves = (Curve("operations", tuple((float(i), v) for i, v in enumerate(steps))),)
    title, names = "Operations of the weaver", ("naive", "with the cost lookup", "and the bitmap", "and the order")
    note = f"{count} queries."
    return Figure("w11", "Figure 14", title, "optimizations", "operations", curves, claims, True, note, names)
