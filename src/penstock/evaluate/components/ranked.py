"""Picks the one value that comes first or last by something: arg_min, arg_max, first and last.

Spark picks one struct per slice and group. A struct holds what it is picked by, then the value itself. NULL comes
before all values and NaN after all numbers, as Spark orders them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.components.component import Column, Written
from penstock.evaluate.components.lift_text import struct_of
from penstock.evaluate.components.reading import whole
from penstock.evaluate.components.row_runs import RowColumn, RowRuns, one_rank, picked_rows
from penstock.evaluate.components.states import State
from penstock.evaluate.expressions.raw_times import raw_values
from penstock.model.arrays import BoolArray, Int64Array

Ranked: TypeAlias = tuple[Any, Any]  # what it is picked by, as Python compares it, and the value

HEX: Final = ("0123456789ABCDEF", "FEDCBA9876543210")


class Picked(State):
    """A value, and what it is picked by."""

    __slots__ = ()
    ignores_null: ClassVar = False

    @property
    @abstractmethod
    def picks_last(self) -> bool:
        """Tell whether the last struct in order is picked, not the first."""

    @abstractmethod
    def candidate(self, value: Written, time: str) -> tuple[str, list[str]]:
        """Write the struct that a row offers, what it is picked by first, and what must hold of the row."""

    def lift_state(self, value: Written, time: str) -> str:
        """Let Spark pick the first struct, or the last."""
        struct, wanted = self.candidate(value, time)
        return one_or_none(f"{'max' if self.picks_last else 'min'}({offered(struct, wanted)})")

    def row_texts(self, value: Written, time: str) -> list[str]:
        """Write the struct that a row offers, in a list of one or none."""
        return [one_or_none(offered(*self.candidate(value, time)))]

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Pick of each run the first struct, or the last."""
        lists = columns[0].array
        wanted = np.asarray(pc.list_value_length(lists).to_numpy(zero_copy_only=False)) > 0
        rank = columns[0].kept(self, lambda: spread_ranks(self._rank_structs(lists.flatten()), wanted))
        return [lists.take(pa.array(picked_rows(runs, wanted, rank, last=self.picks_last)))]

    def _rank_structs(self, structs: pa.Array) -> Int64Array:
        """Rank structs by the fields that they are picked by."""
        return one_rank([RowColumn(pc.struct_field(structs, [i])).ranks for i in self.ranked_by(structs)])

    def ranked_by(self, structs: pa.Array) -> Sequence[int]:
        """List the fields that structs are picked by, the first one above the others."""
        return range(structs.type.num_fields)

    def read_states(self, column: Column) -> Iterator[Ranked | None]:
        """Read the structs picked."""
        return read_ranked(column)

    def merge(self, states: Sequence[Ranked]) -> Ranked:
        """Pick the one that comes first."""
        return min(states, key=_by_rank)


class LeastBy(Picked):
    """The value where another is least; of several the least."""

    __slots__ = ()
    kind: ClassVar = "arg_min"

    @property
    def picks_last(self) -> bool:
        """Tell that it is the first one."""
        return False

    def candidate(self, value: Written, time: str) -> tuple[str, list[str]]:
        """Offer the pair."""
        assert self.argument is not None
        x, y = value(self.argument), value(self.more[0])
        return struct_of([y, x]), [f"({y}) IS NOT NULL"]


class GreatestBy(Picked):
    """The value where another is greatest; of several the least."""

    __slots__ = ()
    kind: ClassVar = "arg_max"

    @property
    def picks_last(self) -> bool:
        """Tell that it is the first one."""
        return False

    def candidate(self, value: Written, time: str) -> tuple[str, list[str]]:
        """Offer the pair, its order turned around."""
        assert self.argument is not None
        x, y = value(self.argument), value(self.more[0])
        return struct_of([*_turned(y, self.types[0]), x]), [f"({y}) IS NOT NULL"]


class InOrder(Picked):
    """The value of the first or last row by time, then a hash of the row, then the row itself, which is in ``more``.

    With a ``size``, rows in which it is NULL are passed over.
    """

    __slots__ = ()

    @property
    def _listed(self) -> tuple[str, ...]:
        """Leave out the columns of the row."""
        return (self.argument or "*",)

    def candidate(self, value: Written, time: str) -> tuple[str, list[str]]:
        """Offer the row."""
        assert self.argument is not None
        x, row = value(self.argument), [value(column) for column in self.more]
        struct = f"named_struct('t', {time}, 'h', xxhash64({', '.join(row)}), 'c', {struct_of(row)}, 'x', {x})"
        wanted = [f"({x}) IS NOT NULL"] if self.size else []
        wanted += [f"({value(self.keep)})"] if self.keep is not None else []
        return struct, wanted

    def ranked_by(self, structs: pa.Array) -> Sequence[int]:
        """Leave the row itself out where time and hash tell all rows apart: to rank whole rows takes long."""
        told = np.rec.fromarrays([pc.struct_field(structs, [i]).to_numpy(zero_copy_only=False) for i in (0, 1)])
        return (0, 1) if len(np.unique(told)) == len(structs) else range(structs.type.num_fields)


