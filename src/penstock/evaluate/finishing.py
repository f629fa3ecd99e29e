"""Turns merged partials into answer columns: lowers aggregates, then applies HAVING and the SELECT list.

Queries that differ only in names and windows finish together, column by column; what the listed expressions of
:mod:`penstock.evaluate.expressions` cannot compute is collected as one request for Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.numbers import Component, Values
from penstock.evaluate.expressions.compile import Compiled, compile_expression
from penstock.evaluate.typed import TypedQuery
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.query import Query

_PLACEHOLDER = re.compile(r"`(?:[ka]\d+|g\d*|w[se]?)`")

INSTANT = pa.timestamp("us", tz="UTC")
# What GROUP BY window(…) adds to keys and aggregates: Spark's struct, its start and its end.
WINDOW_TYPES = {"w": pa.struct([("start", INSTANT), ("end", INSTANT)]), "ws": INSTANT, "we": INSTANT}
_WINDOW_WORDS = {"`w`": "window", "`ws`": "window.start", "`we`": "window.end", "`g`": "grouping_id()"}


@dataclass(frozen=True, slots=True)
class FinishRequest:
    """Rows of keys (``k0``…) and aggregates (``a0``…) whose outputs only Spark can compute."""

    table: pa.Table
    outputs: tuple[str, ...]
    having: str | None


@dataclass(frozen=True, slots=True)
class Finished:
    """Answer columns ``o0``… of every row, which rows HAVING keeps, which failed, and why the first one did.

    Behind the outputs are the columns of what only ORDER BY names.
    """

    table: pa.Table
    keep: BoolArray
    failed: BoolArray
    reason: str | None


AskSpark = Callable[[Sequence[FinishRequest]], Sequence[Finished]]


@dataclass(frozen=True, slots=True)
class Shape:
    """What queries have in common when they finish together."""

    aggregates: tuple[object, ...]
    outputs: tuple[str, ...]
    having: str | None
    grouped: bool
    sets: tuple[tuple[int, ...], ...]
    rows: tuple[object, ...]  # which of a window's answer rows are given, and in what order

    @staticmethod
    def of(typed: TypedQuery) -> Shape:
        """Take the shape of a query."""
        query = typed.query
        rows = (len(query.outputs), query.distinct, query.order, query.limit, query.offset)
        return Shape(typed.aggregates, query.expressions, query.having, query.grouped, query.sets, rows)


class Finisher:
    """Finishes the rows of one shape."""

    def __init__(self, typed: TypedQuery) -> None:
        """Compile the outputs and HAVING if all of them are listed; otherwise Spark will be asked."""
        self.typed = typed
        types = {f"k{i}": t for i, t in enumerate(typed.key_types)}
        types |= {f"a{i}": a.type for i, a in enumerate(typed.aggregates)}
        query = typed.query
        if query.start_aligned:
            types |= WINDOW_TYPES
        types |= grouping_types(query)
        self.outputs = [compile_expression(text, types) for text in query.expressions]
        self.having = compile_expression(query.having, types) if query.having else None
        expected = zip(self.outputs, (*typed.output_types, *typed.order_types), strict=True)
        listed = all(c is not None and c.type == t for c, t in expected)
        self.in_arrow = listed and (query.having is None or self.having is not None)

    def inputs(
        self,
        keys: Sequence[pa.Array],
        merged: Mapping[Component, Values],
        windows: tuple[Int64Array, Int64Array] | None = None,
        sets: Int64Array | None = None,
    ) -> tuple[pa.Table, BoolArray, str | None]:
        """Lower the aggregates; also tell the rows that one of them has no answer for, and why.

        ``windows`` are the starts and ends of the rows' windows, for queries that name them; ``sets`` tells of each
        row which grouping set it is of.
        """
        columns: dict[str, pa.Array] = {f"k{i}": k for i, k in enumerate(keys)}
        rows = len(next(iter(merged.values())))
        failed, reason = np.zeros(rows, np.bool_), None
        for number, aggregate in enumerate(self.typed.aggregates):
            lowered = aggregate.lower(merged)
            columns[f"a{number}"] = lowered.array
            if lowered.failed is not None:
                failed |= lowered.failed
                reason = reason or lowered.reason
        if windows is not None and self.typed.query.start_aligned:
            columns |= _window_columns(*windows)
        if sets is not None:
            columns |= _grouping_columns(self.typed.query, sets)
        if not columns:  # a query of constants
            columns["a"] = pa.nulls(rows, pa.bool_())
        return pa.table(columns), failed, reason

    def request(self, inputs: pa.Table) -> FinishRequest:
        """Word what Spark has to compute."""
        query = self.typed.query
        return FinishRequest(inputs, query.expressions, query.having)

    def spelled(self, text: str) -> str:
        """Write the user's keys and aggregates in place of ``k0``… and ``a0``…"""
        query = self.typed.query
        named = {f"`k{i}`": key for i, key in enumerate(query.keys)}
        named |= {f"`a{i}`": str(aggregate) for i, aggregate in enumerate(query.aggregates)}
        named |= {f"`g{i}`": f"grouping({key})" for i, key in enumerate(query.keys)}
        named |= _WINDOW_WORDS
        return _PLACEHOLDER.sub(lambda found: named.get(found[0], found[0]), text)

    def finish(self, inputs: pa.Table) -> Finished:
        """Compute the outputs here."""
        rows = inputs.num_rows
        keep, failed = np.ones(rows, np.bool_), np.zeros(rows, np.bool_)
        if self.having is not None:
            keep, failed = _kept(self.having, inputs)
        reason = f"arithmetic failed in HAVING {self.typed.query.having}" if failed.any() else None
        columns = {}
        for number, (compiled, text) in enumerate(zip(self.outputs, self.typed.query.expressions, strict=True)):
            assert compiled is not None
            evaluated = compiled(inputs)
            columns[f"o{number}"] = evaluated.array
            if evaluated.failed is not None:
                failing = evaluated.failed & keep
                if reason is None and failing.any():
                    reason = f"arithmetic failed in {text}"
                failed = failed | failing
        return Finished(pa.table(columns), keep, failed, reason)


