"""Writes the Spark SQL that aggregates rows to partials such as counts, sums and extremes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from penstock.evaluate.components.numbers import Component
from penstock.share.slices import Progression
from penstock.spark.job.lift_states import state_text

WIDE_DECIMAL: Final = 28  # digits above which Spark's own sum could overflow before the window's sum does
SPLIT_DIGITS: Final = 19  # digits kept in the low part of a wide decimal

_BARE = re.compile(r"`(?:[^`]|``)+`")


def is_bare(text: str) -> bool:
    """Tell a plain column, which cannot fail, from an expression, which may."""
    return _BARE.fullmatch(text) is not None


def last_of(progression: Progression, time: str) -> str:
    """Write the last time of a progression that is not after the row's."""
    since = f"{time} - {progression.phase}L" if progression.phase else time
    return f"{time} - pmod({since}, {progression.step}L)"


def partial_texts(component: Component, value: Callable[[str], str], time: str) -> list[str]:
    """Write the aggregates whose results :func:`penstock.evaluate.components.numbers.values_of` reads.

    ``value`` writes where an expression of the row is read, ``time`` is its time in microseconds.
    """
    if component.is_state:
        return [state_text(component, value, time)]
    assert component.argument is not None
    argument = value(component.argument)
    match component.kind:
        case "some":
            return []  # read from the sum
        case "count":
            return [f"count({argument})"]
        case "exact":
            assert component.type is not None
            return _exact_texts(component.type, argument)
        case "float":
            return [f"sum(cast({argument} as double))"]
        case "min":
            return [f"min({argument})"]
        case "max":
            return [f"max({argument})"]
        case "moments":
            x = f"cast({argument} as double)"
            return [f"count({x})", f"avg({x})", f"var_pop({x}) * count({x})"]
    raise AssertionError(f"{component} has no partial")


def _exact_texts(kind: pa.DataType, argument: str) -> list[str]:
    """Sum in parts that no slice can overflow, so that only the window's true sum decides (see design: sums)."""
    if pa.types.is_int64(kind):
        return [f"sum({argument} & 4294967295L)", f"sum(shiftright({argument}, 32))"]
    if pa.types.is_decimal(kind) and kind.precision > WIDE_DECIMAL:
        return _wide_decimal_texts(kind, argument)
    return [f"sum({argument})"]


def _wide_decimal_texts(kind: pa.DataType, argument: str) -> list[str]:
    """Split x = low + high · 10^(19 − scale), both of few enough digits to be summed without overflow."""
    power = SPLIT_DIGITS - kind.scale
    digits = "1" + "0" * power if power >= 0 else "0." + "0" * (-power - 1) + "1"
    unit = f"cast({digits}BD as decimal(38, {max(0, -power)}))"
    low = f"({argument} % {unit})"
    high = f"cast(({argument} - {low}) / {unit} as decimal(28, 0))"
    return [f"sum(cast({low} as decimal(38, {kind.scale})))", f"sum({high})"]
