"""Puts the answer rows of each window in the order of ORDER BY, and keeps those that DISTINCT, OFFSET and LIMIT leave.

It comes last, after HAVING: what windows and queries share is not touched by it. Rows come in order of their groups,
and rows that ORDER BY does not tell apart stay so, which makes the choice the same every time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.evaluate.groups import Groups, sort_rows
from penstock.model.arrays import Int64Array
from penstock.model.query import Query


def arranged_rows(query: Query, answers: pa.Table, evaluation: Int64Array, rows: Int64Array) -> Int64Array:
    """Return the rows to give of those that HAVING keeps, evaluation by evaluation.

    ``answers`` has the columns of :attr:`Query.expressions`; ``evaluation`` ascends from row to row.
    """
    if query.distinct and len(rows):
        rows = _first_of_equal(answers.select(range(len(query.outputs))), evaluation, rows)
    if query.order and len(rows):
        rows = _in_order(query, answers, evaluation, rows)
    if query.limit is None and not query.offset:
        return rows
    place = _place_within(evaluation[rows])
    chosen = place >= query.offset
    if query.limit is not None:
        chosen &= place < query.offset + query.limit
    return rows[chosen]


def _first_of_equal(outputs: pa.Table, evaluation: Int64Array, rows: Int64Array) -> Int64Array:
    """Keep the first of a window's rows that say the same; NULL, NaN and 0 equal themselves, as in GROUP BY."""
    taken = outputs.take(pa.array(rows))
    numbers = Groups(taken.schema.types).encode(taken.columns)
    pairs = np.stack([evaluation[rows], numbers])
    _, first = np.unique(pairs, axis=1, return_index=True)
    return rows[np.sort(first)]


def _in_order(query: Query, answers: pa.Table, evaluation: Int64Array, rows: Int64Array) -> Int64Array:
    """Sort each window's rows as ORDER BY says."""
    places = [query.expressions.index(key.expression) for key in query.order]
    taken = answers.select(sorted(set(places))).take(pa.array(rows))
    columns = dict(zip(sorted(set(places)), taken.columns, strict=True))
    keys = [pa.array(evaluation[rows]), *(columns[place].combine_chunks() for place in places)]
    ways = [(False, True), *((key.descending, key.nulls_first) for key in query.order)]
    return rows[sort_rows(keys, ways)]


def _place_within(evaluation: Int64Array) -> Int64Array:
    """Count the rows of each evaluation from 0."""
    begins = np.flatnonzero(np.diff(evaluation, prepend=-1))
    return np.arange(len(evaluation)) - np.repeat(begins, np.diff(begins, append=len(evaluation)))
