"""The driver finds where rows stand on an axis, and their cells, as the order of Spark's values has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.row_cells import can_be_found, cell_numbers, positions_on
from penstock.kernel.row_placement import labels
from penstock.language.predicates.attributes import Attribute
from penstock.language.predicates.split import read_predicate
from penstock.model.recent import Recent
from penstock.share.conditions import cell_parts, cells
from penstock.share.conditions.axes import FAILED_AT, FIRST_AT, NULL_AT, Axis, AxisKey, AxisKind
from penstock.share.locate import ByArithmetic, ByDivision, BySearch
from penstock.share.slices import Progression
from tests.cases import cases
from tests.share.test_cells import divided, number, position, predicates, rows

LONG = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3)
TEXT = st.text(max_size=3) | st.sampled_from(["", "a", "ab", "é", "\ufb00", "\U0001f600"])
DOUBLE = st.floats() | st.sampled_from([0.0, -0.0, 0.5])
KINDS: dict[AxisKind, tuple[str, pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": ("boolean", pa.bool_(), st.booleans()),
    "long": ("bigint", pa.int64(), LONG),
    "double": ("double", pa.float64(), DOUBLE.map(lambda value: value + 0.0)),  # as they are sent
    "string": ("string", pa.string(), TEXT),
}


def constant(value: Any) -> Any:
    """Write a constant as axes have it."""
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_rows_stand_on_an_axis_where_a_search_finds_them(kind: AxisKind, data: st.DataObject) -> None:
    type_, stored, values = KINDS[kind]
    constants = data.draw(st.lists(values, max_size=6))
    chunks = data.draw(st.lists(st.lists(st.none() | values | st.sampled_from(constants or [None]), max_size=8)))
    axis = Axis(AxisKey(Attribute("`x`", type_, may_fail=False), kind), [constant(value) for value in constants])
    found = positions_on(axis, pa.chunked_array(chunks, stored))
    assert found.tolist() == [position(axis, value) for chunk in chunks for value in chunk]


@pytest.mark.parametrize("most_listed", [0, 65_536])
@settings(max_examples=cases(60))
@given(texts=st.lists(predicates(), min_size=1, max_size=8), sample=st.lists(rows(), max_size=20))
def test_rows_have_the_cells_that_they_have_one_by_one(
    texts: list[str], sample: list[dict[str, Any]], most_listed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "MOST_LISTED", most_listed)
        patch.setattr(cell_parts, "parts_made", Recent(64))
        told = divided([read_predicate(text) for text in texts])
    places = [[position(axis, row[axis.key.attribute.text]) for axis in told.axes] for row in sample]
    by_axis = [np.array([place[axis] for place in places], np.int64) for axis, _ in enumerate(told.axes)]
    for part in told.parts[0]:
        found = cell_numbers(part, by_axis, len(sample))
        assert np.maximum(found, -1).tolist() == [max(-1, number(part, place)) for place in places]


def test_decimals_are_left_to_spark() -> None:
    for text, here in {"`n` > 1": True, "`s` > 'a' OR `b`": True, "`m` > 1": False, "`q` > 1": True}.items():
        assert can_be_found(divided([read_predicate(text)])) == here


def test_what_could_not_be_computed_has_a_place_of_its_own() -> None:
    axis = Axis(AxisKey(Attribute("abs(`x`)", "bigint", may_fail=True), "long"), [1])
    values, failed = pa.chunked_array([[None, 1, None, 2]]), pa.chunked_array([[False, False, True, False]])
    assert positions_on(axis, values, failed).tolist() == [NULL_AT, FIRST_AT + 1, FAILED_AT, FIRST_AT + 2]


PROGRESSIONS = st.builds(lambda step, phase: Progression(step, phase % step), st.integers(1, 50), st.integers(0, 49))


@given(times=st.lists(st.integers(-200, 200)), progressions=st.lists(PROGRESSIONS, min_size=1, max_size=4))
def test_a_row_is_labelled_by_the_last_edge_that_is_not_after_it(
    times: list[int], progressions: list[Progression]
) -> None:
    def last(time: int, among: list[Progression]) -> int:
        return max(edge for one in among for edge in one.times(time - 60, time + 1).tolist())

    given_times = np.array(times, np.int64)
    by_arithmetic = labels(ByArithmetic(tuple(progressions)), given_times, ())
    assert by_arithmetic.tolist() == [last(time, progressions) for time in times]
    by_division = labels(ByDivision(progressions[0]), given_times, ())
    assert by_division.tolist() == [last(time, progressions[:1]) for time in times]


@given(times=st.lists(st.integers(-20, 20)), edges=st.sets(st.integers(-15, 15), min_size=1).map(sorted))
def test_a_row_that_is_searched_is_labelled_by_its_place_among_the_edges(times: list[int], edges: list[int]) -> None:
    found = labels(BySearch(), np.array(times, np.int64), edges)
    wanted = [edges.index(t) if t in edges else -sum(edge < t for edge in edges) - 1 for t in times]
    assert found.tolist() == wanted
