"""Converts rows as people write them into Arrow rows of declared types, or names the row that does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import PenstockError, UnknownColumn, WrongType, nearest
from penstock.testing.clock import read_instant

Row: TypeAlias = Mapping[str, Any] | Sequence[Any]
Rows: TypeAlias = Sequence[Row] | pa.Table

_TRUTHS: Final = {"true": True, "false": False}


def arrow_rows(rows: Rows, schema: pa.Schema, owner: str, epoch: datetime) -> pa.Table:
    """Make an Arrow table of rows; what a row leaves out is NULL."""
    if isinstance(rows, pa.Table):
        return _cast(rows, schema, owner)
    named = [_named(row, number, schema.names, owner) for number, row in enumerate(rows, 1)]
    columns = [_column(named, field, owner, epoch) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def inferred_schema(rows: Rows, owner: str, time: str | None = None) -> pa.Schema:
    """Find the types of rows whose columns nobody declared; ``time`` is the column that holds a time."""
    if isinstance(rows, pa.Table):
        return rows.schema
    if not all(isinstance(row, Mapping) for row in rows) or not rows:
        hint = "Declare its columns, or write rows as mappings from names to values."
        raise WrongType(f"{owner} has no columns to read its rows by", hint=hint)
    names = dict.fromkeys(name for row in rows for name in _keys(row))
    fields = []
    for name in names:
        values = [row.get(name) for row in rows if isinstance(row, Mapping)]
        fields.append(pa.field(name, pa.timestamp("us", tz="UTC") if name == time else _inferred(values, name, owner)))
    return pa.schema(fields)


def read_value(value: Any, type_: pa.DataType, epoch: datetime) -> Any:
    """Read one value as a type has it, also from text; ValueError if it cannot be."""
    if value is None:
        return None
    for fits, read in _READERS:
        if fits(type_):
            return read(value, type_, epoch)
    return value


# -- rows and columns ----------------------------------------------------------------------------------------------


def _named(row: Row, number: int, names: Sequence[str], owner: str) -> Mapping[str, Any]:
    """Give a row's values their names; names may differ by case."""
    if isinstance(row, Mapping):
        if row.keys() <= set(names):
            return row
        by_lower = {name.lower(): name for name in names}
        found = {by_lower.get(str(name).lower()): value for name, value in row.items()}
        for name in row:
            if str(name).lower() not in by_lower:
                raise _unknown(f'row {number} of {owner} has a column "{name}", which is not declared', name, names)
        return {name: value for name, value in found.items() if name is not None}
    if isinstance(row, str) or not isinstance(row, Sequence):
        raise WrongType(f"row {number} of {owner} is {_shown(row)}", hint="Write a mapping from columns to values.")
    if len(row) != len(names):
        what = f"row {number} of {owner} has {len(row)} values for {len(names)} columns"
        raise WrongType(what, detail=f"columns: {', '.join(names)}", hint="Write a mapping to leave columns out.")
    return dict(zip(names, row, strict=True))


def _column(rows: Sequence[Mapping[str, Any]], field: pa.Field, owner: str, epoch: datetime) -> pa.Array:
    """Read one column of all rows; if that fails, say which row it was."""
    values = [row.get(field.name) for row in rows]
    try:
        return _read(values, field.type, epoch)
    except (ValueError, TypeError, pa.ArrowException):
        for number, value in enumerate(values, 1):
            _check(value, field, f"row {number} of {owner}", epoch)
        raise


def _check(value: Any, field: pa.Field, owner: str, epoch: datetime) -> None:
    """Refuse a value that its column cannot hold."""
    try:
        _read([value], field.type, epoch)
    except (ValueError, TypeError, pa.ArrowException) as error:
        what = f'{owner}: column "{field.name}" is {field.type} and cannot hold {_shown(value)}'
        raise WrongType(what, detail=str(error).split("\n")[0]) from None


def _read(values: Iterable[Any], type_: pa.DataType, epoch: datetime) -> pa.Array:
    """Read values of one type."""
    return pa.array([read_value(value, type_, epoch) for value in values], type_)


def _cast(rows: pa.Table, schema: pa.Schema, owner: str) -> pa.Table:
    """Give an Arrow table the declared columns, in their order and of their types."""
    for name in rows.column_names:
        if name not in schema.names:
            raise _unknown(f'{owner} has no column "{name}"', name, schema.names)
    columns = []
    for field in schema:
        try:
            found = rows[field.name].cast(field.type) if field.name in rows.column_names else None
        except pa.ArrowException as error:
            raise WrongType(f'column "{field.name}" of {owner} is {field.type}', detail=str(error)) from None
        columns.append(pa.nulls(len(rows), field.type) if found is None else found)
    return pa.Table.from_arrays(columns, schema=schema)


