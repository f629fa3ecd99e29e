"""Compares answers with those expected, and describes the differences in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import nearest
from penstock.model.instants import format_instant, format_local
from penstock.sinks.row_values import python_rows
from penstock.testing.clock import EPOCH, micros
from penstock.testing.values import read_value

RELATIVE: Final = 1e-9  # doubles may have been added in another order
ABSOLUTE: Final = 1e-12  # for those that should be 0
MOST_DIFFERENCES: Final = 20


def compare(found: pa.Table, expected: Sequence[Mapping[str, Any]] | pa.Table, *, epoch: datetime = EPOCH) -> list[str]:
    """List in words how answers differ from those expected, row by row in their order; nothing if they are equal.

    Only the columns that an expected row names are compared. Doubles may differ by one part in 10^9; times are
    instants, written as a datetime, as ISO text (UTC unless it says otherwise) or as seconds since the epoch.
    """
    wanted = python_rows(expected) if isinstance(expected, pa.Table) else list(expected)
    rows, differences = python_rows(found), _unknown_columns(found, wanted)
    for number, (row, want) in enumerate(zip(rows, wanted, strict=False), 1):
        differences += _in_row(number, row, want, found.schema, epoch)
    for number, want in enumerate(wanted[len(rows) :], len(rows) + 1):
        differences.append(f"row {number} is missing: {_shown_row(want)}")
    for number, row in enumerate(rows[len(wanted) :], len(wanted) + 1):
        differences.append(f"row {number} was not expected: {_shown_row(row)}")
    return _shortened(differences)


def compare_some(
    found: pa.Table, expected: Sequence[Mapping[str, Any]] | pa.Table, *, epoch: datetime = EPOCH
) -> list[str]:
    """List in words which expected rows are not among the answers, in whatever order; each answer counts once.

    Of one that is missing, the answer that comes nearest is told with what differs.
    """
    wanted = python_rows(expected) if isinstance(expected, pa.Table) else list(expected)
    rows, differences = python_rows(found), _unknown_columns(found, wanted)
    for want in wanted if not differences else ():
        told = [_in_row(number, row, want, found.schema, epoch) for number, row in enumerate(rows, 1)]
        nearest_place = min(range(len(told)), key=lambda place: len(told[place]), default=None)
        if nearest_place is not None and not told[nearest_place]:
            del rows[nearest_place]
            continue
        differences.append(f"no answer is {_shown_row(want)}")
        if nearest_place is not None and len(told[nearest_place]) < len(want):
            differences += [f"  the nearest: {one}" for one in told[nearest_place]]
    return _shortened(differences)


def same_value(found: Any, wanted: Any) -> bool:
    """Compare two values of one type: exactly, but for doubles."""
    if found is None or wanted is None:
        return found is None and wanted is None
    if isinstance(found, float):
        wanted = float(wanted)
        if math.isnan(found) or math.isnan(wanted):
            return math.isnan(found) and math.isnan(wanted)
        return found == wanted or math.isclose(found, wanted, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    if isinstance(found, Decimal):
        return found == Decimal(wanted)
    if isinstance(wanted, dict):
        return all(same_value(found.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(same_value, found, wanted))
    return bool(found == wanted)


def _unknown_columns(found: pa.Table, wanted: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name expected columns that no answer has."""
    unknown = dict.fromkeys(name for want in wanted for name in want if name not in found.column_names)
    existing = ", ".join(found.column_names)
    hints = {name: f" {hint}" if (hint := nearest(str(name), found.column_names)) else "" for name in unknown}
    return [f'the answers have no column "{name}"; existing columns: {existing}.{hints[name]}' for name in unknown]


def _in_row(
    number: int, row: Mapping[str, Any], want: Mapping[str, Any], schema: pa.Schema, epoch: datetime
) -> list[str]:
    """Compare the columns that an expected row names."""
    differences = []
    for name, raw in want.items():
        if name not in row:
            continue
        kind = schema.field(name).type
        if isinstance(row[name], str) and raw == row[name]:  # also a time that only its text can tell
            continue
        try:
            value = read_value(raw, kind, epoch)
            same = same_value(_plain(row[name], kind), value)
        except (ValueError, TypeError) as error:
            differences.append(
                f"row {number}: {name} is {kind}, but the expected value {raw!r} cannot be read as one: {error}"
            )
            continue
        if not same:
            differences.append(f"row {number}{_window(row)}: {name} is {_shown(row[name])}, expected {_shown(value)}")
    return differences


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Give a map's entries the form that expected ones are read into."""
    return [tuple(pair) for pair in value] if pt.is_map(kind) and value is not None else value


def _window(row: Mapping[str, Any]) -> str:
    """Say which window a row answers."""
    end = row.get("window_end")
    return "" if end is None else f" (window_end {_shown(end)})"


def _shown(value: Any) -> str:
    """Write a value as a person would in a test."""
    if isinstance(value, datetime):
        return (
            format_local(micros(value.replace(tzinfo=UTC))) if value.tzinfo is None else format_instant(micros(value))
        )
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return f"{{{_shown_row(value)}}}"
    return "NULL" if value is None else repr(value)


def _shown_row(row: Mapping[str, Any]) -> str:
    """Write a row as columns and values."""
    return ", ".join(f"{name} {_shown(value)}" for name, value in row.items())


def _shortened(differences: list[str]) -> list[str]:
    """Keep the first differences and count the rest."""
    more = len(differences) - MOST_DIFFERENCES
    return [*differences[:MOST_DIFFERENCES], f"… and {more} more"] if more > 0 else differences
