"""Windows that end together are merged in one pass, and say what each says by itself."""

from __future__ import annotations

import base64
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.evaluate.components.component import Component
from penstock.evaluate.components.frequencies import Frequencies, objects
from penstock.evaluate.components.numbers import ROWS
from penstock.evaluate.components.ranked import LeastBy
from penstock.evaluate.components.sketches import HllSketch, KllSketch, distinct_in, quantiles_in
from penstock.evaluate.components.user_states import UserState
from penstock.evaluate.components.value_tables import FrequencyTable
from penstock.evaluate.windows.lanes import DenseLane, Lane, ScanLane
from penstock.evaluate.windows.sweeps import sweeps
from penstock.kernel.shared_sweeps import AskedWindows, merged_together, sweep_of
from penstock.model.arrays import Int64Array
from penstock.model.function import Function, PythonCode
from tests.evaluate.test_states import add, hll, kll, take_out

LG_K = 12


def users_sum(*, inverts: bool) -> UserState:
    parts = (int, add, int, None, take_out if inverts else None)
    pickled = base64.b64encode(pickle.dumps(parts)).decode()
    code = PythonCode("d", False, "3", "o", "id", pickled, aggregates=True, inverts=inverts)
    return UserState("`x`", pa.int64(), code=Function("f", (), "bigint", "", code))


def table_of(value: int) -> Frequencies:
    return Frequencies(np.array([float(value)]), np.array([1]))


def counts_of(found: Frequencies) -> dict[float, int]:
    return dict(zip(found.values.tolist(), found.weights.tolist(), strict=True))


STATES: dict[str, tuple[Component, Callable[[int], Any], Callable[[Any], Any]]] = {  # kind, of a value, what it says
    "hll": (HllSketch("`x`", pa.int64(), size=LG_K), lambda v: hll(range(v, v + 2), LG_K), distinct_in),
    "picked": (LeastBy("`w`", pa.string(), ("`x`",), (pa.int64(),)), lambda v: ((v,), b"%d" % v), lambda s: s),
    "user's": (users_sum(inverts=False), lambda v: (v,), lambda s: s),
    "user's, inverted": (users_sum(inverts=True), lambda v: (v,), lambda s: s),
    "frequencies": (FrequencyTable("`x`", pa.float64()), table_of, counts_of),
    "kll": (KllSketch("`x`", pa.float64(), size=200), lambda v: kll([float(v)], 200), lambda s: quantiles_in(s, [0.5])),
}


def filled(kind: type[DenseLane] | type[ScanLane], name: str, labels: range, draw: random.Random) -> Lane:
    component, of, _ = STATES[name]
    lane = kind([ROWS, component])
    for group in range(3):
        held = [label for label in labels if draw.random() < 0.9]
        values = objects([of(draw.randrange(20)) if draw.random() < 0.9 else None for _ in held])
        lane.add(np.array(held, np.int64), np.full(len(held), group, np.int64), [np.ones(len(held), np.int64), values])
    return lane


def said(name: str, lane: Lane, lo: Int64Array, hi: Int64Array) -> list[tuple[Any, ...]]:
    """Tell what each window says, its number first."""
    found = lane.evaluate(lo, hi)
    told = [None if state is None else STATES[name][2](state) for state in found.values[1]]
    return list(
        zip(found.evaluation.tolist(), found.group.tolist(), np.asarray(found.values[0]).tolist(), told, strict=True)
    )


@pytest.mark.parametrize("kind", [DenseLane, ScanLane])
@pytest.mark.parametrize("name", STATES)
@given(seed=st.integers(0, 1 << 30))
def test_windows_say_together_what_each_says_alone(name: str, kind: type[DenseLane], seed: int) -> None:
    draw = random.Random(seed)
    lane = filled(kind, name, range(40), draw)
    hi = np.array([draw.choice([10, 25, 25, 40, draw.randrange(41)]) for _ in range(draw.randint(1, 9))], np.int64)
    lo = np.array([draw.randrange(0, end + 1) for end in hi.tolist()], np.int64)
    together = said(name, lane, lo, hi)
    alone = []
    for number in range(len(lo)):
        alone += [(number, *rest) for _, *rest in said(name, lane, lo[number : number + 1], hi[number : number + 1])]
    assert together == alone


