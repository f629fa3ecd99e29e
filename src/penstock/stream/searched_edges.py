"""Chooses the edges among which the rows of a batch are searched, and tells whether rows lay beyond them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.kernel.arrived import by_grouping
from penstock.model.duration import SECOND
from penstock.model.schema import Stream
from penstock.share.layout import Layout
from penstock.share.locate import BySearch
from penstock.share.partial_schema import GROUPING, LABEL
from penstock.share.slices import SliceManager
from penstock.spark.job.partials import first_time, time_span
from penstock.spark.job.writer import Bounds
from penstock.stream.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_EDGES: Final = 100_000  # in the stretch of a searched batch; beyond, rows compute their slices
FORESEEN_SPANS: Final = 4  # a searched batch may reach this many times as far ahead and back as the batches so far
FIRST_EDGES: Final = 4_096  # of the stretch that a stream's first batch is thought to lie in: a search takes 12 steps
FIRST_BEFORE: Final = 8  # the part of that stretch before its first row: rows mostly come in order of time
LONGEST_US: Final = 1 << 55  # of that stretch, about a thousand years: times are counted in 64 bits
BEFORE_ALL_EDGES: Final = -1  # the label of a row before the first edge it was searched among


class SearchedEdges:
    """Foresees how far a batch reaches by the batches before it, and lists the edges of slices in that stretch."""

    def __init__(self, stream: Stream, progress: Progress) -> None:
        """Start with no batch seen."""
        self.stream, self.progress = stream, progress
        self._span_us = 0  # of the longest batch so far
        self._first_span_us = 0  # of the first batch, while it is the only one: it may hold a long history
        self._back_us = 0  # how far behind the stream's last time rows came so far

    def see(self, first_us: int, last_us: int) -> None:
        """Note how far a batch reached, ahead and back."""
        before = self.progress.clock.last_us
        self._first_span_us = last_us - first_us if before is None else 0
        if before is not None:
            self._span_us = max(self._span_us, last_us - before)
            self._back_us = max(self._back_us, before - first_us)

    def bounds(self, batch: DataFrame | None, layout: Layout, judged: Bounds, *, foreseen: bool) -> Bounds:
        """Add the edges of searched trees over the stretch that a batch may cover, or if not ``foreseen``, does.

        Without a batch to look at, only what is foreseen is known. A stream's first batch is foreseen by its first row.
        """
        searched = [t for t, way in enumerate(layout.locating) if isinstance(way, BySearch)]
        if not searched:
            return judged
        last, floors = self.progress.clock.last_us, self.progress.windows.floors(layout)
        stretches: list[Callable[[], tuple[int, int]]] = []
        if foreseen and last is not None and floors:
            floor, ahead = min(floors.values()), last + FORESEEN_SPANS * max(self._span_us, self._first_span_us)
            stretches.append(lambda: (floor, ahead))
            stretches.append(lambda: (max(floor, last - FORESEEN_SPANS * self._back_us), ahead))
        if foreseen and last is None and batch is not None:
            rate = sum(layout.managers[tree].edge_rate(SECOND) for tree in searched)
            stretches.append(lambda: _about(first_time(batch, self.stream.time, judged.ahead_us), rate))
        if batch is not None:  # a look at all rows, if need be
            stretches.append(lambda: time_span(batch, self.stream.time, judged.ahead_us))
        edges: dict[int, list[int]] = {}
        for stretch in stretches:
            left = [tree for tree in searched if tree not in edges]
            if not left:
                break
            low, high = stretch()
            edges |= {t: known for t in left if (known := _edges_within(layout.managers[t], low, high)) is not None}
        return replace(judged, edges=edges)

    def missed(self, layout: Layout, partials: pa.Table, bounds: Bounds) -> bool:
        """Tell whether a row lay behind the edges it was searched among, or before them and is still needed."""
        if not bounds.edges:
            return False
        floor_us = min(self.progress.windows.floors(layout).values(), default=0)
        named = [name for name in (LABEL, GROUPING) if name in partials.column_names]
        for member, rows in zip(layout.members, by_grouping(partials.select(named), len(layout.members)), strict=True):
            if member.tree not in bounds.edges:
                continue
            edges = bounds.edges[member.tree]
            labels, last = rows[LABEL].drop_null().to_numpy(), len(edges) - 1
            if len(labels) and (labels.max() >= last or -labels.min() - 2 >= last):
                return True
            if edges[0] > floor_us and (labels == BEFORE_ALL_EDGES).any():
                return True
        return False


def _about(first_us: int, rate: float) -> tuple[int, int]:
    """Return a stretch of time about the first row of a stream that has as many edges as a search takes easily."""
    length = min(round(min(FIRST_EDGES, MOST_EDGES // 2) / rate * SECOND), LONGEST_US)
    return first_us - length // FIRST_BEFORE, first_us + length - length // FIRST_BEFORE


def _edges_within(manager: SliceManager, low: int, high: int) -> list[int] | None:
    """List the edges of a stretch, one before and one after it included; None if they are too many."""
    if manager.edge_rate(SECOND) * (high - low) / SECOND > MOST_EDGES:
        return None
    return [*manager.edges(manager.edge_at_or_before(low), high + 1).tolist(), manager.next_edge(high)]
