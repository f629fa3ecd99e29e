"""The slow twin of the kernel: plain rows in, answers recomputed from scratch with Python numbers out."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa

from penstock.evaluate.components.numbers import Component, ExactSum
from penstock.model.query import Aggregate
from penstock.model.window import Window

FAILED = object()  # the answer of a sum that its type cannot hold


@dataclass(frozen=True, slots=True)
class Row:
    """One tuple: a time, a group and two arguments."""

    ts: int
    group: int
    x: Any
    y: Any

    def get(self, argument: str) -> Any:
        return self.x if argument == "`x`" else self.y


@dataclass(frozen=True, slots=True)
class Field:
    """An argument type and how its values are drawn."""

    type: pa.DataType
    draw: Callable[[Random], Any]

    @property
    def is_number(self) -> bool:
        t = pa.types
        return any(f(self.type) for f in (t.is_integer, t.is_floating, t.is_decimal))


def _edgy_int(bits: int) -> Callable[[Random], int]:
    top = 2 ** (bits - 1)
    return lambda r: r.choice([r.randint(-50, 50), r.randint(-top, top - 1), -top, top - 1, 0])


def _edgy_decimal(precision: int, scale: int) -> Callable[[Random], Decimal]:
    top = 10**precision - 1
    wide = Context(prec=60)

    def draw(r: Random) -> Decimal:
        digits = r.choice([r.randint(-999, 999), r.randint(-top, top), r.randint(-top, top) // 7, top, -top, 0])
        return Decimal(digits).scaleb(-scale, wide)

    return draw


def _edgy_float(r: Random) -> float:
    # Quarters and powers of two are whole in float32 too.
    special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 2.0**40, -(2.0**100)]
    return r.choice(special) if r.random() < 0.08 else r.randint(-4000, 4000) / 4


def _instant(r: Random) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=r.randint(-(10**15), 10**15))


FIELDS = (
    Field(pa.int8(), _edgy_int(8)),
    Field(pa.int16(), _edgy_int(16)),
    Field(pa.int32(), _edgy_int(32)),
    Field(pa.int64(), _edgy_int(64)),
    Field(pa.int64(), lambda r: r.randint(-100, 100)),
    Field(pa.decimal128(7, 2), _edgy_decimal(7, 2)),
    Field(pa.decimal128(18, 0), _edgy_decimal(18, 0)),
    Field(pa.decimal128(28, 6), _edgy_decimal(28, 6)),
    Field(pa.decimal128(29, 3), _edgy_decimal(29, 3)),
    Field(pa.decimal128(38, 0), _edgy_decimal(38, 0)),
    Field(pa.decimal128(38, 18), _edgy_decimal(36, 18)),
    Field(pa.decimal128(38, 38), _edgy_decimal(38, 38)),
    Field(pa.float32(), _edgy_float),
    Field(pa.float64(), _edgy_float),
    Field(pa.float64(), lambda r: r.uniform(-1, 1) * 10 ** r.randint(-9, 9)),
    Field(pa.string(), lambda r: r.choice(["", "a", "Z", "ä", "zz", "\U0001f600", "\uffff", "ab"])),
    Field(pa.binary(), lambda r: r.randbytes(r.randint(0, 3))),
    Field(pa.bool_(), lambda r: r.random() < 0.5),
    Field(pa.date32(), lambda r: dt.date(1970, 1, 1) + dt.timedelta(days=r.randint(-9999, 9999))),
    Field(pa.timestamp("us", tz="UTC"), _instant),
)


def partial_columns(component: Component, rows: list[list[Row]]) -> list[pa.Array]:
    """Aggregate each list of rows into a component's partial columns as Spark ships them."""
    partials = [partial(component.source, part) for part in rows]
    columns = [[p[i] for p in partials] for i in range(len(component.columns))]
    return [pa.array(values, _shipped_type(component.source, i)) for i, values in enumerate(columns)]


def partial(component: Component, rows: list[Row]) -> tuple[Any, ...]:
    """Aggregate rows into one partial, column by column."""
    if component.kind == "count":
        arguments = re.findall(r"`\w+`", component.argument or "")
        return (sum(all(row.get(a) is not None for a in arguments) for row in rows),)
    values = [v for row in rows if (v := row.get(component.argument or "")) is not None]
    if component.kind == "moments":
        return _moments([float(v) for v in values])
    if component.kind == "moments4":
        return _four_moments([float(v) for v in values])
    if not values:
        return (None,) * len(component.columns)
    if component.kind == "float":
        return (float_sum(values),)
    if component.kind in ("min", "max"):
        return (extreme(component.kind, values),)
    assert isinstance(component, ExactSum)
    return _exact(component, values)