@pytest.mark.parametrize("name", [name for name in STATES if name != "frequencies"])
@pytest.mark.parametrize("kind", [DenseLane, ScanLane])
def test_nested_windows_over_n_slices_take_n_merges_whatever_their_number(kind: type[DenseLane], name: str) -> None:
    #  slices  0 … 59, one group; windows [0, 59), [1, 59), [2, 59), …: 59 merges, not 59 · 60 / 2
    component, of, _ = STATES[name]
    lane = kind([ROWS, component])
    ones = np.ones(60, np.int64)
    lane.add(np.arange(60), np.zeros(60, np.int64), [ones, objects([of(v) for v in range(60)])])
    lo = np.arange(59, dtype=np.int64)
    lane.evaluate(lo, np.full(59, 59, np.int64))
    counting = 59 if kind is DenseLane else 0  # one subtraction a window for its rows
    assert lane.operations - counting <= 59


def test_a_sweep_goes_from_an_edge_that_all_its_windows_meet_to_both_sides() -> None:
    #   0 1 2 3 4 5 6 7      asked for by
    #   [ . . . . )          0
    #     [ . )              2
    #       [ . . )          1, 3
    #           [ . . . )    4       lies behind 3, and so does not
    #             . . [ )    5
    found = sweeps(np.array([0, 2, 1, 2, 4, 7]), np.array([5, 5, 3, 5, 8, 8]))
    assert [(one.edge, [(s.lo, s.hi, s.asked_by) for s in one.stretches]) for one in found] == [
        (3, [(1, 3, (2,)), (2, 5, (1, 3)), (0, 5, (0,))]),
        (8, [(7, 8, (5,)), (4, 8, (4,))]),
    ]
    assert list(found[0].backward()) == [(2, 3), (1, 2), (0, 1)]
    assert list(found[0].forward()) == [(3, 5)]
    assert (found[0].crossing, found[1].crossing) == (2, 0)
    assert list(found[1].backward()) == [(7, 8), (4, 7)]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 12)), max_size=12))
def test_every_window_is_in_one_sweep_whose_edge_it_meets(windows: list[tuple[int, int]]) -> None:
    lo = np.array([start for start, _ in windows], np.int64)
    hi = lo + np.array([length for _, length in windows], np.int64)
    found = sweeps(lo, hi)
    assert sorted(n for one in found for s in one.stretches for n in s.asked_by) == list(range(len(windows)))
    for one in found:
        assert all(stretch.lo <= one.edge <= stretch.hi for stretch in one.stretches)
        assert all((lo[n], hi[n]) == (s.lo, s.hi) for s in one.stretches for n in s.asked_by)
    assert len({one.edge for one in found}) == len(found)


@given(seed=st.integers(0, 1 << 30))
def test_shapes_that_sweep_together_get_what_each_gets_by_itself(seed: int) -> None:
    draw = random.Random(seed)
    lane = filled(DenseLane if draw.random() < 0.5 else ScanLane, "user's", range(20), draw)
    asked = []
    for _ in range(draw.randint(2, 4)):
        ends = np.array([draw.randrange(1, 24) for _ in range(draw.randint(1, 5))], np.int64)
        starts = ends - np.array([draw.randrange(0, 12) for _ in ends])
        components = lane.components if draw.random() < 0.7 else lane.components[:1]
        asked.append(AskedWindows(starts, ends, components, keep_empty=False))
    for one, merged in zip(asked, merged_together(asked, lane.evaluate), strict=True):
        alone = lane.evaluate(one.starts, one.ends, wanted=one.components)
        assert merged.evaluation.tolist() == alone.evaluation.tolist()
        assert merged.group.tolist() == alone.group.tolist()
        for mine, its in zip(merged.values, alone.values, strict=True):
            assert list(mine) == list(its)


def test_only_what_reads_the_slices_of_a_window_is_swept() -> None:
    user, table = STATES["user's"][0], STATES["frequencies"][0]
    dense, scan = DenseLane([ROWS, user, table]), ScanLane([ROWS, user, table])
    assert sweep_of(dense, [ROWS, user]) == frozenset([user])
    assert sweep_of(dense, [ROWS]) is None
    assert sweep_of(dense, [ROWS, user, table]) is None
    assert sweep_of(scan, [ROWS, table]) == frozenset([table])
    assert sweep_of(scan, [ROWS]) == frozenset()
