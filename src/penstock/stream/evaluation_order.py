"""Describes due windows as items of work that a policy puts in order, and cuts items that would take too long.

Windows of one lane, shape and slide are one item, whatever batches made them final: the paper's sub-group (Golab, Bijay
and Özsu 2006, §4.1). So the windows of a query are in one item, and are answered in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.evaluate.typed import Definition
from penstock.kernel.answering import Answering
from penstock.kernel.pending import ItemKey, Pending
from penstock.language.options import option_us, priority_of
from penstock.model.instants import Clock
from penstock.model.window import RowsWindow
from penstock.schedule.ordering import ordered
from penstock.schedule.policy import Head, Policy
from penstock.stream.evaluation_costs import EvaluationCosts

GROUP_S: Final = 0.1  # that windows which are answered together are expected to take at most
LEAST_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class EvaluationItem:
    """Due windows that are answered together."""

    members: tuple[Pending, ...]
    seconds: float  # that they are expected to take
    priority: float
    final_us: int  # when the first of them became final, by the clock
    due_us: int  # when the first of them is to be answered

    @property
    def round_s(self) -> float:
        """Estimate how long one window of each query takes."""
        return self.seconds / max(len(one.ends) for one in self.members)

    def head(self, now_us: int) -> Head:
        """Describe the item as policies see it, in seconds.

        Its selectivity is one: a window is one answer, whatever rows it has. An alert that seldom says something is as
        urgent as one that often does, and a report of many rows is not more urgent for them.
        """
        windows = sum(len(one.ends) for one in self.members)
        times = self.final_us / 1e6, float(windows), self.due_us / 1e6, now_us / 1e6
        return Head(1.0, self.seconds, self.seconds, self.priority, 1.0, *times)


class EvaluationOrder:
    """Estimates what due windows cost, and puts them in the order of a policy."""

    def __init__(self, answering: Answering, policy: Callable[[], Policy], clock: Clock) -> None:
        """Order by the policy of the moment; ``clock`` tells for how long windows have been final."""
        self.policy, self.clock, self.answering = policy, clock, answering
        self.costs = EvaluationCosts(answering)
        self._asked: dict[int, tuple[float, int]] = {}  # priority and deadline of a query
        self._turn = 0

    def learn(self) -> None:
        """Learn from what the last windows took."""
        self.costs.note(self.answering.spent())

    def forget(self, current: Collection[int]) -> None:
        """Forget the queries that are gone."""
        self.costs.forget(current)
        self._asked = {number: asked for number, asked in self._asked.items() if number in current}

    def is_quick(self, due: Sequence[Pending]) -> bool:
        """Tell whether windows are answered in one go: there is nothing to be won by an order, or they need it."""
        return self.costs.seconds(due) <= GROUP_S or any(one.is_dated for one in due)

    def together(self, due: Iterable[Pending]) -> dict[ItemKey, list[Pending]]:
        """Put windows of one lane, shape and slide together."""
        found: dict[ItemKey, list[Pending]] = {}
        for one in due:
            key = one.lane, self.answering.shape_of(one.definition), one.ends.slide_us
            found.setdefault(key, []).append(one)
        return found

    def item(self, members: Sequence[Pending], final_us: int, due_us: int | None = None) -> EvaluationItem:
        """Describe windows that are answered together; they are due as soon as the most urgent of them wants."""
        asked = [self.wanted(one.definition) for one in members]
        due = final_us + min(soon for _, soon in asked) if due_us is None else due_us
        seconds, priority = max(LEAST_S, self.costs.seconds(members)), max(weight for weight, _ in asked)
        return EvaluationItem(tuple(members), seconds, priority, final_us, due)

    def first(self, items: Sequence[EvaluationItem]) -> list[int]:
        """Return the places of the items that run next, in order: as many as fit into one go, and at least one."""
        now_us = self.clock()
        places = ordered(self.policy(), [item.head(now_us) for item in items], self._turn % len(items))
        number, total = 1, items[places[0]].seconds
        while number < len(places) and total + items[places[number]].seconds <= GROUP_S:
            total += items[places[number]].seconds
            number += 1
        self._turn += number
        return places[:number]

    def cut_at(self, items: Sequence[EvaluationItem]) -> int | None:
        """Return the end of the last windows that are answered in one go; None: all are, or are not to be parted.

        Items that were put together stay together: one window of each is answered, whatever it takes.
        """
        members, seconds = [one for item in items for one in item.members], sum(item.seconds for item in items)
        most = max(GROUP_S, sum(item.round_s for item in items))
        if seconds <= most or any(one.is_dated for one in members):
            return None
        first, last = min(one.ends.first_us for one in members), max(int(one.ends.lasts[-1]) for one in members)
        return first + int((last - first) * most / seconds)

    def cut(self, item: EvaluationItem, upto_us: int | None) -> tuple[EvaluationItem | None, EvaluationItem | None]:
        """Cut an item into the windows that end by a time and the others; None: there are none."""
        if upto_us is None:
            return item, None
        now = [part for one in item.members if len((part := one.upto(upto_us)).ends)]
        later = [part for one in item.members if len((part := one.after(upto_us)).ends)]
        if not now or not later:
            return (item, None) if now else (None, item)
        return self.item(now, item.final_us, item.due_us), self.item(later, item.final_us, item.due_us)

    def wanted(self, definition: Definition) -> tuple[float, int]:
        """Return a query's priority, and how soon after a window is final its answer should be there."""
        known = self._asked.get(definition.id)
        if known is None:
            window, deadline = definition.query.window, option_us(definition.query, "deadline")
            slide = 0 if isinstance(window, RowsWindow) else window.slide
            known = float(priority_of(definition.query)), slide if deadline is None else deadline
            self._asked[definition.id] = known
        return known
