"""Partials become sessions: what is at most the gap apart belongs together, whatever comes in which order."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.evaluate.components.extremes import FIRST_OF_SESSION, LAST_OF_SESSION
from penstock.evaluate.components.numbers import ROWS, ExactSum
from penstock.evaluate.windows.partials import Partials
from penstock.evaluate.windows.sessions import BEFORE_ALL, OpenSessions, session_starts

COMPONENTS = (ROWS, FIRST_OF_SESSION, LAST_OF_SESSION, ExactSum("`v`", pa.int32()))


def partials(*rows: tuple[int, int, int], group: int = 0) -> Partials:
    """Make partials of rows: first time, last time, rows; each row's value is 1."""
    first, last, count = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    held = np.ones(len(rows), np.bool_)
    return Partials(first, np.full(len(rows), group, np.int64), ((count,), (first, held), (last, held), (count,)))


def told(store: OpenSessions, watermark_us: int | None) -> list[tuple[int, int, int]]:
    """End what a watermark has passed: start, end and rows."""
    found = store.close(watermark_us)
    rows = found.values[ROWS]
    assert isinstance(rows, np.ndarray)
    return list(zip(found.starts.tolist(), found.ends.tolist(), rows.tolist(), strict=True))


def test_rows_at_most_the_gap_apart_are_one_session() -> None:
    # gap 5    0    5         11
    #          ●────●          ●
    #          └── 5 ──┘  └ 6 ┘
    store = OpenSessions(5, COMPONENTS)
    store.take(partials((0, 0, 1), (5, 5, 1), (11, 11, 1)), BEFORE_ALL)
    assert told(store, None) == [(0, 10, 2), (11, 16, 1)]


def test_a_session_is_final_once_the_watermark_has_passed_its_end() -> None:
    # gap 5    0         5 ◄ watermark: a row at 5 would join
    store = OpenSessions(5, COMPONENTS)
    store.take(partials((0, 0, 1)), BEFORE_ALL)
    assert told(store, 5) == []
    assert told(store, 6) == [(0, 5, 1)]
    assert told(store, None) == []


def test_a_row_between_two_sessions_makes_them_one() -> None:
    # gap 5    0          9
    #          ●    ●     ●
    #               5, a batch later
    store = OpenSessions(5, COMPONENTS)
    store.take(partials((0, 0, 1), (9, 9, 2)), BEFORE_ALL)
    store.take(partials((5, 5, 1)), 4)
    assert told(store, None) == [(0, 14, 4)]


def test_a_partial_within_another_ends_no_session() -> None:
    # gap 2    0 ├─────────────┤ 10
    #            1 ├─┤ 3          12 ●
    store = OpenSessions(2, COMPONENTS)
    store.take(partials((0, 10, 9), (1, 3, 2), (12, 12, 1)), BEFORE_ALL)
    assert told(store, None) == [(0, 14, 12)]


def test_late_rows_enter_what_is_not_final_and_are_counted_otherwise() -> None:
    # gap 5, watermark 20    3 ●           ● 14  ● 19    ● 22
    #                        too late      joins 19, which is open
    store = OpenSessions(5, COMPONENTS)
    store.take(partials((19, 22, 2)), BEFORE_ALL)
    assert store.take(partials((3, 3, 4), (14, 14, 1)), 20) == 4
    assert told(store, None) == [(14, 27, 3)]


def test_late_rows_of_one_batch_are_judged_together() -> None:
    # gap 5, watermark 20    ● 7 ● 11 ● 16    16 + 5 is not passed, so the others enter with it
    together, apart = OpenSessions(5, COMPONENTS), OpenSessions(5, COMPONENTS)
    assert together.take(partials((7, 7, 1), (11, 11, 1), (16, 16, 1)), 20) == 0
    assert apart.take(partials((7, 7, 1), (11, 11, 1)), 20) == 2
    assert apart.take(partials((16, 16, 1)), 20) == 0
    assert (told(together, None), told(apart, None)) == ([(7, 21, 3)], [(16, 21, 1)])


def test_late_rows_count_as_no_earlier_than_a_gap_before_the_watermark() -> None:
    # gap 5, watermark 20    ● 11   ● 16 (open)   it begins at 11, and counts as begun at 15
    store = OpenSessions(5, COMPONENTS)
    store.take(partials((16, 16, 1)), 20)
    store.take(partials((11, 11, 1)), 20)
    assert (store.first_us, store.begun_us) == (11, 15)


def test_groups_have_sessions_of_their_own() -> None:
    store = OpenSessions(5, COMPONENTS)
    store.take(partials((0, 0, 1), group=1), BEFORE_ALL)
    store.take(partials((4, 4, 1), group=0), BEFORE_ALL)
    assert told(store, None) == [(0, 5, 1), (4, 9, 1)]


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 8)), max_size=40),
    gap=st.integers(1, 9),
)
def test_sessions_begin_where_nothing_reaches_as_far(rows: list[tuple[int, int, int]], gap: int) -> None:
    rows.sort()
    groups, first = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    last = first + np.array([row[2] for row in rows], np.int64)
    assert session_starts(groups, first, last, gap).tolist() == plain_starts(rows, gap)


def plain_starts(rows: Sequence[tuple[int, int, int]], gap: int) -> list[int]:
    found, reached, before = [], 0, -1
    for place, (group, first, length) in enumerate(rows):
        if group != before or first - reached > gap:
            found.append(place)
            reached = first + length
        before, reached = group, max(reached, first + length)
    return found


@given(seed=st.integers(0, 1 << 60))
def test_batches_and_their_order_do_not_matter_where_nothing_is_late(seed: int) -> None:
    draw = random.Random(seed)
    rows = [(t := draw.randrange(200), t + draw.randrange(3), 1) for _ in range(draw.randint(1, 40))]
    whole, cut = OpenSessions(4, COMPONENTS), OpenSessions(4, COMPONENTS)
    whole.take(partials(*rows), BEFORE_ALL)
    draw.shuffle(rows)
    while rows:
        size = draw.randint(1, len(rows))
        cut.take(partials(*rows[:size]), BEFORE_ALL)
        rows = rows[size:]
    assert told(cut, None) == told(whole, None)
