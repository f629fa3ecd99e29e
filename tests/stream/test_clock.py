"""A stream's clock, the windows of its queries and its slicings, each on its own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.evaluate.typed import Definition, Handover
from penstock.evaluate.windows.due import NO_SILENCE, Silence
from penstock.model.window import Window
from penstock.share.layout import Layout, lay_out
from penstock.share.plan import LaneKey, plan_queries
from penstock.share.slices import SliceManager
from penstock.store.commits import Counts, Paused
from penstock.stream.clock import StreamClock
from penstock.stream.query_windows import NEVER, QueryWindows
from penstock.stream.slicing_history import SlicingHistory
from tests.stream.made import definition

TEN = "SELECT count(*) AS n FROM s [RANGE 10 us SLIDE 10 us]"
times = st.integers(-(10**9), 10**9)


# -- the clock -----------------------------------------------------------------------------------------------------


def test_nothing_is_known_before_the_first_row() -> None:
    clock = StreamClock()
    assert (clock.seen_until_us, clock.watermark_us, clock.rate()) == (None, None, None)


@given(batches=st.lists(st.tuples(times, times), min_size=1), lateness=st.integers(0, 10**6), beats=st.lists(times))
def test_the_watermark_is_the_greatest_time_less_the_lateness_and_never_goes_back(
    batches: list[tuple[int, int]], lateness: int, beats: list[int]
) -> None:
    clock, seen = StreamClock(), list[int]()
    for place, batch in enumerate(batches):
        clock.see(min(batch), max(batch))
        seen += batch
        before = clock.watermark_us
        clock.watermark_us = clock.watermark_after(lateness)
        told = max(seen) - lateness
        assert clock.watermark_us == (told if before is None else max(before, told))
        if place < len(beats):  # a heartbeat may have gone further
            clock.watermark_us = max(clock.watermark_us, beats[place])
    assert (clock.first_us, clock.last_us, clock.seen_until_us) == (min(seen), max(seen), max(seen) + 1)


def test_the_rate_is_of_event_time() -> None:
    clock = StreamClock(counts=Counts(ingested=30))
    clock.see(0, 0)
    assert clock.rate() is None  # one instant has no rate
    clock.see(0, 10_000_000)
    assert clock.rate() == 3.0


# -- the windows of queries ------------------------------------------------------------------------------------------


def windows_of(first: int | None = None, last: int | None = None, watermark: int | None = None) -> QueryWindows:
    return QueryWindows(StreamClock(first_us=first, last_us=last, watermark_us=watermark))


@pytest.mark.parametrize(
    ("text", "first", "start", "end"),
    [
        (TEN, None, None, None),  # no row: nobody knows
        (TEN, 7, None, 10),  # from the first row on: the first end after it
        (TEN, 10, None, 20),  # a row at an end is in the next window
        (TEN, 7, 12, 30),  # wholly after its start: [20, 30)
        (TEN, 7, 20, 30),
        ("SELECT count(*) AS n FROM s [RANGE 3 us SLIDE 10 us OFFSET 4 us]", 7, 20, 24),
        ("SELECT count(*) AS n FROM s [RANGE 3 us SLIDE 10 us OFFSET 4 us]", 7, 22, 34),
    ],
)
def test_a_query_begins_with_the_first_window_that_is_wholly_after_its_start(
    text: str, first: int | None, start: int | None, end: int | None
) -> None:
    windows, query = windows_of(first, first), definition(text)
    windows.begin(query, start)
    assert (windows.starts, windows.next_ends.get(1), windows.first_ends.get(1)) == ({1: start}, end, end)


def test_the_first_end_of_a_query_from_the_first_row_on_is_fixed_when_a_window_has_ended() -> None:
    windows, query = windows_of(25, 25), definition(TEN)
    windows.starts[1] = None
    assert windows.first_end(query, 29) is None  # late rows may still move it
    windows.clock.see(13, 13)
    assert windows.first_end(query, 29) == 20
    windows.clock.watermark_us = 21  # but never before the watermark
    assert windows.first_end(query, 35) == 30
    windows.next_ends[1] = 70
    assert windows.first_end(query, 0) == 70


def test_a_query_that_is_gone_leaves_nothing() -> None:
    windows, query = windows_of(1, 1), definition(TEN)
    windows.begin(query, None)
    windows.paused[1], windows.failed_us[1], windows.too_late[1] = Paused(1, 2, 3, "why"), 4, 5
    windows.resumed_ends[1] = 6
    windows.note_silence(1, Silence(3, 1))
    windows.forget(1)
    known = (windows.starts, windows.next_ends, windows.first_ends, windows.resumed_ends, windows.failed_us)
    assert [*known, windows.paused, windows.silences, windows.too_late] == [{}] * 8


def test_only_silences_are_remembered() -> None:
    windows = windows_of()
    windows.note_silence(1, Silence(3, 0))
    assert windows.silences == {1: Silence(3, 0)}
    windows.note_silence(1, NO_SILENCE)
    assert windows.silences == {}


def test_partials_are_whole_from_the_start_or_from_the_last_failure_on() -> None:
    windows, query = windows_of(), definition(TEN)
    windows.starts[1] = None
    assert windows.whole_since(query) is None
    windows.failed_us[1] = 40
    assert windows.whole_since(query) == 40
    windows.starts[1] = 50
    assert windows.whole_since(query) == 50


def test_late_rows_revise_from_the_first_window_or_the_first_after_a_pause() -> None:
    windows, query = windows_of(), definition(TEN)
    assert windows.revised_from(query) == NEVER  # it has answered none
    windows.first_ends[1] = 10
    assert windows.revised_from(query) == 10
    windows.resumed_ends[1] = 50
    assert windows.revised_from(query) == 50
    windows.paused[1] = Paused(1, 2, 3, "why")
    assert windows.revised_from(query) == NEVER


REVISED = f"{TEN} WITH (late = 'revise', revise_for = '25 us')"


@pytest.mark.parametrize(("text", "lost"), [(TEN, (10, 57)), (REVISED, (10, 32))])
def test_rows_come_too_late_for_final_windows_that_are_not_revised(text: str, lost: tuple[int, int]) -> None:
    windows, query = windows_of(1, 57, 57), definition(text)
    windows.starts[1], windows.first_ends[1] = 0, 10
    assert windows.lost_ends(query, 57) == lost
    windows.starts[1] = None
    assert windows.lost_ends(query, 57) == (-NEVER, lost[1])


@pytest.mark.parametrize(
    ("text", "floor"),
    [
        ("SELECT count(*) AS n FROM s [RANGE 30 us SLIDE 10 us]", 30),  # the window that ends at 60
        (REVISED, 30),  # the window that ends at 40: those after 57 - 25 may be revised
        (f"{TEN} WITH (retain = '45 us')", 12),
    ],
)
def test_what_is_needed_is_the_next_window_what_may_be_revised_and_what_is_retained(text: str, floor: int) -> None:
    windows, query = windows_of(1, 57, 57), definition(text)
    windows.starts[1], windows.next_ends[1] = None, 60
    assert windows.floor_of(query) == floor
    windows.starts[1] = 55  # nothing before is whole
    assert windows.floor_of(query) == 55


def test_the_floor_of_a_lane_is_that_of_its_neediest_query_and_none_while_one_has_seen_no_row() -> None:
    long, short = definition("SELECT count(*) AS n FROM s [RANGE 30 us SLIDE 10 us]"), definition(TEN, 2, "r")
    windows, layout = windows_of(1, 57), laid_out(long, short)
    (lane,) = layout.plan.trees[0].lanes
    windows.starts, windows.next_ends = {1: None, 2: None}, {1: 60}
    assert windows.floors(layout) == {}
    windows.next_ends[2] = 60
    assert windows.floors(layout) == {lane: 30}
    assert windows.floor(lane, layout) == 30
    assert windows.floor(lane, None) is None


def test_a_replaced_query_answers_the_windows_that_begin_before_its_successors() -> None:
    old = definition(TEN, handover=Handover(at_us=43, successor=2))
    windows = windows_of(1, 42, 42)
    assert windows.last_own_end(definition(TEN)) == NEVER
    assert windows.last_own_end(old) == 52  # a window that begins by 42 ends by then
    windows.starts[2] = 21  # a backfill of the successor has taken over more
    assert windows.last_own_end(old) == 30
    windows.starts[2] = None
    assert windows.last_own_end(old) < 0
    windows.starts[2], windows.starts[3] = 43, 12  # altered again: the last one has taken over more
    windows.names = {1: "q", 2: "q", 3: "q"}
    assert windows.last_own_end(old) == 21


# -- slicings -----------------------------------------------------------------------------------------------------


def laid_out(*definitions: Definition, trees: dict[int, str] | None = None) -> Layout:
    strategy: Any = "shared paired" if trees is None else "weave"
    return lay_out(plan_queries(definitions, strategy, 1, None, trees), "ts")


def cut_by(*windows: Window) -> SliceManager:
    return SliceManager(windows, "paired")


TENS, FIVES, SEVENS = Window(10, 10), Window(5, 5), Window(7, 7)
LANE = LaneKey("all", (), definition(TEN).typed.condition)


def cut_history() -> SlicingHistory:
    """Cut by tens from the first row on, by fives too from 33, by sevens too from 62."""
    history = SlicingHistory(StreamClock())
    history.note("all", cut_by(TENS))
    history.clock.see(0, 32)
    history.note("all", cut_by(TENS, FIVES))
    history.clock.see(0, 61)
    history.note("all", cut_by(TENS, FIVES, SEVENS))
    return history


def test_slices_respect_a_window_since_the_plan_that_first_cut_by_it() -> None:
    history = cut_history()
    assert history.uncut_since(TENS, LANE, 80) is None
    assert history.uncut_since(FIVES, LANE, 80) == 33
    assert history.uncut_since(SEVENS, LANE, 80) == 62
    assert history.uncut_since(Window(3, 3), LANE, 80) == 80


def test_a_time_is_an_edge_where_its_slicing_and_all_later_ones_cut() -> None:
    history = cut_history()
    assert history.is_edge(LANE, 20)
    assert not history.is_edge(LANE, 25)  # slices of tens reach over it
    assert history.is_edge(LANE, 35)
    assert not history.is_edge(LANE, 42)
    assert history.is_edge(LANE, 63)


def test_slicings_that_no_stored_slice_was_cut_by_are_forgotten() -> None:
    history = cut_history()
    history.forget({LANE: 32}, ["all"])
    assert [since for since, _ in history.cuts_of(LANE)] == [None, 33, 62]
    history.forget({LANE: 33}, ["all"])
    assert [since for since, _ in history.cuts_of(LANE)] == [33, 62]
    history.forget({LANE: 100}, ["all"])
    assert [since for since, _ in history.cuts_of(LANE)] == [62]
    history.forget({LANE: 100}, [])
    assert history.cuts_of(LANE) == []


def test_a_lane_that_moves_to_another_tree_takes_along_how_it_was_sliced() -> None:
    first, second = definition(TEN), definition("SELECT k, count(*) AS n FROM s [RANGE 7 us SLIDE 7 us] GROUP BY k", 2)
    apart = laid_out(first, second, trees={1: "t0", 2: "t1"})
    together = laid_out(first, second, trees={1: "t1", 2: "t1"})
    (lane,) = next(tree for tree in apart.plan.trees if tree.name == "t0").lanes
    history = SlicingHistory(StreamClock())
    for layout in (apart, together):
        history.move(layout)
        for tree, manager in zip(layout.plan.trees, layout.managers, strict=True):
            history.note(tree.name, manager)
        history.clock.see(0, 40)
    assert [since for since, _ in history.cuts_of(lane)] == [None, 41]
    assert history.uncut_since(TENS, lane, 80) is None
    assert history.uncut_since(SEVENS, lane, 80) == 41
    assert history.is_edge(lane, 30)
    assert not history.is_edge(lane, 28)  # of sevens, before it came to them
    history.forget({lane: 41}, ["t1"])
    assert history.moved == {}
