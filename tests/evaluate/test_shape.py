"""Skewness and kurtosis in the kernel: however rows are cut and merged, the answer is that of all rows at once."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.evaluate.components.component import Planes
from penstock.evaluate.components.four_moments import FourMoments
from penstock.evaluate.functions.binding import bind_aggregate
from penstock.model.query import Aggregate
from tests.evaluate.naive import Row, central_powers, partial_columns, shape

COMPONENT = FourMoments("`x`", pa.float64())
FUNCTIONS = ("skewness", "kurtosis")
NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-3)


def planes(*parts: list[float]) -> Planes:
    """Lift lists of numbers as Spark does."""
    columns = partial_columns(COMPONENT, [[Row(0, 0, x, None) for x in part] for part in parts])
    return COMPONENT.planes_of(COMPONENT.read(columns))


def answers(merged: Planes) -> list[float | None]:
    """Lower one value by both functions."""
    bound = [bind_aggregate(Aggregate(name, ("`x`",)), (pa.float64(),)) for name in FUNCTIONS]
    return [one.lower({COMPONENT: COMPONENT.values_from(merged)}).array[0].as_py() for one in bound]


def agree(found: list[float | None], values: list[float], within: float = 1e-9) -> None:
    for name, got in zip(FUNCTIONS, found, strict=True):
        want = shape(name, values)
        if want is None or math.isnan(want):
            assert got is None if want is None else math.isnan(got or 0.0)
        else:
            assert got == pytest.approx(want, rel=within, abs=within * len(values)), name


@given(st.lists(st.lists(NUMBERS, max_size=6), min_size=1, max_size=7), st.randoms(use_true_random=False))
def test_slices_merged_in_any_order_have_the_shape_of_all_rows(parts: list[list[float]], draw: Random) -> None:
    values = [x for part in parts for x in part]
    waiting = [planes(part) for part in parts]
    while len(waiting) > 1:
        one = waiting.pop(draw.randrange(len(waiting)))
        other = waiting.pop(draw.randrange(len(waiting)))
        waiting.append(COMPONENT.combine(one, other))
    in_a_row = COMPONENT.reduce(planes(*parts), np.array([0]))
    for merged in (waiting[0], in_a_row):
        if not values:
            assert answers(merged) == [None, None]
        elif len(set(values)) == 1 or float(central_powers(values)[0]) > 1e-6 * max(map(abs, values)) ** 2:
            agree(answers(merged), values)


@pytest.mark.parametrize("mean", [0.0, 1e6, -1e8, 1e10])
def test_a_large_mean_costs_no_more_digits_than_it_has(mean: float) -> None:
    draw = Random(7)
    values = [mean + draw.gauss(0, 1) + (draw.random() < 0.1) * 5 for _ in range(600)]
    merged = COMPONENT.reduce(planes(*(values[at : at + 7] for at in range(0, 600, 7))), np.array([0]))
    agree(answers(merged), values, within=1e-9 + 1e-15 * abs(mean))


@pytest.mark.parametrize("value", [0.1, 1 / 3, -1e-7, 1e300])
def test_equal_values_have_no_shape_however_they_are_cut(value: float) -> None:
    for sizes in ([1], [3, 1], [1, 7, 3, 2]):
        merged = COMPONENT.reduce(planes(*([value] * size for size in sizes)), np.array([0]))
        assert answers(merged) == [None, None]


def test_an_empty_side_changes_nothing_and_what_is_not_finite_stays_so() -> None:
    parts = planes([1.0, 2.0, 4.0], [math.inf], [], [1e200])
    nothing = COMPONENT.identities(4)
    for merged in (COMPONENT.combine(parts, nothing), COMPONENT.combine(nothing, parts)):
        for got, want in zip(merged, parts, strict=True):
            np.testing.assert_array_equal(got, want)
    for part in ([math.nan], [math.inf], [-math.inf, 1.0]):
        found = answers(COMPONENT.combine(planes([1.0, 2.0]), planes(part)))
        assert all(answer is not None and math.isnan(answer) for answer in found)


def test_the_textbook_example_comes_out() -> None:
    found = answers(planes([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]))
    assert found == [pytest.approx(0.65625), pytest.approx(2.78125 - 3)]
    assert central_powers([2.0, 4.0]) == (Fraction(2), Fraction(0), Fraction(2))


def test_only_doubles_near_zero_count_as_zero() -> None:
    def written(type_: Any) -> str:
        return " ".join(FourMoments("`x`", type_).lift(str, "ts"))

    assert "abs(cast(`x` as double)) < 1e-36D" in written(pa.float64())
    assert not any("abs(" in written(type_) for type_ in (pa.float32(), pa.int64(), pa.decimal128(38, 38)))
