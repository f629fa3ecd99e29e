"""Draws the query sets of Krishnamurthy et al. (2006, §6.1, Table 8, Query 4)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bench._plain import Window
from bench._predicates.market import INDEXES, Bools, Floats, Joined

Kind = Literal["B", "C regular", "C low", "no predicates"]

TUMBLING: Final = Window(600, 600)
# How a constant is written: a number of shares, dollars and cents, a share of a price.
WRITTEN: Final[Mapping[str, str]] = {"vol": ".0f", "vol * price": ".2f", "abs(price - cp) / cp": ".6f"}


@dataclass(frozen=True, slots=True)
class Predicate:
    """A Member and a Value conjunct."""

    index: str
    member: bool
    attribute: str
    sign: Literal["<", ">"]
    constant: str

    def __str__(self) -> str:
        return f"{'' if self.member else 'NOT '}{self.index} AND {self.attribute} {self.sign} {self.constant}"

    def takes(self, trades: Joined) -> Bools:
        """Tell which trades satisfy it; the twin of the text, in numpy."""
        values, bound = trades.attribute[self.attribute], float(self.constant)
        right = values < bound if self.sign == "<" else values > bound
        taken: Bools = right & (trades.member[self.index] == self.member)
        return taken


@dataclass(frozen=True, slots=True)
class Question:
    """One query: Query 4 with its window and its predicate."""

    window: Window
    predicate: Predicate | None

    def __str__(self) -> str:
        where = "" if self.predicate is None else f" WHERE {self.predicate}"
        return (
            f"SELECT sum(price * vol) AS value, count(*) AS n FROM trades {self.window} "
            f"JOIN close USING (symbol) JOIN index USING (symbol){where}"
        )


@dataclass(slots=True)
class Drawing:
    """Draws windows and predicates, each one different from all before it."""

    sample: Mapping[str, Floats]
    seed: int

    def predicates(self, number: int) -> tuple[Predicate, ...]:
        """Draw predicates; the first ones are the same for every number."""
        draw = random.Random(f"predicates {self.seed}")
        found: dict[Predicate, None] = {}
        while len(found) < number:
            found.setdefault(self._predicate(draw))
        return tuple(found)

    def windows(self, number: int) -> tuple[Window, ...]:
        """Draw windows; the first ones are the same for every number."""
        draw = random.Random(f"windows {self.seed}")
        found: dict[Window, None] = {}
        while len(found) < number:
            found.setdefault(Window(draw.randint(600, 900), draw.randint(300, 600)))
        return tuple(found)

    def questions(self, kind: Kind, number: int) -> tuple[Question, ...]:
        """Put together a query set of one of the workloads."""
        if kind == "no predicates":
            return (Question(TUMBLING, None),) * number
        if kind == "B":
            return tuple(Question(TUMBLING, predicate) for predicate in self.predicates(number))
        if kind == "C low":
            pairs = zip(self.windows(number), self.predicates(number), strict=True)
            return tuple(Question(window, predicate) for window, predicate in pairs)
        side = math.isqrt(number)
        if side * side != number:
            raise ValueError(f"{number} queries are not as many windows as predicates")
        return crossed(self.windows(side), self.predicates(side))

    def _predicate(self, draw: random.Random) -> Predicate:
        """Draw a predicate, every choice with equal probability; its constant is the value of a random trade."""
        index, member = draw.choice(INDEXES), draw.random() < 0.5
        attribute = draw.choice(tuple(WRITTEN))
        sign: Literal["<", ">"] = draw.choice(("<", ">"))
        value = float(draw.choice(self.sample[attribute]))
        return Predicate(index, member, attribute, sign, format(value, WRITTEN[attribute]))


def crossed(windows: Sequence[Window], predicates: Sequence[Predicate]) -> tuple[Question, ...]:
    """Ask every predicate over every window."""
    return tuple(Question(window, predicate) for window in windows for predicate in predicates)
