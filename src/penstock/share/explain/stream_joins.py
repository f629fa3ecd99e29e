"""Explains a window join of two streams: how its rows are found, and which joins are carried out as one with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.language.binding.stream_joins import window_text
from penstock.model.stream_join import StreamJoin
from penstock.share.explain.explanation import StreamPlan


def with_join(plan: StreamPlan, text: str, joins: Mapping[str, StreamJoin]) -> StreamPlan:
    """Tell of a stream what it joins, and with which others it is carried out; nothing if it is no join."""
    name = plan.stream
    if (join := joins.get(name)) is None:
        return plan
    alike = {other: one for other, one in joins.items() if one.shared_by == join.shared_by and not one.settles}
    together = {name: join} if join.settles else alike
    widest = [max(one.sides[number].range_us for one in together.values()) for number in (0, 1)]
    reach = [f"{s.stream} {window_text(replace(s, range_us=us))}" for s, us in zip(join.sides, widest, strict=True)]
    keys = ", ".join(f"{one} = {other}" for one, other in zip(join.left.keys, join.right.keys, strict=True))
    shared = f", once for {', '.join(together)}" if len(together) > 1 else ""
    lines = f"stream {name} joins: {text}", f"  rows are found by {keys} in {reach[0]} and {reach[1]}{shared}"
    return replace(plan, pairs=lines)
