"""Names what a trace records of a live engine: windows that were answered, and steps that answers had to wait for.

Instants are by the engine's clock, in microseconds. A run is one life of an engine, named by when it began; the numbers
of items and of groups mean something within one run only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecordedWindows:
    """Windows of one item that became final together and were answered together, in one group."""

    run: int
    group: int  # number of the group, in the order in which groups ended
    stream: str
    policy: str  # by which the group was chosen
    began_us: int  # of the whole group
    ended_us: int
    item: int  # number of what is merged together: windows of one item that wait together run together
    queries: tuple[int, ...]  # definitions, all with the same windows
    windows: int  # of each query
    first_end_us: int
    last_end_us: int
    final_us: int
    due_us: int
    priority: float
    expected_s: float  # that the engine believed all of them would take
    spent_s: float  # measured for all of them
    selectivity: float = 1.0  # the part of them that the engine believed would have rows

    @property
    def answers(self) -> int:
        """Count the windows of all queries."""
        return self.windows * len(self.queries)


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A time in which a stream had its memory for itself: rows were filed, committed, or tidied up."""

    run: int
    stream: str
    wanted_us: int  # since when it waited for the group that was being answered
    began_us: int
    ended_us: int


@dataclass(frozen=True, slots=True)
class Recording:
    """All that a trace tells, in the order in which it happened."""

    windows: Sequence[RecordedWindows] = ()
    steps: Sequence[RecordedStep] = ()
    torn: Sequence[str] = ()  # names of files that end in the middle, as a crash leaves them
