"""Computes in the driver what a job would send of rows that the driver holds, where only plain columns are asked for.

A job of Spark's takes longer than a few thousand rows do. So where every key and argument is a column, as it is or as
a number of another kind, and no condition is asked, no job is needed. Everything else is left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.components.reading import whole
from penstock.kernel.row_placement import labels
from penstock.share.layout import Layout
from penstock.share.row_schema import TIME, RowSchema, label_name
from penstock.store.invalid import FLOOR

Computed = Callable[[pa.Array], pa.Array | None]  # None: this is left to Spark
_COLUMN: Final = r"(`(?:[^`]|``)+`)"


class RowProjection:
    """Computes what is sent of rows for one layout."""

    def __init__(self, layout: Layout, schema: RowSchema, texts: Mapping[str, str]) -> None:
        """Take a layout, and the SQL of the columns that are sent beside time and slices, by column."""
        self.layout = layout
        asked = layout.plan.joins or layout.revising or layout.doubtful or layout.attempts or schema.cells
        read = {name: _read(text) for name, text in texts.items()}
        self._read = {name: one for name, one in read.items() if one is not None}
        self.possible = bool(layout.members) and not asked and not schema.tried and len(self._read) == len(read)

    def sent(
        self, rows: pa.Table, watermark_us: int, ahead_us: int, edges: Mapping[int, Sequence[int]]
    ) -> pa.Table | None:
        """Compute the columns; None: these rows are left to Spark."""
        if not self.possible:
            return None
        times = np.asarray(whole(rows[self.layout.time]).cast(pa.int64()).to_numpy(), np.int64)
        if len(times) and (times.min() < watermark_us or times.min() <= FLOOR or times.max() >= ahead_us):
            return None  # late or invalid ones have labels of their own
        found = {TIME: pa.array(times)}
        for tree, way in enumerate(self.layout.locating):
            found[label_name(tree)] = pa.array(labels(way, times, edges.get(tree, ())))
        for name, (column, compute) in self._read.items():
            if (values := compute(whole(rows[column]))) is None:
                return None
            found[name] = values
        return pa.table(found)


def _read(text: str) -> tuple[str, Computed] | None:
    """Tell the column that an expression reads, and what it makes of it; None: it is left to Spark."""
    for pattern, compute in _KINDS:
        if (found := re.fullmatch(pattern, text)) is not None:
            return found[1][1:-1].replace("``", "`"), compute
    return None


def _itself(values: pa.Array) -> pa.Array | None:
    """Take a column as it is."""
    return values


def _double(values: pa.Array) -> pa.Array | None:
    """Make doubles of numbers that have no decimal places of their own kind."""
    plain = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    return values.cast(pa.float64(), safe=False) if plain else None


def _instant(values: pa.Array) -> pa.Array | None:
    """Take a time that is one already."""
    return values if pa.types.is_timestamp(values.type) and values.type.tz is not None else None


def _low(values: pa.Array) -> pa.Array | None:
    """Take the lower half of a bigint."""
    return pc.bit_wise_and(values, pa.scalar(0xFFFF_FFFF, pa.int64())) if pa.types.is_int64(values.type) else None


def _high(values: pa.Array) -> pa.Array | None:
    """Take the upper half of a bigint, with its sign."""
    return pc.shift_right(values, pa.scalar(32, pa.int64())) if pa.types.is_int64(values.type) else None


_KINDS: Final[tuple[tuple[str, Computed], ...]] = (
    (_COLUMN, _itself),
    (rf"cast\({_COLUMN} as double\)", _double),
    (rf"CAST\({_COLUMN} AS TIMESTAMP\)", _instant),
    (rf"\({_COLUMN}\) IS NOT NULL", pc.is_valid),
    (rf"{_COLUMN} & 4294967295L", _low),
    (rf"shiftright\({_COLUMN}, 32\)", _high),
)
