"""All lanes give, for every window and group, what plain rows give."""

from __future__ import annotations

import math
from collections import defaultdict
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.evaluate.components.extremes import Least
from penstock.evaluate.components.numbers import ROWS, ExactSum, Values
from penstock.evaluate.functions.binding import BoundAggregate, Lowered, bind_aggregate
from penstock.evaluate.windows.lane_edges import LaneEdges
from penstock.evaluate.windows.lanes import DenseLane, Lane, ScanLane
from penstock.evaluate.windows.wide_lane import WideLane
from penstock.model.arrays import Int64Array
from penstock.model.query import Aggregate
from penstock.model.window import Window
from penstock.share.slices import SliceManager
from tests.cases import sweep
from tests.evaluate.naive import FAILED, FIELDS, Row, answer, partial_columns, tolerance, window_rows

NUMERIC = ("sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop", "skewness", "kurtosis")
CASES = 1_000  # of which `make test` tries the first 400


class Case:
    """A random workload: windows, rows in rounds, aggregates, and three lanes that see the same partials."""

    def __init__(self, seed: int) -> None:
        self.random = r = Random(seed)
        self.windows = [_draw_window(r) for _ in range(r.randint(1, 3))]
        self.grouped = r.random() < 0.6
        self.slicer = SliceManager(self.windows, r.choice(["paired", "paned"]))
        fields = r.choice(FIELDS), r.choice(FIELDS)
        self.nulls = r.choice([0.0, 0.2, 0.9])
        self.draws = [f.draw for f in fields]
        self.bound = [
            bind_aggregate(Aggregate("count", ()), ()),
            bind_aggregate(Aggregate("count", ("`x`", "`y`")), ()),
        ]
        for name, field in zip(("`x`", "`y`"), fields, strict=True):
            functions = ("count", "min", "max", *(r.sample(NUMERIC, 3) if field.is_number else ()))
            self.bound += [bind_aggregate(Aggregate(f, (name,)), (field.type,)) for f in functions]
        needed = dict.fromkeys(c for b in self.bound for c in b.components)
        self.components = (ROWS, *(c for c in needed if c != ROWS))
        wide = WideLane(self.components, LaneEdges.of(self.windows))
        self.lanes: tuple[Lane, ...] = (DenseLane(self.components), ScanLane(self.components), wide)
        self.rows: list[Row] = []
        self.expired = -(10**9)

    def draw_rows(self, lo: int, hi: int) -> list[Row]:
        r = self.random
        groups = [0, 3, 4, 17] if self.grouped else [0]
        count = r.choice([0, 1, r.randint(2, 25)])
        return [
            Row(r.randint(lo, hi), r.choice(groups), *(None if r.random() < self.nulls else d(r) for d in self.draws))
            for _ in range(count)
        ]

    def add(self, rows: list[Row]) -> None:
        """Ship rows as partials, the same pair more than once and in any order."""
        self.rows += rows
        parts: dict[tuple[int, int, int], list[Row]] = defaultdict(list)
        starts = self.slicer.slice_starts(np.array([row.ts for row in rows], np.int64))
        for row, start in zip(rows, starts.tolist(), strict=True):
            parts[start, row.group, self.random.randint(0, 1)].append(row)
        keys = list(parts)
        self.random.shuffle(keys)
        labels = np.array([key[0] for key in keys], np.int64)
        groups = np.array([key[1] for key in keys], np.int64)
        values = [c.read(partial_columns(c, [parts[key] for key in keys])) for c in self.components]
        for lane in self.lanes:
            lane.add(labels, groups, values)

    def evaluations(self, after: int, upto: int) -> list[tuple[Window, int]]:
        """List the evaluations with an end in (after, upto] whose slices have not expired."""
        ends = [(w, end) for w in self.windows for end in range(w.end_after(after), upto + 1, w.slide)]
        due = [(w, end) for w, end in ends if end - w.length >= self.expired]
        self.random.shuffle(due)
        return due

    def expire(self, upto: int) -> None:
        """Forget what no later window needs."""
        self.expired = max(self.expired, min(w.end_after(upto) - w.length for w in self.windows))
        for lane in self.lanes:
            lane.expire(self.expired)

    def check(self, due: list[tuple[Window, int]]) -> None:
        starts = np.array([end - w.length for w, end in due], np.int64)
        ends = np.array([end for _, end in due], np.int64)
        expected = [
            (i, group, [row for row in inside if row.group == group])
            for i, (window, end) in enumerate(due)
            for inside in [window_rows(self.rows, window, end)]
            for group in (sorted({row.group for row in inside}) if self.grouped else [0])
        ]
        rows_of = [rows for _, _, rows in expected]
        wanted = [[answer(b.aggregate, b.components[-1].type, rows) for rows in rows_of] for b in self.bound]
        for lane in self.lanes:
            before = (lane.operations, lane.window_partials) if isinstance(lane, ScanLane) else (0, 0)
            merged = lane.evaluate(starts, ends, keep_empty=not self.grouped)
            assert merged.evaluation.tolist() == [i for i, _, _ in expected]
            assert merged.group.tolist() == [group for _, group, _ in expected]
            values = dict(zip(self.components, merged.values, strict=True))
            for b, want in zip(self.bound, wanted, strict=True):
                check_answers(b, b.lower(values), want, rows_of)
            if isinstance(lane, ScanLane):
                held = sum(len(self.slices_of(rows)) for _, _, rows in expected)
                assert lane.window_partials - before[1] == held
                assert lane.operations - before[0] <= held

    def slices_of(self, rows: list[Row]) -> set[int]:
        return set(self.slicer.slice_starts(np.array([row.ts for row in rows], np.int64)).tolist())


