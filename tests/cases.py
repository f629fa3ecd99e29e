"""Says how many random cases a test tries: all, a few in a quick run, or more of them in a long one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

A_FEW = 10


def cases(number: int) -> int:
    """Return the number, or one in ten of them with `make quick`, and at least one."""
    return max(1, number // A_FEW) if os.environ.get("HYPOTHESIS_PROFILE") == "quick" else number


def sweep(seeds: Sequence[int], few: int) -> list[Any]:
    """List seeds for ``parametrize``: `make test` tries the first few, `make soak` all of them."""
    return [*seeds[:few], *(pytest.param(seed, marks=pytest.mark.soak) for seed in seeds[few:])]
