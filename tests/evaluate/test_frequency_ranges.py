"""Tables of many short stretches, gathered at once, are those that each stretch gives on its own.

Rows that arrive are put where sorting all of them would put them, and rows that are let go of leave the rest sorted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.evaluate.components.component import Array
from penstock.evaluate.components.frequencies import Frequencies, in_order, objects, runs
from penstock.evaluate.components.value_tables import FrequencyTable
from penstock.evaluate.windows import frequency_ranges
from penstock.evaluate.windows.frequency_index import FrequencyIndex
from penstock.evaluate.windows.frequency_ranges import CountedValues, FrequencyRanges, SlicedLines
from penstock.evaluate.windows.value_pool import ValuePool

WIDTH, DEPTH = 4, 9
rows = st.lists(
    st.tuples(st.integers(0, WIDTH - 1), st.integers(-3, 3), st.integers(0, DEPTH - 1), st.integers(1, 5)), max_size=40
)
stretches = st.lists(st.tuples(st.integers(0, DEPTH), st.integers(0, DEPTH)).map(sorted), min_size=1, max_size=12)


def lines_of(drawn: list[tuple[int, int, int, int]], pool: ValuePool | None) -> SlicedLines:
    columns, values, slices, weights = (np.array([row[i] for row in drawn], np.int64) for i in range(4))
    if pool is not None:
        values = pool.encode(np.array([f"v{value}" for value in values.tolist()], object))
    counted = CountedValues(columns, values, slices, weights).ordered()
    return SlicedLines(counted, runs(counted.values, counted.columns), DEPTH, WIDTH, pool)


@pytest.mark.parametrize("strings", [False, True])
@given(drawn=rows, asked=stretches)
def test_gathered_tables_are_those_of_each_stretch(
    strings: bool, drawn: list[tuple[int, int, int, int]], asked: list[list[int]]
) -> None:
    lo, hi = (np.array([pair[i] for pair in asked], np.int64) for i in range(2))
    lines = lines_of(drawn, ValuePool() if strings else None)
    pairs = np.repeat(np.arange(len(lo)), WIDTH), np.tile(np.arange(WIDTH), len(lo))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(frequency_ranges, "SHORT", 0)
        at_once = FrequencyRanges(lines, lo, hi)[pairs]
        patched.setattr(frequency_ranges, "SHORT", 1 << 40)
        patched.setattr(frequency_ranges, "MOST_GATHERED", -1)
        one_by_one = FrequencyRanges(lines, lo, hi)[pairs]
    assert type(at_once) is not type(one_by_one)
    assert at_once.lengths.tolist() == one_by_one.lengths.tolist()
    for mine, theirs in (
        (at_once.flat.values, one_by_one.flat.values),
        (at_once.flat.weights, one_by_one.flat.weights),
    ):
        assert mine.tolist() == theirs.tolist()
    if not strings:
        (found, missing), (wanted, gone) = at_once.at_ranks((0.0, 0.3, 1.0)), one_by_one.at_ranks((0.0, 0.3, 1.0))
        assert missing.tolist() == gone.tolist()
        held = ~missing
        assert [values[held].tolist() for values in found] == [values[held].tolist() for values in wanted]


LEVELS = np.array([-np.inf, -2.5, -0.0, 0.0, 1.5, np.inf, np.nan])
levels = st.lists(
    st.tuples(st.integers(0, WIDTH - 1), st.integers(0, len(LEVELS) - 1), st.integers(0, DEPTH - 1), st.integers(1, 5)),
    max_size=60,
)


def sorted_rows(drawn: list[tuple[int, int, int, int]], of: Array) -> CountedValues:
    columns, values, slices, weights = (np.array([row[i] for row in drawn], np.int64) for i in range(4))
    return CountedValues(columns, of[values], slices, weights).ordered()


def listed(counted: CountedValues) -> list[list[str]]:
    arrays = counted.columns, counted.values, counted.slices, counted.weights
    return [[repr(number) for number in array.tolist()] for array in arrays]  # NaN is NaN, and -0.0 is not 0.0


@pytest.mark.parametrize("of", [LEVELS, np.arange(len(LEVELS))], ids=["doubles", "numbers"])
@pytest.mark.parametrize("many", [0, 4])
@given(stored=levels, arrived=levels)
def test_rows_that_arrive_are_put_where_sorting_would_put_them(
    of: Array, many: int, stored: list[tuple[int, int, int, int]], arrived: list[tuple[int, int, int, int]]
) -> None:
    known, new = sorted_rows(stored, of), sorted_rows(arrived, of)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(frequency_ranges, "MANY", many)
        found = known.with_sorted(new)
    assert listed(found) == listed(CountedValues.joined([known, new]).ordered())


@pytest.mark.parametrize("kind", [pa.float64(), pa.int64()])
def test_slices_that_are_kept_say_what_they_said(kind: pa.DataType) -> None:
    draw, component = np.random.default_rng(5), FrequencyTable("`x`", kind)
    of = LEVELS[[1, 3, 4, 5, 6]] if pa.types.is_floating(kind) else np.arange(5)
    for _ in range(50):
        index = FrequencyIndex(component)
        index.place(np.empty(0, np.int64), DEPTH, WIDTH)
        for place in range(DEPTH):
            drawn = [np.flatnonzero(draw.integers(0, 2, len(of))) for _ in range(WIDTH)]
            tables = objects([Frequencies(of[held], np.ones(len(held), np.int64)) for held in drawn])
            index.add(np.full(WIDTH, place), np.arange(WIDTH), (tables,))
        first, columns = int(draw.integers(0, DEPTH)), np.flatnonzero(draw.integers(0, 2, WIDTH))
        lo = np.arange(DEPTH - first)
        hi, pairs = lo + draw.integers(1, 4), (np.repeat(lo, len(columns)), np.tile(columns, len(lo)))
        before = index.merge(lo + first, np.minimum(hi + first, DEPTH))[0][0][pairs].flat
        index.keep(first, columns)
        kept = pairs[0], np.tile(np.arange(len(columns)), len(lo))
        after = index.merge(lo, np.minimum(hi, DEPTH - first))[0][0][kept].flat
        for name in ("values", "weights", "bounds"):
            assert repr(getattr(after, name).tolist()) == repr(getattr(before, name).tolist())


FLOATS = st.sampled_from([0.0, -0.0, 1.5, -2.0, float("inf"), float("-inf"), float("nan")])


@given(st.lists(st.tuples(FLOATS, st.integers(0, 2)), min_size=2, max_size=30), st.booleans())
def test_floats_that_are_numbered_first_have_the_order_of_a_stable_sort(
    drawn: list[tuple[float, int]], by_owner: bool
) -> None:
    values, owner = np.array([value for value, _ in drawn]), np.array([owner for _, owner in drawn], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.evaluate.components.frequencies.RANKED", 0)
        found = in_order(values, owner if by_owner else None)
    assert found is not None
    expected = np.lexsort((values, owner)) if by_owner else np.argsort(values, kind="stable")
    assert found.tolist() == expected.tolist()
