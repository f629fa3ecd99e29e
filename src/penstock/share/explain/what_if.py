"""Tells which tree one more query would join, with whom, and what that would cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.errors import Unsupported
from penstock.evaluate.typed import Definition
from penstock.model.strategy import Strategy
from penstock.model.window import RowsWindow
from penstock.printable import shown
from penstock.share.plan import Plan, is_session, plan_queries
from penstock.share.weave.density import edge_rate, weaveability
from penstock.share.weave.queries import Numbers, WovenSoFar
from penstock.share.weave.tree_costs import beside

MOST_NAMES: Final = 8
MICROS: Final = 1e6
_UNITS: Final = (("second", 1), ("minute", 60), ("hour", 3_600), ("day", 86_400))


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What one query more would change; costs are seconds of work a second of event time."""

    stream: str
    tree: str
    new_tree: bool
    beside: tuple[str, ...]  # the other queries of the tree
    partials_with: tuple[str, ...]  # queries whose partials it would read as they are
    not_kept: tuple[str, ...]  # what no query keeps of the same rows yet
    weaveability: float  # with the tree it joins
    edges_before: float  # of the tree, a second
    edges_after: float
    cost_before: float  # of the whole plan
    cost_after: float
    cost_alone: float  # of the query in a pipeline of its own, without reading the rows

    def __str__(self) -> str:
        """Word it for people."""
        joins = "would have a tree of its own" if self.new_tree else f"would join tree {self.tree}"
        more = (self.cost_after - self.cost_before) * MICROS
        lines = [
            f"stream {self.stream}: the query {joins}" + (f" beside {_listed(self.beside)}" if self.beside else ""),
            f"  {self._partials}",
            f"  {self._edges}",
            f"  costs {_micros(more)} more a second of event time ({self.cost_before * MICROS:,.1f} → "
            f"{self.cost_after * MICROS:,.1f}); alone it would cost {self.cost_alone * MICROS:,.1f}",
        ]
        return "\n".join(map(shown, lines))

    @property
    def _edges(self) -> str:
        """Say how many edges it has in common with the tree, and how often slices end before and after."""
        unit, seconds = next((u for u in _UNITS if self.edges_after * u[1] >= 1), _UNITS[-1])
        before, after = (f"{rate * seconds:,.3g}" for rate in (self.edges_before, self.edges_after))
        common = "" if self.new_tree else f"{self.weaveability:.0%} of the edges of its windows are the tree's; "
        return f"{common}{after} edges a {unit}, {before} without it"

    @property
    def _partials(self) -> str:
        """Say whose partials it reads, or what has to be kept for it."""
        if self.not_kept:
            return f"keeps what no query keeps of the same rows yet: {_listed(self.not_kept)}"
        return f"reads the same partials as {_listed(self.partials_with)}"

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        found = {name: getattr(self, name) for name in self.__slots__}
        lists = {name: list(found[name]) for name in ("beside", "partials_with", "not_kept")}
        return found | lists


def what_if(definitions: Sequence[Definition], new: Definition, strategy: Strategy, standing: WovenSoFar) -> WhatIf:
    """Plan with one query more, and compare."""
    if isinstance(new.query.window, RowsWindow):
        raise Unsupported("the cost of a window of rows cannot be estimated", hint="Write a window of time.")
    if is_session(new):
        raise Unsupported("the cost of sessions cannot be estimated", hint="Write a window of time.")
    if new.query.is_continuous:
        what = "the cost of a query without a window cannot be estimated"
        raise Unsupported(what, hint="EXPLAIN SELECT … shows with whom it shares conditions.")
    definitions = [d for d in definitions if not (d.query.is_continuous or is_session(d))]
    woven = strategy == "weave"
    before = standing.woven(definitions) if woven else None
    after = replace(standing, trees=before or {}).woven((*definitions, new)) if woven else None
    planned = plan_queries(definitions, strategy, 0, None, before)
    wider = plan_queries((*definitions, new), strategy, 0, None, after)
    [tree] = [t for t in wider.trees if any(d.id == new.id for d in t.definitions)]
    others = [d for d in tree.definitions if d.id != new.id]
    own, windows = [new.query.window], [d.query.window for d in others]
    alike = [d for d in others if _rows_of(d) == _rows_of(new)]
    same = [d.name for d in alike if set(new.typed.components) <= set(d.typed.components)]
    kept = {component for d in alike for component in d.typed.components}
    missing = [component for component in new.typed.components if component not in kept]
    not_kept = [str(component) for component in missing if component.source == component]
    return WhatIf(
        new.query.stream,
        tree.name,
        not others,
        tuple(d.name for d in others),
        tuple(same),
        tuple(not_kept),
        weaveability(windows, own) if others else 1.0,
        edge_rate(windows).value if others else 0.0,
        edge_rate([*windows, *own]).value,
        *(_cost(plan, standing) for plan in (planned, wider, plan_queries([new], "unshared paired", 0))),
    )


def _cost(plan: Plan, standing: WovenSoFar) -> float:
    """Return what a plan costs."""
    numbers = Numbers()
    place = {d.id: i for i, d in enumerate(plan.definitions)}
    woven_queries = [numbers.woven_query(d) for d in plan.definitions]
    if not woven_queries:
        return 0.0
    rows = [[place[d.id] for d in tree.definitions] for tree in plan.trees]
    return beside(woven_queries, numbers.costs(standing.rates, standing.seen), rows).woven().cost


def _rows_of(definition: Definition) -> tuple[object, ...]:
    """Return what decides which partials a query reads."""
    return definition.query.keys, definition.typed.condition


def _micros(micros: float) -> str:
    """Write a cost, also one that is very small."""
    return f"{micros:,.1f} µs" if micros >= 0.05 or micros <= 0 else "less than 0.1 µs"


def _listed(names: Sequence[str]) -> str:
    """List names, shortened."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return (", ".join(names[:MOST_NAMES]) + more) if names else "no other query"
