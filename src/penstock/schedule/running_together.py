"""Chooses which evaluations that wait run with the one that is chosen, in plain Python: the live engine asks it.

Golab, Bijay and Özsu 2006, §4: evaluations that read one synopsis are a group, and those of a group that run together
share its scan. The simulator's compiled twin is ``run_together`` of :mod:`penstock.schedule.synchronize`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from penstock.errors import ProjectError, nearest
from penstock.schedule.periods import Periods, aggressive, hybrid


class Sharing(IntEnum):
    """Which other tasks of its group run with the one that is chosen."""

    NONE = 0
    SAME = 1  # those with the same time until their deadline (Algorithm 2)
    LATE = 2  # and, once one is late, all that are late (§4.4)
    LATE_PENDING = 3  # or due now (Algorithm 3)


@dataclass(frozen=True, slots=True)
class Synchronization:
    """A technique: what runs together, and how often; all but C-LP by their names in the paper (Table 1)."""

    name: str
    words: str
    sharing: Sharing
    periods: Periods | None = None  # None: queries run at the slides that they ask for


NO_S: Final = Synchronization("No-S", "each slide of a synopsis by itself", Sharing.NONE)
CS: Final = Synchronization("CS", "what became final together", Sharing.SAME)
AS: Final = Synchronization("AS", "whole groups, as often as one of them is due", Sharing.SAME, aggressive)
HS: Final = Synchronization("HS", "what is joined to run together, where that costs less", Sharing.SAME, hybrid)
H_LS: Final = Synchronization("H-LS", "what is joined, and all that is late", Sharing.LATE, hybrid)
H_LP: Final = Synchronization("H-LP", "what is joined, and all that waits, late or due", Sharing.LATE_PENDING, hybrid)
C_LP: Final = Synchronization("C-LP", "all that waits, late or due", Sharing.LATE_PENDING)  # at slides as asked for
SYNCHRONIZATIONS: Final = {one.name: one for one in (NO_S, AS, CS, HS, H_LS, H_LP, C_LP)}
DEFAULT_SYNCHRONIZATION: Final = C_LP.name


class Waiting(NamedTuple):
    """What is known of an evaluation that waits: negative until it is due, it is late; at zero, it is due now."""

    until_due: float
    group: Hashable
    priority: float = 1.0


def earliest(waiting: Sequence[Waiting]) -> int:
    """Return the place of what the paper runs next: the lowest time until its deadline, then the highest priority."""
    return min(range(len(waiting)), key=lambda place: (waiting[place].until_due, -waiting[place].priority))


def companions(waiting: Sequence[Waiting], chosen: int, sharing: Sharing) -> list[int]:
    """Return the places of what runs with the chosen one, whoever chose it (Algorithms 1, 2 and 3).

    Those of other groups may be left out: what runs does not depend on them.
    """
    if sharing == Sharing.NONE:
        return []
    group, due = waiting[chosen].group, waiting[chosen].until_due
    overloaded = min(other.until_due for other in waiting if other.group == group) < 0

    def joins(other: Waiting) -> bool:
        late = other.until_due < 0 if sharing == Sharing.LATE else other.until_due <= 0
        return other.until_due == due or (sharing != Sharing.SAME and overloaded and late)

    return [p for p, other in enumerate(waiting) if p != chosen and other.group == group and joins(other)]


class LiveSynchronization:
    """The technique of one engine; it may be changed while streams run."""

    def __init__(self, name: str = DEFAULT_SYNCHRONIZATION) -> None:
        """Begin with a technique."""
        self._technique = synchronization_named(name)

    def current(self) -> Synchronization:
        """Return the technique that holds now."""
        return self._technique

    def change(self, name: str) -> None:
        """Choose by another technique from now on."""
        self._technique = synchronization_named(name)


def synchronization_named(name: str) -> Synchronization:
    """Find a technique that the engine can run by."""
    known = {one.lower(): found for one, found in SYNCHRONIZATIONS.items()}
    if name.lower() in known:
        return known[name.lower()]
    names = list(SYNCHRONIZATIONS)
    detail = f"techniques: {', '.join(names)}"
    raise ProjectError(f'there is no technique "{name}" to synchronize by', detail=detail, hint=nearest(name, names))
