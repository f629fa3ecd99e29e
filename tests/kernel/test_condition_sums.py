"""What conditions hold is the same by products of matrices as by listing every partial that each condition takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.evaluate.components.extremes import Least
from penstock.evaluate.components.numbers import ROWS, Component, ExactSum, FloatSum, Values
from penstock.evaluate.windows.partials import Distinct
from penstock.kernel import condition_sums
from penstock.kernel.condition_sums import held_by_conditions
from penstock.model.arrays import Int64Array
from penstock.share.conditions.fragments import taken_pairs

WIDE = ExactSum("`v`", pa.int64())
DOUBLE = FloatSum("`x`", pa.float64())
COMPONENTS: Sequence[Component] = (ROWS, WIDE, DOUBLE)


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few partials be many."""
    monkeypatch.setattr(condition_sums, "FEW_PAIRS", 0)
    monkeypatch.setattr(condition_sums, "PRODUCTS_A_PAIR", 1 << 40)
    monkeypatch.setattr(condition_sums, "MOST_CELLS", 7)


def made(partials: int, conditions: int, seed: int) -> tuple[Distinct, list[Int64Array], dict[Component, Values]]:
    """Draw partials of few signatures; conditions of two halves are never taken together."""
    draw = np.random.default_rng(seed)
    half = draw.random(partials) < 0.5
    bits = draw.random((5, conditions)) < 0.4
    taken = bits[draw.integers(0, 5, partials)]
    taken[half, : conditions // 2] = False
    taken[~half, conditions // 2 :] = False
    words = [np.zeros(partials, np.int64) for _ in range(conditions // 62 + 1)]
    for condition in range(conditions):
        words[condition // 62] |= taken[:, condition].astype(np.int64) << (condition % 62)
    values: dict[Component, Values] = {
        ROWS: draw.integers(1, 9, partials),
        WIDE: np.stack([draw.integers(0, 1 << 32, partials), draw.integers(-(1 << 40), 1 << 40, partials)], axis=1),
        DOUBLE: draw.normal(0, 1e6, partials),
    }
    return Distinct.of(draw.integers(0, 6, partials) * 10), words, values


def by_pairs(
    slices: Distinct, words: Sequence[Int64Array], values: Mapping[Component, Values], conditions: Sequence[int]
) -> dict[tuple[int, int], list[float]]:
    """Add up what each condition takes, pair by pair."""
    rows, taken = taken_pairs(words, conditions)
    found: dict[tuple[int, int], list[float]] = defaultdict(lambda: [0, 0, 0, 0.0])
    for row, place in zip(rows, taken, strict=True):
        held = found[int(slices.labels[slices.places[row]]), int(place)]
        low, high = values[WIDE][row]
        for number, value in enumerate((values[ROWS][row], low, high, values[DOUBLE][row])):
            held[number] += value
    return found


@given(st.integers(1, 60), st.integers(1, 130), st.integers(0, 1 << 30))
def test_products_hold_what_pairs_hold(partials: int, conditions: int, seed: int) -> None:
    slices, words, values = made(partials, conditions, seed)
    asked = list(range(0, conditions, 2))
    held = held_by_conditions(COMPONENTS, values, slices, words, asked)
    wanted = by_pairs(slices, words, values, asked)
    if held is None:
        assert not wanted
        return
    found = {}
    for labels, places, (rows, wide, double) in held:
        for place, key in enumerate(zip(labels.tolist(), places.tolist(), strict=True)):
            assert key not in found
            found[key] = [rows[place], *wide[place], double[place]]
    assert found.keys() == wanted.keys()
    for key, expected in wanted.items():
        assert found[key][:3] == expected[:3]
        assert found[key][3] == pytest.approx(expected[3], abs=1e-6)


@pytest.mark.parametrize("spoiled", [float("nan"), float("inf")])
def test_what_would_reach_every_condition_is_left_to_pairs(spoiled: float) -> None:
    slices, words, values = made(50, 20, 1)
    doubles = np.array(values[DOUBLE])
    doubles[7] = spoiled
    assert held_by_conditions(COMPONENTS, values, slices, words, range(20)) is not None
    assert held_by_conditions(COMPONENTS, values | {DOUBLE: doubles}, slices, words, range(20)) is None


def test_sums_that_doubles_cannot_hold_are_left_to_pairs() -> None:
    slices, words, values = made(50, 20, 1)
    wide = np.array(values[WIDE])
    wide[:, 1] = 1 << 52
    assert held_by_conditions(COMPONENTS, values | {WIDE: wide}, slices, words, range(20)) is None


def test_only_what_is_added_is_multiplied() -> None:
    slices, words, values = made(50, 20, 1)
    least = Least("`x`", pa.float64())
    assert held_by_conditions([ROWS, least], values | {least: values[DOUBLE]}, slices, words, range(20)) is None
