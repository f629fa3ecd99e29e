"""Queries without windows, streams of them, a join and sessions beside the windows that are killed, and what they hold.

Rows of ``z`` are never late nor repeated, so that neither the batches nor the moments of death change which pairs and
sessions there are; the model works them out from all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Final

from tests.always.questions import Row

SECOND: Final = 1_000_000
GAP_US, RANGE_US = SECOND, 3 * SECOND
STREAMS: Final = {
    "calm": "SELECT id, k FROM s WHERE k = 'z'",
    "twins": "SELECT a.id AS one, b.id AS other FROM calm [RANGE 3 s] AS a JOIN calm [RANGE 3 s] AS b "
    "ON a.k = b.k AND a.id < b.id",
}
QUERIES: Final = {
    "large": "SELECT id, v FROM s WHERE v > 3",
    "near": "SELECT one, other FROM twins WITH (explode = true)",
    "resting": "SELECT k, count(*) AS n FROM calm [SESSION 1 s] GROUP BY k",
}
OWN: Final = {"large": ("id", "v"), "calm": ("id", "k")}  # columns of those that share rows in a sink
ABOUT_ROWS: Final = ("event_time", "commit", "ordinal", "late")  # how rows came together says nothing of them


def flat(fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give a row for each of its queries, as an answer is, without what tells of its batch."""
    own = {name: value for name, value in fields.items() if name not in (*ABOUT_ROWS, "queries")}
    for name in fields.get("queries", ()):  # beside the columns of all that take the row
        yield _said(name, **{column: own[column] for column in OWN[name]})
    if "queries" not in fields:
        yield own


def told_apart(batches: Sequence[Sequence[Row]], lateness_us: int) -> Iterator[Row]:
    """Leave out rows without a time, and those whose id came before, not longer ago than the lateness."""
    known, watermark = dict[int, int](), 0
    for batch in batches:
        valid, here = [row for row in batch if row["ts"] is not None], set[int]()
        for row in valid:
            if row["id"] not in here and known.get(row["id"], -1) < watermark:
                yield row
            here.add(row["id"])
        known |= {row["id"]: row["ts"] for row in valid}
        watermark = max([watermark, *(row["ts"] - lateness_us for row in valid)])


def held(batches: Sequence[Sequence[Row]], lateness_us: int) -> Iterator[dict[str, Any]]:
    """Work out what sinks hold of the rows of some batches."""
    valid = sorted(told_apart(batches, lateness_us), key=lambda r: (r["ts"], r["id"]))
    calm = [r for r in valid if r["k"] == "z"]
    yield from (_said("large", id=r["id"], v=r["v"]) for r in valid if r["v"] is not None and r["v"] > 3)
    yield from (_said("calm", id=r["id"], k="z") for r in calm)
    for earlier, later in combinations(calm, 2):
        if later["ts"] - earlier["ts"] <= RANGE_US:
            one, other = sorted((earlier["id"], later["id"]))
            yield _said("near", one=one, other=other)
    times, first = [int(r["ts"]) for r in calm], 0
    for place, time in enumerate(times, 1):
        if place == len(times) or times[place] - time > GAP_US:
            edges = {"window_start": times[first], "window_end": time + GAP_US}
            yield _said("resting", **edges, k="z", n=place - first)
            first = place


def _said(name: str, **fields: Any) -> dict[str, Any]:
    return {"query_name": name, "query_version": 1, **fields}
