"""Refuses a program's streaming DataFrame whose plan keeps state between batches.

Such a plan is part of Spark's checkpoint, with the columns that its state holds. A stream reads the columns that its
queries use, and goes on with others when queries come and go: a stateful plan would then not start again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from pyspark.sql import DataFrame

from penstock.errors import SourceError

# By the names of Catalyst's operators; what follows names them as programs write them.
STATEFUL: Final[Mapping[str, str]] = {
    "Aggregate": "an aggregation (groupBy, agg, count)",
    "Distinct": "a deduplication (distinct, dropDuplicates)",
    "Deduplicate": "a deduplication (distinct, dropDuplicates)",
    "DeduplicateWithinWatermark": "a deduplication (dropDuplicatesWithinWatermark)",
    "GlobalLimit": "a limit",
    "Offset": "an offset",
    "Tail": "a tail",
    "FlatMapGroupsWithState": "a state for each group (mapGroupsWithState, flatMapGroupsWithState)",
    "FlatMapGroupsInPandasWithState": "a state for each group (applyInPandasWithState)",
    "TransformWithState": "a state for each group (transformWithState)",
    "TransformWithStateInPySpark": "a state for each group (transformWithState)",
}
# These keep the rows of both sides if both are streams.
JOINS: Final = ("Join", "AsOfJoin", "LateralJoin", "NearestByJoin", "CoGroup", "JoinWith")

_INSTEAD: Final = {
    "deduplication": "Leave it out, and name the key in create_stream(…, dedup=[…]).",
    "join": "Write what it gives to files or a topic first, and take these as the stream.",
}
_AGGREGATED: Final = (
    "Take the rows as the stream and let a query aggregate them (CREATE STREAM … AS SELECT … makes a stream of its "
    "answers), or write what it gives to files or a topic first, and take these."
)


def refuse_stateful(name: str, frame: DataFrame) -> None:
    """Refuse a streaming DataFrame whose plan keeps state between batches."""
    for kept in kept_states(frame):
        raise SourceError(
            f'stream "{name}" cannot be made of this DataFrame: it holds {kept}, which keeps state between batches',
            detail="Its plan is in Spark's checkpoint and cannot change when queries come that need other columns.",
            hint=next((hint for word, hint in _INSTEAD.items() if word in kept), _AGGREGATED),
        )


def kept_states(frame: DataFrame) -> Iterator[str]:
    """Name the operators of a plan that keep state, outermost first; those of its static sides keep none."""
    left = [cast(Any, frame)._jdf.queryExecution().analyzed()]
    while left:
        plan = left.pop()
        if not plan.isStreaming():
            continue
        kind, children = str(plan.getClass().getSimpleName()), plan.children()
        below = [children.apply(place) for place in range(children.size())]
        if kind in STATEFUL:
            yield STATEFUL[kind]
        elif kind in JOINS and sum(bool(child.isStreaming()) for child in below) > 1:
            yield "a join of two streams"
        left += reversed(below)
