"""Partial columns become mergeable values, and merging them is what merging the rows would have been."""

from __future__ import annotations

import math
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.evaluate.components.extremes import Greatest, Least
from penstock.evaluate.components.limbs import (
    add_carries,
    decimals_of,
    float64_of,
    int64_of,
    limbs_of_decimal,
    times_ten_to_19,
)
from penstock.evaluate.components.moments import Moments
from penstock.evaluate.components.numbers import ROWS, Component, ExactSum, FloatSum, Values


def combine(component: Component, a: Values, b: Values) -> Values:
    """Combine two columns of values element by element."""
    return component.values_from(component.combine(component.planes_of(a), component.planes_of(b)))


def number(limbs: Any) -> int:
    return sum(int(limb) << (32 * i) for i, limb in enumerate(limbs))


def test_count_and_short_sums_read_null_as_nothing() -> None:
    assert ROWS.read([pa.array([3, None, 0], pa.int64())]).tolist() == [3, 0, 0]  # type: ignore[union-attr]
    total = ExactSum("`v`", pa.int32()).read([pa.chunked_array([[3, None], [-4]], pa.int64())])
    assert total.tolist() == [[3], [0], [-4]]  # type: ignore[union-attr]


def test_a_bigint_sum_beyond_64_bits_is_kept_whole() -> None:
    values = [2**63 - 1] * 5 + [-(2**63)]
    low, high = sum(v & 0xFFFFFFFF for v in values), sum(v >> 32 for v in values)
    limbs = ExactSum("`v`", pa.int64()).read([pa.array([low]), pa.array([high])])
    assert number(limbs[0]) == sum(values)
    assert int64_of(np.asarray(limbs))[1].tolist() == [True]


def test_decimals_are_split_from_their_bits_also_in_a_slice_of_an_array() -> None:
    numbers = [0, 1, -1, 10**38 - 1, -(10**38) + 1, 2**64, -(2**64), None]
    array = pa.array([n if n is None else Decimal(n) for n in [7, *numbers]], pa.decimal128(38, 0))[1:]
    assert [number(limbs) for limbs in limbs_of_decimal(array, 0)] == [n or 0 for n in numbers]
    assert limbs_of_decimal(array[:0], 0).shape == (0, 4)


@pytest.mark.parametrize("seed", range(20))
def test_long_decimals_come_in_two_columns(seed: int) -> None:
    r = Random(seed)
    scale = r.choice([0, 5, 19, 30, 38])
    low, high = r.randint(-(10**29), 10**29), r.choice([r.randint(-(10**28), 10**28), -1, 0, None])
    component = ExactSum("`d`", pa.decimal128(38, scale))
    context_free = Decimal((int(low < 0), tuple(map(int, str(abs(low)))), -scale))
    columns = [
        pa.array([context_free], pa.decimal128(38, scale)),
        pa.array([high if high is None else Decimal(high)], pa.decimal128(38, 0)),
    ]
    limbs = component.read(columns)
    assert number(limbs[0]) == low + (high or 0) * 10**19
    assert all(0 <= limb < 2**32 for limb in limbs[0][:3])


def test_multiplying_by_ten_to_19_keeps_every_bit() -> None:
    numbers = [0, 1, -1, 2**31 * 10**19, -(2**31) * 10**19, 2**64 - 1, 123456789012345678901234567]
    array = pa.array([Decimal(n) for n in numbers], pa.decimal128(38, 0))
    assert [number(limbs) for limbs in times_ten_to_19(limbs_of_decimal(array, 0))] == [n * 10**19 for n in numbers]


@pytest.mark.parametrize("seed", range(20))
def test_limbs_go_back_to_int64_double_and_decimal(seed: int) -> None:
    r = Random(seed)
    limbs = np.array([[r.randint(-(2**40), 2**40) for _ in range(4)] for _ in range(50)], np.int64)
    limbs[::3, 2:] = 0
    limbs[1::3, 1:] = 0
    exact = [number(row) for row in limbs]
    assert [number(row) for row in add_carries(limbs)] == exact
    short, too_long = int64_of(limbs)
    assert too_long.tolist() == [not -(2**63) <= n < 2**63 for n in exact]
    assert [int(s) for s, bad in zip(short, too_long, strict=True) if not bad] == [
        n for n, bad in zip(exact, too_long, strict=True) if not bad
    ]
    assert float64_of(limbs).tolist() == pytest.approx([float(n) for n in exact], rel=1e-15)
    array, overflow = decimals_of(limbs, pa.decimal128(30, 0), np.zeros(50, bool))
    assert overflow.tolist() == [abs(n) >= 10**30 for n in exact]
    assert array.to_pylist() == [None if abs(n) >= 10**30 else Decimal(n) for n in exact]


