"""Cuts each attribute's values at the constants of all tests, and tabulates where every test is true.

A row stands at one position on an axis: 0 where the attribute is NULL, 1 where computing it failed, then in turn the
gap before a constant and the constant itself. Constants are exact in the attribute's own order (Spark's: NaN is the
greatest, -0.0 is 0.0, strings by their bytes); what is not certain to be exact is left opaque.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from penstock.language.predicates.attributes import Attribute
from penstock.language.predicates.constants import Constant, day_of, instant_of
from penstock.language.predicates.split import (
    FAILED,
    FALSE,
    TRUE,
    UNKNOWN,
    Comparison,
    IsTrue,
    Leaf,
    Missing,
    OneOf,
    Operator,
    Prefix,
)

Outcomes = npt.NDArray[np.int8]
AxisKind = Literal["long", "double", "string", "decimal", "boolean"]

NULL_AT, FAILED_AT, FIRST_AT = 0, 1, 2  # positions on an axis
FALSE_AT, TRUE_AT = 2, 3  # on a boolean's
FEW_IN: Final = 10  # beyond so many constants Spark looks doubles of IN up by their bits, where -0.0 is not 0.0
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)\Z")
_INTEGRAL: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}  # digits
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class AxisKey:
    """Names an axis: an attribute, and the order its constants are compared in."""

    attribute: Attribute
    kind: AxisKind


@dataclass(frozen=True, slots=True)
class AxisSpan:
    """Where on an axis a test is true: from and to a constant, each with it or without; None: no bound."""

    low: Any = None
    high: Any = None
    with_low: bool = True
    with_high: bool = True


@dataclass(frozen=True, slots=True)
class PlacedTest:
    """A test on its axis: where it is true, and where it is unknown besides at NULL."""

    axis: AxisKey
    spans: tuple[AxisSpan, ...]
    elsewhere: int = FALSE  # what it comes to outside of all spans
    at_null: int = UNKNOWN
    at_failure: int = FAILED


class Axis:
    """One attribute's line, cut by the constants of all tests on it."""

    def __init__(self, key: AxisKey, constants: Sequence[Any]) -> None:
        """Sort the constants, each once."""
        self.key = key
        distinct = {_hashed(constant): constant for constant in constants}
        self.constants = sorted(distinct.values(), key=_order) if key.kind != "boolean" else []
        self._place = {_hashed(constant): i for i, constant in enumerate(self.constants)}

    @cached_property
    def size(self) -> int:
        """Return the number of positions."""
        return 4 if self.key.kind == "boolean" else FIRST_AT + 2 * len(self.constants) + 1

    def outcomes(self, test: PlacedTest) -> Outcomes:
        """Tell what a test comes to at every position."""
        found = np.full(self.size, test.elsewhere, np.int8)
        for span in test.spans:
            found[self._first(span) : self._last(span) + 1] = TRUE
        found[NULL_AT], found[FAILED_AT] = test.at_null, test.at_failure
        return found

    def _first(self, span: AxisSpan) -> int:
        """Return the first position of a span."""
        if self.key.kind == "boolean":
            return TRUE_AT if span.low else FALSE_AT
        if span.low is None:
            return FIRST_AT
        return self._on(span.low) + (not span.with_low)

    def _last(self, span: AxisSpan) -> int:
        """Return the last position of a span."""
        if self.key.kind == "boolean":
            return TRUE_AT if span.high else FALSE_AT
        if span.high is None:
            return self.size - 1
        return self._on(span.high) - (not span.with_high)

    def _on(self, constant: Any) -> int:
        """Return the position of a constant."""
        return FIRST_AT + 2 * self._place[_hashed(constant)] + 1


def place(leaf: Leaf, attributes: Mapping[str, Attribute]) -> PlacedTest:
    """Put a test on an axis: its attribute's if that is exact, otherwise that of the whole expression."""
    attribute = attributes.get(leaf.attribute)
    found = None if attribute is None else _placed(leaf, attribute)
    return found or _opaque(attributes.get(leaf.text) or Attribute(leaf.text, "boolean", may_fail=True))


