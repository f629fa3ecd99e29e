"""States in the kernel: frequency tables, cascades of slices, sketches; each judged by a naive twin."""

from __future__ import annotations

import base64
import math
import pickle
import random
from collections import Counter
from decimal import Decimal
from statistics import quantiles
from typing import Any

import datasketches as ds  # type: ignore[import-untyped]
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.evaluate.components.collected import CollectedValues
from penstock.evaluate.components.component import Component
from penstock.evaluate.components.frequencies import Frequencies, merge_frequencies, objects
from penstock.evaluate.components.frequency_tables import at_ranks, merge_many, tables_of
from penstock.evaluate.components.kinds import KINDS
from penstock.evaluate.components.numbers import ROWS
from penstock.evaluate.components.ranked import FirstRow, GreatestBy, LastRow, LeastBy
from penstock.evaluate.components.sketches import (
    FrequentItems,
    HllSketch,
    K,
    KllSketch,
    ThetaSketch,
    distinct_in,
    k_for,
    lg_k_for,
    quantiles_in,
)
from penstock.evaluate.components.user_states import UserState
from penstock.evaluate.components.value_tables import FrequencyTable, WeightTable
from penstock.evaluate.windows.lanes import DenseLane, Lane
from penstock.evaluate.windows.scan import ScanLane
from penstock.model.function import Function, PythonCode

FREQUENCIES = FrequencyTable("`x`", pa.float64())
WORDS = FrequencyTable("`w`", pa.string())
RANKED = pa.list_(pa.struct([("f0", pa.int64()), ("f1", pa.string())]))
COLLECTED = pa.list_(pa.struct([("t", pa.int64()), ("h", pa.int64()), ("x", pa.string())]))
SHIPPED: dict[Component, pa.DataType] = {  # as Spark ships the states of a component
    FREQUENCIES: pa.struct([("v", pa.list_(pa.float64())), ("n", pa.list_(pa.int32()))]),
    WORDS: pa.struct([("v", pa.list_(pa.string())), ("n", pa.list_(pa.int32()))]),
    FrequencyTable("`w`", pa.string(), ("`x`",), (pa.float64(),)): pa.struct(
        [("v", pa.list_(pa.struct([("f0", pa.string()), ("f1", pa.float64())]))), ("n", pa.list_(pa.int32()))]
    ),
    WeightTable("`w`", pa.string(), ("`x`",), (pa.float64(),)): pa.struct(
        [("v", pa.list_(pa.string())), ("w", pa.list_(pa.float64())), ("m", pa.float64())]
    ),
    **{kind("`w`", pa.string(), ("`x`",), (pa.int64(),)): RANKED for kind in (LeastBy, GreatestBy)},
    **{kind("`w`", pa.string(), ("`x`",)): RANKED for kind in (FirstRow, LastRow)},
    CollectedValues("`w`", pa.string(), ("`x`",)): COLLECTED,
    **{kind("`x`", pa.float64(), size=12): pa.binary() for kind in (HllSketch, ThetaSketch, KllSketch, FrequentItems)},
    UserState("`x`", pa.float64()): pa.binary(),
}
NUMBERS = st.sampled_from([0.0, 1.5, -2.0, math.nan, math.inf, 7.25, 7.5])


def table(values: list[float]) -> Frequencies:
    """Count values one by one."""
    merged = [Frequencies(np.array([v + 0.0]), np.array([1])) for v in values]
    return merge_frequencies(merged)


def counted(found: Frequencies) -> Counter[str]:
    return Counter(dict(zip(map(str, found.values.tolist()), found.weights.tolist(), strict=True)))


@pytest.mark.parametrize("component", SHIPPED, ids=lambda c: f"{c.kind} of {c.argument}")
def test_no_row_has_no_state_and_a_row_of_nothing_has_none(component: Component) -> None:
    assert SHIPPED.keys() >= {component}
    assert len(component.read([pa.array([], SHIPPED[component])])) == 0
    assert len(component.read([pa.chunked_array([], SHIPPED[component])])) == 0
    empty = {"struct": {"v": [], "n": [0], "w": []}, "list": []}.get(str(SHIPPED[component]).split("<")[0])
    assert list(component.read([pa.array([empty, empty], SHIPPED[component])])) == [None, None]


