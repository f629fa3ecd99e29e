"""Translates definitions and the observed load of a stream into the weaver's queries, costs and tree names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Final

from penstock.evaluate.components.numbers import Component
from penstock.evaluate.typed import Condition, Definition
from penstock.model.window import SessionWindow
from penstock.share.plan import ONE_TREE
from penstock.share.weave.costs import DEFAULT_RATES, Load, MeasuredCosts, Rates
from penstock.share.weave.incremental import IncrementalPlanner
from penstock.share.weave.plan_queries import Merging, PlanQuery

ASSUMED_RATE: Final = 1_000.0  # rows a second, before any came
ASSUMED_GROUPS: Final = 100.0
SPARE_GROUPINGS: Final = 8  # that may come before all is woven anew
DRIFT: Final = 2.0  # times by which rate or groups change before the plan is looked at again
WORTH: Final = 0.05  # of all that a batch costs, by which another plan must cost less: it is other code, to be compiled

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ObservedLoad:
    """What a stream was seen to bring: rows and batches a second, groups by their keys and how rows fill them."""

    rows_per_second: float | None = None
    groups: Mapping[Keys, int] = field(default_factory=dict)
    fragments_per_condition: float = 1.0
    batches_per_second: float = 0.0
    filled: Mapping[Keys, float] = field(default_factory=dict)  # groups that rows fall into as if alike
    rows_sent: bool | None = None  # to the driver, in the last batch; None: it is not known yet

    def drifted(self, since: ObservedLoad) -> bool:
        """Tell whether the stream has become another one since it was looked at last, or was never looked at."""
        if self.rows_per_second is not None and since.rows_per_second is None:
            return True
        if self.rows_sent is not None and since.rows_sent is not None and self.rows_sent != since.rows_sent:
            return True
        pairs = [(self.rows_per_second or ASSUMED_RATE, since.rows_per_second or ASSUMED_RATE)]
        pairs += [(count, since.groups.get(keys, ASSUMED_GROUPS)) for keys, count in self.groups.items() if keys]
        return any(max(a, b) > DRIFT * max(1.0, min(a, b)) for a, b in pairs)


@dataclass(slots=True)
class Numbers:
    """Numbers of keys and conditions, as queries name them; ``scans``: windows are put together slice by slice."""

    scans: bool = False
    keys: dict[Keys, int] = field(default_factory=dict)
    conditions: dict[Condition, int] = field(default_factory=dict)
    components: dict[Keys, set[Component]] = field(default_factory=dict)

    def woven_query(self, definition: Definition) -> PlanQuery:
        """Return a query as the weaver sees it."""
        grouping = self.keys.setdefault(definition.query.keys, len(self.keys))
        number = self.conditions.setdefault(definition.typed.condition, len(self.conditions))
        self.components.setdefault(definition.query.keys, set()).update(definition.typed.components)
        return PlanQuery(definition.query.window, grouping, number, self._merging(definition))

    def costs(self, rates: Rates, seen: ObservedLoad) -> MeasuredCosts:
        """Put what was seen in the order of groupings; some that may come are assumed."""
        groups = [1.0 if not keys else float(seen.groups.get(keys) or ASSUMED_GROUPS) for keys in self.keys]
        filled = [seen.filled.get(keys, known) for keys, known in zip(self.keys, groups, strict=True)]
        some = [ASSUMED_GROUPS] * SPARE_GROUPINGS
        rows = seen.rows_per_second or ASSUMED_RATE
        brought = seen.fragments_per_condition, seen.batches_per_second
        free = next((number for c, number in self.conditions.items() if c.where is None and not c.joins), None)
        numbers, states = self._counted()
        sent = any(states) if seen.rows_sent is None else seen.rows_sent
        load = Load(rows, (*groups, *some), *brought, (*filled, *some), free, 0.0, numbers, states, sent)
        return MeasuredCosts(rates, load)

    def _counted(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Count, for each grouping, the components that are numbers and those that are states."""
        asked = [self.components.get(keys, set()) for keys in self.keys]
        states = [float(sum(component.is_state for component in some)) for some in asked]
        return tuple(len(some) - many for some, many in zip(asked, states, strict=True)), tuple(states)

    def _merging(self, definition: Definition) -> Merging:
        """Tell how the kernel puts a query's windows together."""
        if self.scans:
            return "scan"
        return "prefix" if all(c.invertible for c in definition.typed.components) else "tree"


