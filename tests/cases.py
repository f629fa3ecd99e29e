"""Says how many random cases a test tries that names a number of its own: all, or a few in a quick run."""

from __future__ import annotations

import os

A_FEW = 10


def cases(number: int) -> int:
    """Return the number, or one in ten of them with `make quick`, and at least one."""
    return max(1, number // A_FEW) if os.environ.get("HYPOTHESIS_PROFILE") == "quick" else number