def constants_of(test: PlacedTest) -> list[Any]:
    """List the constants that a test cuts its axis at."""
    return [bound for span in test.spans for bound in (span.low, span.high) if bound is not None]


def _opaque(attribute: Attribute) -> PlacedTest:
    """Test a boolean for being true."""
    return PlacedTest(AxisKey(attribute, "boolean"), (AxisSpan(True, True),))


def _placed(leaf: Leaf, attribute: Attribute) -> PlacedTest | None:
    """Put a test on its attribute's axis, if its constants are certain to be compared exactly."""
    match leaf.test:
        case IsTrue():
            return _opaque(attribute) if attribute.type == "boolean" else None
        case Missing():
            kind = _natural_kind(attribute.type)
            return None if kind is None else PlacedTest(AxisKey(attribute, kind), (), FALSE, TRUE)
        case Prefix(text=text):
            return _prefix(attribute, text.encode()) if attribute.type == "string" else None
        case Comparison(operator=operator, constant=constant):
            return _compared(attribute, operator, constant)
        case OneOf(constants=constants):
            return _one_of(attribute, constants)
    return None


def _natural_kind(type_: str) -> AxisKind | None:
    """Choose the axis of a type by itself."""
    if type_ in _INTEGRAL or type_ in ("date", "timestamp", "timestamp_ntz"):
        return "long"
    if type_ in ("double", "float"):
        return "double"
    if type_ in ("string", "boolean"):
        return type_  # type: ignore[return-value]
    return "decimal" if _DECIMAL.match(type_) else None


def _prefix(attribute: Attribute, prefix: bytes) -> PlacedTest:
    """Test a string for its beginning: a stretch in the order of bytes."""
    after = prefix.rstrip(b"\xff")
    high = after[:-1] + bytes([after[-1] + 1]) if after else None
    return PlacedTest(AxisKey(attribute, "string"), (AxisSpan(prefix, high, with_high=False),))


def _compared(attribute: Attribute, operator: Operator, constant: Constant) -> PlacedTest | None:
    """Compare an attribute with one constant."""
    if constant.kind == "null":
        kind = _natural_kind(attribute.type)
        return None if kind is None else PlacedTest(AxisKey(attribute, kind), (), UNKNOWN)
    if attribute.type == "boolean":
        if constant.kind != "boolean" or operator != "=":
            return None
        return PlacedTest(AxisKey(attribute, "boolean"), (AxisSpan(constant.value, constant.value),))
    kind = _kind_for(attribute.type, [constant])
    value = None if kind is None else _value(attribute.type, kind, constant)
    if kind is None or value is None:
        return None
    spans = _spans(kind, operator, value)
    if kind == "long" and operator != "=" and not _LEAST <= value <= _MOST:
        # Spark decides such a comparison without looking at the row: not even NULL is unknown.
        decided = TRUE if spans else FALSE
        return PlacedTest(AxisKey(attribute, kind), spans, decided, decided, decided)
    return PlacedTest(AxisKey(attribute, kind), spans)


def _one_of(attribute: Attribute, constants: Sequence[Constant]) -> PlacedTest | None:
    """Look an attribute up among constants; a NULL among them makes a miss unknown."""
    named = [constant for constant in constants if constant.kind != "null"]
    missed = FALSE if len(named) == len(constants) else UNKNOWN
    if attribute.type == "boolean":
        if any(constant.kind != "boolean" for constant in named):
            return None
        spans = tuple(AxisSpan(c.value, c.value) for c in named)
        return PlacedTest(AxisKey(attribute, "boolean"), spans, missed)
    kind = _kind_for(attribute.type, named) or (_natural_kind(attribute.type) if not named else None)
    if kind is None:
        return None
    values = [_value(attribute.type, kind, constant) for constant in named]
    if any(value is None for value in values):
        return None
    if kind == "double" and len(constants) > FEW_IN and 0.0 in values:
        return None
    spans = tuple(span for value in values for span in _spans(kind, "=", value))
    return PlacedTest(AxisKey(attribute, kind), spans, missed)


