"""Writes the Spark SQL that aggregates rows to a state: a frequency table, a sketch, a picked struct."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from penstock.evaluate.components.component import Component

Value = Callable[[str], str]

# Where runs of equal values begin in a sorted array s, and where the last one ends.
_RUNS: Final = "filter(sequence(0, size(s)), i -> i = 0 OR i = size(s) OR NOT ({now} <=> {before}))"
_HEX: Final = ("0123456789ABCDEF", "FEDCBA9876543210")


def state_text(component: Component, value: Value, time: str) -> str:
    """Write the one aggregate that makes a state of rows."""
    assert component.argument is not None
    x = value(component.argument)
    more = [value(text) for text in component.more]
    match component.kind:
        case "frequencies":
            return _frequencies(_packed(x, more[0]) if component.packed else x, more if not component.packed else ())
        case "weights":
            return _weights(x, more[0], component.types[0])
        case "arg_min":
            return _picked("min", _struct([more[0], x]), [f"({more[0]}) IS NOT NULL"])
        case "arg_max":
            turned = _turned(more[0], component.types[0])
            return _picked("min", _struct([*turned, x]), [f"({more[0]}) IS NOT NULL"])
        case "first" | "last":
            return _in_order(component, x, value, time)
        case "user":
            return _user(component, [x, *more])
    return _sketch(component, x)


def _frequencies(x: str, more: Sequence[str]) -> str:
    """List the distinct values in order, and where the run of each begins in the sorted list of all.

    Values come together in the executors; what leaves them is as long as there are distinct ones.
    """
    if more:
        present = " AND ".join(f"({one}) IS NOT NULL" for one in (x, *more))
        x = f"CASE WHEN {present} THEN {_struct([x, *more])} END"
    runs = _RUNS.format(now="get(s, i)", before="get(s, i - 1)")
    values = "transform(filter(r, i -> i < size(s)), i -> get(s, i))"
    return _bound("s", f"sort_array(collect_list({x}))", _bound("r", runs, f"named_struct('v', {values}, 'n', r)"))


def _packed(x: str, y: str) -> str:
    """Write two integers of at most 32 bits as one bigint; NULL if one of them is."""
    return f"(shiftleft(cast({x} as bigint), 32) | (cast({y} as bigint) & 4294967295L))"


def _weights(x: str, weight: str, type_: pa.DataType) -> str:
    """List the distinct values in order, the sum of the weights of each, and the least weight of all."""
    sum_type = "double" if pa.types.is_floating(type_) else f"decimal(38, {getattr(type_, 'scale', 0)})"
    pair = f"named_struct('v', {x}, 'w', cast({weight} as {sum_type}))"
    listed = f"collect_list(CASE WHEN ({x}) IS NOT NULL AND ({weight}) IS NOT NULL THEN {pair} END)"
    runs = _RUNS.format(now="get(s, i).v", before="get(s, i - 1).v")
    values = "transform(filter(r, i -> i < size(s)), i -> get(s, i).v)"
    run = "slice(s, get(r, j) + 1, get(r, j + 1) - get(r, j))"
    total = f"aggregate({run}, cast(0 as {sum_type}), (a, e) -> cast(a + e.w as {sum_type}))"
    totals = f"transform(filter(sequence(0, size(r)), j -> j < size(r) - 1), j -> {total})"
    least = "array_min(transform(s, e -> e.w))"
    whole = f"named_struct('v', {values}, 'w', {totals}, 'm', {least})"
    return _bound("s", f"sort_array({listed})", _bound("r", runs, whole))


def _bound(name: str, value: str, body: str) -> str:
    """Let a name stand for a value in an expression, so that it is computed once."""
    return f"transform(array({value}), {name} -> {body})[0]"


def _struct(parts: Sequence[str]) -> str:
    """Write a struct of numbered fields."""
    return "named_struct(" + ", ".join(f"'f{i}', {part}" for i, part in enumerate(parts)) + ")"


def _turned(y: str, type_: pa.DataType) -> list[str]:
    """Write values whose order is that of y turned around, so that the greatest y comes with the least x."""
    if pa.types.is_floating(type_):
        return [f"NOT isnan({y})", f"-({y})"]
    if pa.types.is_decimal(type_):
        return [f"-({y})"]
    if pa.types.is_boolean(type_):
        return [f"NOT ({y})"]
    if pa.types.is_string(type_) or pa.types.is_binary(type_):  # a longer one comes after its beginning: G is above F
        return [f"concat(translate(hex({y}), '{_HEX[0]}', '{_HEX[1]}'), 'G')"]
    if pa.types.is_date32(type_):
        return [f"~unix_date({y})"]
    if pa.types.is_timestamp(type_):
        return [f"~unix_micros(cast({y} as timestamp))"]
    return [f"~({y})"]


def _in_order(component: Component, x: str, value: Value, time: str) -> str:
    """Pick the first or last row by time, then a hash of the row, then the row itself."""
    row = [value(column) for column in component.more]
    struct = f"named_struct('t', {time}, 'h', xxhash64({', '.join(row)}), 'c', {_struct(row)}, 'x', {x})"
    wanted = [f"({x}) IS NOT NULL"] if component.size else []
    wanted += [f"({value(component.keep)})"] if component.keep is not None else []
    return _picked("max" if component.kind == "last" else "min", struct, wanted)


def _picked(function: str, struct: str, wanted: Sequence[str]) -> str:
    """Pick a struct among the rows wanted; in a list, of one or none, because Arrow refuses a struct that is NULL and
    has fields that are never."""
    taken = f"CASE WHEN {' AND '.join(wanted)} THEN {struct} END" if wanted else struct
    return f"filter(array({function}({taken})), e -> e IS NOT NULL)"


def _sketch(component: Component, x: str) -> str:
    """Let Spark make a sketch; what a sketch does not take, is told apart by a hash or written as a string."""
    match component.kind:
        case "hll":
            direct = pa.types.is_string(component.type) or pa.types.is_binary(component.type)
            whole = pa.types.is_integer(component.type)
            taken = f"cast({x} as bigint)" if whole else x if direct else f"nvl2({x}, xxhash64({x}), NULL)"
            return f"hll_sketch_agg({taken}, {component.size})"
        case "theta":
            return f"theta_sketch_agg({x}, {component.size})"
        case "kll":
            return f"kll_sketch_agg_double(cast({x} as double), {component.size})"
    item = _written(x, component.types[0]) if component.type == pa.string() else _whole_number(x, component.types[0])
    return f"approx_top_k_accumulate({item}, {component.size}).sketch"


def _written(x: str, type_: pa.DataType) -> str:
    """Write a value as a string that tells it from others; -0.0 is 0.0, and strings need not be UTF-8."""
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return f"hex({x})"
    return f"cast(cast({x} as double) + 0.0D as string)" if pa.types.is_floating(type_) else f"cast({x} as string)"


def _whole_number(x: str, type_: pa.DataType) -> str:
    """Write a date, time or whole number as a bigint."""
    if pa.types.is_date32(type_):
        return f"cast(unix_date({x}) as bigint)"
    if pa.types.is_timestamp(type_):
        return f"unix_micros(cast({x} as timestamp))"
    return f"cast({x} as bigint)"


def _user(component: Component, arguments: Sequence[str]) -> str:
    """Collect the rows that have a value, and let a worker make a state of them."""
    assert component.code is not None
    present = " OR ".join(f"({one}) IS NOT NULL" for one in arguments)
    return f"{component.code.pinned}(collect_list(CASE WHEN {present} THEN {_struct(arguments)} END))"