def _window_columns(starts: Int64Array, ends: Int64Array) -> dict[str, pa.Array]:
    """Write the windows as Spark's struct, and each of its fields."""
    start, end = pa.array(starts).cast(INSTANT), pa.array(ends).cast(INSTANT)
    return {"w": pa.StructArray.from_arrays([start, end], names=["start", "end"]), "ws": start, "we": end}


def grouping_types(query: Query) -> dict[str, pa.DataType]:
    """Return what grouping sets add to keys and aggregates: grouping_id() and the grouping() of each key."""
    if not query.sets:
        return {}
    return {"g": pa.int64(), **{f"g{i}": pa.int8() for i in range(len(query.keys))}}


def _grouping_columns(query: Query, sets: Int64Array) -> dict[str, pa.Array]:
    """Write grouping() of each key, 1 where the row's set is without it, and all of them as bits, the first highest."""
    without = np.array([[i not in one for one in query.sets] for i in range(len(query.keys))], np.int64)
    identity = sum(absent << (len(without) - 1 - i) for i, absent in enumerate(without))
    columns = {f"g{i}": pa.array(absent[sets].astype(np.int8)) for i, absent in enumerate(without)}
    return {"g": pa.array(np.asarray(identity, np.int64)[sets]), **columns}


def _kept(having: Compiled, inputs: pa.Table) -> tuple[BoolArray, BoolArray]:
    """Tell which rows HAVING keeps, and on which it fails."""
    evaluated = having(inputs)
    keep = np.asarray(evaluated.array.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
    failed = np.zeros(len(keep), np.bool_) if evaluated.failed is None else evaluated.failed
    return keep, failed
