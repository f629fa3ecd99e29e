"""The distinct values of an argument with their counts or weights: what exact holistic aggregates are read from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa

from penstock.evaluate.components.component import Column, Values, Written
from penstock.evaluate.components.frequencies import (
    Frequencies,
    merge_frequencies,
    read_frequencies,
    read_weights,
)
from penstock.evaluate.components.frequency_tables import merge_many, read_tables
from penstock.evaluate.components.lift_text import bound, struct_of
from penstock.evaluate.components.reading import ordered_type
from penstock.evaluate.components.states import State

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
    def flat(self) -> bool:
        """Tell whether states are plain counts of single numbers, or of two packed in one."""
        return (not self.more and not ordered_type(self.type).hasobject) or self.packed

    def lift_state(self, value: Written, time: str) -> str:
        """List the distinct values in order, and where the run of each begins in the sorted list of all.

        Values come together in the executors; what leaves them is as long as there are distinct ones.
        """
        x, *more = (value(text) for text in (self.argument, *self.more) if text is not None)
        if self.packed:
            x = _packed(x, more[0])
        elif more:
            present = " AND ".join(f"({one}) IS NOT NULL" for one in (x, *more))
            x = f"CASE WHEN {present} THEN {struct_of([x, *more])} END"
        runs = RUNS.format(now="get(s, i)", before="get(s, i - 1)")
        values = "transform(filter(r, i -> i < size(s)), i -> get(s, i))"
        return bound("s", f"sort_array(collect_list({x}))", bound("r", runs, f"named_struct('v', {values}, 'n', r)"))

    def read(self, columns: Sequence[Column]) -> Values:
        """Read tables, those of numbers all at once."""
        return read_tables(self, columns[0]).array if self.flat else super().read(columns)

    def read_states(self, column: Column) -> Iterator[Frequencies | None]:
        """Read values and where their runs begin."""
        return read_frequencies(self, column)


class WeightTable(ValueTable):
    """The sum of the weights of each value."""

    __slots__ = ()
    kind: ClassVar = "weights"

    def lift_state(self, value: Written, time: str) -> str:
        """List the distinct values in order, the sum of the weights of each, and the least weight of all."""
        assert self.argument is not None
        x, weight, type_ = value(self.argument), value(self.more[0]), self.types[0]
        sum_type = "double" if pa.types.is_floating(type_) else f"decimal(38, {getattr(type_, 'scale', 0)})"
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

    def read_states(self, column: Column) -> Iterator[Frequencies | None]:
        """Read values and their weights."""
        return read_weights(self, column)


def _packed(x: str, y: str) -> str:
    """Write two integers of at most 32 bits as one bigint; NULL if one of them is."""
    return f"(shiftleft(cast({x} as bigint), 32) | (cast({y} as bigint) & 4294967295L))"
