"""Rows are aggregated run by run as Spark aggregates groups: NULLs, NaN, −0.0, ties and runs without a value."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.evaluate.components.extremes import Greatest, Least
from penstock.evaluate.components.four_moments import FourMoments
from penstock.evaluate.components.frequencies import Frequencies
from penstock.evaluate.components.moments import Moments
from penstock.evaluate.components.numbers import Count, ExactSum, FloatSum
from penstock.evaluate.components.row_runs import RowColumn, RowRuns
from penstock.evaluate.components.sketches import HllSketch
from penstock.evaluate.components.value_tables import FrequencyTable, WeightTable

INSTANT = pa.timestamp("us", tz="UTC")


def runs_of(owners: list[int]) -> RowRuns:
    """Sort rows by their owners, which are numbered from 0 without a gap."""
    order = np.argsort(np.array(owners, np.int64), kind="stable")
    starts = np.searchsorted(np.array(owners, np.int64)[order], np.arange(max(owners, default=-1) + 1))
    return RowRuns(order, starts.astype(np.int64))


def column(values: list[Any], type_: pa.DataType) -> RowColumn:
    return RowColumn(pa.array(values, type_))


def tables(
    component: FrequencyTable | WeightTable, columns: list[RowColumn], runs: RowRuns
) -> list[Frequencies | None]:
    return list(component.read_states(component.aggregate(columns, runs)[0]))


def test_a_run_without_a_value_has_no_sum_and_no_extreme() -> None:
    runs, values = runs_of([0, 0, 1, 1]), column([1, None, None, None], pa.int32())
    assert ExactSum("`x`", pa.int32()).aggregate([values], runs)[0].to_pylist() == [1, None]
    for extreme in (Least("`x`", pa.int32()), Greatest("`x`", pa.int32())):
        assert extreme.aggregate([values], runs)[0].to_pylist() == [1, None]
    assert Count("`x`", pa.int32()).aggregate([column([True, False, False, False], pa.bool_())], runs)[
        0
    ].to_pylist() == [
        1,
        0,
    ]


def test_nan_is_the_greatest_double_and_the_least_only_if_there_is_no_other() -> None:
    runs, values = runs_of([0, 0, 1]), column([math.nan, 1.0, math.nan], pa.float64())
    least, greatest = (c("`x`", pa.float64()).aggregate([values], runs)[0].to_pylist() for c in (Least, Greatest))
    assert least[0] == 1.0
    assert math.isnan(least[1])
    assert all(map(math.isnan, greatest))


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.string(), ["b", "é", "a", None]),
        (pa.binary(), [b"\xff", b"a", b"", None]),
        (pa.decimal128(10, 2), [Decimal("1.20"), Decimal("-3.00"), Decimal("7.05"), None]),
        (pa.date32(), [date(2026, 1, 2), date(1, 1, 1), date(9999, 12, 31), None]),
        (
            INSTANT,
            [datetime(2026, 1, 2, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC), None],
        ),
        (pa.bool_(), [True, False, True, None]),
        (pa.int8(), [3, -128, 127, None]),
        (pa.float32(), [0.5, -1.5, 2.0, None]),
    ],
    ids=str,
)
def test_extremes_of_every_type_keep_it(type_: pa.DataType, values: list[Any]) -> None:
    runs, given = runs_of([0, 0, 0, 1]), column(values, type_)
    present = [v for v in values if v is not None]
    for extreme, best in ((Least("`x`", type_), min), (Greatest("`x`", type_), max)):
        [found] = extreme.aggregate([given], runs)
        assert found.type == type_
        assert found.to_pylist() == [best(present), None]


def test_decimals_are_summed_exactly_with_ten_digits_more() -> None:
    type_ = pa.decimal128(12, 2)
    [found] = ExactSum("`d`", type_).aggregate(
        [column([Decimal("0.10"), Decimal("0.20"), None], type_)], runs_of([0, 0, 1])
    )
    assert found.type == pa.decimal128(22, 2)
    assert found.to_pylist() == [Decimal("0.30"), None]


def test_equal_values_vary_by_nothing_whatever_their_mean_rounds_to() -> None:
    runs, values = runs_of([0] * 3 + [1] * 2), column([0.1, 0.1, 0.1, None, None], pa.float64())
    count, mean, *powers = FourMoments("`x`", pa.float64()).aggregate([values], runs)
    assert count.to_pylist() == [3, 0]
    assert mean.to_pylist() == [0.1, None]
    assert [power.to_pylist() for power in powers] == [[0.0, None]] * 3


@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.floats(-1e6, 1e6))), min_size=1))
def test_moments_are_those_of_the_values(rows: list[tuple[int, float | None]]) -> None:
    owners = np.unique([owner for owner, _ in rows], return_inverse=True)[1].tolist()
    count, mean, m2 = Moments("`x`", pa.float64()).aggregate(
        [column([x for _, x in rows], pa.float64())], runs_of(owners)
    )
    [total] = FloatSum("`x`", pa.float64()).aggregate([column([x for _, x in rows], pa.float64())], runs_of(owners))
    for owner in set(owners):
        values = [x for o, (_, x) in zip(owners, rows, strict=True) if o == owner and x is not None]
        assert count[owner].as_py() == len(values)
        if not values:
            assert mean[owner].as_py() is m2[owner].as_py() is total[owner].as_py() is None
            continue
        middle, size = math.fsum(values) / len(values), sum(map(abs, values))
        assert math.isclose(total[owner].as_py(), math.fsum(values), rel_tol=1e-9, abs_tol=1e-9 * size)
        assert math.isclose(mean[owner].as_py(), middle, rel_tol=1e-9, abs_tol=1e-9 * size)
        spread = math.fsum((x - middle) ** 2 for x in values)
        assert math.isclose(m2[owner].as_py(), spread, rel_tol=1e-6, abs_tol=1e-6 * max(1.0, size))


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, -0.0, 0.0, 1.5, -2.0, math.nan]))))
def test_tables_count_equal_doubles_together(rows: list[tuple[int, float | None]]) -> None:
    owners = np.unique([owner for owner, _ in rows], return_inverse=True)[1].tolist() if rows else []
    component = FrequencyTable("`x`", pa.float64())
    found = tables(component, [column([x for _, x in rows], pa.float64())], runs_of(owners))
    for owner, table in enumerate(found):
        values = [x for o, (_, x) in zip(owners, rows, strict=True) if o == owner and x is not None]
        counted: dict[Any, int] = {}
        for x in values:
            counted["NaN" if math.isnan(x) else x + 0.0] = counted.get("NaN" if math.isnan(x) else x + 0.0, 0) + 1
        expected = sorted((k for k in counted if k != "NaN"), key=float) + (["NaN"] if "NaN" in counted else [])
        if table is None:
            assert not counted
            continue
        assert ["NaN" if math.isnan(v) else v for v in table.values.tolist()] == expected
        assert table.weights.tolist() == [counted[k] for k in expected]


def test_tables_of_several_columns_leave_out_rows_with_a_null() -> None:
    component = FrequencyTable("`i`", pa.int64(), ("`s`",), (pa.string(),))
    columns = [column([1, 1, None, 1, 2], pa.int64()), column(["b", "b", "b", None, "a"], pa.string())]
    [table] = tables(component, columns, runs_of([0] * 5))
    assert table is not None
    assert dict(zip(table.values.tolist(), table.weights.tolist(), strict=True)) == {(1, b"b"): 2, (2, b"a"): 1}


def test_weights_of_equal_values_are_summed_and_the_least_one_is_told() -> None:
    component = WeightTable("`s`", pa.string(), ("`w`",), (pa.int64(),))
    weights = column([Decimal(2), Decimal(-1), Decimal(5), None], pa.decimal128(38, 0))
    first, second = tables(component, [column(["x", "x", "y", "z"], pa.string()), weights], runs_of([0, 0, 0, 1]))
    assert first is not None
    assert dict(zip(first.values.tolist(), first.weights.tolist(), strict=True)) == {b"x": 1, b"y": 5}
    assert first.negative
    assert second is None


def test_no_rows_are_no_runs() -> None:
    nothing, runs = column([], pa.int64()), RowRuns(np.empty(0, np.int64), np.empty(0, np.int64))
    for component in (ExactSum("`x`", pa.int32()), Least("`x`", pa.int64()), FrequencyTable("`x`", pa.int64())):
        assert all(len(array) == 0 for array in component.aggregate([nothing], runs))
    assert [len(array) for array in Moments("`x`", pa.int64()).aggregate([column([], pa.float64())], runs)] == [0, 0, 0]


def test_a_batch_without_rows_has_no_sketch_and_picks_nothing() -> None:
    nothing = runs_of([])
    assert HllSketch("`x`", pa.string(), size=12).aggregate([column([], pa.string())], nothing)[0].to_pylist() == []
    assert Least("`x`", pa.string()).aggregate([column([], pa.string())], nothing)[0].to_pylist() == []


def test_the_sketch_of_a_run_is_that_of_its_items_however_often_they_come() -> None:
    values = ["a", "a", None, "b", "a", "b", None, None]
    runs, sketch = runs_of([0, 0, 0, 1, 1, 1, 2, 3]), HllSketch("`x`", pa.string(), size=12)
    found = sketch.aggregate([column(values, pa.string())], runs)[0].to_pylist()
    assert found == [sketch.sketch_of(items) for items in (["a"], ["b", "a"], [], [])]


@given(
    drawn=st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(-2, 2))), min_size=1, max_size=25),
    data=st.data(),
)
def test_some_runs_are_aggregated_as_they_are_among_all(
    drawn: list[tuple[int, int | None]], data: st.DataObject
) -> None:
    numbers = {owner: number for number, owner in enumerate(sorted({owner for owner, _ in drawn}))}
    runs, values = runs_of([numbers[owner] for owner, _ in drawn]), column([v for _, v in drawn], pa.int64())
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(runs), max_size=len(runs))), np.bool_)
    for component in (
        FrequencyTable("`x`", pa.int64()),
        HllSketch("`x`", pa.int64(), size=12),
        Least("`x`", pa.int64()),
    ):
        (whole,), (some,) = (component.aggregate([values], one) for one in (runs, runs.only(kept)))
        assert some.to_pylist() == whole.filter(pa.array(kept)).to_pylist()
