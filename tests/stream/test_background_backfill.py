"""Backfills of a running stream: whatever comes meanwhile, they say what one says that batches wait for."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SourceError, StateError
from penstock.store.faults import MOMENTS
from penstock.stream.background_share import BackgroundShare
from penstock.stream.desk import Desk
from penstock.stream.past_reading import PastReading
from penstock.testing import ManualClock
from tests.cases import cases
from tests.stream.made import SECOND, MadeStream, row
from tests.stream.scheduled import drawn_batches, said

LIVE = "SELECT k, sum(v) AS x FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k"
MORE = "SELECT j, sum(v) AS x FROM s [RANGE 10 s SLIDE 5 s] GROUP BY j"
ASKED = {
    "new": "SELECT k, max(v) AS x FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k",
    "all": "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE 9 s SLIDE 3 s]",
    "revised": "SELECT k, min(v) AS x FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k "
    "WITH (late = 'revise', revise_for = '1 min')",
}


def opened(folder: Path, *, lags: bool) -> MadeStream:
    folder.mkdir()
    made = MadeStream(folder, lateness_us=2 * SECOND)
    made.create("live", LIVE)
    made.runner.let_answers_lag(may=lags)
    return made


def ask(made: MadeStream, *names: str, since_us: int | None = None) -> None:
    """Ask for the past of queries, as a running engine is asked."""
    made.runner.past.ask({made.catalog.query(name).id: since_us for name in names})


def read_all(made: MadeStream) -> None:
    """Read the past to its end, and answer nothing of it."""
    while made.runner.past.go_on():
        pass


def in_turn(made: MadeStream, draw: random.Random) -> bool:
    """Do some background work, and some live; tell whether a past was taken over."""
    asked, taken = bool(made.pipeline.progress.windows.asked), False
    for _ in range(draw.randrange(4)):
        made.runner.past.go_on()
        taken = asked and not made.pipeline.progress.windows.asked
        if taken:
            return True
    if made.pipeline.committer.past and draw.randrange(3):
        made.pipeline.past.answer()
    keys = list(made.pipeline.committer.unanswered.items)
    made.pipeline.answer_next(draw.sample(keys, draw.randint(0, len(keys))))
    return False


@settings(max_examples=cases(12), deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_whatever_comes_between_its_pieces_a_backfill_says_what_one_at_once_says(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.stream.evaluation_order.GROUP_S", 0.0)  # as many pieces as there can be
        run_both(random.Random(seed), tmp_path_factory.mktemp("past"))


def run_both(draw: random.Random, folder: Path) -> None:
    """Let one stream read its past aside, and another at once when the first takes it over."""
    at_once, aside = opened(folder / "at_once", lags=False), opened(folder / "aside", lags=True)
    streams, since = (at_once, aside), draw.choice([None, 7 * SECOND])
    for batch in drawn_batches(draw):
        for made in streams:
            made.feed(*batch)
    for made in streams:
        for name, text in ASKED.items():
            made.create(name, text)
    ask(aside, *ASKED, since_us=since)
    left = [*drawn_batches(draw), *drawn_batches(draw)]
    shift = (aside.pipeline.progress.clock.last_us or 0) - draw.choice([0, 0, 4, 20]) * SECOND
    for batch in left:
        if in_turn(aside, draw):
            at_once.runner.backfill({at_once.catalog.query(name).id: since for name in ASKED})
        batch = [{**one, "ts": one["ts"] + max(0, shift)} for one in batch]
        for made in streams:
            made.feed(*batch)
        match draw.randrange(9):
            case 0:  # as after the end of the process
                aside.reopen()
                aside.runner.let_answers_lag()
            case 1:
                for made in streams:
                    if "more" not in made.catalog.query_names():
                        made.create("more", MORE)
    if aside.pipeline.progress.windows.asked:
        read_all(aside)
        at_once.runner.backfill({at_once.catalog.query(name).id: since for name in ASKED})
    aside.runner.flush()
    at_once.runner.flush()
    assert said(aside) == said(at_once)
    assert (aside.pipeline.progress.windows.past, aside.pipeline.progress.windows.asked) == ({}, {})


def test_a_query_that_comes_with_its_past_answers_what_comes_before_that_past_is_read(tmp_path: Path) -> None:
    #   rows  1 .. 34 | the query comes | 35 .. 54 | its past is read: windows up to 40 are of the past
    made = opened(tmp_path / "made", lags=True)
    made.feed(*(row(s) for s in range(35)))
    made.create("late", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] WITH (from = 'beginning')")
    made.feed(*(row(s) for s in range(35, 62)))
    made.runner.let_answers_lag(may=False)
    made.runner.let_answers_lag()
    assert made.timeline("late") == [(50.0, 10)]
    read_all(made)
    assert made.timeline("late") == [(50.0, 10)]
    while made.pipeline.committer.past:
        made.pipeline.past.answer()
    assert made.timeline("late") == [(10.0 * n, 10) for n in range(1, 6)]
    made.reopen()
    assert made.timeline("late") == [(10.0 * n, 10) for n in range(1, 6)]


def test_a_query_that_says_changes_says_its_past_first(tmp_path: Path) -> None:
    made = opened(tmp_path / "made", lags=True)
    made.feed(*(row(s, v=s // 10 % 2) for s in range(35)))
    made.create("q", "SELECT max(v) AS x FROM s [RANGE 10 s SLIDE 10 s] WITH (from = 'beginning', emit = 'change')")
    made.feed(*(row(s, v=0) for s in range(35, 72)))
    made.runner.let_answers_lag(may=False)
    made.runner.let_answers_lag()
    assert made.timeline("q") == []
    read_all(made)
    made.runner.let_answers_lag(may=False)
    assert made.timeline("q") == [(10.0, 0), (20.0, 1), (30.0, 0), (40.0, 1), (50.0, 0)]


def test_a_backfill_begins_again_by_itself_after_a_death(tmp_path: Path) -> None:
    made = opened(tmp_path / "made", lags=True)
    made.feed(*(row(s) for s in range(35)))
    made.create("late", "SELECT max(v) AS n FROM s [RANGE 10 s SLIDE 10 s]")
    made.feed(*(row(s) for s in range(35, 62)))
    ask(made, "late")
    assert made.runner.past.go_on()
    made.reopen()
    assert made.pipeline.progress.windows.asked
    made.runner.past.finish()
    assert made.timeline("late") == [(10.0 * n, 1) for n in range(1, 6)]


def test_a_query_that_is_dropped_takes_its_backfill_along(tmp_path: Path) -> None:
    made = opened(tmp_path / "made", lags=True)
    made.feed(*(row(s) for s in range(35)))
    for name in ("one", "other"):
        made.create(name, f"SELECT max(v) AS {name} FROM s [RANGE 10 s SLIDE 10 s]")
    made.feed(*(row(s) for s in range(35, 62)))
    ticket = made.runner.past.ask({made.catalog.query(name).id: None for name in ("one", "other")})
    assert made.runner.past.go_on()
    made.drop("one")
    made.runner.past.finish()
    assert made.timeline("other") == [(10.0 * n, 1) for n in range(1, 6)]
    assert ticket.wait() == {made.catalog.query("other").id: 4}
    made.drop("other")
    assert made.pipeline.progress.windows.past == {}


def test_a_query_that_is_altered_meanwhile_answers_every_window_once(tmp_path: Path) -> None:
    made = opened(tmp_path / "made", lags=True)
    made.feed(*(row(s) for s in range(35)))
    made.create("late", "SELECT max(v) AS n FROM s [RANGE 10 s SLIDE 10 s]")
    made.feed(*(row(s) for s in range(35, 62)))
    ask(made, "late")
    assert made.runner.past.go_on()
    made.alter("late", "SELECT min(v) AS n FROM s [RANGE 10 s SLIDE 10 s]")
    made.feed(*(row(s, v=2) for s in range(62, 75)))
    made.runner.past.finish()
    made.feed(*(row(s, v=2) for s in range(75, 93)))
    made.runner.let_answers_lag(may=False)
    assert [end for end, _ in made.timeline("late")] == [10.0 * n for n in range(1, 10)]
    assert made.timeline("late")[:7] == [*((10.0 * n, 1) for n in range(1, 7)), (70.0, 2)]


def test_late_rows_enter_no_window_of_a_backfill_that_was_taken_over(tmp_path: Path) -> None:
    made = opened(tmp_path / "made", lags=True)
    made.feed(*(row(s) for s in range(35)))
    made.create("late", "SELECT count(v) AS n FROM s [RANGE 10 s SLIDE 10 s]")
    made.feed(*(row(s) for s in range(35, 62)))
    ask(made, "late")
    read_all(made)
    made.feed(row(25), row(63))  # 10 and 20 end before it; 30 and 40 are answered first
    assert made.timeline("late")[:2] == [(30.0, 10), (40.0, 10)]
    assert made.pipeline.progress.windows.past == {made.catalog.query("late").id: 10 * SECOND}
    made.runner.past.finish()
    assert made.timeline("late")[:4] == [(10.0 * n, 10) for n in range(1, 5)]


def test_a_past_that_cannot_be_read_pauses_the_query_that_came_with_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = opened(tmp_path / "made", lags=True)
    made.feed(*(row(s) for s in range(35)))
    made.create("late", "SELECT max(v) AS n FROM s [RANGE 10 s SLIDE 10 s] WITH (from = 'beginning')")
    made.create("asked", "SELECT min(v) AS n FROM s [RANGE 10 s SLIDE 10 s]")
    made.feed(row(35))
    ticket = made.runner.past.ask({made.catalog.query("asked").id: None})

    def unreadable(*_: object, **__: object) -> None:
        raise SourceError("a file is gone")

    monkeypatch.setattr(made.pipeline.admission.past, "rows_of", unreadable)
    read_all(made)
    paused = made.pipeline.progress.windows.paused
    assert [made.catalog.name_of(number) for number in paused] == ["late"]
    with pytest.raises(SourceError, match="a file is gone"):
        ticket.wait()
    assert made.pipeline.progress.windows.asked == {}


def test_who_waits_for_a_backfill_is_told_that_the_stream_stops(tmp_path: Path) -> None:
    made = opened(tmp_path / "made", lags=True)
    made.feed(*(row(s) for s in range(35)))
    made.create("late", "SELECT max(v) AS n FROM s [RANGE 10 s SLIDE 10 s]")
    made.feed(*(row(s) for s in range(35, 62)))
    ticket = made.runner.past.ask({made.catalog.query("late").id: None})
    made.runner.stop_waiting()
    with pytest.raises(StateError, match="in the middle of a backfill"):
        ticket.wait()


def test_the_desk_answers_windows_of_the_past_when_nothing_else_waits(tmp_path: Path) -> None:
    made, desk = opened(tmp_path / "made", lags=True), Desk()
    made.feed(*(row(s) for s in range(35)))
    made.create("late", "SELECT count(v) AS n FROM s [RANGE 10 s SLIDE 10 s]")
    made.feed(*(row(s) for s in range(35, 62)))
    ticket = made.runner.past.ask({made.catalog.query("late").id: None})
    read_all(made)
    assert made.timeline("late") == []
    desk.join(made.pipeline)
    assert ticket.wait() == {made.catalog.query("late").id: 4}
    desk.leave(made.pipeline)
    made.runner.let_answers_lag(may=False)
    assert made.timeline("late") == [(10.0 * n, 10) for n in range(1, 6)]


def test_a_past_is_taken_over_right_after_a_batch_or_once_a_turn_is_owed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = opened(tmp_path / "made", lags=True)
    worker, unanswered = made.runner.past, made.pipeline.committer.unanswered
    monkeypatch.setattr("penstock.stream.background_share.OWED_US", 1 << 62)
    made.feed(*(row(s) for s in range(35)))
    made.create("late", ASKED["new"])
    made.feed(*(row(s) for s in range(35, 62)))
    ask(made, "late")
    made.pipeline.answer_next(list(unanswered.items))
    backfills = made.pipeline.past.backfills
    while backfills.reading is None or not backfills.reading.is_read:
        assert worker.may_go_on()  # reading keeps nobody waiting
        assert worker.go_on()
    assert [worker.may_go_on() for _ in range(2)] == [False, False]
    with monkeypatch.context() as patched:
        patched.setattr("penstock.stream.background_share.OWED_US", 0)
        assert worker.may_go_on()
    assert not worker.may_go_on()
    made.feed(row(80))
    assert not worker.may_go_on()  # its windows are answered first
    made.pipeline.answer_next(list(unanswered.items))
    assert worker.may_go_on()


@pytest.mark.parametrize("meanwhile", [False, True])
def test_batches_wait_for_what_came_while_the_rest_was_read_and_for_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: bool
) -> None:
    """Two batches come since the past was read, and maybe a third one while their rows are read beside batches."""
    made = opened(tmp_path / "made", lags=True)
    made.feed(*(row(s) for s in range(35)))
    made.create("late", ASKED["new"])
    made.feed(*(row(s) for s in range(35, 62)))
    ask(made, "late")
    backfills, holding, read = made.pipeline.past.backfills, list[bool](), list[bool]()
    while backfills.reading is None or not backfills.reading.is_read:
        assert made.runner.past.go_on()
    for second in (70, 80):
        made.feed(row(second))
    no_batch, go_on = made.runner.no_batch, PastReading.go_on

    @contextmanager
    def noted() -> Iterator[None]:
        with no_batch():
            holding.append(True)
            yield
            holding.pop()

    def noting(reading: PastReading) -> None:
        read.append(bool(holding))
        if meanwhile and len(read) == 1:
            made.feed(row(90))
        go_on(reading)

    monkeypatch.setattr(made.runner, "no_batch", noted)
    monkeypatch.setattr(PastReading, "go_on", noting)
    assert made.runner.past.go_on()
    assert not made.pipeline.progress.windows.asked  # it is taken over
    assert False in read
    assert (True in read) == meanwhile
    made.runner.let_answers_lag(may=False)
    made.runner.past.finish()
    assert made.timeline("late") == [(5.0 * n, "a", 1) for n in range(1, 18 if meanwhile else 16)]


def test_background_work_is_owed_a_turn_after_two_seconds_without_one() -> None:
    clock = ManualClock("2026-01-05")
    share = BackgroundShare(clock)
    assert not share.is_owed()
    clock.advance(1.9)
    assert not share.is_owed()
    clock.advance(0.1)
    assert share.is_owed()
    share.had()
    assert not share.is_owed()


class Died(BaseException):
    """The end of the process."""


@pytest.mark.parametrize("point", ["commit", "answers"])
def test_a_death_at_any_write_of_a_backfill_loses_and_repeats_nothing(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", 0.0)
    expected = said(backfilled(tmp_path / "alive", monkeypatch, "", 0))
    for moment in MOMENTS:
        for times in (1, 3):
            dead = backfilled(tmp_path / f"{moment}{times}", monkeypatch, f"{point}.{moment}", times)
            assert said(dead) == expected


def backfilled(folder: Path, monkeypatch: pytest.MonkeyPatch, moment: str, times: int) -> MadeStream:
    """Backfill a query beside batches, and die when a moment is reached for the so-many-eth time."""
    made, left = opened(folder, lags=True), [times]
    made.feed(*(row(s) for s in range(35)))
    made.create("late", "SELECT k, count(v) AS n FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k")
    made.feed(*(row(s) for s in range(35, 62)))
    steps: list[Callable[[], object]] = [
        lambda: ask(made, "late"),
        lambda: read_all(made),
        lambda: made.pipeline.past.answer() if made.pipeline.committer.past else None,
        lambda: made.feed(row(25), row(69), number=2),
        lambda: made.runner.past.finish(),
    ]

    def reached(at: str) -> None:
        left[0] -= at == moment
        if at == moment and left[0] == 0:
            raise Died

    for number, step in enumerate(steps):
        monkeypatch.setattr("penstock.store.faults.hook", reached)
        try:
            step()
        except Died:
            monkeypatch.setattr("penstock.store.faults.hook", None)
            made.reopen()
            made.runner.let_answers_lag()
            if number != len(steps) - 1:
                step()
        monkeypatch.setattr("penstock.store.faults.hook", None)
    made.runner.past.finish()
    made.runner.flush()
    return made
