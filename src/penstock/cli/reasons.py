"""Words why a stream or its queries did not take rows: invalid ones, and those too late."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from penstock.cli.moments import about
from penstock.model.counts import counted
from penstock.model.duration import format_duration

_MOST: Final = 10  # queries that are named


def invalid_text(reasons: dict[str, Any]) -> str:
    """Say why rows are invalid, reason by reason; nothing if none is."""
    limit, furthest = format_duration(reasons["max_ahead_us"]), about(reasons["ahead_by_us"])
    example = f": {reasons['example']}" if reasons["example"] else ""
    words = {
        "no_time": "without a time",
        "ahead": f"ahead of the clock by up to {furthest}, and max_ahead is {limit}",
        "too_early": "from more than 146,000 years ago",
        "unknown": "counted by an earlier version, which kept no reason",
        "failed": f"whose time is a failed expression{example}",
    }
    return "; ".join(f"{reasons[reason]:,} {text}" for reason, text in words.items() if reasons[reason])


def too_late_text(rows: Iterable[tuple[str, int]]) -> str:
    """Say for which queries rows came too late, those that miss most first; nothing if there are none."""
    missing = sorted(((name, n) for name, n in rows if n), key=lambda pair: (-pair[1], pair[0]))
    named = [f"{n:,} for {name}" for name, n in missing[:_MOST]]
    if len(missing) > _MOST:
        named.append(f"and for {counted(len(missing) - _MOST, 'query', 'queries')} more: penstock queries")
    return ", ".join(named)
