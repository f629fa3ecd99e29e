"""Estimates the density of a union of arithmetic progressions, with a bound that holds at 99.9 %.

A few dozen co-prime slides have a composite slide of 10³⁰: no bitmap holds it. Karp and Luby (1983) estimate the size
of a union by drawing from its parts: a progression is drawn by its density, a time within it at random, and the mean
of 1 / (progressions that hold the time) times the sum of densities is the union's density. Times are kept as residues
modulo pairwise co-prime factors of the steps, drawn independently, so every remainder is exact however long the
composite slide is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.model.arrays import BoolArray, Int64Array
from penstock.share.slices import Progression

CONFIDENCE: Final = 0.999
DRAWN: Final = 8_192  # times, for one estimate
SEED: Final = 20_11


@dataclass(frozen=True, slots=True)
class Density:
    """How often a time is an edge, per unit of time, with the error that is not exceeded at 99.9 % (0: exact)."""

    value: float
    error: float = 0.0

    @property
    def exact(self) -> bool:
        """Tell whether the density was counted, not estimated."""
        return not self.error

    def per(self, unit: float) -> Density:
        """Return the same density for another unit of time, so many of this one's units shorter."""
        return Density(self.value / unit, self.error / unit)

    def holds(self, value: float) -> bool:
        """Tell whether a density lies within the bound."""
        return abs(value - self.value) <= self.error + 1e-12 * value


class DrawnTimes:
    """Drawn times, known by their residues modulo co-prime factors."""

    def __init__(self, steps: Iterable[int]) -> None:
        """Prepare for progressions with these steps."""
        self._base = coprime_base(steps)
        self._most = {b: max(multiplicity(s, b) for s in set(steps)) for b in self._base} if self._base else {}
        self._residues: dict[tuple[int, int], Int64Array] = {}
        self._count = 0

    def __len__(self) -> int:
        """Count the times."""
        return self._count

    def draw(self, progressions: Sequence[Progression], chosen: Int64Array, draw: np.random.Generator) -> None:
        """Draw for each number a time of the progression it names, each time of it equally likely."""
        self._count = len(chosen)
        for factor, most in self._most.items():
            powers = [multiplicity(p.step, factor) for p in progressions]
            known = np.array([factor**power for power in powers], np.int64)[chosen]
            phases = np.array([p.phase % factor**power for p, power in zip(progressions, powers, strict=True)])[chosen]
            self._residues[factor, most] = phases + known * draw.integers(0, factor**most // known)

    def within(self, progression: Progression) -> BoolArray:
        """Tell which times are of a progression."""
        found = np.ones(self._count, np.bool_)
        for factor in self._base:
            power = multiplicity(progression.step, factor)
            if power:
                found &= self._modulo(factor, power) == progression.phase % factor**power
        return found

    def _modulo(self, factor: int, power: int) -> Int64Array:
        """Return the times modulo a power of a factor."""
        if (factor, power) not in self._residues:
            self._residues[factor, power] = self._residues[factor, self._most[factor]] % factor**power
        return self._residues[factor, power]


def sampled_density(progressions: Sequence[Progression], *, drawn: int = DRAWN, seed: int = SEED) -> Density:
    """Estimate the density of a union; the bound is Maurer and Pontil's (2009, Theorem 4) for means of [0, 1]."""
    draw = np.random.default_rng(seed)
    parts = np.array([1.0 / p.step for p in progressions])
    chosen = draw.choice(len(parts), size=drawn, p=parts / parts.sum())
    times = DrawnTimes([p.step for p in progressions])
    times.draw(progressions, chosen, draw)
    holding = np.zeros(drawn, np.int64)
    for progression in progressions:
        holding += times.within(progression)
    shares = 1.0 / holding
    doubt = math.log(4 / (1 - CONFIDENCE))
    error = math.sqrt(2 * shares.var(ddof=1) * doubt / drawn) + 7 * doubt / (3 * (drawn - 1))
    total = math.fsum(parts)
    return Density(float(shares.mean()) * total, error * total)


def coprime_base(numbers: Iterable[int]) -> tuple[int, ...]:
    """Find pairwise co-prime factors of which every number is a product of powers; no number has to be factored."""
    base: set[int] = set()
    waiting = [n for n in set(numbers) if n > 1]
    while waiting:
        number = waiting.pop()
        if number == 1 or number in base:
            continue
        other = next((b for b in base if math.gcd(b, number) > 1), None)
        if other is None:
            base.add(number)
            continue
        shared = math.gcd(other, number)
        base.remove(other)
        waiting += [other // shared, shared, number // shared]
    return tuple(sorted(base))


def multiplicity(number: int, factor: int) -> int:
    """Return how often a factor divides a number."""
    power = 0
    while number % factor == 0:
        number //= factor
        power += 1
    return power
