"""Defines a reproduced figure, and judges a paper's claims against what was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from penstock.report.curves import Curve

UNKNOWN: Final = "cause not isolated yet"
POINTS_OFF: Final = 15.0  # percentage points by which a stated percentage may be missed


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of a paper beside what was measured."""

    id: str
    paper: str
    place: str
    stated: str
    measured: str
    verdict: str  # holds or differs
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot as in the paper: its axes, its curves, and what they are to show."""

    paper: str
    number: str
    title: str
    across: str
    upward: str
    curves: tuple[Curve, ...]
    claims: tuple[Claim, ...] = ()
    powers: bool = False
    note: str = ""
    columns: tuple[str, ...] = ()  # names of the points of the first curve, where the paper has columns

    def __str__(self) -> str:
        """Print the title."""
        return f"{self.paper.upper()} {self.number}: {self.title}"

    def json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Size:
    """How large the experiments are."""

    tuples: int = 5_000
    queries: int = 500
    seed: int = 1
    say: Callable[[str], None] = print


@dataclass(frozen=True, slots=True)
class Judge:
    """Makes claims about one figure."""

    paper: str
    place: str

    def percent(self, number: int, words: str, stated: float, measured: float, reason: str = "") -> Claim:
        """Compare a percentage: the sign must be right and the size within 15 points."""
        holds = stated * measured > 0 and abs(stated - measured) <= POINTS_OFF
        gap = ": " if words[-1].isdigit() else " "  # two numbers side by side would read as one
        return self._claim(number, f"{words}{gap}{stated:g} %", f"{measured:.0f} %", holds, reason)

    def sign(self, number: int, words: str, holds: bool, measured: str, reason: str = "") -> Claim:
        """Note whether a comparison came out as stated."""
        return self._claim(number, words, measured, holds, reason)

    def factor(self, number: int, words: str, stated: float, measured: float, reason: str = "") -> Claim:
        """Compare a factor: on the same side of one, and within a third or 15 points of its inverse."""
        near = abs(measured / stated - 1) <= 1 / 3 or abs(1 / measured - 1 / stated) * 100 <= POINTS_OFF
        return self._claim(number, f"{words} {stated:g} times", f"{measured:.1f} times", near, reason)

    def _claim(self, number: int, stated: str, measured: str, holds: bool, reason: str) -> Claim:
        """Write the claim down; a reason is for what differs."""
        name = f"{self.paper}-{self.place.lower().replace(' ', '-')}-{number}"
        verdict = "holds" if holds else "differs"
        return Claim(
            name, self.paper.upper(), self.place, stated, measured, verdict, "" if holds else reason or UNKNOWN
        )


def below(value: float, other: float) -> float:
    """Return by how many percent one value is below another."""
    return 100.0 * (1.0 - value / other)