def planner_of(
    definitions: Iterable[Definition], numbers: Numbers, rates: Rates, seen: ObservedLoad
) -> IncrementalPlanner[int]:
    """Make a plan of queries, each a tree of its own until it is woven or laid out."""
    woven_queries = {d.id: numbers.woven_query(d) for d in definitions}
    costs = numbers.costs(rates, seen)
    batch = rates.whatever(len(woven_queries), plain=False)
    fixed = costs.load.rows_per_second * rates.scanned + costs.load.batches_per_second * batch
    planner: IncrementalPlanner[int] = IncrementalPlanner(costs, bound=True, fixed=fixed, margin=WORTH)
    planner.woven_queries = woven_queries
    return planner


@dataclass(frozen=True, slots=True)
class WovenSoFar:
    """What is known of a stream when a plan is explained: what it brings, prices, and the trees woven so far."""

    seen: ObservedLoad = field(default_factory=ObservedLoad)
    rates: Rates = DEFAULT_RATES
    trees: Mapping[int, str] = field(default_factory=dict)  # definition → tree

    def woven(self, definitions: Sequence[Definition]) -> dict[int, str]:
        """Name the tree of every query; those in none so far are woven in, or all from scratch.

        Of a stream that has brought nothing yet, all are in one. Sessions are in none.
        """
        definitions = [d for d in definitions if not isinstance(d.query.window, SessionWindow)]
        known = [d for d in definitions if d.id in self.trees]
        if self.seen.rows_per_second is None and len(set(self.trees.values()) | {ONE_TREE}) == 1:
            return {d.id: ONE_TREE for d in definitions}
        if not known:
            planner = planner_of(definitions, Numbers(), self.rates, self.seen)
            if planner.woven_queries:
                planner.reconstruct()
            return named(planner.trees, {})
        numbers = Numbers()
        woven_queries = {d.id: numbers.woven_query(d) for d in definitions}
        planner = planner_of(known, numbers, self.rates, self.seen)
        by_tree: dict[str, list[int]] = {}
        for definition in known:
            by_tree.setdefault(self.trees[definition.id], []).append(definition.id)
        planner.lay_out(list(by_tree.values()))
        for number in woven_queries.keys() - planner.woven_queries.keys():
            planner.add(number, woven_queries[number])
        return named(planner.trees, self.trees)


def named(trees: Collection[Sequence[int]], before: Mapping[int, str]) -> dict[int, str]:
    """Name trees: the only one "all", others as the one that most of their queries are in already, or by a query."""
    if len(trees) == 1:
        return {number: ONE_TREE for tree in trees for number in tree}
    found: dict[int, str] = {}
    taken: set[str] = set()
    for tree in sorted(trees, key=lambda t: (-len(t), t)):
        known = Counter(before[number] for number in tree if number in before)
        wanted = [name for name, _ in sorted(known.items(), key=lambda one: (-one[1], one[0]))]
        free = (name for name in chain(wanted, _names(min(tree))) if _is_free(name, tree, before))
        name = next(name for name in free if name not in taken)
        taken.add(name)
        found |= dict.fromkeys(tree, name)
    return found


def _is_free(name: str, tree: Sequence[int], before: Mapping[int, str]) -> bool:
    """Tell whether a name is a tree's own, or nobody's: what is filed under it must not be taken for another's."""
    holders = [number for number, known in before.items() if known == name]
    return not holders or any(number in holders for number in tree)


def _names(first: int) -> Iterator[str]:
    """Make up names from a query's number, without end."""
    yield f"t{first}"
    yield from (f"t{first}.{number}" for number in count(1))
