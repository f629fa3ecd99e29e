"""Partials of a finer grouping are combined before the lanes of a coarser one take them, and nothing is lost by it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.evaluate.components.extremes import Greatest
from penstock.evaluate.components.numbers import ROWS, Component, ExactSum, FloatSum, Values
from penstock.evaluate.components.value_tables import FrequencyTable
from penstock.evaluate.windows.partials import Distinct
from penstock.kernel.added_partials import AddedPartials
from penstock.model.arrays import Int64Array

BIG, HALVES, MOST = ExactSum("x", pa.int64()), FloatSum("y", pa.float64()), Greatest("z", pa.int32())
COMPONENTS: tuple[Component, ...] = (ROWS, BIG, HALVES, MOST)
ROW = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3), st.integers(-3, 1 << 40), st.booleans())
Found = dict[tuple[int, ...], list[Any]]


def added(rows: list[tuple[int, int, int, int, bool]]) -> tuple[AddedPartials, Int64Array]:
    """Make partials of rows (slice, group, signature, value, late); the signature stands in two words."""
    slices, groups, words, values = (np.array([row[i] for row in rows], np.int64) for i in range(4))
    limbs = np.stack([values & 0xFFFFFFFF, values >> 32], axis=1)
    held = np.ones(len(rows), np.bool_)
    known: dict[Component, Values] = {
        ROWS: held.astype(np.int64),
        BIG: limbs,
        HALVES: values / 2,
        MOST: (values % 1000, held),
    }
    labels, late = 100 * slices, np.array([row[4] for row in rows], np.bool_)
    return AddedPartials(labels, Distinct.of(labels), known, [words % 2, words // 2 << 40], late, {}, {}), groups


def summed(partials: AddedPartials, groups: Int64Array) -> Found:
    """Sum up by slice, group and signature what partials hold, one by one."""
    found: Found = {}
    limbs = partials.values[BIG]
    most = partials.values[MOST]
    assert isinstance(limbs, np.ndarray)
    assert isinstance(most, tuple)
    assert partials.late is not None
    for i, key in enumerate(keys(partials, groups)):
        n, big, half, high, late = found.get(key, [0, 0, 0.0, 0, False])
        found[key] = [
            n + partials.values[ROWS][i],
            big + int(limbs[i, 0]) + (int(limbs[i, 1]) << 32),
            half + partials.values[HALVES][i],
            max(high, most[0][i]),
            late or bool(partials.late[i]),
        ]
    return found


def keys(partials: AddedPartials, groups: Int64Array) -> Iterator[tuple[int, ...]]:
    """List slice, group and signature of each partial."""
    return zip(partials.labels.tolist(), groups.tolist(), *(word.tolist() for word in partials.words), strict=True)


@given(rows=st.lists(ROW, min_size=1, max_size=60), table=st.booleans(), wide=st.booleans())
def test_what_is_one_group_is_combined_signature_by_signature(
    rows: list[tuple[int, int, int, int, bool]], table: bool, wide: bool
) -> None:
    partials, groups = added(rows)
    module = "penstock.kernel.added_partials"
    with (
        patch(f"{module}.NUMBERS_A_PARTIAL", 1000 if table else 0),
        patch(f"{module}.MOST_NUMBERS", 4 if wide else 1 << 62),
    ):
        rolled, numbers = partials.rolled_up(groups, COMPONENTS)
    assert summed(rolled, numbers) == summed(partials, groups)
    told = list(keys(rolled, numbers))
    if len(set(keys(partials, groups))) <= len(rows) / 2:
        assert len(told) == len(set(told))
        assert [key[:2] for key in told] == sorted(key[:2] for key in told)  # in order of slices and groups
        assert rolled.distinct.labels[rolled.distinct.places].tolist() == rolled.labels.tolist()
    else:
        assert rolled is partials


@pytest.mark.parametrize("rows", [[], [(0, 0, 0, 1, False)] * 4])
def test_states_and_no_partials_are_left_as_they_are(rows: list[tuple[int, int, int, int, bool]]) -> None:
    partials, groups = added(rows)
    asked = (ROWS, FrequencyTable("x", pa.int64())) if rows else COMPONENTS
    assert partials.rolled_up(groups, asked) == (partials, groups)
