"""States are read only where a condition that needs them takes the row, and are there what they would be anyway."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.evaluate.components.component import Component
from penstock.evaluate.components.extremes import Least
from penstock.evaluate.components.numbers import ROWS
from penstock.evaluate.components.row_runs import RowColumn, RowRuns
from penstock.evaluate.components.sketches import HllSketch
from penstock.evaluate.components.states import spread_states
from penstock.evaluate.components.value_tables import FrequencyTable
from penstock.kernel.arrived import by_grouping
from penstock.kernel.partial_columns import read_components
from penstock.share.conditions.fragments import takes, takes_any
from penstock.share.layout import Layout, lay_out
from penstock.share.partial_schema import GROUPING, ROW_COUNT, component_name
from penstock.share.plan import BITS_PER_WORD, plan_queries
from tests.stream.made import definition

STATES = (FrequencyTable("`v`", pa.int64()), FrequencyTable("`k`", pa.string()), HllSketch("`v`", pa.int64(), size=12))
LEAST = Least("`v`", pa.int64())
CONDITIONS = 3

signed_rows = st.lists(
    st.tuples(st.integers(0, (1 << CONDITIONS) - 1), st.one_of(st.none(), st.integers(-2, 2))), min_size=1, max_size=20
)
users_of = st.lists(st.sets(st.integers(0, CONDITIONS - 1)), min_size=len(STATES), max_size=len(STATES))


@cache
def planned() -> Layout:
    """Lay out one grouping with several conditions."""
    texts = [f"SELECT sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s] WHERE j = {i}" for i in range(CONDITIONS)]
    definitions = [definition(text, number, f"q{number}") for number, text in enumerate(texts, 1)]
    return lay_out(plan_queries(definitions, "shared paired", 1), "ts")


def laid_out(users: list[set[int]]) -> Layout:
    """Let some conditions of the grouping need each state."""
    (member,), every = planned().members, tuple(range(CONDITIONS))
    needed = (every, every, *(tuple(sorted(used)) for used in users))
    grouping = replace(member.grouping, components=(ROWS, LEAST, *STATES), users=needed)
    return replace(planned(), members=(replace(member, grouping=grouping),), components=(ROWS, LEAST, *STATES))


def partials_of(values: list[int | None]) -> pa.Table:
    """Make partials of one row each."""
    runs = RowRuns(np.arange(len(values)), np.arange(len(values)))
    columns = {"`v`": pa.array(values, pa.int64())}
    columns["`k`"] = pa.array([None if v is None else f"k{v}" for v in values], pa.string())
    made: dict[str, pa.Array] = {ROW_COUNT: pa.array(np.ones(len(values), np.int64))}
    components: tuple[Component, ...] = (LEAST, *STATES)
    for number, component in enumerate(components, 1):
        assert component.argument is not None
        parts = component.aggregate([RowColumn(columns[component.argument])], runs)
        made |= {component_name(number, part): array for part, array in enumerate(parts)}
    return pa.table(made)


@given(drawn=signed_rows, users=users_of)
def test_a_state_is_read_where_it_is_needed_and_none_elsewhere(
    drawn: list[tuple[int, int | None]], users: list[set[int]]
) -> None:
    layout, partials = laid_out(users), partials_of([value for _, value in drawn])
    words = [np.array([word for word, _ in drawn], np.int64)]
    (member,) = layout.members
    whole, some = read_components(layout, member, partials), read_components(layout, member, partials, words)
    assert whole[1] == some[1] == {}
    assert str(whole[0][LEAST]) == str(some[0][LEAST])
    for component, used in zip(STATES, users, strict=True):
        asked = [any(word >> condition & 1 for condition in used) for word, _ in drawn]
        expected = [state if held else None for state, held in zip(whole[0][component], asked, strict=True)]
        assert [str(state) for state in some[0][component]] == [str(state) for state in expected]


def test_nobody_needs_a_state() -> None:
    layout, partials = laid_out([set(), set(), set()]), partials_of([1, 2])
    values, unread = read_components(layout, layout.members[0], partials, [np.array([1, 2], np.int64)])
    assert not unread
    assert [list(values[component]) for component in STATES] == [[None, None]] * len(STATES)


@given(held=st.lists(st.booleans(), max_size=12))
def test_states_are_given_the_places_that_hold_one(held: list[bool]) -> None:
    states = np.array([bytes([i]) for i in range(sum(held))], object)
    found = iter(states.tolist())
    expected = [next(found) if one else None for one in held]
    assert spread_states(states, np.array(held, np.bool_)).tolist() == expected


@given(
    rows=st.lists(st.tuples(*[st.integers(0, (1 << BITS_PER_WORD) - 1)] * 2), min_size=1, max_size=8),
    conditions=st.sets(st.integers(0, 2 * BITS_PER_WORD - 1), max_size=6),
)
def test_rows_of_some_conditions_are_those_that_one_of_them_takes(
    rows: list[tuple[int, int]], conditions: set[int]
) -> None:
    words = [np.array([row[i] for row in rows], np.int64) for i in range(2)]
    expected = np.any([np.zeros(len(rows), np.bool_), *(takes(words, one) for one in conditions)], axis=0)
    assert takes_any(words, sorted(conditions)).tolist() == expected.tolist()


@pytest.mark.parametrize("in_order", [False, True])
@given(numbers=st.lists(st.integers(0, 4), max_size=20))
def test_partials_are_parted_by_grouping_in_the_order_they_came_in(in_order: bool, numbers: list[int]) -> None:
    numbers = sorted(numbers) if in_order else numbers
    place = pa.chunked_array([pa.array(range(len(numbers)), pa.int64())])
    parted = by_grouping(pa.table({GROUPING: pa.array(numbers, pa.int32()), "place": place}), 5)
    expected = [[i for i, number in enumerate(numbers) if number == one] for one in range(5)]
    assert [part["place"].to_pylist() for part in parted] == expected
