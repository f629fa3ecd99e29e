"""Prefixes equal plain sums, however slices and columns come: behind the last ones, between them, late, forgotten."""

from __future__ import annotations

import random

import numpy as np
import pytest

from penstock.evaluate.components.numbers import ROWS
from penstock.evaluate.windows import prefix_sums as prefixes
from penstock.evaluate.windows.prefix_sums import PrefixSums


class Plain:
    """The same as a table of what each slice holds."""

    def __init__(self) -> None:
        self.cells = np.zeros((0, 0), np.int64)

    def place(self, rows: list[int], slices: int, columns: int) -> None:
        cells = np.zeros((slices, columns), np.int64)
        cells[rows, : self.cells.shape[1]] = self.cells
        self.cells = cells


def drawn(draw: random.Random, size: tuple[int, int], count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw places, some of them twice, and numbers to add there."""
    rows, columns = (np.array([draw.randrange(n) for _ in range(count)], np.int64) for n in size)
    return rows, columns, np.array([draw.randint(-9, 9) for _ in range(count)], np.int64)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("wide", [1, 256])
def test_sums_of_stretches_are_those_of_a_plain_table(seed: int, wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefixes, "WIDE", wide)
    monkeypatch.setattr(prefixes, "SMALL", 0 if seed % 2 else prefixes.SMALL)  # whether arrays are made anew
    draw = random.Random(seed)
    ours, plain = PrefixSums(ROWS, 1), Plain()
    for _ in range(12):
        stored, width = plain.cells.shape
        slices, columns = stored + draw.randint(1 - bool(stored), 5), width + draw.choice((0, 0, 1, 3)) + (not width)
        behind = draw.random() < 0.6
        rows = list(range(stored)) if behind else sorted(draw.sample(range(slices), stored))
        ours.place(np.array(rows, np.int64), slices, columns)
        plain.place(rows, slices, columns)
        if draw.random() < 0.8:
            late = draw.random() < 0.4
            at, column, numbers = drawn(draw, (slices, columns), draw.randint(1, 9))
            at = at if late else np.maximum(at, slices - 1)
            ours.add(at, column, (numbers,))
            np.add.at(plain.cells, (at, column), numbers)
        if draw.random() < 0.7:
            lo = np.array([draw.randint(0, slices) for _ in range(4)])
            hi = np.array([draw.randint(low, slices) for low in lo])
            (found,), _ = ours.merge(lo, hi)
            assert found.tolist() == [plain.cells[a:b].sum(axis=0).tolist() for a, b in zip(lo, hi, strict=True)]
        if draw.random() < 0.3:
            first, kept = draw.randint(0, slices), np.flatnonzero([draw.random() < 0.7 for _ in range(columns)])
            ours.keep(first, kept)
            plain.cells = plain.cells[first:, kept]
        if draw.random() < 0.5:  # not always: asking sums up what waits
            assert ours.cells()[0].tolist() == plain.cells.tolist()


def test_columns_without_groups_are_few() -> None:
    ours = PrefixSums(ROWS, 1)
    for columns in (1_000, 1_001, 1_002):
        ours.place(np.empty(0, np.int64), 4, columns)
    assert 1_002 <= ours.room <= 1_250
