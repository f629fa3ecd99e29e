"""Reads the rows of a stream's past in parts, while its batches go on, for queries that ask for that past.

A part is a few units of the history: files, or folders of kept rows. What came after the units were listed is listed
when these are read, and so on until nothing is missing between two batches. The partials of all parts together are
those of one job over all rows up to there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.kernel.arrived import by_grouping, statistics
from penstock.model.schema import Table
from penstock.share.layout import Layout
from penstock.stream.batch_job import BatchJob, BatchPartials
from penstock.stream.past_rows import Cut, PastRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PART_S: Final = 0.25  # that reading a part should take; it is at least one unit
MOST_UNITS: Final = 256  # of a part
Since = int | None  # None: the stream's first row


@dataclass(frozen=True, slots=True)
class ReadPast:
    """Partials of the past, for queries that ask for it since a time."""

    asking: Mapping[int, Since]
    rows: DataFrame
    computed: BatchPartials


@dataclass(frozen=True, slots=True)
class PastPart:
    """A part that was read."""

    rows: DataFrame
    computed: BatchPartials

    @property
    def fails(self) -> bool:
        """Tell whether an expression of a query failed on a row."""
        layout = self.computed.layout
        if not layout.attempts:
            return False
        return bool(statistics(layout, by_grouping(self.computed.partials, len(layout.members))[0]).failures)


@dataclass(slots=True)
class PastReading:
    """How far the past of some queries is read, for the lanes of a layout and since a time."""

    past: PastRows
    computing: BatchJob
    asking: Mapping[int, Since]
    layout: Layout  # of the lanes that are rebuilt; rows compute their slices, so that all parts name them alike
    since_us: Since
    tables: Mapping[str, Table]
    accept: bool  # files that have changed since they were read
    cut: Cut  # up to which the past is read
    before_us: int  # rows of this time and later came too far ahead
    units: list[Any] | None = None  # None: they are not listed yet
    parts: list[PastPart] = field(default_factory=list)
    done: int = 0  # units that are read
    _size: int = 1  # units of the next part

    @property
    def is_read(self) -> bool:
        """Tell whether all that was listed is read."""
        return self.units is not None and bool(self.parts) and self.done == len(self.units)

    def go_on(self) -> None:
        """List the units, or read the next part; nothing of the stream changes."""
        if self.units is None:
            self.units = self._listed(Cut())
            return
        chosen, began = self.units[self.done : self.done + self._size], time.monotonic()
        rows = self.past.rows_of(chosen, self.since_us, self.before_us)
        part = PastPart(rows, self.computing.of_the_past(rows, self.layout, self.tables, self.before_us))
        if self._is_otherwise(part.computed):
            self._begin_again(part.computed)
            return
        self.parts.append(part)
        self.done += len(chosen)
        took = time.monotonic() - began
        self._size = min(2 * self._size, MOST_UNITS) if 2 * took < PART_S else max(1, round(self._size * PART_S / took))

    def follow(self, upto: Cut, before_us: int) -> int:
        """List what came since, up to another cut; return how many units are to be read."""
        assert self.units is not None
        if upto != self.cut:
            known, after, self.cut, self.before_us = set(self.units), self.cut, upto, before_us
            found = [unit for unit in self._listed(after) if unit not in known]
            self.units += found
            if len({type(unit) for unit in self.units}) > 1:
                self.units, self.parts, self.done = self._listed(Cut()), [], 0  # rows are kept no more
        return len(self.units) - self.done

    def whole(self) -> ReadPast:
        """Put the partials of all parts together."""
        partials = pa.concat_tables([part.computed.partials for part in self.parts], promote_options="default")
        failing, last = [part.rows for part in self.parts if part.fails], self.parts[-1]
        doubting = frozenset[int]().union(*(part.computed.doubting for part in self.parts))
        computed = replace(last.computed, partials=partials, doubting=doubting)
        return ReadPast(self.asking, _together(failing) if failing else last.rows, computed)

    def is_for(self, layout: Layout) -> bool:
        """Tell whether the parts would be the same for another layout of these lanes."""
        return _described(layout) == _described(self.layout)

    def _listed(self, after: Cut) -> list[Any]:
        """List the units that came after a cut."""
        return list(self.past.units(self.since_us, after, self.cut, accept_changed_files=self.accept))

    def _is_otherwise(self, computed: BatchPartials) -> bool:
        """Tell whether a part is not like those before: expressions are computed apart, or a table has changed."""
        changed = bool(self.parts) and self.parts[-1].computed.versions != computed.versions
        return changed or computed.layout.attempts != self.layout.attempts

    def _begin_again(self, computed: BatchPartials) -> None:
        """Read all parts again as the last one was read."""
        self.layout = replace(self.layout, attempts=computed.layout.attempts)
        self.parts, self.done = [], 0


def _together(frames: Sequence[DataFrame]) -> DataFrame:
    """Put rows one behind the other."""
    whole, *others = frames
    for frame in others:
        whole = whole.unionByName(frame)
    return whole


def _described(layout: Layout) -> tuple[object, ...]:
    """Describe all that decides what the partials of a layout are, and to whom they belong."""
    lanes = {key: [d.id for d in members] for tree in layout.plan.trees for key, members in tree.lanes.items()}
    columns = layout.members, layout.key_types, layout.components, layout.revising, layout.doubtful
    return *columns, layout.locating, layout.plan.joins, [tree.name for tree in layout.plan.trees], lanes