def check_answers(bound: BoundAggregate, lowered: Lowered, wanted: list[Any], rows: list[list[Row]]) -> None:
    assert lowered.array.type == bound.type
    lowered.array.validate(full=True)
    failed = lowered.failed if lowered.failed is not None else np.zeros(len(rows), bool)
    assert failed.tolist() == [want is FAILED for want in wanted], bound.aggregate
    for got, want, inside in zip(lowered.array.to_pylist(), wanted, rows, strict=True):
        assert same(got, None if want is FAILED else want, bound.aggregate, inside), (bound.aggregate, got, want)


def same(got: Any, want: Any, aggregate: Aggregate, rows: list[Row]) -> bool:
    if not isinstance(want, float) or not isinstance(got, float):
        return type(got) is type(want) and bool(got == want)
    if math.isnan(want) or math.isinf(want):
        return math.isnan(got) if math.isnan(want) else got == want
    exact = aggregate.function in ("min", "max")
    return got == want if exact else abs(got - want) <= tolerance(aggregate, rows)


def _draw_window(r: Random) -> Window:
    slide = r.choice([1, 2, 3, 5, 7, 10, 13])
    return Window(r.choice([slide, 2 * slide, r.randint(1, 40), max(1, slide - 1)]), slide, r.randint(0, slide))


@pytest.mark.parametrize("seed", sweep(range(CASES), 400))
def test_lanes_answer_what_plain_rows_answer(seed: int) -> None:
    # round 1        round 2           round 3
    # [now, now+20)  [now+8, now+28)   …            rows arrive out of order, across rounds too
    #     evaluate ends in (last, now], then expire what no later window needs
    case = Case(seed)
    now = case.random.choice([-37, 0, 1_000_003])
    last = now - 10
    for _ in range(3):
        case.add(case.draw_rows(now - 12, now + 20))
        if case.random.random() < 0.3:
            case.add(case.draw_rows(now - 12, now + 30))
        upto = now + case.random.randint(0, 25)
        case.check(case.evaluations(last, upto))
        if case.random.random() < 0.7:
            case.expire(upto)
        last, now = max(last, upto), now + 8


@pytest.mark.parametrize("seed", range(60))
def test_a_wide_lane_answers_other_windows_as_plain_rows_do(seed: int) -> None:
    # slices as fine as all windows need them; the lane is as wide as those of the first ones
    # until it is told of the others, or is asked for their ends without being told
    case = Case(seed)
    lane = WideLane(case.components, LaneEdges.of(case.windows[:1]))
    case.lanes, every, told = (lane,), case.windows, case.random.random() < 0.5
    for now in (0, 20, 40):
        case.add(case.draw_rows(now - 12, now + 20))
        case.windows = every[:1] if now < 20 else every
        case.check(case.evaluations(now - 20, now))
        if now == 0 and told:
            lane.follow(LaneEdges.of(every))
        if now == 20:
            case.windows = every
            case.expire(now)
    assert len(lane.to_scan().groups()) == len(lane.groups())


