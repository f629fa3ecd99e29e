"""Names what a trace records of operators with queues: steps that workers took, and queued rows that were answered.

Instants are by the engine's clock, in microseconds. Rows of one commit wait as blocks; a step computes one operator on
rows of one block, for all queries that wait for it with that block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

ByQuery = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[float, ...]]  # numbers, rows, dues, priorities


@dataclass(frozen=True, slots=True)
class RecordedOperatorStep:
    """A step of an operator; ``wanted``, ``dues_us`` and ``priorities`` are by place of the query."""

    run: int
    stream: str
    policy: str  # by which it was chosen
    commit: int  # that queued the rows
    since_us: int  # when they were queued
    began_us: int
    ended_us: int
    queries: tuple[int, ...]  # that waited, by definition
    wanted: tuple[int, ...]  # rows that each of them waited with
    dues_us: tuple[int, ...]
    priorities: tuple[float, ...]
    block: int  # place in the commit
    operator: str
    rows: int  # that were computed
    left: int  # rows of the block that some query still took after the step
    bytes: int  # of the block before the step,
    bytes_left: int  # and after it
    seconds: float  # in the worker

    @property
    def set_up_s(self) -> float:
        """Return what the step took besides the function: arguments, the way to the worker and back, filing."""
        return max(0.0, (self.ended_us - self.began_us) / 1e6 - self.seconds)


@dataclass(frozen=True, slots=True)
class RecordedQueueAnswer:
    """Rows of one commit that queries had queued and have answered; ``taken`` and ``dues_us`` are by query."""

    run: int
    stream: str
    commit: int  # that queued the rows
    since_us: int
    ended_us: int  # when the answers were committed and left for sinks
    queries: tuple[int, ...]
    taken: tuple[int, ...]  # rows that each of them answered
    dues_us: tuple[int, ...]
    priorities: tuple[float, ...]


def workers_at_once(steps: Sequence[RecordedOperatorStep]) -> int:
    """Count the workers that took steps at once, one at least."""
    changes = sorted(change for one in steps for change in ((one.began_us, 1), (one.ended_us, -1)))
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return max(1, most)


@dataclass(frozen=True, slots=True)
class OperatorRecording:
    """All that a trace tells of operators, in the order in which it happened."""

    steps: Sequence[RecordedOperatorStep] = ()
    answers: Sequence[RecordedQueueAnswer] = ()
    holds: Sequence[tuple[int, str, int, int]] = ()  # run and stream, from when to when a batch was under way
    torn: Sequence[str] = field(default=())  # names of files that end in the middle