def _kind_for(type_: str, constants: Sequence[Constant]) -> AxisKind | None:
    """Choose the order in which Spark compares a type with constants; None if that is not certain."""
    kinds = {constant.kind for constant in constants}
    numbers = {"integer", "decimal", "double"}
    if type_ == "string":
        return "string" if kinds == {"string"} else None
    if type_ == "date":
        return "long" if kinds in ({"date"}, {"string"}) else None
    if type_ in ("timestamp", "timestamp_ntz"):
        return "long" if len(kinds) == 1 and kinds <= {"timestamp", "date", "string"} else None
    if not kinds or not kinds <= numbers:
        return None
    if type_ in ("double", "float"):
        return "double" if type_ == "double" or kinds != {"integer"} else _float_and_integers(constants)
    if type_ in _INTEGRAL or _DECIMAL.match(type_):
        if "double" in kinds:
            return "double"  # Spark casts the attribute
        return _exact_kind(type_, constants)
    return None


def _float_and_integers(constants: Sequence[Constant]) -> AxisKind | None:
    """Accept integers that a float holds exactly, whichever type they are compared in."""
    return "double" if all(abs(_number(c)) <= 1 << 24 for c in constants) else None


def _exact_kind(type_: str, constants: Sequence[Constant]) -> AxisKind | None:
    """Accept exact numbers whose common decimal type holds both sides without loss."""
    found = _DECIMAL.match(type_)
    scale = int(found[2]) if found else 0
    whole = int(found[1]) - scale if found else _INTEGRAL[type_]
    for constant in constants:
        value = _number(constant)
        places = _places(value)
        if max(whole, len(str(abs(int(value))))) + max(scale, places) > 38:
            return None
    return "decimal" if found else "long"


def _places(value: Fraction) -> int:
    """Count the decimal places of an exact number."""
    places = 0
    while value.denominator != 1:
        value, places = value * 10, places + 1
    return places


def _number(constant: Constant) -> Fraction:
    """Return an exact number's value."""
    assert isinstance(constant.value, int | Fraction)
    return Fraction(constant.value)


def _value(type_: str, kind: AxisKind, constant: Constant) -> Any:
    """Return a constant in the axis's own order; None if it is not certain."""
    value = constant.value
    if kind == "string":
        return str(value).encode()
    if kind == "double":
        return float(value) + 0.0 if isinstance(value, int | float | Fraction) else None
    if type_ == "date":
        return day_of(str(value)) if constant.kind == "string" else value
    if type_ in ("timestamp", "timestamp_ntz"):
        if constant.kind == "string":
            return instant_of(str(value))
        return value * 86_400_000_000 if constant.kind == "date" else value  # type: ignore[operator]
    return _number(constant)


def _spans(kind: AxisKind, operator: Operator, value: Any) -> tuple[AxisSpan, ...]:
    """Return where a comparison is true; whole numbers are compared with a fraction as with its floor."""
    if kind == "long":
        return _whole_spans(operator, Fraction(value))
    return _simple(operator, value)


def _whole_spans(operator: Operator, value: Fraction) -> tuple[AxisSpan, ...]:
    """Return where a comparison of 64-bit whole numbers with any exact number is true."""
    floor = math.floor(value)
    if floor != value:
        if operator == "=":
            return ()
        operator = ">" if operator in (">", ">=") else "<="
    if _LEAST <= floor <= _MOST:
        return _simple(operator, floor)
    above = floor > _MOST
    true = operator in ("<", "<=") if above else operator in (">", ">=")
    return (AxisSpan(),) if true else ()


def _simple(operator: Operator, value: Any) -> tuple[AxisSpan, ...]:
    """Return where a comparison with a value of the axis is true."""
    match operator:
        case "=":
            return (AxisSpan(value, value),)
        case "<":
            return (AxisSpan(None, value, with_high=False),)
        case "<=":
            return (AxisSpan(None, value),)
        case ">":
            return (AxisSpan(value, None, with_low=False),)
        case ">=":
            return (AxisSpan(value, None),)


def _order(value: Any) -> tuple[bool, Any]:
    """Order constants as Spark does: NaN is the greatest."""
    return (True, 0.0) if isinstance(value, float) and math.isnan(value) else (False, value)


def _hashed(value: Any) -> Any:
    """Make a constant a dictionary key: NaN is one value."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value