class FirstRow(InOrder):
    """The value of the first row."""

    __slots__ = ()
    kind: ClassVar = "first"

    @property
    def picks_last(self) -> bool:
        """Tell that it is the first one."""
        return False


class LastRow(InOrder):
    """The value of the last row."""

    __slots__ = ()
    kind: ClassVar = "last"

    @property
    def picks_last(self) -> bool:
        """Tell that it is the last one."""
        return True

    def merge(self, states: Sequence[Ranked]) -> Ranked:
        """Pick the one that comes last."""
        return max(states, key=_by_rank)


def read_ranked(column: Column) -> Iterator[Ranked | None]:
    """Read lists of one struct, whose last field is the value, or none."""
    lists = whole(column)
    structs, held = lists.flatten(), pc.list_value_length(lists).to_pylist()
    fields = [pc.struct_field(structs, [i]) for i in range(structs.type.num_fields)]
    listed = [plain_values(field) for field in fields]
    ranks = zip(*(ranks_of(field, values) for field, values in zip(fields, listed, strict=True)), strict=True)
    found = zip(ranks, listed[-1], strict=True)
    return iter(found) if len(structs) == len(lists) else (next(found) if length else None for length in held)


def plain_values(array: pa.Array) -> list[Any]:
    """List values; strings as bytes, which they are compared by and need not be UTF-8, times as whole numbers."""
    if pa.types.is_struct(array.type):
        fields = [plain_values(pc.struct_field(array, [i])) for i in range(array.type.num_fields)]
        return [values if ok else None for ok, values in zip(array.is_valid().to_pylist(), zip(*fields), strict=True)]  # noqa: B905
    if pa.types.is_string(array.type):
        array = array.cast(pa.binary())
    return raw_values(array)


def ranks_of(field: pa.Array, values: list[Any]) -> Iterable[Any]:
    """Return keys by which Python orders the values of a field as Spark does."""
    if field.null_count or pa.types.is_nested(field.type) or pa.types.is_floating(field.type):
        return map(_rank, values)
    return zip(repeat(1), values)  # what else is there has an order of its own


def _rank(value: Any) -> Any:
    """Return a key by which Python orders values as Spark does."""
    match value:
        case None:
            return (0,)
        case float():
            return (2,) if value != value else (1, value)
        case tuple() | list():
            return (1, tuple(_rank(part) for part in value))
    return (1, value)


def _by_rank(state: Ranked) -> Any:
    """Return what a state is picked by."""
    return state[0]


def _turned(y: str, type_: pa.DataType) -> list[str]:
    """Write values whose order is that of y turned around, so that the greatest y comes with the least x."""
    if pa.types.is_floating(type_):
        return [f"NOT isnan({y})", f"-({y})"]
    if pa.types.is_decimal(type_):
        return [f"-({y})"]
    if pa.types.is_boolean(type_):
        return [f"NOT ({y})"]
    if pa.types.is_string(type_) or pa.types.is_binary(type_):  # a longer one comes after its beginning: G is above F
        return [f"concat(translate(hex({y}), '{HEX[0]}', '{HEX[1]}'), 'G')"]
    if pa.types.is_date32(type_):
        return [f"~unix_date({y})"]
    if pa.types.is_timestamp(type_):
        return [f"~unix_micros(cast({y} as timestamp))"]
    return [f"~({y})"]


def offered(struct: str, wanted: Sequence[str]) -> str:
    """Write a struct, NULL of rows that are not wanted."""
    return f"CASE WHEN {' AND '.join(wanted)} THEN {struct} END" if wanted else struct


def one_or_none(struct: str) -> str:
    """Put a struct into a list of one or none: Arrow refuses a struct that is NULL and has fields that are never."""
    return f"filter(array({struct}), e -> e IS NOT NULL)"


def spread_ranks(ranks: Int64Array, wanted: BoolArray) -> Int64Array:
    """Give rows that offer a struct its rank."""
    found = np.zeros(len(wanted), np.int64)
    found[wanted] = ranks
    return found
