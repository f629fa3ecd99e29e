"""Calls a user's Python function (UDF) on Arrow arrays, and returns for each row its value or its error.

This runs in Spark's Python workers and never raises: Spark evaluates such functions apart from the expression that
calls them and for every row, whatever guards stand around the call, and what a worker raises ends the whole job. Where
some function has ended or blocked its worker before, functions are called in children of the worker. The code travels
by value, so that workers need not have Penstock installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.functions.child_processes import MOST_ENDS, Lost, in_children
from penstock.spark.functions.users_code import load_code, shortened, what_it_raised

FAILED_ARGUMENT = ""  # the error of a row one of whose arguments failed: Spark itself knows best why


@dataclass(frozen=True)
class UdfWorker:
    """A function as workers call it: by rows or by arrays, on arguments some of which were attempted."""

    name: str
    pickled: bytes
    version: str
    vectorised: bool
    returns: pa.DataType
    apart: bool = False  # in children of the worker

    def __call__(self, *arguments: pa.Array) -> pa.Array:
        """Return structs of value and error, one a row; an attempted argument is a struct, NULL where it failed."""
        failed, values = [False] * len(arguments[0]), []
        for argument in arguments:
            if pa.types.is_struct(argument.type) and argument.type.num_fields == 1 and argument.type[0].name == "#v":
                failed = [one or missing for one, missing in zip(failed, argument.is_null().to_pylist(), strict=True)]
                argument = pc.struct_field(argument, [0])
            values.append(argument)
        sound = pa.array([not one for one in failed])
        taken = [value.filter(sound) for value in values] if any(failed) else values
        found, errors = self.called(taken)
        if any(failed):
            at = pa.array(_places(failed), pa.int64())
            found, errors = found.take(at), errors.take(at)
            errors = pc.if_else(sound, errors, FAILED_ARGUMENT)
        return pa.StructArray.from_arrays([found, errors], names=["value", "error"])

    def called(self, arguments: Sequence[pa.Array]) -> tuple[pa.Array, pa.Array]:
        """Call the function on all rows; return values and errors."""
        count = len(arguments[0])
        try:
            function = load_code(self.pickled, self.version)
        except BaseException as error:
            why = f"{self.name}() cannot be loaded: {what_it_raised(error)}"
            return pa.nulls(count, self.returns), pa.array([why] * count, pa.string())
        if self.vectorised and count:
            return self.arrays_apart(function, arguments, []) if self.apart else self.by_arrays(function, arguments)
        return self.by_rows(function, arguments)

    def by_rows(self, function: Callable[..., Any], arguments: Sequence[pa.Array]) -> tuple[pa.Array, pa.Array]:
        """Call a function once a row, with Python's own values."""
        count, rows = len(arguments[0]), _rows(arguments)

        def one(number: int) -> tuple[Any, str | None]:
            try:
                row = [argument[number].as_py() for argument in arguments] if rows is None else rows[number]
                return function(*row), None
            except BaseException as raised:
                return None, f"{self.name}() failed: {what_it_raised(raised)}"

        found = self.rows_apart(one, count) if self.apart else map(one, range(count))
        values, errors = map(list, zip(*found, strict=True)) if count else ([], [])
        try:
            return self.typed(values), pa.array(errors, pa.string())
        except Exception:  # some value has another type; each by itself tells which
            return self.checked(values, errors)

    def rows_apart(self, one: Callable[[int], tuple[Any, str | None]], count: int) -> list[tuple[Any, str | None]]:
        """Call a function row by row in a child."""
        import pickle

        def pickled(first: int) -> Iterator[bytes]:
            for value, error in map(one, range(first, count)):
                try:
                    yield pickle.dumps((value, error))
                except Exception:  # nothing of a type that may be returned
                    yield pickle.dumps((None, self.misfit(value)))

        made = in_children(pickled, count)
        return [(None, f"{self.name}() {m.why}") if isinstance(m, Lost) else pickle.loads(m) for m in made]

    def misfit(self, value: Any) -> str:
        """Say that a value has not the declared type."""
        told = f"{type(value).__name__} {shortened(repr(value), 60)}"
        return f"{self.name}() returned {told}, which is not of type {self.returns}"

    def typed(self, values: list[Any]) -> pa.Array:
        """Turn values into an array of the declared type, or raise; Arrow by itself would cut fractions off."""
        if pa.types.is_integer(self.returns) and not all(v is None or hasattr(v, "__index__") for v in values):
            raise TypeError
        return pa.array(values, self.returns)

    def checked(self, values: list[Any], errors: list[str | None]) -> tuple[pa.Array, pa.Array]:
        """Turn values one by one into the declared type; those that do not fit are errors."""
        for row, value in enumerate(values):
            try:
                self.typed([value])
            except Exception:
                errors[row], values[row] = self.misfit(value), None
        return pa.array(values, self.returns), pa.array(errors, pa.string())

    def by_arrays(self, function: Callable[..., Any], arguments: Sequence[pa.Array]) -> tuple[pa.Array, pa.Array]:
        """Call a vectorised function; where it fails, on ever smaller parts, down to the rows it fails on."""
        count = len(arguments[0])
        try:
            return self.fitted(function(*arguments), count), pa.nulls(count, pa.string())
        except BaseException as raised:
            if count == 1:
                error = f"{self.name}() failed: {what_it_raised(raised)}"
                return pa.nulls(1, self.returns), pa.array([error], pa.string())
        half = count // 2
        left = self.by_arrays(function, [argument.slice(0, half) for argument in arguments])
        right = self.by_arrays(function, [argument.slice(half) for argument in arguments])
        return pa.concat_arrays([left[0], right[0]]), pa.concat_arrays([left[1], right[1]])

    def arrays_apart(
        self, function: Callable[..., Any], arguments: Sequence[pa.Array], ends: list[str]
    ) -> tuple[pa.Array, pa.Array]:
        """Call a vectorised function in children; where one ends, on ever smaller parts, but not for ever."""
        import pickle

        count = len(arguments[0])
        (made,) = in_children(lambda _: (pickle.dumps(self.by_arrays(function, arguments)) for _ in range(1)), 1, count)
        if not isinstance(made, Lost):
            found: tuple[pa.Array, pa.Array] = pickle.loads(made)
            return found
        ends.append(made.why)
        if count == 1 or made.hung or len(ends) >= MOST_ENDS:
            return pa.nulls(count, self.returns), pa.array([f"{self.name}() {made.why}"] * count, pa.string())
        half = count // 2
        left = self.arrays_apart(function, [argument.slice(0, half) for argument in arguments], ends)
        right = self.arrays_apart(function, [argument.slice(half) for argument in arguments], ends)
        return pa.concat_arrays([left[0], right[0]]), pa.concat_arrays([left[1], right[1]])

    def fitted(self, result: Any, count: int) -> pa.Array:
        """Return an array of the declared type, or raise why what a vectorised function returned is none."""
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        if not isinstance(result, pa.Array):
            raise TypeError(f"it returned {type(result).__name__}, not a pyarrow Array")
        if len(result) != count:
            raise ValueError(f"it returned {len(result)} values for {count} rows")
        same_kind = _kind(result.type) == _kind(self.returns) or pa.types.is_null(result.type)
        if not same_kind:
            raise TypeError(f"it returned an array of {result.type}, which is not of type {self.returns}")
        return result if result.type == self.returns else result.cast(self.returns)


def _rows(arguments: Sequence[pa.Array]) -> list[tuple[Any, ...]] | None:
    """Read arguments row by row; None: Python cannot hold some of them (far years, strings that are no UTF-8)."""
    try:
        return list(zip(*(argument.to_pylist() for argument in arguments), strict=True))
    except Exception:
        return None


def _places(failed: Sequence[bool]) -> list[int | None]:
    """Say for each row where its value stands among those of the rows that did not fail."""
    found: list[int | None] = []
    next_place = 0
    for one in failed:
        found.append(None if one else next_place)
        next_place += not one
    return found


def _kind(type_: pa.DataType) -> str:
    """Name what types that may be cast into each other have in common."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "string"
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return "binary"
    return "timestamp" if pa.types.is_timestamp(type_) else str(type_)
