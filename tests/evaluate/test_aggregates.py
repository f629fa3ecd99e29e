"""Aggregates bind to components and Spark's types, and lower to answers of exactly those types."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import Unsupported, WrongType
from penstock.evaluate.components.numbers import ROWS
from penstock.evaluate.functions.binding import Lowered, bind_aggregate
from penstock.model.query import Aggregate
from tests.evaluate.naive import Row, partial_columns

BIG, SMALL = 2**63 - 1, -(2**63)


def lowered(function: str, type_: pa.DataType, *groups: list[Any]) -> Lowered:
    """Aggregate some groups of values of one type."""
    bound = bind_aggregate(Aggregate(function, ("`x`",)), (type_,))
    rows = [[Row(0, 0, value, None) for value in group] for group in groups]
    result = bound.lower({c: c.read(partial_columns(c, rows)) for c in bound.components})
    assert result.array.type == bound.type
    return result


@pytest.mark.parametrize(
    ("function", "type_", "result"),
    [
        ("sum", pa.int8(), pa.int64()),
        ("sum", pa.int64(), pa.int64()),
        ("sum", pa.float32(), pa.float64()),
        ("sum", pa.decimal128(10, 2), pa.decimal128(20, 2)),
        ("sum", pa.decimal128(35, 2), pa.decimal128(38, 2)),
        ("avg", pa.int32(), pa.float64()),
        ("avg", pa.decimal128(10, 2), pa.decimal128(14, 6)),
        ("avg", pa.decimal128(38, 36), pa.decimal128(38, 38)),
        ("min", pa.float32(), pa.float32()),
        ("max", pa.timestamp("us", tz="UTC"), pa.timestamp("us", tz="UTC")),
        ("stddev", pa.int16(), pa.float64()),
        ("var_pop", pa.decimal128(5, 1), pa.float64()),
    ],
)
def test_result_types_are_sparks(function: str, type_: pa.DataType, result: pa.DataType) -> None:
    assert bind_aggregate(Aggregate(function, ("`x`",)), (type_,)).type == result


def test_count_shares_rows_and_names_its_arguments() -> None:
    assert bind_aggregate(Aggregate("count", ()), ()).components == (ROWS,)
    both = bind_aggregate(Aggregate("count", ("`a`", "`b`")), (pa.int32(), pa.string()))
    assert [c.argument for c in both.components] == ["CASE WHEN (`a`) IS NOT NULL AND (`b`) IS NOT NULL THEN 1 END"]


def test_what_an_average_stores_answers_a_sum_of_the_same_argument_too() -> None:
    one, other = (bind_aggregate(Aggregate(f, ("`x`",)), (pa.int64(),)) for f in ("sum", "avg"))
    assert set(one.components) < set(other.components)


@pytest.mark.parametrize(
    ("function", "type_"),
    [
        ("sum", pa.string()),
        ("avg", pa.bool_()),
        ("var_samp", pa.date32()),
        ("min", pa.list_(pa.int32())),
        ("sum", pa.timestamp("us", tz="UTC")),
    ],
)
def test_a_type_that_does_not_fit_is_named_with_the_function(function: str, type_: pa.DataType) -> None:
    with pytest.raises(WrongType, match=function):
        bind_aggregate(Aggregate(function, ("`x`",)), (type_,))


def test_an_unknown_aggregate_and_a_wrong_number_of_arguments_are_refused() -> None:
    with pytest.raises(Unsupported, match="product"):
        bind_aggregate(Aggregate("product", ("`x`",)), (pa.int32(),))
    with pytest.raises(WrongType, match="one argument"):
        bind_aggregate(Aggregate("sum", ("`x`", "`y`")), (pa.int32(), pa.int32()))


def test_a_sum_fails_only_if_the_true_sum_does_not_fit() -> None:
    # BIG + 1 - 1 overflows on the way, not in the end.
    result = lowered("sum", pa.int64(), [BIG, 1, -1], [BIG, 1], [SMALL, -1, 1], [SMALL, -1], [None], [SMALL, BIG])
    assert result.array.to_pylist() == [BIG, None, SMALL, None, None, -1]
    assert result.failed is not None
    assert result.failed.tolist() == [False, True, False, True, False, False]


def test_a_decimal_sum_fails_beyond_38_digits() -> None:
    top = Decimal(10**38 - 1)
    result = lowered("sum", pa.decimal128(38, 0), [top], [top, Decimal(1)], [top, Decimal(1), Decimal(-1)], [])
    assert result.array.to_pylist() == [top, None, top, None]
    assert result.failed is not None
    assert result.failed.tolist() == [False, True, False, False]
    assert lowered("sum", pa.decimal128(38, 0), [top]).failed is None


def test_a_decimal_average_rounds_half_up_away_from_zero() -> None:
    cents = pa.decimal128(5, 2)
    # 0.01 / 3 = 0.003333…; 0.05 / 32 = 0.0015625 exactly, a half at the seventh digit.
    result = lowered("avg", cents, [Decimal("0.01"), Decimal(0), Decimal(0)], [Decimal("0.05"), *[Decimal(0)] * 31])
    assert result.array.to_pylist() == [Decimal("0.003333"), Decimal("0.001563")]
    minus = lowered("avg", cents, [Decimal("-0.05"), *[Decimal(0)] * 31], [None])
    assert minus.array.to_pylist() == [Decimal("-0.001563"), None]


def test_a_long_decimal_average_takes_the_exact_way() -> None:
    wide = pa.decimal128(38, 2)
    top = Decimal(10**33) + Decimal("0.01")
    result = lowered("avg", pa.decimal128(36, 2), [Decimal("1" * 20), Decimal(0), Decimal(0)], [None, None])
    assert result.array.to_pylist() == [Decimal("3703703703703703703.666667"), None]
    failed = lowered("avg", wide, [top]).failed  # decimal(38,6) leaves 32 digits before the point
    assert failed is not None
    assert failed.tolist() == [True]


def test_an_average_of_38_decimal_places_is_rounded_once() -> None:
    # 41 times the last place over 91 is 0.45054…; rounding to 39 places first would make that a half.
    place, nothing = Decimal((0, (1,), -38)), Decimal((0, (0,), -38))
    result = lowered("avg", pa.decimal128(38, 38), [place] * 41 + [nothing] * 50, [place] * 46 + [nothing] * 45)
    assert result.array.to_pylist() == [nothing, place]


def test_nulls_alone_sum_to_null_and_count_to_zero() -> None:
    for function in ("sum", "avg", "min", "max", "var_samp", "stddev_pop"):
        assert lowered(function, pa.float64(), [None], []).array.to_pylist() == [None, None]
    assert lowered("count", pa.float64(), [None], []).array.to_pylist() == [0, 0]


def test_one_value_has_no_sample_variance() -> None:
    assert lowered("var_samp", pa.int32(), [5], [5, 7]).array.to_pylist() == [None, 2.0]
    assert lowered("var_pop", pa.int32(), [5], [5, 7]).array.to_pylist() == [0.0, 1.0]
    assert lowered("stddev", pa.int32(), [5], [5, 7]).array.to_pylist() == [None, pytest.approx(math.sqrt(2))]


def test_least_and_greatest_keep_their_type() -> None:
    day, instant = dt.date(1969, 12, 31), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)
    assert lowered("min", pa.date32(), [day, None], []).array.to_pylist() == [day, None]
    assert lowered("max", pa.timestamp("us", tz="UTC"), [instant]).array.to_pylist() == [instant]
    assert lowered("max", pa.bool_(), [False, None, True], [None]).array.to_pylist() == [True, None]
    assert lowered("min", pa.int8(), [-128, 127]).array.to_pylist() == [-128]
    assert lowered("min", pa.binary(), [b"b", b"a"]).array.to_pylist() == [b"a"]
    assert lowered("max", pa.string(), ["a", None, "b"]).array.to_pylist() == ["b"]
    assert math.isnan(lowered("max", pa.float32(), [1.0, math.nan]).array.to_pylist()[0])


def test_integer_averages_are_rounded_once() -> None:
    assert lowered("avg", pa.int64(), [BIG, BIG, BIG]).array.to_pylist() == [float(BIG)]
    assert lowered("avg", pa.int32(), [1, 2, None]).array.to_pylist() == [1.5]
