"""Tables of many short stretches, gathered at once, are those that each stretch gives on its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.evaluate.components.frequencies import runs
from penstock.evaluate.windows import frequency_ranges
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
