"""The distinct values of an argument with their counts or weights: what exact holistic aggregates are read from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.components.component import Column, Values, Written
from penstock.evaluate.components.frequencies import (
    Frequencies,
    merge_frequencies,
    read_weights,
)
from penstock.evaluate.components.frequency_tables import merge_many, read_tables
from penstock.evaluate.components.lift_text import bound, struct_of
from penstock.evaluate.components.reading import ordered_type, whole
from penstock.evaluate.components.row_runs import RowColumn, RowRuns, lists_of, structs_of
from penstock.evaluate.components.states import State
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.sorting import stable_order

SMALL_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32())
# Where runs of equal values begin in a sorted array s, and where the last one ends.
RUNS: Final = "filter(sequence(0, size(s)), i -> i = 0 OR i = size(s) OR NOT ({now} <=> {before}))"


class ValueTable(State):
    """Distinct values and what belongs to each."""

    __slots__ = ()

    def merge(self, states: Sequence[Frequencies]) -> Frequencies:
        """Add tables up."""
        return merge_frequencies(states)

    def merge_several(self, groups: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """Add up the tables of many groups at once."""
        return merge_many(groups)


class FrequencyTable(ValueTable):
    """How often each value came, or each combination of several."""

    __slots__ = ()
    kind: ClassVar = "frequencies"

    @property
    def packed(self) -> bool:
        """Tell whether the two values that are counted together fit one bigint."""
        return len(self.types) == 1 and all(t in SMALL_INTEGERS for t in (self.type, *self.types))

    @property
    def of_numbers(self) -> bool:
        """Tell whether what is counted are single numbers, or two packed in one."""
        return (not self.more and not ordered_type(self.type).hasobject) or self.packed

    def lift_state(self, value: Written, time: str) -> str:
        """List the distinct values in order, and where the run of each begins in the sorted list of all.

        Values come together in the executors; what leaves them is as long as there are distinct ones.
        """
        x = self._counted(value)
        runs = RUNS.format(now="get(s, i)", before="get(s, i - 1)")
        values = "transform(filter(r, i -> i < size(s)), i -> get(s, i))"
        return bound("s", f"sort_array(collect_list({x}))", bound("r", runs, f"named_struct('v', {values}, 'n', r)"))

    def _counted(self, value: Written) -> str:
        """Write what is counted: a value, or several together if none of them is NULL."""
        x, *more = (value(text) for text in (self.argument, *self.more) if text is not None)
        if self.packed:
            return _packed(x, more[0])
        present = " AND ".join(f"({one}) IS NOT NULL" for one in (x, *more))
        return f"CASE WHEN {present} THEN {struct_of([x, *more])} END" if more else x

    def row_texts(self, value: Written, time: str) -> list[str] | None:
        """Write what is counted; values put together are sent one by one."""
        texts = [value(text) for text in (self.argument, *self.more) if text is not None]
        if any(pa.types.is_nested(t) for t in (self.type, *self.types)):
            return None
        return [self._counted(value)] if self.packed or len(texts) == 1 else texts

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Sort the values of each run, and tell where equal ones begin."""
        sorted_values = SortedValues(columns, runs)
        begins = sorted_values.begins
        lengths = sorted_values.add_up(np.ones(len(begins), np.int64))
        held = sorted_values.add_up(sorted_values.lengths)
        edges = np.empty(len(begins) + len(runs), np.int32)  # of each run: where values begin, and how many rows it has
        ends = np.cumsum(lengths + 1) - 1
        inner = np.ones(len(edges), np.bool_)
        inner[ends] = False
        first_rows = np.repeat(np.cumsum(held) - held, lengths)
        edges[inner], edges[ends] = begins - first_rows, held
        counted = {"v": lists_of(sorted_values.values(), lengths), "n": lists_of(pa.array(edges), lengths + 1)}
        return [structs_of(counted)]

    def read(self, columns: Sequence[Column]) -> Values:
        """Read tables, all at once."""
        return read_tables(self, columns[0]).array

    def read_states(self, column: Column) -> Iterator[Frequencies | None]:
        """Read values and where their runs begin."""
        return iter(read_tables(self, column))