def test_every_kind_of_state_is_shipped_somehow() -> None:
    assert {type(component) for component in SHIPPED} == {kind for kind in KINDS if kind.is_state}


@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=6), min_size=1, max_size=6))
def test_tables_add_up_in_any_order_and_all_at_once(parts: list[list[float]]) -> None:
    whole = Counter(str(v) for part in parts for v in part)
    tables = [table(part) for part in parts]
    assert counted(merge_frequencies(tables)) == whole
    assert counted(merge_frequencies(tables[::-1])) == whole
    for found, part in zip(merge_many([[t, t] for t in tables]), parts, strict=True):
        assert counted(found) == Counter({v: 2 * n for v, n in Counter(map(str, part)).items()})
        assert repr(list(found.values)) == repr(sorted(found.values, key=lambda v: (v != v, v)))


@given(
    groups=st.lists(st.lists(st.lists(st.integers(-2, 2), min_size=1, max_size=4), min_size=1), min_size=1, max_size=5),
    kind=st.sampled_from([np.int64, np.float64]),
    weighing=st.sampled_from([np.int64, np.float64, object]),
)
def test_tables_of_groups_are_those_that_each_group_adds_up_to(groups: Any, kind: type, weighing: type) -> None:
    def small(values: list[int]) -> Frequencies:
        ordered: Any = np.array(sorted(set(values)), kind)
        return Frequencies(ordered, np.array([values.count(int(v)) for v in ordered], weighing))

    tables = [[small(values) for values in group] for group in groups]
    starts = np.cumsum([0, *(len(group) for group in tables)])[:-1]
    flat: list[Any] = list(tables_of(objects([table for group in tables for table in group])).reduced(starts))
    ways = [merge_frequencies(group) for group in tables], merge_many(tables), flat
    alone, *others = [[(t.values.tolist(), t.weights.tolist()) for t in found] for found in ways]
    assert others == [alone, alone]


@given(st.lists(st.sampled_from([b"a", b"ab", b"", b"\xff"]), min_size=1, max_size=9))
def test_tables_of_objects_add_up_too(values: list[bytes]) -> None:
    merged = merge_frequencies([Frequencies(objects([v]), np.array([1])) for v in values])
    assert dict(zip(merged.values.tolist(), merged.weights.tolist(), strict=True)) == Counter(values)
    assert merged.values.tolist() == sorted(set(values))


def states(rng: random.Random, count: int, spread: int, component: Component) -> tuple[Any, Any, Any]:
    def one() -> Frequencies:
        drawn = [float(rng.randrange(spread)) for _ in range(rng.randrange(1, 4))]
        if component is FREQUENCIES:
            return table([math.nan if v == 3 else v for v in drawn])
        return merge_frequencies([Frequencies(objects([repr(v).encode()]), np.array([1])) for v in drawn])

    labels = np.array([rng.randrange(60) for _ in range(count)], np.int64)
    groups = np.array([rng.randrange(3) for _ in range(count)], np.int64)
    values = objects([one() if rng.random() < 0.8 else None for _ in range(count)])
    return labels, groups, values


