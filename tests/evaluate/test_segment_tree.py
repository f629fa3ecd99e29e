"""Trees equal what each window combines by itself, however slices and columns come, go and leave memory behind."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from penstock.evaluate.components.extremes import Greatest
from penstock.evaluate.windows import segment_tree as trees
from penstock.evaluate.windows.segment_tree import SegmentTree


@pytest.mark.parametrize("seed", range(60))
def test_stretches_hold_what_their_slices_hold(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "SMALL", 0 if seed % 2 else trees.SMALL)  # whether levels are made anew
    monkeypatch.setattr(trees, "FEW_CELLS", 8 if seed % 3 else trees.FEW_CELLS)
    draw = random.Random(seed)
    component = Greatest("x", pa.int64())
    ours, plain = SegmentTree(component), component.identities((0, 0))
    for _ in range(14):
        stored, width = plain[0].shape
        slices, columns = stored + draw.randint(1 - bool(stored), 9), width + draw.choice((0, 0, 1, 7)) + (not width)
        rows = np.array(sorted(draw.sample(range(slices), stored)), np.int64)
        ours.place(rows, slices, columns)
        placed = component.identities((slices, columns))
        for plane, values in zip(placed, plain, strict=True):
            plane[rows, :width] = values
        at = np.array(draw.sample(range(slices * columns), min(slices * columns, draw.randint(1, 9))), np.int64)
        numbers = component.planes_of(component.read([pa.chunked_array([[draw.randint(-9, 9) for _ in at]])]))
        ours.add(at // columns, at % columns, numbers)
        flat = tuple(plane.reshape(-1) for plane in placed)
        for plane, values in zip(flat, component.combine(tuple(p[at] for p in flat), numbers), strict=True):
            plane[at] = values
        plain = placed
        lo = np.array([draw.randint(0, slices) for _ in range(5)])
        hi = np.array([draw.randint(low, slices) for low in lo])
        found, _ = ours.merge(lo, hi)
        for number, (first, end) in enumerate(zip(lo, hi, strict=True)):
            wanted = component.identities(columns)
            for row in range(first, end):
                wanted = component.combine(wanted, tuple(plane[row] for plane in plain))
            assert [p[number].tolist() for p in found] == [p.tolist() for p in wanted]
        if draw.random() < 0.4:
            first, kept = draw.randint(0, slices), np.flatnonzero([draw.random() < 0.6 for _ in range(columns)])
            ours.keep(first, kept)
            plain = tuple(plane[first:, kept] for plane in plain)
