"""Writes 30 queries, each with an operator of its own, in five classes of cost (Sharaf 2007, §3.7)."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from bench._overload.packets import PacketArrivals

POLICIES: Final = ("FCFS", "HNR", "LSF", "BSD")


@dataclass(frozen=True, slots=True)
class OperatorClasses:
    """How many operators there are, what they cost, and what arrives."""

    operators: int = 30
    classes: int = 5  # an operator of class k takes 2^k times the rounds of the first class
    rounds: int = 60  # of a hash, a row, in the first class
    load: float = 0.95
    slow_s: float = 2.0  # a tick, while it is measured what one takes
    arrivals: PacketArrivals = field(default_factory=PacketArrivals)

    def queries(self, seed: int = 1) -> dict[str, str]:
        """Write the queries: classes in turn, and selectivities from 0.1 to 1, drawn evenly."""
        draw, found = random.Random(seed), dict[str, str]()
        for number in range(self.operators):
            rounds, passed = self.rounds * 2 ** (number % self.classes), round(draw.uniform(0.1, 1.0), 2)
            found[f"q{number:02d}"] = f"SELECT id FROM packets WHERE hashed({rounds}, {number}, payload) < {passed}"
        return found
