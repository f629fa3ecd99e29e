"""Says how many random cases a test tries: all, a few in a quick run, or more of them in a long one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

A_FEW = 10


def cases(number: int, *, soak: int | None = None) -> int:
    """Return the number; with `make quick` one in ten of them, and at least one; with `make soak` more, if said so."""
    profile = os.environ.get("HYPOTHESIS_PROFILE")
    if profile == "quick":
        return max(1, number // A_FEW)
    return soak if profile == "soak" and soak is not None else number


def sweep(seeds: Sequence[int], few: int) -> list[Any]:
    """List seeds for ``parametrize``: `make test` tries the first few, `make soak` all of them."""
    return [*seeds[:few], *(pytest.param(seed, marks=pytest.mark.soak) for seed in seeds[few:])]