def _inferred(values: Sequence[Any], name: str, owner: str) -> pa.DataType:
    """Find the one type of a column's values."""
    try:
        return pa.array(values).type
    except pa.ArrowException as error:
        what = f'column "{name}" of {owner} holds values of different types'
        raise WrongType(what, detail=str(error), hint="Declare its columns.") from None


def _keys(row: Row) -> Iterable[str]:
    """Return the columns that a row names."""
    return row.keys() if isinstance(row, Mapping) else ()


def _unknown(what: str, name: str, names: Sequence[str]) -> PenstockError:
    """Say which columns there are."""
    return UnknownColumn(what, detail=f"existing columns: {', '.join(names)}", hint=nearest(str(name), names))


def _shown(value: Any) -> str:
    """Write a value for an error, shortened."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# -- values of each type -------------------------------------------------------------------------------------------


def _instant(value: Any, type_: pa.DataType, epoch: datetime) -> datetime:
    """Read a time; one without a zone is the clock on the wall in UTC."""
    found = read_instant(value, epoch)
    return found.replace(tzinfo=None) if type_.tz is None else found


def _date(value: Any, _type: pa.DataType, _epoch: datetime) -> date:
    """Read a day."""
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).date()
    return value if isinstance(value, date) else date.fromisoformat(value)


def _decimal(value: Any, _type: pa.DataType, _epoch: datetime) -> Decimal:
    """Read an exact number; a double counts as it is printed."""
    if isinstance(value, bool):
        raise ValueError("a boolean is not a number")
    try:
        return Decimal(str(value))
    except InvalidOperation:
        raise ValueError("this is not a decimal number") from None


def _integer(value: Any, _type: pa.DataType, _epoch: datetime) -> int:
    """Read a whole number."""
    if isinstance(value, bool) or int(value) != (int(value) if isinstance(value, str) else value):
        raise ValueError("this is not a whole number")
    return int(value)


def _double(value: Any, _type: pa.DataType, _epoch: datetime) -> float:
    """Read a floating point number; ``NaN`` and ``Infinity`` may be text."""
    if isinstance(value, bool):
        raise ValueError("a boolean is not a number")
    return float(value)


def _boolean(value: Any, _type: pa.DataType, _epoch: datetime) -> bool:
    """Read a truth value."""
    found = _TRUTHS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise ValueError("write true or false")
    return found


def _string(value: Any, _type: pa.DataType, _epoch: datetime) -> str:
    """Take text as it is."""
    if not isinstance(value, str):
        raise ValueError("write it in quotes")
    return value


def _binary(value: Any, _type: pa.DataType, _epoch: datetime) -> bytes:
    """Take bytes as they are, and text as UTF-8."""
    return value.encode() if isinstance(value, str) else bytes(value)


def _list(value: Any, type_: pa.DataType, epoch: datetime) -> list[Any]:
    """Read a list's values."""
    if isinstance(value, str | Mapping):
        raise ValueError("write a list")
    return [read_value(item, type_.value_type, epoch) for item in value]


def _struct(value: Any, type_: pa.DataType, epoch: datetime) -> dict[str, Any]:
    """Read a struct's fields; those left out are NULL."""
    if not isinstance(value, Mapping):
        raise ValueError("write a mapping from fields to values")
    fields = {type_.field(i).name: type_.field(i).type for i in range(type_.num_fields)}
    for name in value.keys() - fields.keys():
        raise ValueError(f'there is no field "{name}"; existing fields: {", ".join(fields)}')
    return {name: read_value(value[name], kind, epoch) for name, kind in fields.items() if name in value}


def _map(value: Any, type_: pa.DataType, epoch: datetime) -> list[tuple[Any, Any]]:
    """Read a map's entries."""
    pairs = value.items() if isinstance(value, Mapping) else value
    return [(read_value(k, type_.key_type, epoch), read_value(v, type_.item_type, epoch)) for k, v in pairs]


_READERS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType, datetime], Any]], ...]] = (
    (pt.is_timestamp, _instant),
    (pt.is_date, _date),
    (pt.is_decimal, _decimal),
    (pt.is_integer, _integer),
    (pt.is_floating, _double),
    (pt.is_boolean, _boolean),
    (lambda t: pt.is_string(t) or pt.is_large_string(t), _string),
    (lambda t: pt.is_binary(t) or pt.is_large_binary(t), _binary),
    (lambda t: pt.is_list(t) or pt.is_large_list(t), _list),
    (pt.is_struct, _struct),
    (pt.is_map, _map),
)
