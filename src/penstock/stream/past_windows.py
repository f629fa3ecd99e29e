"""Holds the windows of backfills that are listed and not answered yet: they come after everything live.

They are apart from the windows that batches made final, so that neither a change of the plan nor the next batch has to
wait until all of the past is answered. Like those, they never change: before a late row enters one of them, it is
answered.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from penstock.kernel.pending import ItemKey, Pending
from penstock.language.options import is_fresh
from penstock.stream.unanswered import UnansweredWindows


class PastWindows(UnansweredWindows):
    """Windows of the past, by lane and shape, until they are taken to be answered."""

    def __init__(self, live: UnansweredWindows) -> None:
        """Begin with none; costs are those that ``live`` windows have taught."""
        self.order, self.windows, self.items, self.added_us = live.order, live.windows, {}, 0
        self.listed: dict[int, int] = {}  # windows of each query, since it has some here

    def tell_first(self, firsts: dict[int, int]) -> None:
        """Tell the windows of queries which end of each is the first that is not answered."""
        self.windows.past = firsts
        self.listed = {number: count for number, count in self.listed.items() if number in firsts}

    def is_left(self, number: int) -> bool:
        """Tell whether a query has windows here."""
        return number in self.windows.past

    def enlist(self, due: Sequence[Pending]) -> None:
        """Take windows of the past."""
        for one in due:
            self.listed[one.definition.id] = self.listed.get(one.definition.id, 0) + len(one.ends)
        self.add(due, at_once=False)

    def left(self) -> dict[int, int]:
        """Count the windows of each query that are not answered."""
        found: dict[int, int] = {}
        for one in [one for item in list(self.items.values()) for one in item.members]:  # any thread may ask
            found[one.definition.id] = found.get(one.definition.id, 0) + len(one.ends)
        return found

    def take_tails(self, time_us: int) -> list[Pending]:
        """Take the windows that end after a time: rows of that time are about to come."""
        taken: list[Pending] = []
        for key, item in list(self.items.items()):
            kept: list[Pending] = []
            for one in item.members:
                whole = is_fresh(one.definition.query)  # its last window alone is answered
                taken += [part for part in [one if whole else one.after(time_us)] if len(part.ends)]
                kept += [] if whole else [part for part in [one.upto(time_us)] if len(part.ends)]
            self._keep(key, kept)
        self._note()
        return self._without_superseded(taken)

    def forget(self, current: Collection[int]) -> None:
        """Forget the windows of queries that are gone."""
        for key, item in list(self.items.items()):
            self._keep(key, [one for one in item.members if one.definition.id in current])
        self._note()

    def _keep(self, key: ItemKey, members: Sequence[Pending]) -> None:
        """Let an item have these windows alone."""
        item = self.items.pop(key)
        if members:
            self.items[key] = self.order.item(members, item.final_us, item.due_us)
