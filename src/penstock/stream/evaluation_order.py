"""Describes due windows as items of work that a policy puts in order, and cuts items that would take too long.

Which windows are one item is said in :mod:`penstock.stream.query_items`. The windows of a query are in one item, so
they are answered in order.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from penstock.evaluate.typed import Definition
from penstock.kernel.answering import Answering, Spent
from penstock.kernel.pending import Pending
from penstock.language.options import is_fresh
from penstock.model.instants import Clock
from penstock.schedule import work_groups
from penstock.schedule.policy import Head, Policy
from penstock.schedule.work_groups import ItemArrays, ItemFacts, cut_end, first_group, longest
from penstock.stream.batch_under_way import BatchUnderWay
from penstock.stream.evaluation_costs import EvaluationCosts, GroupCost
from penstock.stream.query_items import AskedQuery, QueryItems
from penstock.stream.selectivities import SaidWindows, Selectivities

GROUP_S: Final = work_groups.GROUP_S  # that windows which are answered together are expected to take at most
LEAST_S: Final = 1e-6
NEVER_US: Final = 1 << 62


@dataclass(frozen=True)
class EvaluationItem:
    """Due windows that are answered together."""

    members: tuple[Pending, ...]
    seconds: float  # that they are expected to take
    priority: float
    final_us: int  # when the first of them became final, by the clock
    due_us: int  # when the first of them is to be answered
    fresh: bool = False  # some of their queries want the freshest answer only
    fixed: float = 0.0  # seconds that they take once, however many they are
    rare: Mapping[int, float] = field(default_factory=dict)  # the part that says something, where that is not all

    @property
    def number(self) -> int:
        """Return the number of its first query: items take turns by it, and among equals the lower one goes first."""
        return self.members[0].definition.id

    @property
    def round_s(self) -> float:
        """Estimate how long one window of each query takes, by themselves."""
        return self.fixed + (self.seconds - self.fixed) / max(self._answers.values())

    @cached_property
    def is_dated(self) -> bool:
        """Tell whether the times of some answers come from those of others, which are answered with them."""
        return any(one.is_dated for one in self.members)

    @cached_property
    def _windows(self) -> dict[int, int]:
        """Count the windows of each query: one that waits from several batches has several."""
        found: dict[int, int] = {}
        for one in self.members:
            number = one.definition.id
            found[number] = found.get(number, 0) + len(one.ends)
        return found

    @cached_property
    def _answers(self) -> dict[int, int]:
        """Count the windows of each query that will be answered: of a fresh one, the last alone."""
        if not self.fresh:
            return self._windows
        return self._windows | {d.id: 1 for one in self.members if is_fresh((d := one.definition).query)}

    @cached_property
    def facts(self) -> ItemFacts:
        """Return what the item asks for; it is looked at each time that something is chosen."""
        queries, windows, answers = len(self._windows), sum(self._windows.values()), sum(self._answers.values())
        asked, times = (self.round_s, self.seconds, self.priority), (self.final_us, self.due_us)
        silent = sum(1.0 - part for part in self.rare.values())
        return ItemFacts(*asked, queries, answers, *times, self.number, windows / answers, 1.0 - silent / queries)

    def head(self, now_us: int, group_s: float = 0.0) -> Head:
        """Describe the item as policies see it; a group takes ``group_s``, however few windows it has."""
        return ItemArrays.of([self.facts]).heads(now_us, group_s).each()[0]


class EvaluationOrder:
    """Estimates what due windows cost, and puts them in the order of a policy."""

    def __init__(self, answering: Answering, policy: Callable[[], Policy], clock: Clock) -> None:
        """Order by the policy of the moment; ``clock`` tells for how long windows have been final."""
        self.policy, self.clock, self.answering = policy, clock, answering
        self.costs, self.groups, self.under_way = EvaluationCosts(answering), GroupCost(), BatchUnderWay(clock)
        self.selectivities = Selectivities()
        self.queries = QueryItems(answering, self.costs, self.selectivities)
        self.begin_turns()

    def begin_turns(self) -> None:
        """Let turns begin with the first item again."""
        self._last = -1  # the item that ran last, by its number

    def learn(self) -> list[Spent]:
        """Learn from what the last windows took, and return it."""
        spent = self.answering.spent()
        self.costs.note(spent)
        return spent

    def forget(self, current: Mapping[int, Definition], waiting: Container[int] = ()) -> None:
        """Forget the queries that are gone, and what windows are merged together, but for queries with some waiting."""
        self.costs.forget(current)
        self.selectivities.forget(current)
        self.queries.forget(current, waiting)

    def listening(self, due: Sequence[Pending]) -> SaidWindows:
        """Count which of some windows say something, of the queries whose windows may say nothing."""
        return SaidWindows(self.selectivities, due)

    def is_quick(self, whole: EvaluationItem) -> bool:
        """Tell whether windows are answered in one go: there is nothing to be won by an order, or they need it."""
        return whole.seconds <= GROUP_S or whole.is_dated

    def item(
        self,
        members: Sequence[Pending],
        final_us: int,
        due_us: int | None = None,
        known: Sequence[AskedQuery] | None = None,
    ) -> EvaluationItem:
        """Describe windows that are answered together; they are due as soon as the most urgent of them wants.

        ``known`` is what is known of the query of each, if somebody has looked it up.
        """
        seconds, priority, soonest_us, fresh, fixed = 0.0, 0.0, NEVER_US, dict[int, float](), dict[int, float]()
        rare = self.selectivities.believed(members) if self.selectivities.watched else {}
        for one, asked in zip(members, map(self.queries.of, members) if known is None else known, strict=True):
            cost = asked.cost
            if asked.fresh:  # its last window alone is answered
                fresh[one.definition.id] = cost.each
            else:
                seconds += cost.each * len(one.ends)
            if cost.fixed:
                fixed[id(cost)] = cost.fixed
            if asked.soon_us < soonest_us:
                soonest_us = asked.soon_us
            if asked.priority > priority:
                priority = asked.priority
        once = sum(fixed.values())
        seconds = max(LEAST_S, seconds + sum(fresh.values()) + once)
        due = final_us + soonest_us if due_us is None else due_us
        return EvaluationItem(tuple(members), seconds, priority, final_us, due, bool(fresh), once, rare)

    def joined(self, item: EvaluationItem, members: Sequence[Pending]) -> EvaluationItem:
        """Add windows that became final later to an item, of which those that are there stay as they were described."""
        if item.fresh:  # what is added supersedes some of what is there
            return self.item((*item.members, *members), item.final_us, item.due_us)
        more = self.item(members, item.final_us, item.due_us)
        whole, priority = (*item.members, *more.members), max(item.priority, more.priority)
        seconds = item.seconds + more.seconds - min(item.fixed, more.fixed)
        once = max(item.fixed, more.fixed)
        rare = {**item.rare, **more.rare}
        return EvaluationItem(whole, seconds, priority, item.final_us, item.due_us, more.fresh, once, rare)

    def first(
        self, items: Sequence[EvaluationItem], batches: Sequence[BatchUnderWay] = (), waited_s: float = 0.0
    ) -> list[int]:
        """Return the places of the items that run next, in order: as many as fit into one go, and at least one.

        None at all: a batch that is being taken goes before them. A group may take as long as all has ``waited_s``.
        """
        now_us = self.clock()
        beside = [head for batch in batches if (head := batch.head(now_us)) is not None]
        if len(items) == 1 and not beside:  # nothing to choose
            places = [0]
        else:
            known = ItemArrays.of([item.facts for item in items])
            heads = known.heads(now_us, self.groups.seconds)
            places = first_group(self.policy(), known, heads, self._last, GROUP_S, beside, waited_s)
        self._last = items[places[-1]].number if places else self._last
        return places

    def waited_s(self, items: Iterable[EvaluationItem]) -> float:
        """Return for how long all of some items have waited."""
        return max(0.0, (self.clock() - max(item.final_us for item in items)) / 1e6)

    def cut_at(self, items: Sequence[EvaluationItem], waited_s: float = 0.0) -> int | None:
        """Return the end of the last windows that are answered in one go; None: all are, or are not to be parted.

        Items that were put together stay together: one window of each is answered, whatever it takes.
        """
        seconds = sum(item.seconds for item in items)
        if seconds <= GROUP_S or any(item.is_dated for item in items):
            return None
        most = max(longest(GROUP_S, waited_s), sum(item.round_s for item in items))
        if seconds <= most:
            return None
        members = [one for item in items for one in item.members]
        first, last = min(one.ends.first_us for one in members), max(one.ends.last_us for one in members)
        once = sum(item.fixed for item in items)
        return cut_end(first, last, seconds - once, most - once)

    def cut(self, item: EvaluationItem, upto_us: int | None) -> tuple[EvaluationItem | None, EvaluationItem | None]:
        """Cut an item into the windows that end by a time and the others; None: there are none."""
        if upto_us is None:
            return item, None
        parts = [one.parted(upto_us) for one in item.members]
        now, later = [part for part, _ in parts if part is not None], [part for _, part in parts if part is not None]
        if not now or not later:
            return (item, None) if now else (None, item)
        return self.item(now, item.final_us, item.due_us), self.item(later, item.final_us, item.due_us)

    def look_at(self, definitions: Iterable[Definition]) -> None:
        """Take from all queries how urgent a batch is: as the most urgent of them."""
        asked = [self.queries.wanted(definition) for definition in definitions]
        self.under_way.priority = max((weight for weight, _ in asked), default=1.0)
        self.under_way.soon_us = min((soon for _, soon in asked), default=0)

    def deadlines_us(self, due: Iterable[Pending]) -> list[int]:
        """Return how soon after they are final the windows of some queries are wanted."""
        wanted = self.queries.wanted
        return [wanted(one.definition)[1] for one in due]
