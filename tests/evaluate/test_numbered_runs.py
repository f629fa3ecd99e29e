"""Runs whose rows are numbered give what sorted ones give, and several triples merge as one after the other would."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.evaluate.components.extremes import WIDE, Greatest, Least
from penstock.evaluate.components.moments import Moments
from penstock.evaluate.components.row_runs import NumberedRuns, RowRuns

values = st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf, 0.1])


@given(st.lists(st.tuples(st.integers(0, 5), values, st.integers(-9, 9), st.booleans()), min_size=1, max_size=40))
def test_numbered_runs_aggregate_as_sorted_ones(rows: list[tuple[int, float, int, bool]]) -> None:
    codes, floats, numbers, flags = (np.array(column) for column in zip(*rows, strict=True))
    kept = np.flatnonzero(np.arange(len(codes)) % 4 != 3)
    order = kept[np.argsort(codes[kept], kind="stable")]
    starts = np.flatnonzero(np.append(True, np.diff(codes[order]) != 0))
    sorted_, numbered = RowRuns(order, starts), NumberedRuns(kept, codes[kept], 6)
    assert numbered.order.tolist() == order.tolist()
    assert numbered.firsts.tolist() == sorted_.firsts.tolist()
    assert numbered.lengths.tolist() == sorted_.lengths.tolist()
    assert numbered.count(flags).tolist() == sorted_.count(flags).tolist()
    assert numbered.total(numbers).tolist() == sorted_.total(numbers).tolist()
    np.testing.assert_allclose(numbered.total(floats), sorted_.total(floats), rtol=1e-12)
    for ordering in (np.fmin, np.maximum):
        np.testing.assert_array_equal(numbered.best(floats, ordering), sorted_.best(floats, ordering))


@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=4), min_size=1, max_size=12), st.integers(1, 5))
def test_many_triples_merge_to_what_their_values_tell(slices: list[list[float]], run: int) -> None:
    component = Moments("x", pa.float64())
    planes = [np.array(column) for column in zip(*map(_triple, slices), strict=True)]
    starts = np.arange(0, len(slices), run)
    counts, means, squares = component.reduce((planes[0].astype(np.int64), planes[1], planes[2]), starts)
    for number, start in enumerate(starts.tolist()):
        expected = _triple([x for one in slices[start : start + run] for x in one])
        assert counts[number] == expected[0]
        assert math.isclose(means[number], expected[1], rel_tol=1e-9, abs_tol=1e-9)
        assert math.isclose(squares[number], expected[2], rel_tol=1e-9, abs_tol=1e-9 * (1 + expected[1] ** 2))


def test_equal_values_keep_a_variance_of_zero() -> None:
    planes = np.array([3, 7, 0, 5]), np.array([0.1, 0.1, 0.0, 0.1]), np.zeros(4)
    counts, means, squares = Moments("x", pa.float64()).reduce(planes, np.array([0]))
    assert (counts.tolist(), means.tolist(), squares.tolist()) == ([15], [0.1], [0.0])


@given(st.integers(1, 3 * WIDE), st.integers(0, 1_000))
def test_the_best_of_stretches_is_the_same_however_wide_rows_are(width: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    numbers = draw.integers(-9, 9, (8, width))
    lo = draw.integers(0, 6, 3)
    hi = lo + 1 + draw.integers(0, 2, 3)
    for component, best in ((Least("x", pa.int64()), np.min), (Greatest("x", pa.int64()), np.max)):
        found, present = component.stretches((numbers, numbers > 0), lo, hi)
        for place, (a, b) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
            assert found[place].tolist() == best(numbers[a:b], axis=0).tolist()
            assert present[place].tolist() == (numbers[a:b] > 0).any(axis=0).tolist()


def _triple(numbers: list[float]) -> tuple[int, float, float]:
    """Count numbers, and compute their mean and the sum of squared distances from it."""
    if not numbers:
        return (0, 0.0, 0.0)
    mean = math.fsum(numbers) / len(numbers)
    return (len(numbers), mean, math.fsum((x - mean) ** 2 for x in numbers))
