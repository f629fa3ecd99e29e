"""The driver makes states only of the runs that a condition which needs them takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.evaluate.components.extremes import Least
from penstock.evaluate.components.numbers import ROWS
from penstock.evaluate.components.sketches import HllSketch
from penstock.evaluate.components.value_tables import FrequencyTable
from penstock.kernel.row_aggregation import RowAggregation
from penstock.model.arrays import Int64Array
from penstock.share.layout import Layout, Member, lay_out
from penstock.share.partial_schema import CELL, component_name
from penstock.share.plan import plan_queries
from penstock.share.row_schema import TIME, RowSchema, label_name
from tests.stream.made import definition

V = pa.int64()
LEAST, STATES = Least("`v`", V), (FrequencyTable("`v`", V), HllSketch("`v`", V, size=12))
COMPONENTS = (ROWS, LEAST, *STATES)
CONDITIONS = 3
TEXTS = [f"SELECT min(v) AS x FROM s [RANGE 10 s SLIDE 10 s] WHERE j = {i}" for i in range(CONDITIONS)]
PLANNED = lay_out(plan_queries([definition(t, i, f"q{i}") for i, t in enumerate(TEXTS, 1)], "shared paired", 1), "ts")
SCHEMA = RowSchema({0: ("cell",)}, {}, {0: (), 1: ("v",), 2: ("v",), 3: ("v",)}, 0, copied=False)


def laid_out(users: list[set[int]]) -> Layout:
    """Let some conditions of the one grouping need each state."""
    (member,), every = PLANNED.members, tuple(range(CONDITIONS))
    needed = (every, every, *(tuple(sorted(used)) for used in users))
    grouping = replace(member.grouping, components=COMPONENTS, users=needed)
    return replace(PLANNED, members=(replace(member, grouping=grouping),), components=COMPONENTS)


def as_cells(member: Member, cells: Int64Array) -> Int64Array:
    """Take the bits of a cell's number for its conditions."""
    return np.asarray(cells[:, None], np.int64)


def as_all(member: Member, cells: Int64Array) -> Int64Array:
    """Let every condition take every cell."""
    return np.full((len(cells), 1), (1 << CONDITIONS) - 1, np.int64)


@given(
    drawn=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, (1 << CONDITIONS) - 1), st.one_of(st.none(), st.integers(-2, 2))),
        min_size=1,
        max_size=25,
    ),
    users=st.lists(st.sets(st.integers(0, CONDITIONS - 1)), min_size=len(STATES), max_size=len(STATES)),
)
def test_a_state_is_made_where_it_is_needed_as_if_it_were_made_everywhere(
    drawn: list[tuple[int, int, int | None]], users: list[set[int]]
) -> None:
    names = {label_name(0): 0, "cell": 1, "v": 2}
    rows = pa.table({name: pa.array([row[i] for row in drawn], V) for name, i in names.items()})
    rows = rows.append_column(TIME, rows[label_name(0)])
    layout = laid_out(users)
    whole, some = (RowAggregation(layout, SCHEMA, told).partials(rows, -1, 100) for told in (as_all, as_cells))
    cells = whole[CELL].to_pylist()
    for number, used in zip((2, 3), users, strict=True):
        name = component_name(number, 0)
        asked = [any(cell >> one & 1 for one in used) for cell in cells]
        found = some[name].to_pylist()
        assert [state for state, held in zip(found, asked, strict=True) if held] == [
            state for state, held in zip(whole[name].to_pylist(), asked, strict=True) if held
        ]
        made = sum(state is not None for state in found)
        assert made == max(1, sum(asked))  # one in any case: it has the type
    plain = [name for name in whole.column_names if name not in (component_name(2, 0), component_name(3, 0))]
    assert some.select(plain).equals(whole.select(plain))
