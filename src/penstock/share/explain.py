"""Queries in, a page out: which queries share which slices and partials, and what that saves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.evaluate.typed import Definition
from penstock.model.duration import SECOND, format_duration
from penstock.share.locate import choose_locating
from penstock.share.plan import Grouping, Plan, Strategy, Tree, condition_of, plan_queries
from penstock.share.slices import SliceManager

ASSUMED_RATE: Final = 1_000.0  # rows per second, before any row was seen
MOST_NAMES: Final = 8


def explain_plan(
    stream: str, definitions: Sequence[Definition], strategy: Strategy, version: int, rate: float | None
) -> str:
    """Print a stream's plan: trees, groupings, conditions, and operations per second of event time."""
    plan = plan_queries(definitions, strategy, version)
    known = f"{rate:,.1f} rows/s seen" if rate is not None else f"{ASSUMED_RATE:,.0f} rows/s assumed"
    lines = [f"stream {stream}: {len(definitions)} queries, {strategy}, {len(plan.trees)} tree(s), {known}"]
    lines += [f"  join {j.table} on {', '.join(j.stream_keys)}  ({j.id})" for j in plan.joins]
    for tree in plan.trees[:MOST_NAMES]:
        lines += _tree_lines(tree)
    if len(plan.trees) > MOST_NAMES:
        lines.append(f"  … and {len(plan.trees) - MOST_NAMES} more trees")
    if definitions:
        lines += _operation_lines(plan, definitions, rate or ASSUMED_RATE)
    return "\n".join(lines)


def _tree_lines(tree: Tree) -> list[str]:
    """Print one tree."""
    manager = tree.manager()
    edge_rate = manager.edge_rate(SECOND)
    mean = f"one every {format_duration(max(1, round(SECOND / edge_rate)))}" if edge_rate else "none"
    lines = [
        f"  tree {tree.name}: {len(tree.definitions)} queries, {len(set(tree.windows))} windows, {tree.slicing} slices",
        f"    edges {edge_rate:.4g} per second ({mean}), found by {choose_locating(manager, keyed=tree.keyed)}",
    ]
    for grouping in tree.groupings:
        lines += _grouping_lines(tree, grouping)
    return lines


def _grouping_lines(tree: Tree, grouping: Grouping) -> list[str]:
    """Print a grouping, its partials, and the queries of each condition."""
    partials = ", ".join(str(c) for c in grouping.components if c.source == c)
    lines = [f"    group by {', '.join(grouping.keys) or '()'}: partials {partials}"]
    for condition in grouping.conditions:
        names = [
            f"{d.name} {d.query.window}"
            for d in tree.definitions
            if d.query.keys == grouping.keys and condition_of(d) == condition
        ]
        more = f", … {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        lines.append(f"      {condition}: {', '.join(names[:MOST_NAMES])}{more}")
    return lines


def _operation_lines(plan: Plan, definitions: Sequence[Definition], rate: float) -> list[str]:
    """Compare counted operations, as Krishnamurthy et al. (2006, Table 3) count them, with every query alone."""
    here = sum(rate * len(t.groupings) + _final_rate(t.manager(), t.definitions) for t in plan.trees)
    alone = sum(rate + _final_rate(SliceManager([d.query.window], "paired"), [d]) for d in definitions)
    return [
        f"  operations per second (slice scan): {here:,.0f} as planned, {alone:,.0f} with every query alone "
        f"({alone / here:,.1f} times)"
    ]


def _final_rate(manager: SliceManager, definitions: Sequence[Definition]) -> float:
    """Return the partials merged per second of event time when every window scans its slices."""
    edges = manager.edge_rate(SECOND)
    return sum(edges * d.query.window.range_us / d.query.window.slide_us for d in definitions)
