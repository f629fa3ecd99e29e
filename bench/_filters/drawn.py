"""Draws filters over trades, each as wide as it takes for all together to take a row so often."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

SYMBOLS: Final = 100
PRICES, VOLUMES = 1_000.0, 1_000_000  # drawn evenly, so that a range says how many rows it takes


@dataclass(frozen=True, slots=True)
class Filter:
    """A range of prices or volumes, of one symbol or of all; bounds as they are written."""

    column: str
    low: str
    high: str
    symbol: str | None = None

    def __str__(self) -> str:
        """Write the filter as SQL."""
        own = f"{self.column} >= {self.low} AND {self.column} < {self.high}"
        return own if self.symbol is None else f"symbol = '{self.symbol}' AND {own}"

    @property
    def epl(self) -> str:
        """Write the filter in Esper's language, which finds ranges of this form by an index."""
        own = f"{self.column} in [{self.low}:{self.high})"
        return own if self.symbol is None else f"symbol = '{self.symbol}' and {own}"


def drawn(number: int, takers: float, seed: int) -> list[Filter]:
    """Draw filters that take a row so often together."""
    draw, share = random.Random(seed), min(1.0, takers / number)
    return [_one(draw, place % 3, share) for place in range(number)]


def drawn_filters(number: int, takers: float, seed: int) -> list[str]:
    """Draw filters, as SQL."""
    return [str(one) for one in drawn(number, takers, seed)]


def _one(draw: random.Random, kind: int, share: float) -> Filter:
    """Draw a filter that takes a share of the rows: a third of them look at prices alone."""
    if kind == 0 or share * SYMBOLS > 1:
        return _of_prices(draw.uniform(0, PRICES * (1 - share)), share)
    share *= SYMBOLS
    symbol = f"S{draw.randrange(SYMBOLS):03d}"
    if kind == 1:
        return _of_prices(draw.uniform(0, PRICES * (1 - share)), share, symbol)
    least = int(draw.uniform(0, VOLUMES * (1 - share)))
    return Filter("volume", str(least), str(least + max(1, round(VOLUMES * share))), symbol)


def _of_prices(low: float, share: float, symbol: str | None = None) -> Filter:
    """Make a filter of prices."""
    return Filter("price", f"{low:.5f}", f"{low + PRICES * share:.5f}", symbol)
