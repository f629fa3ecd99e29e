"""Student's quantiles, as tables have them."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.evaluate.functions.student import NORMAL_95, student_95
from penstock.model.twins import STEPS, Twins

TABLE = {2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 8: 2.3060, 10: 2.2281, 18: 2.1009, 36: 2.0281, 100: 1.9840}


@pytest.mark.parametrize(("freedom", "quantile"), TABLE.items())
def test_quantiles_are_those_of_tables(freedom: int, quantile: float) -> None:
    within = 0.04 if freedom == 2 else 0.004
    assert student_95(np.array([float(freedom)]))[0] == pytest.approx(quantile, abs=within)


def test_of_endless_rows_the_quantile_is_the_normal_one_and_of_less_than_one_degree_that_of_one() -> None:
    found = student_95(np.array([1e18, 1.0, 0.2]))
    assert found[0] == NORMAL_95
    assert found[1] == found[2] > 10


@pytest.mark.parametrize("copies", [1, 2, 4, 8])
def test_signed_counts_of_many_partials_tell_how_many_rows_agree(copies: int) -> None:
    numbers, twins = np.random.default_rng(3), Twins()
    for _ in range(40):
        signs = numbers.choice([-1, 1], (30, 60))  # of 60 rows that differ in each of 30 partials
        twins = twins.after(signs.sum(axis=1) * copies, np.full(30, 60 * copies))
    assert twins.factor == copies
    assert not twins.needs_more(0)
    assert twins.needs_more(1)


def test_nothing_seen_is_taken_for_rows_that_differ_and_one_huge_partial_tells_little() -> None:
    assert Twins().factor == STEPS[0] == 1.0
    one = Twins().after(np.array([300]), np.array([300]))
    assert one.told == 1.0
    assert one.factor > 1
    assert one.needs_more(0)
    assert Twins.from_record(one.to_record()) == one
