"""Explains which queries share which slices and partials, and what that saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from penstock.evaluate.typed import Condition, Definition
from penstock.model.derived import is_line
from penstock.model.duration import SECOND
from penstock.model.window import RowsWindow
from penstock.schedule.running_together import synchronization_named
from penstock.share.conditions.cells import Cells
from penstock.share.conditions.condition_cells import tell_apart
from penstock.share.explain.cells import explain_cells
from penstock.share.explain.continuous import explain_continuous
from penstock.share.explain.explanation import (
    ConditionPlan,
    Explanation,
    GroupingPlan,
    JoinPlan,
    OperationCounts,
    QueryPlan,
    StreamPlan,
    TreePlan,
)
from penstock.share.explain.observed import ObservedStream
from penstock.share.explain.together import NOT_PLANNED, TogetherPlanner
from penstock.share.explain.weave import WeavePlan, explain_weave
from penstock.share.fresh_periods import PeriodGroup, period_groups
from penstock.share.layout import lay_out
from penstock.share.locate import Locating
from penstock.share.plan import SESSIONS, Grouping, Plan, Strategy, Tree, condition_of, plan_queries
from penstock.share.slices import SliceManager
from penstock.share.weave.queries import ASSUMED_RATE, WovenSoFar

BY_EXECUTORS: Final = "kept by the executors"  # how a grouping is made that outgrew the driver


def explain_plan(
    stream: str,
    definitions: Sequence[Definition],
    strategy: Strategy,
    version: int,
    seen: ObservedStream | None = None,
    standing: WovenSoFar | None = None,
) -> Explanation:
    """Explain one stream: trees, groupings, conditions, and operations per second of event time."""
    seen, standing, is_woven = (
        seen or ObservedStream(),
        standing or WovenSoFar(),
        strategy == "weave" and not is_line(stream),
    )
    rows, definitions = explain_continuous(definitions, seen.operators), _windowed(definitions)
    rate = float(SECOND) if is_line(stream) else seen.rate  # there, a row stands for a microsecond
    names, rows_per_second = standing.woven(definitions) if is_woven else None, rate or ASSUMED_RATE
    plan = plan_queries(definitions, strategy, version, None, names)
    weighed = replace(plan, trees=tuple(tree for tree in plan.trees if tree.space != SESSIONS))
    woven = explain_weave(weighed, standing) if is_woven and len(weighed.trees) > 1 else {}
    joins = tuple(JoinPlan(j.id, j.table, j.kind, j.stream_keys) for j in plan.joins)
    layout = lay_out(plan, "")
    cells = tell_apart(layout, seen.families.copy())
    numbers: list[dict[tuple[str, ...], int]] = [{} for _ in plan.trees]
    for member in layout.members:
        numbers[member.tree][member.grouping.keys] = member.number
    told = [woven.get(tree.name) for tree in plan.trees]
    ways = [_found_by(tree, way) for tree, way in zip(plan.trees, layout.locating, strict=True)]
    trees = tuple(_explain_tree(tree, ways[i], cells, numbers[i], seen, told[i]) for i, tree in enumerate(plan.trees))
    work = _work(plan, definitions, rows_per_second) if definitions else None
    told_of = stream, strategy, rows_per_second, rate is not None
    return Explanation((StreamPlan(*told_of, joins, trees, work, seen.synchronize, _periods(plan, seen), rows),))


def _periods(plan: Plan, seen: ObservedStream) -> tuple[PeriodGroup, ...]:
    """Choose the periods of fresh queries, as the stream will run them from its next batch on."""
    choose = synchronization_named(seen.synchronize).periods
    if choose is None:
        return ()
    here = [d for t in plan.trees for d in t.definitions if seen.made.get((t.name, d.query.keys)) != BY_EXECUTORS]
    groups = period_groups(here, choose, scans=seen.scans, most_windows=seen.most_windows)
    return tuple(group for group in groups if len(group.chosen.periods) > 1)


def _windowed(definitions: Sequence[Definition]) -> list[Definition]:
    """List the queries that have a window."""
    return [d for d in definitions if not d.query.is_continuous]


def _explain_tree(
    tree: Tree,
    way: str,
    cells: Cells,
    numbers: Mapping[tuple[str, ...], int],
    seen: ObservedStream,
    woven: WeavePlan | None,
) -> TreePlan:
    """Explain one tree; ``way`` is how rows find its slices, ``numbers`` are its groupings' among the cells."""
    groupings = [_explain_grouping(tree, grouping, cells, numbers[grouping.keys], seen) for grouping in tree.groupings]
    return TreePlan(
        tree.name,
        tree.slicing,
        tuple(dict.fromkeys(tree.windows)),
        tree.manager().edge_rate(SECOND),
        way,
        tuple(replace(one, made=seen.made.get((tree.name, one.keys))) for one in groupings),
        woven,
    )


def _found_by(tree: Tree, way: Locating) -> str:
    """Word how a row finds its slice."""
    words = str(way)
    return words.replace(" us", " rows") if any(isinstance(w, RowsWindow) for w in tree.windows) else words


def _explain_grouping(tree: Tree, grouping: Grouping, cells: Cells, number: int, seen: ObservedStream) -> GroupingPlan:
    """Explain a grouping: its partials, the queries of each condition, and how these are told apart."""
    members: dict[Condition, list[Definition]] = {condition: [] for condition in grouping.conditions}
    for definition in tree.definitions:
        if definition.query.keys == grouping.keys:
            members[condition_of(definition)].append(definition)
    partials = tuple(c.worded for c in grouping.components if c.source == c)
    planner, away = TogetherPlanner(scans=seen.scans), seen.made.get((tree.name, grouping.keys)) == BY_EXECUTORS
    conditions = tuple(
        ConditionPlan(
            str(c),
            tuple(map(QueryPlan.of, members[c])),
            c.where,
            tuple(j.table for j in c.joins),
            NOT_PLANNED if tree.space == SESSIONS else planner.lane(members[c], in_executors=away),
        )
        for c in grouping.conditions
    )
    names = [[definition.name for definition in members[c]] for c in grouping.conditions]
    return GroupingPlan(grouping.keys, partials, conditions, explain_cells(cells, number, names))


def _work(plan: Plan, definitions: Sequence[Definition], rate: float) -> OperationCounts:
    """Count operations, as Krishnamurthy et al. (2006, Table 3) count them, as planned and with every query alone."""
    planned = sum(rate * len(t.groupings) + _final_rate(t.manager(), t.definitions) for t in plan.trees)
    alone = sum(rate + _final_rate(SliceManager([d.query.window], "paired"), [d]) for d in definitions)
    return OperationCounts(planned, alone)


def _final_rate(manager: SliceManager, definitions: Sequence[Definition]) -> float:
    """Return the partials merged per second of event time when every window scans its slices."""
    edges = manager.edge_rate(SECOND)
    return sum(edges * d.query.window.length / d.query.window.slide for d in definitions)
