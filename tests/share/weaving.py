"""Random workloads for the weaver, and windows as its paper writes them."""

from __future__ import annotations

import random

from penstock.model.duration import SECOND
from penstock.model.window import Window
from penstock.reproduce.w11_workload import woven_queries
from penstock.share.weave.plan_queries import PlanQuery

SLIDES_S = (1, 2, 3, 4, 5, 6, 9, 10, 12, 15, 20, 30)
LIGHT, HEAVY = (0.05, 0.3, 1.2, 5.0, 20.0), (50.0, 200.0, 1000.0)


def acq(range_s: int, slide_s: int) -> PlanQuery:
    """Write a window as Guirguis et al. (2011) do, whose starts are aligned: Penstock's are with OFFSET r mod s."""
    return PlanQuery(Window(range_s * SECOND, slide_s * SECOND, range_s % slide_s * SECOND))


EXAMPLE = (acq(16, 4), acq(10, 5), acq(8, 4))  # Example 3


def small_workload(draw: random.Random, most: int = 12) -> tuple[list[PlanQuery], float]:
    """Draw a few windows with short slides, and an input rate."""
    found = []
    for _ in range(draw.randint(2, most)):
        slide = draw.choice(SLIDES_S)
        offset = draw.choice((0, 0, 0, 1, 2))
        found.append(PlanQuery(Window(draw.randint(1, 60) * SECOND, slide * SECOND, offset * SECOND)))
    return found, draw.choice(LIGHT)


def any_workload(draw: random.Random, most: int) -> tuple[list[PlanQuery], float]:
    """Draw a workload of either kind, and an input rate."""
    if draw.random() < 0.5:
        return small_workload(draw, most)
    overlap = draw.choice((5.0, 10.0, 50.0))
    return woven_queries(draw.randint(2, most), overlap=overlap, seed=draw.randrange(1 << 30)), draw.choice(
        (*LIGHT, *HEAVY)
    )
