"""Names the item of work that the windows of a query belong to, and remembers how urgent a query's answers are.

Windows of one lane, shape and slide are one item, whatever batches made them final: the paper's sub-group (Golab, Bijay
and Özsu 2006, §4.1). Conditions without keys are columns of one array, a bundle, which is merged once for all of them.
So windows of a bundle's columns are one item too, as long as their queries are equally urgent and not more than a group
can take: otherwise an alert would wait for what has time.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.bundles import ColumnLane
from penstock.kernel.answering import Answering
from penstock.kernel.pending import ItemName, Pending
from penstock.language.options import is_fresh, option_us, priority_of
from penstock.model.window import EachRow, RowsWindow
from penstock.share.plan import LaneKey
from penstock.stream.evaluation_costs import EvaluationCosts, WindowCost
from penstock.stream.selectivities import Selectivities

Options = tuple[tuple[str, str | int], ...]

COLUMNS: Final = 1_000  # of a bundle that are one item: their windows take about as long as a group may


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """What has to be known of a query to put its windows in order."""

    item: ItemName
    lane: LaneKey
    priority: float
    soon_us: int  # how soon after a window is final its answer should be there
    fresh: bool  # it wants the freshest answer only
    cost: WindowCost

    @property
    def asked(self) -> tuple[float, int, bool]:
        """Return how urgent it is: queries that differ in that are not one item."""
        return self.priority, self.soon_us, self.fresh


class QueryItems:
    """The items of queries, by definition: a query has one, and keeps it as long as windows of it wait."""

    def __init__(self, answering: Answering, costs: EvaluationCosts, selectivities: Selectivities) -> None:
        """Know no query; of those that come, ``selectivities`` are told."""
        self.answering, self.costs, self.selectivities = answering, costs, selectivities
        self._asked: dict[int, AskedQuery] = {}
        self._wanted: dict[int, tuple[Options, float, int]] = {}  # by the options that say so
        self._names: dict[tuple[object, ...], ItemName] = {}

    def of(self, one: Pending) -> AskedQuery:
        """Return what is known of the query of some windows."""
        known = self._asked.get(one.definition.id)
        if known is not None and (known.lane is one.lane or known.lane == one.lane):
            return known
        return self._learn(one)

    def together(
        self, due: Sequence[Pending], known: Sequence[AskedQuery]
    ) -> dict[ItemName, tuple[list[Pending], list[AskedQuery]]]:
        """Put the windows of each item together, with what is ``known`` of their queries."""
        found: dict[ItemName, tuple[list[Pending], list[AskedQuery]]] = {}
        for one, asked in zip(due, known, strict=True):
            members, theirs = found.setdefault(asked.item, ([], []))
            members.append(one)
            theirs.append(asked)
        return found

    def wanted(self, definition: Definition) -> tuple[float, int]:
        """Return a query's priority, and how soon after a window is final its answer should be there."""
        known, options = self._wanted.get(definition.id), definition.query.options
        if known is None or known[0] is not options:
            wanted = float(priority_of(definition.query)), deadline_us_of(definition)
            known = self._wanted[definition.id] = options, *wanted
        return known[1:]

    def forget(self, current: Mapping[int, Definition], waiting: Container[int]) -> None:
        """Forget the queries that are gone, and the items of those that are merged with others now.

        A query of which windows are ``waiting`` keeps its item, though it may be more urgent or less than before.
        """
        self._wanted = {number: known for number, known in self._wanted.items() if number in current}
        renewed = {n: self._renewed(known, current[n]) for n, known in self._asked.items() if n in current}
        self._asked = {
            n: known
            for n, known in renewed.items()
            if n in waiting or known.item.unit == self._unit(known.lane, known.asked)
        }
        named = {id(known.item) for known in self._asked.values()}
        self._names = {key: name for key, name in self._names.items() if id(name) in named}

    def _renewed(self, known: AskedQuery, definition: Definition) -> AskedQuery:
        """Return what is known of a query, as urgent as it is now."""
        priority, soon_us = self.wanted(definition)
        if (priority, soon_us) == (known.priority, known.soon_us):
            return known
        return replace(known, priority=priority, soon_us=soon_us)

    def _learn(self, one: Pending) -> AskedQuery:
        """Note what a query asks for, and name its item."""
        definition, lane = one.definition, one.lane
        asked, shape = (*self.wanted(definition), is_fresh(definition.query)), self.answering.shape_of(definition)
        unit = self._unit(lane, asked)
        key = (*unit, shape, one.ends.slide_us)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = ItemName(lane, shape, unit)
        self.selectivities.watch(definition)
        known = self._asked[definition.id] = AskedQuery(name, lane, *asked, self.costs.of(one))
        return known

    def _unit(self, lane: LaneKey, asked: tuple[float, int, bool]) -> tuple[object, ...]:
        """Name what is merged together and equally urgent."""
        held = self.answering.synopsis.lanes.get(lane)
        if not isinstance(held, ColumnLane):
            return (lane,)
        return held.bundle.number, held.number // COLUMNS, *asked


def deadline_us_of(definition: Definition) -> int:
    """Return how soon after a window is final a query's answer should be there: after its slide, unless it says so.

    Windows of rows and queries without a window have no slide in time: nothing, unless they say so.
    """
    window, deadline = definition.asked, option_us(definition.query, "deadline")
    slide = 0 if isinstance(window, RowsWindow | EachRow) else window.slide
    return slide if deadline is None else deadline
