"""Lets whoever asked for a backfill wait for its end, and learn how many windows it has answered."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.errors import PenstockError, StateError
from penstock.kernel.pending import Pending
from penstock.stream.query_windows import QueryWindows

LOOK_S: Final = 0.5  # between two looks whether the stream still runs


@dataclass(slots=True)
class BackfillTicket:
    """A backfill that somebody waits for, of some definitions."""

    left: set[int]  # whose windows are not all answered
    windows: dict[int, int] = field(default_factory=dict)  # definition → windows of the past
    until_us: dict[int, int] = field(default_factory=dict)  # definition → the end of the last of them
    error: PenstockError | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> dict[int, int]:
        """Wait for the end; return how many windows each definition had not answered before."""
        while not self.ended.wait(LOOK_S):
            continue
        if self.error is not None:
            raise self.error
        return self.windows


class BackfillTickets:
    """The backfills of one stream that somebody waits for."""

    def __init__(self) -> None:
        """Begin with none."""
        self._tickets: list[BackfillTicket] = []

    def give(self, asked: Collection[int]) -> BackfillTicket:
        """Give a ticket for what was asked for; it ends at once if that is nothing."""
        ticket = BackfillTicket(set(asked))
        if not asked:
            ticket.ended.set()
        else:
            self._tickets.append(ticket)
        return ticket

    def note(self, listed: Collection[Pending]) -> None:
        """Note which windows of the past were listed."""
        for ticket in self._tickets:
            for one in listed:
                number, last = one.definition.id, int(one.ends.lasts[-1])
                if number in ticket.left:
                    ticket.windows[number] = ticket.windows.get(number, 0) + len(one.ends)
                    ticket.until_us[number] = max(last, ticket.until_us.get(number, last))

    def look(self, windows: QueryWindows) -> None:
        """End what is done: all windows of the past are answered, or their queries are gone."""
        for ticket in list(self._tickets):
            ticket.left = {n for n in ticket.left if n in windows.asked or _is_before(windows, n, ticket.until_us)}
            if not ticket.left:
                self._end(ticket)

    def fail(self, numbers: Collection[int], error: PenstockError) -> None:
        """End what concerns some definitions with an error."""
        for ticket in [t for t in self._tickets if not t.left.isdisjoint(numbers)]:
            ticket.error = error
            self._end(ticket)

    def leave(self, stream: str) -> None:
        """Let nobody wait any more: the stream stops."""
        for ticket in list(self._tickets):
            hint = "It goes on when the engine is started again."
            ticket.error = StateError(f'stream "{stream}" stopped in the middle of a backfill', hint=hint)
            self._end(ticket)

    def _end(self, ticket: BackfillTicket) -> None:
        """Let go of a ticket."""
        if ticket in self._tickets:
            self._tickets.remove(ticket)
        ticket.ended.set()


def _is_before(windows: QueryWindows, number: int, until_us: Mapping[int, int]) -> bool:
    """Tell whether a definition answers next a window that was listed."""
    following = windows.answers_next(number)
    return following is not None and number in until_us and following <= until_us[number]
