"""Reads from the footers of Parquet files how many rows they have, and the first and last time of a column.

Writers of Parquet note the least and the greatest value of each row group, and how many are NULL. Only what Spark reads
as it stands is taken from there: whole numbers of microseconds or milliseconds in UTC, none of them NULL. Of times
before 1970, old files may count the days otherwise; those are left to Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

import pyarrow.parquet as pq

from penstock.model.schema import Column
from penstock.spark.job.counted_rows import TimeSpan

_MICROS: Final = {"microseconds": 1, "milliseconds": 1_000}
_INSTANTS: Final = ("timestamp", "timestamp_ltz")


def times_in(footers: Iterable[pq.FileMetaData], time: Column) -> TimeSpan | None:
    """Read the times of some files; None: there are no rows, or the footers do not tell all of them."""
    if time.expression is not None or time.type.lower() not in _INSTANTS:
        return None
    each = [_times_in(footer, time.name) for footer in footers if footer.num_rows]
    known = [one for one in each if one is not None]
    if not known or len(known) < len(each):
        return None
    return TimeSpan(
        sum(one.rows for one in known), min(one.first_us for one in known), max(one.last_us for one in known)
    )


def _times_in(footer: pq.FileMetaData, name: str) -> TimeSpan | None:
    """Read the times of one file that has rows."""
    found = [n for n in range(len(footer.schema)) if footer.schema.column(n).path.lower() == name.lower()]
    unit = _unit_us(footer.schema.column(found[0])) if len(found) == 1 else None
    if unit is None:
        return None
    first: list[int] = []
    last: list[int] = []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        told = group.column(found[0]).statistics
        if not group.num_rows:
            continue
        if told is None or not (told.has_min_max and told.has_null_count) or told.null_count or told.min_raw < 0:
            return None
        first.append(told.min_raw * unit)
        last.append(told.max_raw * unit)
    return TimeSpan(footer.num_rows, min(first), max(last))


def _unit_us(column: pq.ColumnSchema) -> int | None:
    """Return how many microseconds one is in a column of instants; None: it is read otherwise."""
    if column.physical_type != "INT64" or column.logical_type.type != "TIMESTAMP" or column.max_repetition_level:
        return None
    told = json.loads(column.logical_type.to_json())
    return _MICROS.get(told["timeUnit"]) if told["isAdjustedToUTC"] else None