def _exact(component: ExactSum, values: list[Any]) -> tuple[Any, ...]:
    if component.limbs == 1:
        return (sum(values),)
    if component.limbs == 2:
        return (sum(v & 0xFFFFFFFF for v in values), sum(v >> 32 for v in values))
    scale, wide = component.decimal.scale, Context(prec=60)
    whole = [int(v.scaleb(scale, wide)) for v in values]
    if len(component.columns) == 1:
        return (Decimal(sum(whole)).scaleb(-scale, wide),)
    high = [int(math.copysign(1, v)) * (abs(v) // 10**19) for v in whole]
    low = sum(v - h * 10**19 for v, h in zip(whole, high, strict=True))
    return (Decimal(low).scaleb(-scale, wide), Decimal(sum(high)))


def _shipped_type(component: Component, column: int) -> pa.DataType:
    if component.kind == "count" or (component.kind in ("moments", "moments4") and column == 0):
        return pa.int64()
    if component.kind in ("float", "moments", "moments4"):
        return pa.float64()
    if component.kind in ("min", "max"):
        return component.type
    assert isinstance(component, ExactSum)
    if component.limbs < 4:
        return pa.int64()
    return pa.decimal128(38, component.decimal.scale if column == 0 else 0)


def _moments(values: list[float]) -> tuple[int, float | None, float | None]:
    if not values:
        return (0, None, None)
    if not all(map(math.isfinite, values)):
        return (len(values), float_sum(values) / len(values), math.nan)
    mean = math.fsum(values) / len(values)
    return (len(values), mean, math.fsum((v - mean) ** 2 for v in values))


def _four_moments(values: list[float]) -> tuple[Any, ...]:
    if not values:
        return (0, None, None, None, None)
    if not all(map(math.isfinite, values)):
        return (len(values), float_sum(values) / len(values), math.nan, math.nan, math.nan)
    powers = central_powers(values)
    return (len(values), float(sum(map(Fraction, values)) / len(values)), *map(float, powers))


def central_powers(values: list[float]) -> tuple[Fraction, Fraction, Fraction]:
    """Return the exact sums of the second, third and fourth powers of the distances from the mean."""
    exact = [Fraction(v) for v in values]
    mean = sum(exact) / len(exact)
    squares = [(v - mean) * (v - mean) for v in exact]
    m3 = sum((square * (v - mean) for square, v in zip(squares, exact, strict=True)), Fraction(0))
    m2, m4 = sum(squares, Fraction(0)), sum((square * square for square in squares), Fraction(0))
    return Fraction(m2), Fraction(m3), Fraction(m4)


def window_rows(rows: Iterable[Row], window: Window, end: int) -> list[Row]:
    """Return the rows of the evaluation that ends at a time."""
    return [row for row in rows if end - window.length <= row.ts < end]


def answer(aggregate: Aggregate, type_: pa.DataType | None, rows: list[Row]) -> Any:
    """Recompute one aggregate from plain rows, as Spark means it; a string means a NaN, FAILED an overflow."""
    if aggregate.function == "count":
        return sum(all(row.get(a) is not None for a in aggregate.arguments) for row in rows)
    values = [v for row in rows if (v := row.get(aggregate.arguments[0])) is not None]
    if not values:
        return None
    if aggregate.function in ("min", "max"):
        return extreme(aggregate.function, values)
    if aggregate.function in ("sum", "avg"):
        return _sum_or_avg(aggregate.function, type_, values)
    if aggregate.function in ("skewness", "kurtosis"):
        return shape(aggregate.function, [float(v) for v in values])
    return _spread(aggregate.function, [float(v) for v in values])


def _sum_or_avg(function: str, type_: Any, values: list[Any]) -> Any:
    if pa.types.is_floating(type_):
        return float_sum(values) / (len(values) if function == "avg" else 1)
    if pa.types.is_integer(type_):
        total = sum(values)
        if function == "avg":
            return total / len(values)
        return total if -(2**63) <= total < 2**63 else FAILED
    wide = Context(prec=80, rounding=ROUND_HALF_UP)
    total = sum(int(v.scaleb(type_.scale, wide)) for v in values)
    if abs(total) >= 10 ** min(38, type_.precision + 10):
        return FAILED
    exact = Decimal(total).scaleb(-type_.scale, wide)
    if function == "sum":
        return exact
    precision, scale = min(38, type_.precision + 4), min(38, type_.scale + 4)
    size = (2 * abs(total) * 10 ** (scale - type_.scale) + len(values)) // (2 * len(values))
    fitted = Decimal(-size if total < 0 else size).scaleb(-scale, wide)
    return fitted if size < 10**precision else FAILED


def _spread(function: str, values: list[float]) -> float | None:
    degrees = len(values) - (1 if function.endswith("_samp") else 0)
    if degrees <= 0:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(v) for v in values]
    mean = sum(exact) / len(exact)
    variance = float(sum((v - mean) ** 2 for v in exact) / degrees)
    return math.sqrt(variance) if function.startswith("stddev") else variance


def shape(function: str, values: list[float]) -> float | None:
    """Recompute skewness or kurtosis exactly; NULL of values that are all equal."""
    if not all(map(math.isfinite, values)):
        return math.nan
    m2, m3, m4 = central_powers(values)
    if not m2:
        return None
    if function == "kurtosis":
        return float(len(values) * m4 / m2**2) - 3.0
    square = float(len(values) * m3**2 / m2**3)
    return math.copysign(math.sqrt(square), m3)


def extreme(function: str, values: list[Any]) -> Any:
    """Return the least or greatest value as Spark orders them: NaN greatest."""
    numbers = [v for v in values if v == v]
    if function == "max":
        return max(values) if len(numbers) == len(values) else math.nan
    return min(numbers) if numbers else math.nan


def float_sum(values: list[float]) -> float:
    """Add doubles up, as exactly as doubles can be."""
    if all(map(math.isfinite, values)):
        return math.fsum(values)
    return sum(v for v in values if not math.isfinite(v))


def tolerance(aggregate: Aggregate, rows: list[Row]) -> float:
    """Return how far a double may be from the exact answer."""
    values = [float(v) for row in rows if (v := row.get(aggregate.arguments[0])) is not None]
    finite = [abs(v) for v in values if math.isfinite(v)]
    if aggregate.function in ("sum", "avg"):
        return 1e-9 * math.fsum(finite)
    if aggregate.function in ("skewness", "kurtosis"):
        return 1e-9 * len(values)  # they are at most √n and n
    largest = max(finite, default=0.0)
    # The square root of a rounding error of 1e-16 · x² is 1e-8 · x.
    return 1e-7 * largest if aggregate.function.startswith("stddev") else 1e-9 * largest**2