@pytest.mark.parametrize("components", [[ROWS, FREQUENCIES], [ROWS, WORDS]], ids=["counts", "cascade"])
@pytest.mark.parametrize("spread", [4, 4_000])
@pytest.mark.parametrize("seed", range(6))
def test_stretches_answer_as_a_scan_of_all_slices(seed: int, spread: int, components: list[Component]) -> None:
    rng = random.Random(seed)
    dense, scan = DenseLane(components), ScanLane(components)
    for step in range(6):
        labels, groups, values = states(rng, rng.randrange(1, 40), spread, components[1])
        for lane in (dense, scan):
            lane.add(labels, groups, [np.ones(len(labels), np.int64), values])
        if step == 3:
            for lane in (dense, scan):
                lane.expire(30)
        lo = np.array(sorted(rng.randrange(30, 60) for _ in range(9)), np.int64)
        hi = lo + np.array([rng.randrange(0, 40) for _ in lo])
        one, other = dense.evaluate(lo, hi), scan.evaluate(lo, hi)
        assert one.evaluation.tolist() == other.evaluation.tolist()
        assert one.group.tolist() == other.group.tolist()
        for a, b in zip(one.values[1], other.values[1], strict=True):
            assert (a is None) == (b is None)
            assert a is None or counted(a) == counted(b)
    assert dense.state_bytes > 0
    assert scan.state_bytes > 0


def one_row(draw: random.Random, component: Component) -> Any:
    if isinstance(component, HllSketch):
        return component.sketch_of([float(draw.randrange(50)) for _ in range(draw.choice([1, 1, 1, 60]))])
    rank, value = draw.randrange(9), b"%d" % draw.randrange(9)
    return ((1, rank), (1, value)), value


@pytest.mark.parametrize("kind", [LeastBy, LastRow, HllSketch])
@pytest.mark.parametrize("seed", range(4))
def test_states_that_few_of_many_groups_have_answer_as_a_scan(kind: type[Component], seed: int) -> None:
    component = HllSketch("`x`", pa.float64(), size=8) if kind is HllSketch else kind("`w`", pa.string(), ("`x`",))
    draw, lanes = random.Random(seed), (DenseLane([ROWS, component]), ScanLane([ROWS, component]))
    read: Any = distinct_in if kind is HllSketch else lambda state: state
    for step in range(8):
        # slices 10 · step … 10 · step + 39, some of them before the horizon; groups come, and go with their slices
        pairs = sorted({(draw.randrange(10 * step, 10 * step + 40), draw.randrange(60) + 20 * step) for _ in range(90)})
        draw.shuffle(pairs)
        labels, groups = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
        values = objects([one_row(draw, component) if draw.random() < 0.8 else None for _ in pairs])
        for lane in lanes:
            lane.add(labels, groups, [np.ones(len(labels), np.int64), values])
            lane.expire(10 * step)
        lo = np.array([draw.randrange(10 * step, 10 * step + 40) for _ in range(9)], np.int64)
        hi = lo + np.array([draw.choice([0, 1, 8, 30]) for _ in lo])
        one, other = (lane.evaluate(lo, hi) for lane in lanes)
        assert one.evaluation.tolist() == other.evaluation.tolist()
        assert one.group.tolist() == other.group.tolist()
        assert list(map(read, one.values[1])) == list(map(read, other.values[1]))
    dense = lanes[0]
    assert isinstance(dense, DenseLane)
    moved = dense.to_scan().evaluate(lo, hi)
    assert list(map(read, moved.values[1])) == list(map(read, one.values[1]))
    assert len(dense.groups()) < 20 * 7 + 60  # some of those that came have gone with their slices


def test_a_sketch_of_the_same_items_is_taken_as_it_is() -> None:
    component = HllSketch("`x`", pa.int64(), size=12)
    few, many = component.sketch_of([1, 2, 3]), component.sketch_of(range(5_000))
    assert component.merge([few, few, few]) == few
    assert distinct_in(component.merge([few, few, component.sketch_of([3, 4])])) == 4
    union = ds.hll_union(12)
    for _ in range(2):
        union.update(ds.hll_sketch.deserialize(many))
    assert distinct_in(component.merge([many, many])) == round(union.get_result().get_estimate())


def test_a_cascade_merges_few_nodes_for_a_long_window() -> None:
    lane = DenseLane([ROWS, WORDS])
    labels = np.arange(4_096, dtype=np.int64)
    tables = objects([Frequencies(objects([b"%d" % (n % 5)]), np.array([1])) for n in range(4_096)])
    lane.add(labels, np.zeros(4_096, np.int64), [np.ones(4_096, np.int64), tables])
    lane.evaluate(np.array([0]), np.array([4_000]))
    before = lane.operations
    lane.evaluate(np.array([1]), np.array([4_001]))
    assert lane.operations - before < 60  # not 4,000


