"""Which windows become due as a stream's time moves, without Spark: rows, silence, pauses, late rows, the end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import StreamEnded
from penstock.evaluate.windows import due
from penstock.evaluate.windows.due import MOST_EMPTY
from penstock.kernel.pending import Pending
from penstock.kernel.synopsis import Synopsis
from penstock.share.layout import Layout, lay_out
from penstock.share.plan import plan_queries
from penstock.stream import due_windows
from penstock.stream.due_windows import DueWindows
from penstock.stream.progress import Progress
from penstock.testing import ManualClock
from tests.cases import cases
from tests.stream.made import SECOND, MadeStream, definition, row

Open = Callable[..., MadeStream]
COUNT = "SELECT count(*) AS n FROM s"


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    def open_(**options: Any) -> MadeStream:
        return MadeStream(tmp_path, **options)

    return open_


def at(second: float) -> ManualClock:
    return ManualClock(timedelta(seconds=second) + ManualClock("1970-01-01").now)


# -- the watermark -------------------------------------------------------------------------------------------------


def test_a_window_is_final_when_the_greatest_time_less_the_lateness_reaches_its_end(opened: Open) -> None:
    made = opened(lateness_us=5 * SECOND)
    made.create("q", f"{COUNT} [RANGE 10 s SLIDE 10 s]")
    made.feed(row(1), row(14.999999))
    assert made.timeline("q") == []
    made.feed(row(15), row(9.999999))  # late by nobody's watermark: it was 9.999999 before this batch
    assert made.timeline("q") == [(10, 2)]


def test_late_is_what_the_watermark_before_the_batch_has_passed(opened: Open) -> None:
    made = opened()
    made.create("q", f"{COUNT} [RANGE 10 s SLIDE 10 s]")
    made.feed(row(12))
    made.feed(row(30), row(11), row(12))  # 12 is not before the watermark
    counts = made.pipeline.progress.clock.counts
    assert (counts.on_time, counts.late) == (3, 1)
    assert made.timeline("q") == [(20, 3), (30, 0)]  # a late row enters windows that are not final


def test_a_row_too_far_ahead_of_the_clock_never_moves_the_watermark(opened: Open) -> None:
    made = opened(max_ahead_us=60 * SECOND, clock=at(100))
    made.create("q", f"{COUNT} [RANGE 10 s SLIDE 10 s]")
    made.feed(row(1), row(160.000001), {**row(0), "ts": None})
    clock = made.pipeline.progress.clock
    assert (clock.watermark_us, clock.invalid.ahead, clock.invalid.no_time) == (SECOND, 1, 1)
    made.feed(row(160))
    assert (clock.watermark_us, clock.counts.invalid) == (160 * SECOND, 2)


def test_a_batch_without_a_usable_time_makes_nothing_due(opened: Open) -> None:
    made = opened(clock=at(100))
    made.create("q", f"{COUNT} [RANGE 10 s SLIDE 10 s]")
    made.feed({**row(0), "ts": None})
    assert (made.pipeline.progress.clock.watermark_us, made.timeline("q")) == (None, [])
    made.feed()
    assert made.pipeline.progress.clock.counts.ingested == 1


def test_an_idle_stream_goes_on_by_the_clock_and_never_past_it(opened: Open) -> None:
    made = opened(idle_us=10 * SECOND, lateness_us=2 * SECOND, clock=at(20))
    made.create("q", f"{COUNT} [RANGE 10 s SLIDE 10 s]")
    made.feed(row(15))
    clock = made.pipeline.progress.clock
    made.clock.advance("9999 ms")
    assert not made.heartbeat()
    made.clock.advance("1 ms")
    assert made.heartbeat()
    assert clock.watermark_us == 23 * SECOND  # 13 s, and 10 s of silence
    assert made.timeline("q") == [(20, 1)]
    made.clock.advance("30 s")
    assert made.heartbeat()
    assert clock.watermark_us == 53 * SECOND
    made.feed(row(50))  # below what the heartbeats have reached
    assert clock.watermark_us == 53 * SECOND
    made.feed(row(61))
    made.clock.advance("1 min")
    assert made.heartbeat()
    assert clock.watermark_us == 118 * SECOND  # 59 s and a minute, but the clock less the lateness is less


def test_without_idle_time_waits_for_rows(opened: Open) -> None:
    made = opened(clock=at(20))
    made.create("q", f"{COUNT} [RANGE 10 s SLIDE 10 s]")
    made.feed(row(15))
    made.clock.advance("1 d")
    assert not made.heartbeat()
    assert made.timeline("q") == []


def test_a_clock_that_is_set_back_lets_the_waiting_begin_anew(opened: Open) -> None:
    made = opened(idle_us=10 * SECOND, clock=at(100))
    made.create("q", f"{COUNT} [RANGE 10 s SLIDE 10 s]")
    made.feed(row(50))
    made.clock.set(at(60).now)
    assert not made.heartbeat()
    made.clock.advance("9 s")
    assert not made.heartbeat()
    made.clock.advance("1 s")
    assert made.heartbeat()
    assert made.pipeline.progress.clock.watermark_us == 60 * SECOND


# -- ends --------------------------------------------------------------------------------------------------------


def test_ends_are_aligned_to_the_offset_and_the_first_is_after_the_first_row(opened: Open) -> None:
    made = opened()
    made.create("q", f"{COUNT} [RANGE 10 s SLIDE 5 s OFFSET 2 s]")
    made.feed(row(7), row(8))  # 7 is an end: a row at it is in the windows after it
    made.feed(row(17))
    assert made.timeline("q") == [(12, 2), (17, 2)]


def test_rows_between_two_windows_are_in_none(opened: Open) -> None:
    #   windows  [7, 10)  [17, 20)  [27, 30): a row at 12 is in none, one at 18 in the second
    made = opened()
    made.create("all", f"{COUNT} [RANGE 3 s SLIDE 10 s]")
    made.create("by_k", "SELECT k, count(*) AS n FROM s [RANGE 3 s SLIDE 10 s] GROUP BY k")
    made.feed(row(12), row(18))
    made.feed(row(45))
    assert made.timeline("all") == [(20, 1), (30, 0), (40, 0)]
    assert made.timeline("by_k") == [(20, "a", 1)]
    made.runner.flush()
    assert made.timeline("all")[3:] == []  # [47, 50) holds no row


def test_the_end_answers_through_the_last_window_that_holds_a_row(opened: Open) -> None:
    made = opened(lateness_us=100 * SECOND)
    made.create("q", f"{COUNT} [RANGE 10 s SLIDE 5 s]")
    made.feed(row(1), row(12))
    assert made.runner.open_windows() == 4
    made.runner.flush()
    assert made.timeline("q") == [(5, 1), (10, 1), (15, 1), (20, 1)]
    assert made.runner.open_windows() == 0
    with pytest.raises(StreamEnded):
        made.feed(row(30))
    made.reopen()
    with pytest.raises(StreamEnded):
        made.feed(row(30))


def test_a_long_silence_is_answered_so_far_and_told_once_however_it_is_cut(opened: Open) -> None:
    made = opened(idle_us=SECOND, clock=at(2))
    made.create("q", f"{COUNT} [RANGE 1 ms SLIDE 1 ms]")
    made.feed(row(0))
    told = list[str]()
    for second in (4, 4, 5, 6, 7):  # and a window each millisecond
        made.clock.advance(second)
        assert made.heartbeat()
        told += [text for text in made.pipeline.reports if "empty windows skipped" in text]
        made.reopen()
    answered = made.timeline("q")
    assert len(answered) == 1 + MOST_EMPTY
    assert answered[-1] == (10.001, 0)
    assert len(told) == 1
    [silence] = made.pipeline.progress.windows.silences.values()
    assert silence.empty == MOST_EMPTY + silence.skipped == 25_999
    made.feed(row(28.0))
    made.feed(row(28.001))
    assert made.timeline("q")[-1] == (28.001, 1)


@settings(max_examples=cases(60), deadline=None)
@given(
    window=st.tuples(st.integers(1, 12), st.integers(1, 9), st.integers(0, 8)),
    first=st.integers(-20, 20),
    steps=st.lists(st.integers(-3, 25), min_size=1, max_size=8),
)
def test_steps_of_time_list_each_end_once_and_in_order(
    window: tuple[int, int, int], first: int, steps: list[int]
) -> None:
    length, slide, offset = window
    text = f"{COUNT} [RANGE {length} us SLIDE {slide} us OFFSET {offset} us]"
    due_windows, layout = begun(text, first)
    watermark, found = first, list[int]()
    for step in steps:
        watermark = max(watermark, watermark + step)
        found += ends_of(due_windows.after_batch(layout, watermark))
        due_windows.progress.clock.watermark_us = watermark
    wanted = [end for end in range(first + 1, watermark + 1) if (end - offset) % slide == 0]
    assert found == wanted
    at_once, layout = begun(text, first)
    assert ends_of(at_once.due(layout, watermark)) == wanted


def begun(text: str, first_us: int) -> tuple[DueWindows, Layout]:
    """Begin a stream of one query with one row."""
    layout = lay_out(plan_queries([definition(text)], "shared paired", 1), "ts")
    progress, synopsis = Progress(), Synopsis()
    progress.switch(layout, None)
    synopsis.prepare(layout)
    progress.clock.see(first_us, first_us)
    return DueWindows(progress, synopsis), layout


def ends_of(pending: list[Pending]) -> list[int]:
    return [end for one in pending for end in one.ends.to_array().tolist()]


# -- queries that pause, come and go -----------------------------------------------------------------------------


def test_windows_that_end_during_a_pause_are_not_answered_and_partials_go_on(opened: Open) -> None:
    made = opened()
    made.create("q", f"{COUNT} [RANGE 20 s SLIDE 10 s]")
    made.feed(row(1), row(11))
    made.changes.pause("q")
    made.feed(row(12), row(25))
    made.feed(row(35))
    made.changes.resume("q")
    made.feed(row(41))
    assert made.timeline("q") == [(10, 1), (40, 2)]  # 25 and 35: what came during the pause counts


def test_a_pause_before_the_first_row_that_ends_before_it_leaves_no_trace(opened: Open) -> None:
    made = opened()
    made.create("q", f"{COUNT} [RANGE 10 s SLIDE 10 s]")
    made.changes.pause("q")
    made.changes.resume("q")
    made.feed(row(1), row(21))
    assert made.timeline("q") == [(10, 1), (20, 0)]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_pause_outlasts_a_restart_and_so_does_its_end(opened: Open, restarts: bool) -> None:
    made = opened()
    made.create("q", f"{COUNT} [RANGE 10 s SLIDE 10 s]")
    made.feed(row(1), row(11))
    made.changes.pause("q")
    made.reopen() if restarts else None
    made.feed(row(21))
    made.changes.resume("q")
    made.reopen() if restarts else None
    made.feed(row(31))
    assert made.timeline("q") == [(10, 1), (30, 1)]


def test_a_query_begins_with_the_first_window_that_is_wholly_stored(opened: Open) -> None:
    made = opened()
    made.create("long", f"{COUNT} [RANGE 30 s SLIDE 10 s]")
    made.feed(row(1), row(12), row(24))
    same = made.create("same", f"{COUNT} [RANGE 20 s SLIDE 10 s]")
    other = made.create("other", "SELECT sum(v) AS n FROM s [RANGE 20 s SLIDE 10 s]")
    grouped = made.create("grouped", "SELECT k, count(*) AS n FROM s [RANGE 20 s SLIDE 10 s] GROUP BY k")
    assert same.first_end_us == 10 * SECOND  # the longer window has kept all slices, and they are cut alike
    assert made.timeline("same") == [(10, 1), (20, 2)]
    for entered in (other, grouped):  # their partials begin behind the last row
        assert entered.first_end_us == 50 * SECOND
    made.feed(row(51))
    assert made.timeline("other") == [(50, None)]
    assert made.timeline("same")[2:] == [(30, 2), (40, 1), (50, 0)]


def test_a_query_without_a_row_yet_begins_with_the_first_row_even_if_late_ones_come_first(opened: Open) -> None:
    made = opened(lateness_us=60 * SECOND)
    made.create("q", f"{COUNT} [RANGE 10 s SLIDE 10 s]")
    made.feed(row(45))
    made.feed(row(13))  # on time: the watermark is -15
    made.feed(row(100))
    assert made.timeline("q") == [(20, 1), (30, 0), (40, 0)]


def test_an_altered_query_answers_the_windows_that_began_before_by_its_old_definition(opened: Open) -> None:
    made = opened()
    made.create("q", f"{COUNT} [RANGE 20 s SLIDE 10 s]")
    made.feed(row(1), row(12))
    entered = made.alter("q", "SELECT sum(v) AS n FROM s [RANGE 10 s SLIDE 10 s]")
    assert entered.first_end_us == 30 * SECOND  # [20, 30) is the first that begins behind 12
    made.feed(row(25, 7))
    made.feed(row(61))
    # by the old one through the window that begins by 12, which ends at 30; by the new one from [20, 30) on
    assert made.timeline("q") == [(10, 1), (20, 2), (30, 2), (30, 7), (40, None), (50, None), (60, None)]
    assert len(made.catalog.leaving("s")) == 0  # the old one is gone


def answered_ends(made: MadeStream, *numbers: int) -> list[int]:
    """List the seconds at which the windows end that some definitions have answered."""
    there = [made.catalog.edition(number) for number in numbers]
    tables = [made.revisions(known) for known in there if known is not None]
    return [end // SECOND for table in tables for end in table["window_end"].cast("int64").to_pylist()]


@pytest.mark.parametrize("paused", [False, True])
def test_an_altered_query_does_not_answer_silent_windows_again(opened: Open, paused: bool) -> None:
    made = opened(idle_us=10 * SECOND, clock=at(20))
    made.create("q", f"{COUNT} [RANGE 20 s SLIDE 10 s] WITH (late = 'revise', revise_for = '1 d')")
    made.feed(row(1), row(12))
    before = made.catalog.query("q").id
    made.clock.advance("100 s")
    assert made.heartbeat()  # to 112: nothing was seen since 12
    if paused:
        made.control("q", pause=True)
    entered = made.alter("q", "SELECT count(*) + 0 AS n FROM s [RANGE 20 s SLIDE 10 s]")
    assert entered.first_end_us == 120 * SECOND
    if paused:
        made.control("q", pause=False)
    made.reopen()
    made.feed(row(151))
    made.feed(row(171))
    assert answered_ends(made, before) == list(range(10, 120, 10))
    assert answered_ends(made, before, made.catalog.query("q").id) == list(range(10, 180, 10))


def test_a_query_at_another_period_does_not_answer_silent_windows_again(opened: Open) -> None:
    made = opened(idle_us=10 * SECOND, clock=at(20), synchronize="CS")
    for name, slide in (("often", 4), ("q", 10)):
        text = f"SELECT approx_count_distinct(v) AS n FROM s [RANGE 20 s SLIDE {slide} s] WITH (emit = 'fresh')"
        made.create(name, text)
    made.feed(row(1), row(12))
    before = made.catalog.query("q")
    made.clock.advance("99 s")
    assert made.heartbeat()  # to 111: of the ends of a period of 4 s, the last one is 108
    answered = answered_ends(made, before.id)
    made.synchronize_by("AS")
    made.feed(row(151))
    made.feed(row(171))
    after = made.catalog.query("q")
    assert (after.query.window.slide, answered[-1]) == (4 * SECOND, 110)
    ends = answered_ends(made, before.id, after.id)
    assert ends == sorted(set(ends))
    assert ends[-1] == 168


@given(
    st.tuples(st.integers(1, 30), st.integers(1, 15)),
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 15)), max_size=3),
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
    st.booleans(),
)
@settings(max_examples=cases(40), deadline=None)
def test_the_first_window_that_create_tells_is_the_first_one_that_is_answered_whoever_dies_before(
    asked: tuple[int, int], others: list[tuple[int, int]], seconds: list[int], twice: bool
) -> None:
    with TemporaryDirectory() as folder:
        made = MadeStream(Path(folder))
        for number, (length, slide) in enumerate(others):
            made.create(f"q{number}", f"{COUNT} [RANGE {length} s SLIDE {slide} s]")
        made.create("other", "SELECT max(v) AS n FROM s [RANGE 5 s SLIDE 5 s]")
        for place in range(len(seconds)):
            made.feed(row(sum(seconds[: place + 1])))
        told = made.create("new", f"{COUNT} [RANGE {asked[0]} s SLIDE {asked[1]} s]").first_end_us
        if twice:
            made.create("more", "SELECT min(v) AS n FROM s [RANGE 7 s SLIDE 7 s]")
        made.reopen()
        made.feed(row(sum(seconds) + 200))
        assert told is not None
        assert made.timeline("new")[0][0] == told / SECOND


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 15)), min_size=8, max_size=12),
    st.lists(st.integers(0, 300), min_size=1, max_size=6),
    st.integers(0, 5),
)
@settings(max_examples=cases(12), deadline=None)
def test_many_queries_of_one_lane_are_due_as_each_of_them_alone(
    windows: list[tuple[int, int]], seconds: list[int], paused: int
) -> None:
    found = []
    for many in (8, 1_000_000):  # together, and one by one
        with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
            patch.setattr(due_windows, "MANY", many)
            patch.setattr(due, "MOST_EMPTY", 20)
            made = MadeStream(Path(folder))
            for number, (length, slide) in enumerate(windows):
                made.create(f"q{number}", f"{COUNT} [RANGE {length} s SLIDE {slide} s]")
            for place, second in enumerate(seconds):
                made.feed(row(sum(seconds[:place]) + second))
                if place == 1:
                    made.changes.pause(f"q{paused}")
                if place == 3:
                    made.changes.resume(f"q{paused}")
            windows_of = made.pipeline.progress.windows
            told = windows_of.next_ends, windows_of.first_ends, windows_of.silences, made.pipeline.reports
            found.append(([made.timeline(f"q{number}") for number in range(len(windows))], told))
    assert found[0] == found[1]


# -- late rows ------------------------------------------------------------------------------------------------------


REVISED = "SELECT sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s] WITH (late = 'revise', revise_for = '15 s')"


def revisions(made: MadeStream, name: str) -> list[tuple[Any, ...]]:
    return [
        (one["window_end"].timestamp(), one["revision"], one["op"], one["x"])
        for one in made.revisions(made.catalog.query(name)).to_pylist()
    ]


def test_the_last_revision_of_a_window_is_by_the_watermark_before_the_batch(opened: Open) -> None:
    made = opened()
    made.create("q", REVISED)
    made.feed(row(1), row(24.999999))  # the window that ends at 10 may be revised below 25
    made.feed(row(2, 5), row(40))  # judged by 24.999999, although this batch lets go of the window
    assert revisions(made, "q")[:2] == [(10, 0, "answer", 1), (10, 1, "revise", 6)]
    made.feed(row(3, 100))
    assert revisions(made, "q")[:2] == [(10, 0, "answer", 1), (10, 1, "revise", 6)]
    counts = made.pipeline.progress.clock.counts
    assert (counts.corrected, counts.late) == (1, 1)
    assert made.pipeline.progress.windows.too_late == {1: 1}


def test_a_restart_between_two_late_rows_counts_revisions_on(opened: Open) -> None:
    made = opened()
    made.create("q", REVISED)
    made.feed(row(1), row(12))
    for number in (1, 2, 3):
        made.reopen()
        made.feed(row(number, 10))
    assert revisions(made, "q") == [(10, 0, "answer", 1), *((10, n, "revise", 1 + 10 * n) for n in (1, 2, 3))]


def test_a_paused_query_is_not_revised_and_its_old_answers_never_again(opened: Open) -> None:
    made = opened()
    made.create("q", REVISED)
    made.feed(row(1), row(12))
    made.changes.pause("q")
    made.feed(row(2, 5))
    made.changes.resume("q")
    made.feed(row(3, 5))
    made.feed(row(21), row(11, 3))
    made.feed(row(15, 4))
    assert revisions(made, "q") == [(10, 0, "answer", 1), (20, 0, "answer", 4), (20, 1, "revise", 8)]
