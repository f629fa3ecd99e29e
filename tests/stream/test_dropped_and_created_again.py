"""A query that is dropped and created again goes on behind what it had said, whatever is still stored of that time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stream.made import SECOND, MadeStream, row

PASSING = "SELECT count(*) AS n FROM s [RANGE 4 s SLIDE 4 s]"
LIKIT = "SELECT count(*) AS n FROM s [RANGE 2 s SLIDE 2 s]"  # over the same partials


def created(made: MadeStream) -> float:
    """Create the query, and return the second at which its first window ends."""
    found = made.create("passing", PASSING).first_end_us
    assert found is not None
    return found / SECOND


def departed(made: MadeStream) -> dict[str, float]:
    """Return before which second the windows of dropped queries begin that were answered."""
    return {name: (time - 1) / SECOND for name, time in made.pipeline.progress.windows.departed.items()}


def fed(made: MadeStream, *seconds: float) -> None:
    """Feed rows, answer what is due, and do what is left to be done."""
    made.feed(*map(row, seconds))
    made.pipeline.drain()


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("lags", [False, True])
def test_what_was_said_is_known_as_long_as_rows_are_kept_that_it_could_be_said_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, lags: bool, dies: bool
) -> None:
    #   rows      0 … 40 in one file | 50 | 58 | 59 | 90    kept for 20 s: the file goes with its last row, after 60
    #   passing   4 … 40, dropped                  ^ here it is created and begins at 40, though [0, 40) is kept
    monkeypatch.setattr("penstock.stream.batch_taking.COMPACTED_EVERY", 1)
    made = MadeStream(tmp_path, retain_rows_us=20 * SECOND)

    def end_and_begin() -> None:
        if dies:
            made.reopen()
        made.runner.let_answers_lag(may=lags)

    end_and_begin()
    made.create("other", "SELECT sum(v) AS x FROM s [RANGE 2 s SLIDE 2 s]")
    made.create("passing", PASSING)
    fed(made, *range(41))
    made.drop("passing")
    end_and_begin()
    for second in (50, 58, 59):
        fed(made, second)
    end_and_begin()
    assert departed(made) == {"passing": 36}
    assert made.pipeline.intake.past.kept_since_us < 0
    assert created(made) == 44
    made.drop("passing")
    end_and_begin()
    assert created(made) == (44 if lags else 60)  # while answers lag, its past is read when nothing else is to be done
    made.drop("passing")
    fed(made, 90)
    assert made.pipeline.intake.past.kept_since_us == 59 * SECOND + 1
    assert departed(made) == {}


@pytest.mark.parametrize("dies", [False, True])
def test_what_was_said_is_known_though_a_query_of_the_name_was_there_meanwhile_and_said_nothing(
    tmp_path: Path, *, dies: bool
) -> None:
    #   rows      0 … 29 |                            | 33
    #   passing   4 … 28, dropped, created, dropped, created: 32
    made = MadeStream(tmp_path)
    made.create("other", f"{LIKIT} WITH (retain = '1 h')")
    made.create("passing", PASSING)
    fed(made, *range(30))
    for _ in range(3):
        made.drop("passing")
        if dies:
            made.reopen()
        assert created(made) == 32
        made.runner.settle()
        if dies:
            made.reopen()
    fed(made, 33)
    assert made.timeline("passing") == [*((end, 4) for end in range(4, 32, 4)), (32, 2)]  # of all versions
    assert departed(made) == {"passing": 24}
    made.drop("other")
    assert departed(made) == {"other": 30}  # the plan is another: the one of the name "passing" has said more itself


def test_what_a_definition_before_had_said_is_known_when_its_successor_goes_without_an_answer(tmp_path: Path) -> None:
    #   rows      0 … 29 |         | 33                       | 35
    #   passing   4 … 28, altered, 32 of the one before it, dropped, created: 36 …
    made = MadeStream(tmp_path)
    made.create("other", f"{LIKIT} WITH (retain = '1 h')")
    made.create("passing", PASSING)
    fed(made, *range(30))
    made.alter("passing", "SELECT count(*) AS n FROM s [RANGE 8 s SLIDE 8 s]")
    fed(made, 33)
    made.runner.settle()
    assert made.pipeline.layout is not None
    assert [one.id for one in made.pipeline.layout.plan.definitions] == [1, 3]
    made.drop("passing")
    assert departed(made) == {"passing": 28}
    assert created(made) == 36


def test_what_was_said_of_a_silence_is_known_until_rows_have_come_after_it(tmp_path: Path) -> None:
    #   rows        0 … 9 |    silence    | 41
    #   watermark       9          40
    #   passing   4   8     12 … 40, dropped, created: 44
    made = MadeStream(tmp_path)
    made.create("other", "SELECT sum(v) AS x FROM s [RANGE 1 s SLIDE 1 s]")
    made.create("passing", PASSING)
    fed(made, *range(10))
    made.pipeline.advance(made.runner.snapshot(), 40 * SECOND)
    made.drop("passing")
    fed(made, 5)  # late
    assert departed(made) == {"passing": 36}
    assert created(made) == 40 + 4
    made.drop("passing")
    fed(made, 41)
    assert departed(made) == {}
    assert created(made) == 48


@pytest.mark.parametrize("kept_s", [0, 60])
def test_a_query_that_had_answered_little_does_not_begin_before_the_first_row(tmp_path: Path, kept_s: int) -> None:
    #   rows      0.5   2        | 30
    #   passing   [-10, 2), dropped, created: [-8, 4), …, but no window before the first row
    made = MadeStream(tmp_path, retain_rows_us=kept_s * SECOND)
    made.create("other", f"{LIKIT} WITH (retain = '1 h')")
    made.create("passing", "SELECT count(*) AS n FROM s [RANGE 12 s SLIDE 4 s OFFSET 2 s]")
    fed(made, 0.5, 2)
    made.drop("passing")
    assert departed(made) == {"passing": -10}
    fed(made, 30)
    assert created(made) == 4


def test_rows_that_a_query_is_promised_are_kept_until_its_past_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    #   rows      0 … 20 | 21 … 30 | 31                         | 45                                | 60   kept for 10 s
    #   passing                      created: 28, 32, …, asked    21 … 30 would go, but are to be read
    monkeypatch.setattr("penstock.stream.batch_taking.COMPACTED_EVERY", 1)
    made = MadeStream(tmp_path, retain_rows_us=10 * SECOND)
    made.runner.let_answers_lag()
    made.create("other", "SELECT sum(v) AS x FROM s [RANGE 2 s SLIDE 2 s]")
    fed(made, *range(21))
    fed(made, *range(21, 31))
    made.feed(row(31))
    assert made.pipeline.upkeep  # lets go of the first rows
    text = f"{PASSING} WHERE k = 'a'"
    assert made.create("passing", text).first_end_us == 28 * SECOND
    made.runner.settle()
    since = made.pipeline.intake.past.kept_since_us
    assert since == 20 * SECOND + 1
    assert list(made.pipeline.progress.windows.asked) == [2]
    fed(made, 45)
    assert made.pipeline.intake.past.kept_since_us == since
    made.runner.past.finish()
    made.pipeline.drain()
    assert made.timeline("passing") == [(28, 4), (32, 4), (36, 0), (40, 0), (44, 0)]
    fed(made, 60)
    assert made.pipeline.intake.past.kept_since_us > since
