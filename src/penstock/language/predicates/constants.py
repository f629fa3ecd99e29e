"""Reads a constant from a syntax tree, with the exact value and the type that Spark gives it."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final, Literal

from sqlglot import exp

from penstock.language.binding.canonical import strip

Kind = Literal["integer", "decimal", "double", "string", "boolean", "date", "timestamp", "null"]
Value = int | Fraction | float | str | bool | None

_NUMBER: Final = re.compile(
    r"(?P<digits>[0-9.]+)(?P<exponent>[eE][+-]?[0-9]+)?(?P<suffix>L|S|Y|D|F|BD)?\Z", re.IGNORECASE
)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)
_TIMESTAMP: Final = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?\Z", re.ASCII)
_SPECIAL: Final = {"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf, "inf": math.inf, "-inf": -math.inf}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MOST_DIGITS: Final = 38  # of a decimal


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant: dates as days, timestamps as microseconds, decimals exact; -0.0 is 0.0, as comparisons take it."""

    kind: Kind
    value: Value


NULL: Final = Constant("null", None)


def constant_of(node: exp.Expr) -> Constant | None:
    """Read a constant whose value and type are beyond doubt; None for all else."""
    node = strip(node)
    match node:
        case exp.Null():
            return NULL
        case exp.Boolean():
            return Constant("boolean", bool(node.this))
        case exp.Literal():
            return Constant("string", node.name) if node.is_string else _number(node.name, 1)
        case exp.Neg() if isinstance(strip(node.this), exp.Literal) and not strip(node.this).is_string:
            return _number(strip(node.this).name, -1)
        case exp.TryCast():
            return None
        case exp.Cast() if isinstance(strip(node.this), exp.Literal):
            return _cast(node)
    return None


def day_of(text: str) -> int | None:
    """Read a date as the number of its day; None if it is not written plainly."""
    if not _DATE.match(text):
        return None
    try:
        return (date.fromisoformat(text) - _EPOCH.date()).days
    except ValueError:
        return None


def instant_of(text: str) -> int | None:
    """Read a timestamp in UTC as microseconds; None if it is not written plainly."""
    day = day_of(text)
    if day is not None:
        return day * 86_400_000_000
    if not _TIMESTAMP.match(text):
        return None
    try:
        return (datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
    except ValueError:
        return None


def _number(text: str, sign: int) -> Constant | None:
    """Read a number as Spark types it."""
    found = _NUMBER.match(text)
    if found is None:
        return None
    suffix, digits = (found["suffix"] or "").upper(), found["digits"]
    plain = digits + (found["exponent"] or "")
    if suffix in ("D", "F") or (found["exponent"] and suffix != "BD"):
        value = sign * float(plain)
        if suffix == "F":
            value = struct.unpack("f", struct.pack("f", value))[0] if abs(value) < 3.4e38 else math.nan
        return None if math.isinf(value) or math.isnan(value) else Constant("double", value + 0.0)
    if "." in digits or suffix == "BD":
        exact = Decimal(plain)
        shown = exact.as_tuple()
        fits = isinstance(shown.exponent, int) and max(len(shown.digits), -shown.exponent) <= MOST_DIGITS
        return Constant("decimal", sign * Fraction(exact)) if fits and shown.exponent <= 0 else None  # type: ignore[operator]
    return Constant("integer", sign * int(digits)) if len(digits) <= MOST_DIGITS else None


def _cast(node: exp.Cast) -> Constant | None:
    """Read DATE '…', TIMESTAMP '…' and doubles written as casts of text, such as NaN."""
    literal, to = strip(node.this), node.args["to"].name.lower()
    if not literal.is_string:
        return None
    if to == "date" and (day := day_of(literal.name)) is not None:
        return Constant("date", day)
    if to == "timestamp" and (instant := instant_of(literal.name)) is not None:
        return Constant("timestamp", instant)
    if to == "double" and (special := _SPECIAL.get(literal.name.lower())) is not None:
        return Constant("double", special)
    return None