def test_the_slices_of_a_wide_lane_are_those_of_its_windows() -> None:
    # a tree of [RANGE 2 SLIDE 1] and [RANGE 60 SLIDE 30]: the lane of the latter keeps a row for 30 of its slices
    lane, fine = WideLane([ROWS], LaneEdges.of([Window(60, 30)])), DenseLane([ROWS])
    labels = np.arange(120, dtype=np.int64)
    for one in (lane, fine):
        one.add(labels, labels % 7, [np.ones(120, np.int64)])
    for starts, ends, cells in (([0, 30], [60, 90], 4 * 7), ([1, 30], [61, 90], 120 * 7)):
        at = np.array(starts, np.int64), np.array(ends, np.int64)
        assert lane.evaluate(*at).values[0].tolist() == fine.evaluate(*at).values[0].tolist()  # type: ignore[union-attr]
        assert lane.cells == cells
    assert LaneEdges.of([Window(60, 30), Window(10, 10), Window(7, 5, 1)]).pairs == ((5, 1), (5, 4), (10, 0))


@pytest.mark.parametrize("seed", range(40))
def test_a_dense_lane_becomes_a_scanning_one_with_the_same_answers(seed: int) -> None:
    case = Case(seed)
    dense = DenseLane(case.components)
    case.lanes = (dense,)
    case.add(case.draw_rows(0, 30))
    case.check(case.evaluations(0, 20))
    case.add(case.draw_rows(0, 40))  # still waiting to enter the arrays
    case.lanes = (dense, dense.to_scan())
    for lane in case.lanes:
        lane.expire(10)
    case.expired = 10
    case.add(case.draw_rows(0, 50))
    case.check(case.evaluations(10, 60))


COUNT, TOTAL, LEAST = ROWS, ExactSum("`v`", pa.int32()), Least("`v`", pa.int32())


def ints(*numbers: int) -> Int64Array:
    return np.array(numbers, np.int64)


def fill(lane: Lane, labels: Int64Array, groups: Int64Array, numbers: Int64Array) -> None:
    ones = np.ones(len(labels), np.int64)
    parts: dict[str, Values] = {"count": ones, "exact": numbers[:, None], "min": (numbers, ones.astype(bool))}
    lane.add(labels, groups, [parts[c.kind] for c in lane.components])


@pytest.mark.parametrize("kind", [DenseLane, ScanLane])
def test_components_added_later_hold_nothing_of_the_past(kind: type[DenseLane] | type[ScanLane]) -> None:
    lane = kind((COUNT, TOTAL))
    fill(lane, ints(0, 5), ints(0, 1), ints(10, 20))
    lane.hold((COUNT, TOTAL, LEAST))
    assert lane.components == (COUNT, TOTAL, LEAST)
    fill(lane, ints(5, 9), ints(1, 0), ints(7, 3))
    merged = lane.evaluate(ints(0, 0), ints(10, 5))
    assert merged.group.tolist() == [0, 1, 0]
    counts, totals, (least, valid) = merged.values
    assert np.asarray(counts).tolist() == [2, 2, 1]
    assert np.asarray(totals)[:, 0].tolist() == [13, 27, 10]
    assert valid.tolist() == [True, True, False]
    assert least[:2].tolist() == [3, 7]


@pytest.mark.parametrize("kind", [DenseLane, ScanLane])
def test_an_empty_ungrouped_window_still_answers(kind: type[DenseLane] | type[ScanLane]) -> None:
    # label   0        10            30
    #         |--------|-------------|----
    # windows [0,10)   [10,30) empty      [50,60) after the end
    lane = kind((COUNT, TOTAL, LEAST))
    assert np.asarray(lane.evaluate(ints(0), ints(10), keep_empty=True).values[0]).tolist() == [0]
    assert np.asarray(lane.evaluate(ints(0), ints(10)).values[0]).tolist() == []
    assert lane.evaluate(ints(), ints()).evaluation.tolist() == []
    fill(lane, ints(0, 30), ints(0, 0), ints(4, 5))
    merged = lane.evaluate(ints(0, 10, 50, 0), ints(10, 30, 60, 31), keep_empty=True)
    assert merged.evaluation.tolist() == [0, 1, 2, 3]
    assert np.asarray(merged.values[0]).tolist() == [1, 0, 0, 2]
    assert np.asarray(merged.values[1])[:, 0].tolist() == [4, 0, 0, 9]


