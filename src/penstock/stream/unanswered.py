"""Holds the windows of a stream that are final and not answered yet.

In a stream that answers each batch before the next, it is empty between two batches. In one whose answers may lag
behind, it is what lags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.evaluate.windows.due import EndRuns
from penstock.kernel.answering import Answering
from penstock.kernel.pending import ItemKey, Pending
from penstock.language.options import is_fresh
from penstock.model.instants import Clock
from penstock.schedule.policy import Policy
from penstock.stream.evaluation_order import EvaluationItem, EvaluationOrder
from penstock.stream.query_windows import QueryWindows


class UnansweredWindows:
    """Final windows, by lane and shape, until they are taken to be answered."""

    def __init__(self, answering: Answering, policy: Callable[[], Policy], clock: Clock, windows: QueryWindows) -> None:
        """Begin with none; ``windows`` is told of what is not answered, and the policy of the moment orders it."""
        self.order, self.windows = EvaluationOrder(answering, policy, clock), windows
        self.items: dict[ItemKey, EvaluationItem] = {}
        self.added_us = 0  # when windows last became final, by the clock

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(self.items)

    @property
    def seconds(self) -> float:
        """Estimate how long it takes to answer all."""
        return sum(item.seconds for item in self.items.values())

    @property
    def runs(self) -> int:
        """Count the runs of window ends."""
        return sum(len(one.ends.firsts) for item in self.items.values() for one in item.members)

    def pending(self) -> list[Pending]:
        """List all windows, as a commit records them."""
        return [one for item in self.items.values() for one in item.members]

    def add(self, due: Sequence[Pending], *, at_once: bool) -> None:
        """Take windows that became final just now; if they are answered ``at_once`` and quickly, all are one item."""
        if not due:
            return
        now_us, order = self.order.clock(), self.order
        self.added_us = now_us
        if not self.items and (at_once or any(one.is_dated for one in due)) and order.is_quick(due):
            self.items[None] = order.item(due, now_us)
        else:
            for key, members in order.together(due).items():
                known = self.items.get(key)
                if known is None:
                    self.items[key] = order.item(members, now_us)
                else:
                    self.items[key] = order.item([*known.members, *members], known.final_us, known.due_us)
        self._note()

    def take(self, keys: Sequence[ItemKey] | None = None) -> list[Pending]:
        """Take the windows that are answered next, at least those of one item; ``keys`` are items in their order."""
        known = [key for key in (self.items if keys is None else keys) if key in self.items]
        if not known:
            return []
        items = [self.items[key] for key in known]
        places = self.order.first(items) if keys is None else range(len(items))
        taken: list[Pending] = []
        for place in places:
            now, later = self.order.cut(items[place])
            taken += now.members
            if later is None:
                del self.items[known[place]]
            else:
                self.items[known[place]] = later
        self._note()
        return self._without_superseded(taken)

    def take_after(self, time_us: int) -> list[Pending]:
        """Take all windows of queries that have one which ends after a time: rows of that time are about to come."""
        found: list[Pending] = []
        for key, item in list(self.items.items()):
            if any(int(one.ends.lasts[-1]) > time_us for one in item.members):
                found += self.items.pop(key).members
        self._note()
        return self._without_superseded(found)

    def take_all(self) -> list[Pending]:
        """Take all windows."""
        return self.take_after(-(1 << 62))

    def _note(self) -> None:
        """Tell which end of each query is the first that is not answered."""
        firsts: dict[int, int] = {}
        for item in self.items.values():
            for one in item.members:
                number, first = one.definition.id, one.ends.first_us
                firsts[number] = min(first, firsts.get(number, first))
        self.tell_first(firsts)

    def tell_first(self, firsts: dict[int, int]) -> None:
        """Tell the windows of queries which end of each is the first that is not answered."""
        self.windows.unanswered = firsts

    def is_left(self, number: int) -> bool:
        """Tell whether a query has windows here."""
        return number in self.windows.unanswered

    def _without_superseded(self, due: Sequence[Pending]) -> list[Pending]:
        """Skip the windows that a later one supersedes, of queries that want the freshest answer only."""
        if not any(is_fresh(one.definition.query) for one in due):
            return list(due)
        last = {one.definition.id: place for place, one in enumerate(due)}
        kept: list[Pending] = []
        for place, one in enumerate(due):
            number = one.definition.id
            if not is_fresh(one.definition.query):
                kept.append(one)
                continue
            newest = place == last[number] and not self.is_left(number)
            skipped = len(one.ends) - newest
            if skipped:
                self.windows.skipped[number] = self.windows.skipped.get(number, 0) + skipped
            if newest:
                kept.append(_last_of(one))
        return kept


def _last_of(one: Pending) -> Pending:
    """Keep the last window alone."""
    end = int(one.ends.lasts[-1])
    return Pending(one.definition, one.lane, EndRuns.between(end, end, one.ends.slide_us), one.until_us)