def test_the_limits_of_a_decimal_are_drawn_exactly() -> None:
    numbers = [10**38 - 1, 10**38, -(10**38) + 1, -(10**38)]
    limbs = np.array([[n & 0xFFFFFFFF, (n >> 32) & 0xFFFFFFFF, (n >> 64) & 0xFFFFFFFF, n >> 96] for n in numbers])
    assert decimals_of(limbs, pa.decimal128(38, 4), np.zeros(4, bool))[1].tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("type_", "values", "least", "greatest"),
    [
        (pa.float64(), [1.0, math.nan, -math.inf], -math.inf, math.nan),
        (pa.float32(), [math.nan, math.inf, None], math.inf, math.nan),
        (pa.float64(), [math.nan, math.nan, None], math.nan, math.nan),
        (pa.int64(), [2**63 - 1, None, -(2**63)], -(2**63), 2**63 - 1),
        (pa.string(), ["\uffff", "\U0001f600", "z"], b"z", "\U0001f600".encode()),
        (pa.binary(), [b"\x7f", b"\x80", b""], b"", b"\x80"),
        (pa.bool_(), [True, None, False], 0, 1),
        (pa.decimal128(38, 2), [Decimal("0.10"), Decimal("-3.00"), None], Decimal("-3.00"), Decimal("0.10")),
        (pa.string(), [None, None, None], None, None),
    ],
)
def test_least_and_greatest_are_ordered_as_spark_orders(
    type_: pa.DataType, values: list[Any], least: Any, greatest: Any
) -> None:
    for kind, want in ((Least, least), (Greatest, greatest)):
        component = kind("`v`", type_)
        parts = [component.read([pa.array([v], type_)]) for v in values]
        for order in (parts, parts[::-1]):
            best, valid = combine(component, combine(component, order[0], order[1]), order[2])
            assert valid.tolist() == [want is not None]
            if want is not None:
                assert np.array_equal(best.astype(object), [want]) or (best[0] != best[0] and want != want)


def test_zero_and_minus_zero_are_the_same_least_value() -> None:
    component = Least("`v`", pa.float64())
    best, _ = combine(component, (np.array([0.0]), np.array([True])), (np.array([-0.0]), np.array([True])))
    assert best[0] == 0.0


def test_moments_merge_by_chan_and_an_empty_side_changes_nothing() -> None:
    component = Moments("`v`", pa.float64())
    count = pa.array([2, 0, 1, 0, 1], pa.int64())
    mean, m2 = pa.array([1.5, None, math.inf, None, 1e200]), pa.array([0.5, None, math.nan, None, 0.0])
    a = component.read([count, mean, m2])
    nothing = component.values_from(component.identities(5))
    for merged in (combine(component, a, nothing), combine(component, nothing, a)):
        for got, want in zip(merged, a, strict=True):
            np.testing.assert_array_equal(got, want)
    n, middle, squares = combine(component, a, (np.full(5, 1), np.full(5, 4.5), np.zeros(5)))
    assert n.tolist() == [3, 1, 2, 1, 2]
    assert (middle[0], squares[0]) == (2.5, pytest.approx(6.5))
    assert math.isnan(squares[2])


@pytest.mark.parametrize(
    "component",
    [
        ROWS,
        ExactSum("`v`", pa.decimal128(10, 2)),
        FloatSum("`v`", pa.float64()),
        Least("`v`", pa.float64()),
        Greatest("`v`", pa.string()),
        Moments("`v`", pa.int32()),
    ],
    ids=str,
)
def test_identities_keep_their_layout(component: Component) -> None:
    values = component.values_from(component.identities(3))
    again = combine(component, values, values)
    for a, b in zip(component.planes_of(values), component.planes_of(again), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
        assert a.shape == (3,)
    assert component.invertible == (component.kind in ("count", "exact"))
