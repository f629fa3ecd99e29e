"""Draws an hour of trades, windows and predicates as in Krishnamurthy et al. (2006, §6.1)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.model.window import Window

HOUR_S: Final = 3600
RATE: Final = 1_138_636 / HOUR_S  # tuples a second, as in the paper's hour
SYMBOLS: Final = 6_000
FILLS: Final = 3  # trades of an order, on average: one after the other, alike
MEMBERS: Final = (("r3000", 0, 3000), ("r1000", 0, 1000), ("r2000", 1000, 3000))  # by rank of capitalization


@dataclass(frozen=True, slots=True)
class Trades:
    """Trades by column: the second they happened, who is a member of what, and the three quantities."""

    second: npt.NDArray[np.int64]
    member: tuple[npt.NDArray[np.bool_], ...]
    quantity: tuple[npt.NDArray[np.float64], ...]  # volume, value, change for the day

    def __len__(self) -> int:
        """Count the trades."""
        return len(self.second)


@lru_cache(maxsize=1)
def trades(seed: int) -> Trades:
    """Draw an hour of trades: large stocks trade most, orders are filled in parts of a round lot or two."""
    draw = np.random.default_rng(seed)
    number = round(RATE * HOUR_S)
    chances = 1.0 / np.arange(1, SYMBOLS + 1) ** 0.9
    order = np.repeat(np.arange(number), draw.geometric(1 / FILLS, number))[:number]  # each trade's
    symbol = draw.choice(SYMBOLS, size=number, p=chances / chances.sum())[order]
    price = draw.lognormal(3.2, 0.8, SYMBOLS)[symbol].round(2)
    volume = 100.0 * draw.geometric(0.6, number)[order].astype(np.float64)
    change: npt.NDArray[np.float64] = np.abs(
        draw.normal(0, 0.02, SYMBOLS)[symbol] + draw.normal(0, 0.001, number)[order]
    ).round(3)
    member = tuple((symbol >= low) & (symbol < high) for _, low, high in MEMBERS)
    return Trades(np.sort(draw.integers(0, HOUR_S, number)), member, (volume, volume * price, change))


def windows(count: int, seed: int, unit_s: float = 1.0) -> list[Window]:
    """Draw windows of 600 to 900 s every 300 to 600 s, in whole units; the first are always the same."""
    draw = random.Random(seed)
    least, middle, most = (round(length / unit_s) for length in (300, 600, 900))
    return [Window(draw.randint(middle, most), draw.randint(least, middle)) for _ in range(count)]


def predicates(hour: Trades, count: int, seed: int) -> npt.NDArray[np.bool_]:
    """Draw predicates, an index conjunct and a value conjunct each (Table 8); tell which trades each one takes."""
    draw = np.random.default_rng([seed, count])
    taken = np.empty((len(hour), count), np.bool_)
    for number in range(count):
        quantity = hour.quantity[draw.integers(3)]
        wanted = draw.uniform(0.3, 0.98)  # so that about 76 of 256 predicates take a trade (§4.3.3)
        above = draw.random() < 0.5
        constant = np.quantile(quantity[:10_000], 1 - wanted if above else wanted)
        value = quantity > constant if above else quantity <= constant
        member = hour.member[draw.integers(3)]
        taken[:, number] = value & (member if draw.random() < 0.5 else ~member)
    return taken
