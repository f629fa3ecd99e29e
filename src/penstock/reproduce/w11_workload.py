"""Draws windows as Guirguis et al. (2011, §6, Table 1) draw them.

Slides are drawn from a set of templates by a Zipf distribution that prefers long ones, ranges are slides times a
uniform overlap factor. The paper does not publish its templates, from 1 to 100,000; here they are 1, 2 and 5 times
powers of ten, in seconds, with which the gains that it states for 250 queries come out.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.model.duration import SECOND
from penstock.model.window import Window
from penstock.share.weave.plan_queries import PlanQuery

TEMPLATES_S: Final = tuple(
    sorted((m * 10**k for k in range(6) for m in (1, 2, 5) if m * 10**k <= 100_000), reverse=True)
)


def windows(count: int, *, skew: float = 0.6, overlap: float = 50.0, seed: int = 1) -> list[Window]:
    """Draw windows: slides by Zipf's law with the longest first, overlap factors from 1 to ``overlap``."""
    draw = np.random.default_rng(seed)
    chances = 1.0 / np.arange(1, len(TEMPLATES_S) + 1) ** skew
    slides = draw.choice(TEMPLATES_S, size=count, p=chances / chances.sum())
    ranges = np.maximum(1, np.rint(slides * draw.uniform(1.0, overlap, count))).astype(np.int64)
    return [Window(int(r) * SECOND, int(s) * SECOND) for r, s in zip(ranges, slides, strict=True)]


def woven_queries(count: int, *, skew: float = 0.6, overlap: float = 50.0, seed: int = 1) -> list[PlanQuery]:
    """Draw queries that differ in their windows alone."""
    return [PlanQuery(window) for window in windows(count, skew=skew, overlap=overlap, seed=seed)]
