"""The model that judges the engine, by examples small enough to work out by hand, and by what it must not know."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.always.model import TERMS, Disagreement, Entry, Model
from tests.always.questions import Question, Row

TEN = Question(10, 10, 0, (), ("count(*)", "sum(v)"))


def row(ts: int | None, v: int | None = 1, k: str | None = None, number: int = 0) -> Row:
    return {"id": number, "ts": ts, "k": k, "j": 0, "v": v}


def began(*questions: Question, lateness: int = 0, idle: int = 0, dedup: tuple[str, ...] = ()) -> Model:
    model = Model(lateness, 100, idle, dedup)
    model.start(0)
    for number, question in enumerate(questions):
        model.create(f"q{number}", question, None)
    return model


def said(model: Model, name: str = "q0") -> list[tuple[int, int, str, tuple[object, ...]]]:
    return [(e.end, e.revision, e.op, e.values) for e in model.queries[name].revisions()]


def test_the_model_imports_nothing_of_the_engine() -> None:
    names: list[str] = []
    for file in ("model.py", "questions.py"):
        tree = ast.parse((Path(__file__).parent / file).read_text())
        names += [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
        names += [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    own, library = {"tests.always.questions"}, {"__future__", "bisect", "collections", "dataclasses", "typing"}
    assert {name.split(".")[0] for name in names if name not in own} == library


def test_every_row_is_counted_once() -> None:
    #  watermark 10 before the second batch; [0, 10) was answered and is revised for 5
    model = began(Question(10, 10, 0, revise_for_us=5), dedup=("id",))
    model.batch([row(3, number=1), row(10, number=2)], 0)
    model.batch([row(9, number=3), row(2, number=4), row(None), row(12, number=6), row(12, number=6)], 0)
    assert [model.counts[term] for term in TERMS] == [3, 2, 0, 1, 1]
    assert said(model) == [(10, 0, "answer", (1,)), (10, 1, "revise", (3,))]
    model.batch([row(16, number=7)], 0)  # the watermark is 16: the window that ended at 10 is too old
    model.batch([row(9, number=8)], 0)
    assert (model.counts["late"], model.law()) == (1, True)


def test_late_rows_enter_windows_that_are_not_final() -> None:
    #  ts         1  11        5 (late, in [0, 20) only)   21
    #  windows   [0, 10) [0, 20)
    model = began(Question(20, 10, 0))
    model.batch([row(1), row(11)], 0)
    model.batch([row(5), row(21)], 0)
    assert said(model) == [(10, 0, "answer", (1,)), (20, 0, "answer", (3,))]
    assert model.counts["late"] == 1


def test_windows_that_end_in_a_pause_are_never_answered() -> None:
    model = began(TEN)
    model.batch([row(1), row(11)], 0)
    model.pause("q0")
    model.batch([row(35)], 0)
    model.resume("q0")
    model.batch([row(41)], 0)
    assert [end for end, *_ in said(model)] == [10, 40]


def test_an_idle_stream_goes_on_by_the_clock_but_not_past_it() -> None:
    model = began(TEN, lateness=2, idle=5)
    model.batch([row(9)], 9)
    assert not model.heartbeat(13)
    assert model.heartbeat(14)  # 5 after the batch: 7 + 5, and 14 - 2 = 12
    assert model.watermark == 12
    assert said(model) == [(10, 0, "answer", (1, 1))]
    model.heartbeat(3)  # the clock was set back
    assert not model.heartbeat(7)
    assert (model.watermark, model.at) == (12, 3)


def test_a_group_that_falls_away_is_taken_back_and_may_come_again() -> None:
    model = began(Question(10, 10, 0, ("k",), ("count(*)",), None, "count(*) < 4", 100))
    model.batch([row(1, k="a"), row(2, k="a"), row(3, k="a"), row(10)], 0)
    model.batch([row(4, k="a"), row(5, k="b")], 0)
    assert [e for e in model.queries["q0"].revisions() if e.end == 10] == [
        Entry(10, ("a",), 0, "answer", (3,)),
        Entry(10, ("a",), 1, "retract", (3,)),
        Entry(10, ("b",), 0, "answer", (1,)),
    ]
    assert [e.group for e in model.queries["q0"].current()] == [("b",)]


def test_a_first_window_that_holds_unseen_rows_or_is_none_is_refused() -> None:
    model = began(TEN)
    model.batch([row(15), row(23)], 0)
    with pytest.raises(Disagreement):
        model.create("late", TEN, 45)  # not an end
    with pytest.raises(Disagreement):
        model.create("late", TEN, 50)  # [30, 40) begins after all that was seen: nothing to wait for
    with pytest.raises(Disagreement):
        model.create("late", TEN, 10)  # before the first row
    model.create("late", TEN, 20)
    assert said(model, "late") == [(20, 0, "answer", (1, 1))]


def test_a_backfill_meets_what_was_answered() -> None:
    model = began(TEN)
    model.batch([row(5), row(15), row(25)], 0)
    model.create("late", TEN, 40)
    model.batch([row(45)], 0)
    assert model.backfill("late", 10, None) == 3
    model.batch([row(50)], 0)
    assert [end for end, *_ in said(model, "late")] == [10, 20, 30, 40, 50]


def test_a_query_ends_with_its_lifetime() -> None:
    model = began(Question(10, 10, 0, lifetime_us=30))
    model.batch([row(1), row(11)], 29)
    assert model.queries.keys() == {"q0"}
    model.batch([row(21)], 30)
    assert not model.queries
    assert len(model.ever[0].log) == 1
