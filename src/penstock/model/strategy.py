"""Finds the sharing strategy that a user names, or raises an error that lists the names.

Krishnamurthy, Wu and Franklin (2006) share slices (§3), fragments (§4) and, with both, shards (§5). Guirguis, Sharaf,
Chrysanthis and Labrinidis (2011) decide by cost which queries share: ``weave``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from penstock.errors import EnvironmentProblem, nearest

Strategy = Literal["shared paired", "shared paned", "unshared paired", "unshared paned", "fragments", "weave"]
StrategyName = Strategy | Literal["shards", "unshared"]

STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)
DEFAULT_STRATEGY: Final[Strategy] = "weave"
PAPER_NAMES: Final[Mapping[str, Strategy]] = {"shards": "shared paired", "unshared": "unshared paired"}
STRATEGY_NAMES: Final[tuple[str, ...]] = (*STRATEGIES, *PAPER_NAMES)
MAX_DRIVER_GROUPS: Final = 50_000  # groups of one grouping that the driver keeps


def strategy_named(name: str) -> Strategy:
    """Return the strategy that a name means."""
    if name in STRATEGIES:
        return name
    if name in PAPER_NAMES:
        return PAPER_NAMES[name]
    raise EnvironmentProblem(
        f'there is no strategy "{name}"',
        detail=f"strategies: {', '.join(STRATEGY_NAMES)}",
        hint=nearest(str(name), STRATEGY_NAMES) or f'Leave it out for "{DEFAULT_STRATEGY}".',
    )