def add(a: int, b: int) -> int:
    return a + b


def take_out(a: int, b: int) -> int:
    return a - b


def test_an_inverted_window_slides_and_answers_as_a_scan() -> None:
    parts = (int, add, int, None, take_out)
    pickled = base64.b64encode(pickle.dumps(parts)).decode()
    code = PythonCode("d", False, "3", "o", "id", pickled, aggregates=True, inverts=True)
    component = UserState("`x`", pa.int64(), code=Function("f", (), "bigint", "", code))
    rng = random.Random(4)
    lanes: list[Lane] = [DenseLane([ROWS, component]), ScanLane([ROWS, component])]
    for step in range(40):
        labels = np.array([rng.randrange(10 * step, 10 * step + 40) for _ in range(12)], np.int64)
        groups = np.array([rng.randrange(3) for _ in labels], np.int64)
        values = objects([(rng.randrange(9),) if rng.random() < 0.7 else None for _ in labels])
        for lane in lanes:
            lane.add(labels, groups, [np.ones(len(labels), np.int64), values])
        ends = np.arange(10 * step, 10 * step + 10, dtype=np.int64)
        starts = ends - np.array([rng.choice([30, 30, 30, 11]) for _ in ends])
        one, other = (lane.evaluate(starts, ends) for lane in lanes)
        assert one.group.tolist() == other.group.tolist()
        assert list(one.values[1]) == list(other.values[1])
    fresh = DenseLane([ROWS, component])
    fresh.add(np.arange(500), np.zeros(500, np.int64), [np.ones(500, np.int64), objects([(1,)] * 500)])
    ends = np.arange(400, 460, dtype=np.int64)
    fresh.evaluate(ends - 301, ends)
    assert fresh.operations < 60 * 5 + 60  # two states a window, and one subtraction to count its rows


# -- sketches ----------------------------------------------------------------------------------------------------


def hll(values: range, lg_k: int) -> bytes:
    sketch = ds.hll_sketch(lg_k, ds.tgt_hll_type.HLL_8)
    for value in values:
        sketch.update(value)
    return bytes(sketch.serialize_compact())


def kll(values: list[float], k: int) -> bytes:
    sketch = ds.kll_doubles_sketch(k)
    sketch.update(np.array(values))
    return bytes(sketch.serialize())


def test_distinct_counts_stay_within_three_deviations() -> None:
    size = lg_k_for(0.02)
    component = HllSketch("`x`", pa.int64(), size=size)
    parts = [hll(range(start, start + 3_000), size) for start in range(0, 20_000, 1_000)]
    found = distinct_in(component.merge(parts))
    assert abs(found - 22_000) <= 3 * 0.02 * 22_000
    assert distinct_in(None) == 0


def rank_error(seed: int, k: int) -> float:
    """Return by how much of all values the worst of nine percentiles is off."""
    rng = random.Random(seed)
    values = [rng.gauss(0, 1) for _ in range(20_000)]
    component = KllSketch("`x`", pa.float64(), size=k)
    merged = component.merge([kll(values[i : i + 1_000], k) for i in range(0, 20_000, 1_000)])
    ranks = [n / 10 for n in range(1, 10)]
    found = quantiles_in(merged, ranks)
    assert found is not None
    ordered = np.sort(values)
    return max(
        abs(np.searchsorted(ordered, q, side="right") / len(values) - r) for q, r in zip(found, ranks, strict=True)
    )


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_stay_within_the_stated_rank_error(seed: int) -> None:
    stated = ds.kll_doubles_sketch(K).normalized_rank_error(False)
    assert rank_error(seed, K) <= stated
    assert rank_error(seed, k_for(500)) <= 1 / 500


