"""Splits tables of answers by query or commit, merges them, and describes what each holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.arrays import Int64Array

DEFINITION: Final = "#definition"  # first column of every answer table: which query's answer a row is
COMMIT: Final = "#commit"  # last column where answers of several commits are together: which commit's a row is
END: Final = "window_end"
MOST_ROWS: Final = 8_192  # of a part: to read one query's answers, no more than that of the others' is read
MANY_ROWS: Final = 65_536  # of a part of answers that are not put together: sinks read these one by one


@dataclass(frozen=True, slots=True)
class AnswerContents:
    """What a table of answers holds: enough to know whether it has to be read."""

    rows: int
    definitions: tuple[tuple[int, int], ...]  # first and last of each run of numbers
    low_us: int | None  # first and last window end; None: unknown
    high_us: int | None

    def any_of(self, definitions: Iterable[int]) -> bool:
        """Tell whether an answer of some definition is here."""
        return any(first <= one <= last for one in definitions for first, last in self.definitions)

    def expired(self, keep: Mapping[int, int]) -> bool:
        """Tell whether all answers here are before what their queries keep."""
        if self.high_us is None or sum(last - first + 1 for first, last in self.definitions) > len(keep):
            return False
        each = (one for first, last in self.definitions for one in range(first, last + 1))
        return all(one in keep and self.high_us < keep[one] for one in each)


def look_at(table: pa.Table) -> AnswerContents:
    """Say what a table holds."""
    definitions = np.unique(_numbers(table, DEFINITION))
    runs = np.split(definitions, np.flatnonzero(np.diff(definitions) != 1) + 1) if len(definitions) else []
    ends = _ends(table)
    low, high = (int(ends.min()), int(ends.max())) if ends is not None and len(ends) else (None, None)
    return AnswerContents(table.num_rows, tuple((int(run[0]), int(run[-1])) for run in runs), low, high)


def of_queries(table: pa.Table, definitions: Iterable[int], keep: Mapping[int, int]) -> pa.Table:
    """Take the answers of some definitions that are still kept, without the columns that only stores have."""
    wanted = pa.array(sorted(definitions), pa.int64())
    mine = still_kept(table.filter(pc.is_in(table[DEFINITION], wanted)), keep)
    return mine.drop_columns([name for name in (DEFINITION, COMMIT) if name in mine.column_names])


def still_kept(table: pa.Table, keep: Mapping[int, int]) -> pa.Table:
    """Leave out answers that end before what their queries keep."""
    ends = _ends(table)
    if ends is None or not keep or not table.num_rows:
        return table
    definitions, inverse = np.unique(_numbers(table, DEFINITION), return_inverse=True)
    floors = np.array([keep.get(int(one), -(1 << 63)) for one in definitions], np.int64)
    kept = ends >= floors[inverse]
    return table if kept.all() else table.filter(pa.array(kept))


def by_commit(table: pa.Table, number: int, after: int) -> Iterator[tuple[int, pa.Table]]:
    """Take a table apart by commit, in order; one without that column is all of ``number``."""
    if COMMIT not in table.column_names:
        if number > after:
            yield number, table
        return
    commits = _numbers(table, COMMIT)
    plain = table.drop_columns([COMMIT])
    for one in np.unique(commits[commits > after]):
        yield int(one), plain.filter(pa.array(commits == one))


def alike_together(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Put tables with equal columns one behind the other; nothing is copied."""
    alike: dict[pa.Schema, list[pa.Table]] = {}
    for table in tables:
        alike.setdefault(table.schema, []).append(table)
    return [pa.concat_tables(each) if len(each) > 1 else each[0] for each in alike.values()]


def in_parts(table: pa.Table, most: int = MANY_ROWS) -> Iterator[pa.Table]:
    """Sort a table by query, and cut it so that a query's answers are in few parts and these are not large."""
    definitions = _numbers(table, DEFINITION)
    order = np.argsort(definitions, kind="stable")
    whole = table.combine_chunks()
    for start, end in _cuts(definitions[order], most):
        yield whole.take(pa.array(order[start:end]))  # a part at a time: others may go on in between


def _cuts(definitions: Int64Array, most: int) -> Iterator[tuple[int, int]]:
    """Say where sorted rows are cut into parts."""
    begins = [0, *(np.flatnonzero(np.diff(definitions)) + 1).tolist(), len(definitions)]
    start = 0
    for begin, end in pairwise(begins):
        if end - start > most and begin > start:
            yield start, begin
            start = begin
        while end - start > most:
            yield start, start + most
            start += most
    if start < len(definitions):
        yield start, len(definitions)


def with_commit(table: pa.Table, number: int, keep: Mapping[int, int]) -> list[pa.Table]:
    """Note in each answer that is still kept which commit's it is; nothing is left of none."""
    table = still_kept(table, keep)
    if COMMIT not in table.column_names:
        table = table.append_column(COMMIT, pa.array(np.full(table.num_rows, number, np.int64)))
    return [table] if table.num_rows else []


def in_small_parts(table: pa.Table, keep: Mapping[int, int]) -> Iterator[pa.Table]:
    """Cut answers of several commits into parts, by query and then as they came."""
    for half in _by_keeping(table, keep):
        yield from in_parts(half, MOST_ROWS)


def _by_keeping(table: pa.Table, keep: Mapping[int, int]) -> list[pa.Table]:
    """Take answers that will expire apart from those that stay, so that whole parts expire."""
    if not keep:
        return [table] if table.num_rows else []
    passing = pc.is_in(table[DEFINITION], pa.array(list(keep), pa.int64()))
    return [half for half in (table.filter(passing), table.filter(pc.invert(passing))) if half.num_rows]


def _numbers(table: pa.Table, column: str) -> Int64Array:
    """Read a column of numbers."""
    return np.asarray(table[column].to_numpy(), np.int64)


def _ends(table: pa.Table) -> Int64Array | None:
    """Read the window ends in µs, if the table has such a column and knows them all."""
    if END not in table.column_names or table[END].null_count or not pa.types.is_timestamp(table[END].type):
        return None
    return np.asarray(table[END].cast(pa.timestamp("us", tz=table[END].type.tz)).cast(pa.int64()).to_numpy(), np.int64)
