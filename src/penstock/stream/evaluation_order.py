"""Describes due windows as items of work that a policy puts in order, and cuts items that would take too long.

Windows of one lane and shape are merged together, so they are one item, whatever batches made them final. So the
windows of a query are in one item, and are answered in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.evaluate.typed import Definition
from penstock.kernel.answering import Answering, Spent
from penstock.kernel.pending import ItemKey, Pending
from penstock.language.options import option_us, priority_of
from penstock.model.instants import Clock
from penstock.model.window import RowsWindow
from penstock.schedule.ordering import ordered_without_starving
from penstock.schedule.policy import Head, Policy
from penstock.stream.batch_under_way import BatchUnderWay
from penstock.stream.evaluation_costs import EvaluationCosts

GROUP_S: Final = 0.05  # that windows which are answered together are expected to take at most
LEAST_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class EvaluationItem:
    """Due windows that are answered together."""

    members: tuple[Pending, ...]
    seconds: float  # that they are expected to take
    priority: float
    final_us: int  # when the first of them became final, by the clock
    due_us: int  # when the first of them is to be answered

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
        self.costs, self.under_way = EvaluationCosts(answering), BatchUnderWay(clock)
        self._asked: dict[int, tuple[float, int]] = {}  # priority and deadline of a query
        self._turn = 0

    def learn(self) -> list[Spent]:
        """Learn from what the last windows took, and return it."""
        spent = self.answering.spent()
        self.costs.note(spent)
        return spent

    def forget(self, current: Collection[int]) -> None:
        """Forget the queries that are gone."""
        self.costs.forget(current)
        self._asked = {number: asked for number, asked in self._asked.items() if number in current}

    def is_quick(self, due: Sequence[Pending]) -> bool:
        """Tell whether windows are answered in one go: there is nothing to be won by an order, or they need it."""
        return self.costs.seconds(due) <= GROUP_S or any(one.is_dated for one in due)

    def together(self, due: Iterable[Pending]) -> dict[ItemKey, list[Pending]]:
        """Put windows of one lane and shape together."""
        found: dict[ItemKey, list[Pending]] = {}
        for one in due:
            found.setdefault((one.lane, self.answering.shape_of(one.definition)), []).append(one)
        return found

    def item(self, members: Sequence[Pending], final_us: int, due_us: int | None = None) -> EvaluationItem:
        """Describe windows that are answered together; they are due as soon as the most urgent of them wants."""
        asked = [self.wanted(one.definition) for one in members]
        due = final_us + min(soon for _, soon in asked) if due_us is None else due_us
        seconds, priority = max(LEAST_S, self.costs.seconds(members)), max(weight for weight, _ in asked)
        return EvaluationItem(tuple(members), seconds, priority, final_us, due)

    def first(self, items: Sequence[EvaluationItem], batches: Sequence[BatchUnderWay] = ()) -> list[int]:
        """Return the places of the items that run next, in order: as many as fit into one go, and at least one.

        None at all: a batch that is being taken goes before them.
        """
        now_us = self.clock()
        beside = [head for batch in batches if (head := batch.head(now_us)) is not None]
        heads = [*(item.head(now_us) for item in items), *beside]
        chosen, total = list[int](), 0.0
        for place in ordered_without_starving(self.policy(), heads, self._turn % len(items)):
            if place >= len(items) or (chosen and total + items[place].seconds > GROUP_S):
                break
            chosen.append(place)
            total += items[place].seconds
        self._turn += len(chosen)
        return chosen

    def cut(self, item: EvaluationItem) -> tuple[EvaluationItem, EvaluationItem | None]:
        """Cut an item that takes too long by the ends of its windows; those of one time are not cut."""
        if item.seconds <= GROUP_S or any(one.is_dated for one in item.members):
            return item, None
        first = min(one.ends.first_us for one in item.members)
        last = max(int(one.ends.lasts[-1]) for one in item.members)
        upto = first + int((last - first) * GROUP_S / item.seconds)
        now = [part for one in item.members if len((part := one.upto(upto)).ends)]
        later = [part for one in item.members if len((part := one.after(upto)).ends)]
        if not later:
            return item, None
        return self.item(now, item.final_us, item.due_us), self.item(later, item.final_us, item.due_us)

    def deadlines_us(self, due: Iterable[Pending]) -> list[int]:
        """Return how soon after they are final the windows of some queries are wanted."""
        known = self._asked
        return [(known.get(one.definition.id) or self.wanted(one.definition))[1] for one in due]

    def look_at(self, definitions: Iterable[Definition]) -> None:
        """Take from all queries how urgent a batch is: as the most urgent of them."""
        asked = [self.wanted(definition) for definition in definitions]
        self.under_way.priority = max((weight for weight, _ in asked), default=1.0)
        self.under_way.soon_us = min((soon for _, soon in asked), default=0)

    def wanted(self, definition: Definition) -> tuple[float, int]:
        """Return a query's priority, and how soon after a window is final its answer should be there."""
        known = self._asked.get(definition.id)
        if known is None:
            known = self._asked[definition.id] = float(priority_of(definition.query)), deadline_us_of(definition)
        return known


def deadline_us_of(definition: Definition) -> int:
    """Return how soon after a window is final a query's answer should be there: after its slide, unless it says so."""
    window, deadline = definition.query.window, option_us(definition.query, "deadline")
    slide = 0 if isinstance(window, RowsWindow) else window.slide
    return slide if deadline is None else deadline