@pytest.mark.soak
def test_the_stated_errors_hold_at_their_confidence_over_many_seeds() -> None:
    stated = ds.kll_doubles_sketch(K).normalized_rank_error(False)
    beyond = sum(rank_error(seed, K) > stated for seed in range(300))
    assert beyond <= 300 * 0.01 * 9 + 9  # 99 % of each of nine percentiles
    size, wrong = lg_k_for(0.02), 0
    for seed in range(300):
        start = seed * 1_000_003
        wrong += abs(distinct_in(hll(range(start, start + 30_000), size)) - 30_000) > 2 * 0.02 * 30_000
    assert wrong <= 300 * 0.05 + 10


def test_frequent_items_are_exact_while_all_are_tracked() -> None:
    component = FrequentItems("`k`", pa.string(), types=(pa.string(),), size=100)
    parts = []
    for word in ("abbb", "bcc", "c"):
        sketch = ds.frequent_items_sketch(8)
        for letter in word:
            sketch.update(letter)
        parts.append(bytes(sketch.serialize(ds.PyStringsSerDe())))
    assert component.frequent(component.merge(parts), 2) == [("b", 4), ("c", 3)]
    assert component.frequent(None, 2) == []


@given(st.dictionaries(st.integers(0, 99), st.integers(1, 300), max_size=60), st.integers(1, 30))
def test_the_most_frequent_items_are_those_of_a_full_list(counts: dict[int, int], asked: int) -> None:
    component = FrequentItems("`k`", pa.string(), types=(pa.string(),), size=100)
    state = component.sketch_of([f"{item:02d}" for item, count in counts.items() for _ in range(count)])
    listed = sorted(((f"{item:02d}", count) for item, count in counts.items()), key=lambda pair: (-pair[1], pair[0]))
    assert component.frequent(state, asked) == listed[:asked]


def test_a_percentile_is_linear_between_the_two_nearest_values() -> None:
    from penstock.evaluate.functions.binding import bind_aggregate
    from penstock.model.query import Aggregate

    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    bound = bind_aggregate(Aggregate("percentile", ("`x`",), ((0.25, 0.5, 0.75, 0.9),)), [pa.float64()])
    found = bound.lower({bound.components[0]: objects([table(values), None])}).array.to_pylist()
    quarters = quantiles(values, n=4, method="inclusive")
    assert found[0][:3] == quarters
    assert found[0][3] == pytest.approx(12.8)
    assert found[1] is None


def test_a_percentile_has_the_last_digit_that_spark_gives_it() -> None:
    """Spark 4.3 goes from the lower value towards the higher one; a mean of both, weighted, is 61.099999999999994."""
    found, none = at_ranks(np.array([53.0, 80.0]), np.array([0, 1, 2]), (np.array([0]), np.array([2])), [0.3])
    assert [one.tolist() for one in found] == [[61.1]]
    assert not none.any()


def test_a_distinct_sum_fails_only_if_the_true_sum_does_not_fit() -> None:
    from penstock.evaluate.functions.binding import bind_aggregate
    from penstock.model.query import Aggregate

    bound = bind_aggregate(Aggregate("sum", ("`x`",), distinct=True), [pa.int64()])
    top = 2**63 - 1
    tables = [Frequencies(np.array(v), np.ones(len(v), np.int64)) for v in ([top - 1, 1], [1, top], [-5, top])]
    found = bound.lower({bound.components[0]: objects(tables)})
    assert found.array.to_pylist() == [top, None, top - 5]
    assert found.failed is not None
    assert found.failed.tolist() == [False, True, False]
    wide = bind_aggregate(Aggregate("avg", ("`x`",), distinct=True), [pa.decimal128(10, 2)])
    thirds = Frequencies(objects([Decimal("0.01"), Decimal("1.00"), Decimal("1.01")]), np.ones(3, np.int64))
    assert wide.lower({wide.components[0]: objects([thirds])}).array.to_pylist() == [Decimal("0.673333")]