@pytest.mark.parametrize("kind", [DenseLane, ScanLane])
def test_expired_labels_leave_room_and_stay_away(kind: type[DenseLane] | type[ScanLane]) -> None:
    lane = kind((COUNT, TOTAL, LEAST))
    for second in range(500):
        fill(lane, ints(second, second), ints(second, 1_000), ints(second, 1))
        lane.expire(second - 9)
        assert lane.cells <= 22 * 24
    fill(lane, ints(3), ints(7), ints(1))  # far too late
    merged = lane.evaluate(ints(490), ints(600))
    assert merged.group.tolist() == [*range(490, 500), 1_000]
    assert np.asarray(merged.values[1])[:, 0].tolist() == [*range(490, 500), 10]


def test_prefixes_wrap_around_and_stay_exact() -> None:
    lane = DenseLane((COUNT, ExactSum("`b`", pa.int64())))
    high = np.full((40, 2), 2**62, np.int64)
    lane.add(np.arange(40), np.zeros(40, np.int64), [np.ones(40, np.int64), high])
    merged = lane.evaluate(ints(3, 38), ints(4, 39))
    assert np.asarray(merged.values[1]).tolist() == [[2**62, 2**62]] * 2


def test_a_prefix_costs_one_operation_and_a_scan_one_per_partial() -> None:
    dense, scan, tree = DenseLane((COUNT, TOTAL)), ScanLane((COUNT, TOTAL)), DenseLane((COUNT, LEAST))
    for lane in (dense, scan, tree):
        fill(lane, np.arange(64), np.zeros(64, np.int64), np.arange(64))
        lane.evaluate(ints(0, 1), ints(64, 64))
    assert dense.operations == 2
    assert scan.operations == scan.window_partials == 64 + 63
    assert tree.operations == 2 + 1 + 6  # [0,64) is the root, [1,64) one node of each lower level


def test_a_lane_knows_its_size_before_it_fills_the_arrays() -> None:
    lane = DenseLane((COUNT, TOTAL))
    fill(lane, ints(0, 10, 10), ints(5, 5, 900), ints(1, 1, 1))
    assert lane.cells == 2 * 2
    assert lane.to_scan().cells == 3


@pytest.mark.parametrize("seed", range(10))
def test_many_groups_and_slices_in_portions_equal_the_scan(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.evaluate.windows.lanes.MOST_CELLS", 300)
    monkeypatch.setattr("penstock.evaluate.windows.scan.MOST_CELLS", 300)
    rng = np.random.default_rng(seed)
    lanes = (DenseLane((COUNT, TOTAL, LEAST)), ScanLane((COUNT, TOTAL, LEAST)))
    for batch in range(4):
        labels = rng.integers(50 * batch, 50 * batch + 70, 900)
        groups, numbers = rng.integers(0, 40, 900) * 3, rng.integers(-(2**31), 2**31, 900)
        for lane in lanes:
            fill(lane, labels, groups, numbers)
        starts = rng.integers(0, 200, 30)
        ends = starts + rng.integers(0, 150, 30)
        a, b = (lane.evaluate(starts, ends) for lane in lanes)
        assert np.array_equal(a.evaluation, b.evaluation)
        assert np.array_equal(a.group, b.group)
        assert np.array_equal(a.values[0], b.values[0])
        assert np.array_equal(a.values[1], b.values[1])
        assert np.array_equal(a.values[2][0], b.values[2][0])


@pytest.mark.parametrize("kind", [DenseLane, ScanLane])
def test_a_lane_answers_the_same_under_new_numbers_of_its_groups(kind: type[DenseLane] | type[ScanLane]) -> None:
    lane = kind((COUNT, TOTAL))
    fill(lane, ints(0, 0, 5, 5), ints(7, 3, 7, 5), ints(1, 2, 3, 4))
    assert sorted(lane.groups().tolist()) == [3, 5, 7]
    lane.renumber(ints(-1, -1, -1, 0, -1, 1, -1, 2))
    fill(lane, ints(9), ints(0), ints(10))
    merged = lane.evaluate(ints(0), ints(10))
    assert merged.group.tolist() == [0, 1, 2]
    assert np.asarray(merged.values[1])[:, 0].tolist() == [12, 4, 4]


@pytest.mark.parametrize("kind", [DenseLane, ScanLane])
def test_components_that_nobody_needs_are_let_go(kind: type[DenseLane] | type[ScanLane]) -> None:
    lane = kind((COUNT, TOTAL, LEAST))
    fill(lane, ints(0), ints(0), ints(10))
    lane.hold((COUNT, LEAST))
    fill(lane, ints(0), ints(0), ints(7))
    counts, (least, _) = lane.evaluate(ints(0), ints(10)).values
    assert (np.asarray(counts).tolist(), least.tolist()) == ([2], [7])
