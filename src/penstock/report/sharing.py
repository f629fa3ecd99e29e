"""Draws what the queries of a stream share: the flow of rows, the ruler of slices, the groupings."""

from __future__ import annotations

from typing import Final

from penstock.model.counts import counted
from penstock.report.flow import flow
from penstock.report.markup import code, details, escaped, figures, readable
from penstock.report.ruler import ruler
from penstock.report.wording import condition_words, finding_words, grouping_words, saving_words
from penstock.share.explain.cells import PredicatesPlan
from penstock.share.explain.continuous import MOST_NAMES, TakenRowsPlan
from penstock.share.explain.explanation import ConditionPlan, GroupingPlan, StreamPlan, TreePlan

MOST_TREES: Final = 4
MOST_CONDITIONS: Final = 12  # of a grouping that are shown unfolded


def sharing_picture(stream: StreamPlan) -> str:
    """Draw a stream's plan; of many trees, the first."""
    if not stream.trees and stream.rows is None:
        return '<p class="note">no queries yet</p>'
    each_row = "" if stream.rows is None else _each_row(stream.rows)
    parts = [tree_picture(stream, tree) for tree in stream.trees[:MOST_TREES]]
    rest = stream.trees[MOST_TREES:]
    if rest:
        names = ", ".join(escaped(q.name) for tree in rest for q in tree.queries)
        parts.append(details(f"and {counted(len(rest), 'more tree', 'more trees')}", f"<p>{names}</p>"))
    return "".join([*parts, each_row])


def _each_row(rows: TakenRowsPlan) -> str:
    """Write the queries without a window: their conditions, what they answer, and how rows are told apart."""
    items = "".join(
        f"<li>{code(readable(text))} <small>{escaped(', '.join(names[:MOST_NAMES]))}"
        f"{escaped(f', … {len(names) - MOST_NAMES} more') if len(names) > MOST_NAMES else ''}</small></li>"
        for text, names in rows.conditions[:MOST_CONDITIONS]
    )
    rest = len(rows.conditions) - MOST_CONDITIONS
    more = f"<p class='note'>and {counted(rest, 'more condition', 'more conditions')}</p>" if rest > 0 else ""
    stored = code(", ".join(map(readable, rows.expressions)))
    answered = f"<p class='note'>A row that some query takes is stored once, with {stored}.</p>"
    predicates = "" if rows.predicates is None else _telling(rows.predicates)
    return f"<h3>Queries without a window</h3><ul>{items}</ul>{more}{answered}{predicates}"


def plan_figures(stream: StreamPlan) -> str:
    """Write a stream's headline figures."""
    windows = {w for tree in stream.trees for w in tree.windows}
    conditions = sum(len(g.conditions) for tree in stream.trees for g in tree.groupings)
    items = [
        (f"{len(stream.queries):,}", "queries" if len(stream.queries) != 1 else "query"),
        (f"{len(windows):,}", "different windows" if len(windows) != 1 else "window"),
        (f"{conditions:,}", "conditions" if conditions != 1 else "condition"),
    ]
    if stream.work is not None:
        items.append((saving_words(stream.work.saving), "fewer operations than alone"))
    return figures(items)


def tree_picture(stream: StreamPlan, tree: TreePlan) -> str:
    """Draw one tree: the flow on wide screens, the ruler, and a card for each grouping."""
    named = "" if len(stream.trees) == 1 else f"<h3>tree {escaped(tree.name)}</h3>"
    # A phone has no room for four columns; the cards below say the same.
    width = '<p class="note">A band is as wide as the number of queries that it serves.</p>'
    picture = f'<div class="desk">{flow(stream, tree)}{width}</div>'
    cards = "".join(_card(grouping, number) for number, grouping in enumerate(tree.groupings))
    slices = f"<h3>Slices</h3>{ruler(tree)}<p class='note'>A row finds its slice by {escaped(finding_words(tree))}.</p>"
    joins = "".join(
        f"<p class='note'>Table {code(j.table)} is joined once, by {code(', '.join(readable(k) for k in j.keys))}.</p>"
        for j in stream.joins
    )
    return f'{named}{picture}{slices}<h3>Groupings and their queries</h3>{joins}<div class="cards">{cards}</div>'


def _card(grouping: GroupingPlan, number: int) -> str:
    """Write one grouping: its partials, and its conditions with a bar for each one's queries."""
    ordered = sorted(grouping.conditions, key=lambda c: -len(c.queries))
    most = max((len(c.queries) for c in ordered), default=1)
    shown = "".join(_condition(c, most, number) for c in ordered[:MOST_CONDITIONS])
    rest = ordered[MOST_CONDITIONS:]
    if rest:
        folded = "".join(_condition(c, most, number) for c in rest)
        shown += details(counted(len(rest), "more condition", "more conditions"), folded)
    partials = ", ".join(readable(p) for p in grouping.partials)
    kept = details(counted(len(grouping.partials), "partial a slice", "partials a slice"), f"<p>{code(partials)}</p>")
    queries = counted(len(grouping.queries), "query", "queries")
    head = f"<h4><span>{queries}</span>{escaped(grouping_words(grouping))}</h4>"
    told = "" if grouping.predicates is None else _telling(grouping.predicates)
    return f'<div class="card t{number % 6}">{head}{shown}{told}{kept}</div>'


def _telling(predicates: PredicatesPlan) -> str:
    """Write how a row is told which conditions take it: the attributes looked up, and the fragments they make."""
    places = counted(predicates.places, "attribute is", "attributes are")
    head = f"{places} looked up a row instead of {counted(predicates.tests, 'test', 'tests')}"
    lines = [*predicates.attributes, *(f"fragments of {part}" for part in predicates.parts)]
    return details(head, "".join(f"<p>{escaped(readable(str(line)))}</p>" for line in lines))


def _condition(condition: ConditionPlan, most: int, number: int) -> str:
    """Write one condition with a bar, and its queries folded away."""
    width = max(1.0, 100 * len(condition.queries) / most)
    filled = f'<rect class="f{number % 6}" width="{width:.1f}%" height="5"/>'
    bar = f'<svg class="bar" width="100%" height="5" aria-hidden="true">{filled}</svg>'
    queries = counted(len(condition.queries), "query", "queries")
    head = f"<span>{queries}</span>{code(condition_words(condition))}{bar}"
    items = "".join(f"<li>{escaped(q.name)} <small>{escaped(q.window)}</small></li>" for q in condition.queries)
    return details(head, f"<ul>{items}</ul>")
