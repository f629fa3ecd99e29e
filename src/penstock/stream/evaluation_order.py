"""Describes due windows as items of work that a policy puts in order, and cuts items that would take too long.

Windows of one lane, shape and slide are one item, whatever batches made them final: the paper's sub-group (Golab, Bijay
and Özsu 2006, §4.1). So the windows of a query are in one item, and are answered in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.evaluate.typed import Definition
from penstock.kernel.answering import Answering, Spent
from penstock.kernel.pending import ItemKey, Pending
from penstock.language.options import is_fresh, option_us, priority_of
from penstock.model.instants import Clock
from penstock.model.window import RowsWindow
from penstock.schedule import work_groups
from penstock.schedule.policy import Head, Policy
from penstock.schedule.work_groups import cut_end, first_group, item_head
from penstock.stream.batch_under_way import BatchUnderWay
from penstock.stream.evaluation_costs import EvaluationCosts

GROUP_S: Final = work_groups.GROUP_S  # that windows which are answered together are expected to take at most
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
    def number(self) -> int:
        """Return the number of its first query: items take turns by it, and among equals the lower one goes first."""
        return self.members[0].definition.id

    @property
    def round_s(self) -> float:
        """Estimate how long one window of each query takes."""
        return self.seconds / max(self.answers.values())

    @property
    def answers(self) -> dict[int, int]:
        """Count the windows of each query that will be answered: of a fresh one, the last alone."""
        answers: dict[int, int] = {}
        for one in self.members:  # of several batches, a query has several
            number = one.definition.id
            answers[number] = 1 if is_fresh(one.definition.query) else answers.get(number, 0) + len(one.ends)
        return answers

    def head(self, now_us: int) -> Head:
        """Describe the item as policies see it."""
        windows, answers = sum(len(one.ends) for one in self.members), sum(self.answers.values())
        return item_head(self.seconds, self.priority, answers, self.final_us, self.due_us, now_us, windows / answers)


class EvaluationOrder:
    """Estimates what due windows cost, and puts them in the order of a policy."""

    def __init__(self, answering: Answering, policy: Callable[[], Policy], clock: Clock) -> None:
        """Order by the policy of the moment; ``clock`` tells for how long windows have been final."""
        self.policy, self.clock, self.answering = policy, clock, answering
        self.costs, self.under_way = EvaluationCosts(answering), BatchUnderWay(clock)
        self._asked: dict[int, tuple[float, int]] = {}  # priority and deadline of a query
        self.begin_turns()

    def begin_turns(self) -> None:
        """Let turns begin with the first item again."""
        self._last = -1  # the item that ran last, by its number

    def learn(self) -> list[Spent]:
        """Learn from what the last windows took, and return it."""
        spent = self.answering.spent()
        self.costs.note(spent)
        return spent

    def forget(self, current: Collection[int]) -> None:
        """Forget the queries that are gone."""
        self.costs.forget(current)
        self._asked = {number: asked for number, asked in self._asked.items() if number in current}

    def is_quick(self, whole: EvaluationItem) -> bool:
        """Tell whether windows are answered in one go: there is nothing to be won by an order, or they need it."""
        return whole.seconds <= GROUP_S or any(one.is_dated for one in whole.members)

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

    def first(self, items: Sequence[EvaluationItem], batches: Sequence[BatchUnderWay] = ()) -> list[int]:
        """Return the places of the items that run next, in order: as many as fit into one go, and at least one.

        None at all: a batch that is being taken goes before them.
        """
        now_us, numbers = self.clock(), [item.number for item in items]
        beside = [head for batch in batches if (head := batch.head(now_us)) is not None]
        heads = [item.head(now_us) for item in items]
        places = first_group(self.policy(), heads, numbers, self._last, GROUP_S, beside)
        self._last = numbers[places[-1]] if places else self._last
        return places

    def cut_at(self, items: Sequence[EvaluationItem]) -> int | None:
        """Return the end of the last windows that are answered in one go; None: all are, or are not to be parted.

        Items that were put together stay together: one window of each is answered, whatever it takes.
        """
        members, seconds = [one for item in items for one in item.members], sum(item.seconds for item in items)
        most = max(GROUP_S, sum(item.round_s for item in items))
        if seconds <= most or any(one.is_dated for one in members):
            return None
        first, last = min(one.ends.first_us for one in members), max(int(one.ends.lasts[-1]) for one in members)
        return cut_end(first, last, seconds, most)

    def cut(self, item: EvaluationItem, upto_us: int | None) -> tuple[EvaluationItem | None, EvaluationItem | None]:
        """Cut an item into the windows that end by a time and the others; None: there are none."""
        if upto_us is None:
            return item, None
        now = [part for one in item.members if len((part := one.upto(upto_us)).ends)]
        later = [part for one in item.members if len((part := one.after(upto_us)).ends)]
        if not now or not later:
            return (item, None) if now else (None, item)
        return self.item(now, item.final_us, item.due_us), self.item(later, item.final_us, item.due_us)

    def look_at(self, definitions: Iterable[Definition]) -> None:
        """Take from all queries how urgent a batch is: as the most urgent of them."""
        asked = [self.wanted(definition) for definition in definitions]
        self.under_way.priority = max((weight for weight, _ in asked), default=1.0)
        self.under_way.soon_us = min((soon for _, soon in asked), default=0)

    def deadlines_us(self, due: Iterable[Pending]) -> list[int]:
        """Return how soon after they are final the windows of some queries are wanted."""
        known = self._asked
        return [(known.get(one.definition.id) or self.wanted(one.definition))[1] for one in due]

    def wanted(self, definition: Definition) -> tuple[float, int]:
        """Return a query's priority, and how soon after a window is final its answer should be there."""
        known = self._asked.get(definition.id)
        if known is None:
            known = self._asked[definition.id] = float(priority_of(definition.query)), deadline_us_of(definition)
        return known


def deadline_us_of(definition: Definition) -> int:
    """Return how soon after a window is final a query's answer should be there: after its slide, unless it says so."""
    window, deadline = definition.asked, option_us(definition.query, "deadline")
    slide = 0 if isinstance(window, RowsWindow) else window.slide
    return slide if deadline is None else deadline
