"""Delivers the rows that a stream's continuous queries take to every sink, by the number of the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from penstock.model.instants import Clock, wall_clock_us
from penstock.sinks.delivery import Delivery, computed_once
from penstock.sinks.outlet import Numbered, Outlet, Tables
from penstock.sinks.progress import progress_of
from penstock.sinks.protocol import Sink, names_of
from penstock.sinks.settings import SINK_BACKLOG
from penstock.sinks.sink_thread import LoggedAnswers
from penstock.store.folder import StateFolder


class RowLog(Protocol):
    """What has the rows of commits, as sinks get them."""

    def for_sinks(self, after: int) -> Iterator[tuple[int, Callable[[], Tables], int]]:
        """Give the commits after a number that have rows: the number, what writes their tables, and how many rows."""


class RowDelivery(Delivery):
    """Hands rows to sinks; they are in the state folder before, and need not be named."""

    def __init__(
        self,
        stream: str,
        sinks: Sequence[Sink],
        rows: RowLog,
        state: StateFolder | None,
        clock: Clock = wall_clock_us,
        most_backlog: int = SINK_BACKLOG,
    ) -> None:
        """Let every sink be opened and given what it missed; nobody waits for that."""
        self.rows = rows
        self._begin(stream, state, most_backlog)
        names = names_of(sinks)
        memories = progress_of(stream, names, state)
        outlets = zip(names, sinks, memories, strict=True)
        self._open([Outlet(name, sink, stream, memory, self._missed, clock) for name, sink, memory in outlets])

    def deliver_rows(self, number: int) -> None:
        """Leave the rows of a commit for every sink, and wait for one that is too far behind."""
        for found, compute, rows in self.rows.for_sinks(number - 1):
            if found == number:
                self._leave(LoggedAnswers(number, computed_once(compute), rows, 0))

    def _missed(self, after: int) -> Iterator[Numbered]:
        """Read the rows after a commit."""
        return ((number, compute()) for number, compute, _ in self.rows.for_sinks(after))