class WeightTable(ValueTable):
    """The sum of the weights of each value."""

    __slots__ = ()
    kind: ClassVar = "weights"

    def lift_state(self, value: Written, time: str) -> str:
        """List the distinct values in order, the sum of the weights of each, and the least weight of all."""
        assert self.argument is not None
        x, weight, sum_type = value(self.argument), value(self.more[0]), self._sum_type
        pair = f"named_struct('v', {x}, 'w', cast({weight} as {sum_type}))"
        listed = f"collect_list(CASE WHEN ({x}) IS NOT NULL AND ({weight}) IS NOT NULL THEN {pair} END)"
        runs = RUNS.format(now="get(s, i).v", before="get(s, i - 1).v")
        values = "transform(filter(r, i -> i < size(s)), i -> get(s, i).v)"
        run = "slice(s, get(r, j) + 1, get(r, j + 1) - get(r, j))"
        total = f"aggregate({run}, cast(0 as {sum_type}), (a, e) -> cast(a + e.w as {sum_type}))"
        totals = f"transform(filter(sequence(0, size(r)), j -> j < size(r) - 1), j -> {total})"
        least = "array_min(transform(s, e -> e.w))"
        whole = f"named_struct('v', {values}, 'w', {totals}, 'm', {least})"
        return bound("s", f"sort_array({listed})", bound("r", runs, whole))

    @property
    def _sum_type(self) -> str:
        """Return the type in which weights are summed."""
        (type_,) = self.types
        return "double" if pa.types.is_floating(type_) else f"decimal(38, {getattr(type_, 'scale', 0)})"

    def row_texts(self, value: Written, time: str) -> list[str] | None:
        """Write values and weights."""
        assert self.argument is not None
        if pa.types.is_nested(self.type):
            return None
        return [value(self.argument), f"cast({value(self.more[0])} as {self._sum_type})"]

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Sort the values of each run, and sum the weights of equal ones."""
        values, weights = columns
        tables = SortedValues([values], runs, weights.valid)
        lengths = tables.add_up(np.ones(len(tables.begins), np.int64))
        listed, type_ = weights.array.take(pa.array(tables.rows)), weights.array.type
        table = pa.table({"value": np.repeat(np.arange(len(tables.begins)), tables.lengths), "w": listed})
        sums = table.group_by("value", use_threads=False).aggregate([("w", "sum")])["w_sum"]
        table = pa.table({"run": tables.owner, "w": listed})
        least = table.group_by("run", use_threads=False).aggregate([("w", "min")])
        places = pa.array(np.arange(len(runs)))
        lowest = whole(least["w_min"]).take(pc.index_in(places, whole(least["run"])))
        weighed = {
            "v": lists_of(tables.values(), lengths),
            "w": lists_of(whole(sums).cast(type_), lengths),
            "m": lowest.cast(type_),
        }
        return [structs_of(weighed)]

    def read_states(self, column: Column) -> Iterator[Frequencies | None]:
        """Read values and their weights."""
        return read_weights(self, column)


class SortedValues:
    """The values of a column, or of several together, in order within each run; NULLs are left out."""

    def __init__(self, columns: Sequence[RowColumn], runs: RowRuns, wanted: BoolArray | None = None) -> None:
        """Sort; a row counts if no column is NULL, and if it is wanted."""
        self.columns, self.runs = columns, runs
        ranks = combined_ranks(columns)
        kept = ranks > 0 if wanted is None else (ranks > 0) & wanted
        inside = kept[runs.order]
        order, owner = runs.order[inside], runs.owner[inside]
        values = int(ranks.max(initial=0)) + 1
        keys = owner * values + ranks[order]
        place = stable_order(keys, len(runs) * values)
        keys = keys[place]
        self.rows, self.owner = order[place], owner[place]
        self.begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.empty(0, np.int64)

    @property
    def lengths(self) -> Int64Array:
        """Return how often each value came."""
        return np.diff(self.begins, append=len(self.rows))

    def add_up(self, of_values: Int64Array) -> Int64Array:
        """Add something of each distinct value up, run by run."""
        return np.bincount(self.owner[self.begins], of_values, len(self.runs)).astype(np.int64)

    def values(self) -> pa.Array:
        """Return the distinct values, one after the other."""
        rows = pa.array(self.rows[self.begins])
        listed = [plain_zero(column.array.take(rows)) for column in self.columns]
        return listed[0] if len(listed) == 1 else structs_of({f"f{i}": one for i, one in enumerate(listed)})


def combined_ranks(columns: Sequence[RowColumn]) -> Int64Array:
    """Number combinations of values in order; 0 where one of them is NULL."""
    ranks = columns[0].ranks
    for column in columns[1:]:
        present = (ranks > 0) & (column.ranks > 0)
        both = ranks * (int(column.ranks.max(initial=0)) + 1) + column.ranks
        ranks = np.where(present, np.unique(both, return_inverse=True)[1] + 1, 0)
    return ranks


def plain_zero(array: pa.Array) -> pa.Array:
    """Write −0.0 as 0.0."""
    return pc.add(array, pa.scalar(0.0, array.type)) if pa.types.is_floating(array.type) else array


def _packed(x: str, y: str) -> str:
    """Write two integers of at most 32 bits as one bigint; NULL if one of them is."""
    return f"(shiftleft(cast({x} as bigint), 32) | (cast({y} as bigint) & 4294967295L))"
