"""Random moves of a stream without Spark: what is answered, revised and counted is what the model says.

The partials are made of plain rows; windows, clocks, commits, answers and restarts are the engine's own.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from penstock.evaluate.typed import Definition
from penstock.store.commits import Counts
from penstock.testing import ManualClock
from tests.always.judged import EPOCH_US, SECOND, Setting, agree, instant, line, lines_of
from tests.always.machine import questions, raw_rows, rows_at, settings_of_streams
from tests.always.model import Model, Standing
from tests.always.questions import Question
from tests.cases import cases
from tests.store.dying import Died, dying_at
from tests.stream.made import MadeStream

LONGEST_STEP = 20  # moments that a step reaches, and some more

any_question = questions.map(lambda question: replace(question, where=None))  # conditions take Spark
# A move, what it is about, and more of it; before each the clock goes on by so many quarters of a second.
feeds = st.tuples(st.just("feed"), raw_rows, st.none())
deaths = st.tuples(st.just("feed"), raw_rows, st.integers(0, LONGEST_STEP))
entries = st.tuples(st.sampled_from(["create", "alter", "alter"]), st.integers(0, 9), any_question)
changes = st.tuples(st.sampled_from(["pause", "resume", "drop", "beat", "restart"]), st.integers(0, 9), st.none())
moves = st.tuples(st.integers(0, 24), st.one_of(feeds, feeds, feeds, deaths, entries, changes, changes))


class Judged:
    """A stream and the model of its meaning, which agree after every move."""

    def __init__(self, folder: Path, setting: Setting) -> None:
        self.clock = ManualClock(instant(EPOCH_US))
        self.made = MadeStream(
            folder,
            lateness_us=setting.lateness_us,
            max_ahead_us=setting.max_ahead_us,
            idle_us=setting.idle_us,
            strategy=setting.strategy,
            kernel=setting.kernel,
            clock=self.clock,
        )
        self.model = Model(setting.lateness_us, setting.max_ahead_us, setting.idle_us)
        self.model.start(self.clock())
        self.ever: list[tuple[Standing, Definition]] = []

    def take(self, quarters: int, move: str, what: Any, more: Any) -> None:
        self.clock.advance(timedelta(microseconds=quarters * SECOND // 4))
        names = sorted(self.model.queries)
        match move:
            case "feed":
                self.feed(what, more)
            case "beat":
                assert self.made.heartbeat() == self.model.heartbeat(self.clock())
            case "create":
                self.create(f"q{len(self.ever)}" if what % 2 else f"q{what}", more)
            case "restart":
                self.restart()
            case _ if names:
                self.change(move, names[what % len(names)], more)

    def feed(self, raw: Any, dies_at: int | None) -> None:
        """Feed a batch; if the process dies of it, Spark sends it again."""
        rows, number = rows_at(self.clock(), raw), self.made.pipeline.progress.clock.batch + 1
        if dies_at is not None:
            try:
                with dying_at(dies_at):
                    self.made.feed(*rows, number=number)
            except Died:
                event("died")
                self.made.reopen()
        self.made.feed(*rows, number=number)
        self.model.batch(rows, self.clock())

    def create(self, name: str, question: Question) -> None:
        self.model.outlive(self.clock())
        self.made.runner.settle()
        if name not in self.model.queries:
            entered = self.made.create(name, question.sql())
            self._note(self.model.create(name, question, entered.first_end_us))

    def change(self, move: str, name: str, question: Question | None) -> None:
        self.model.outlive(self.clock())
        self.made.runner.settle()
        if name not in self.model.queries:
            return
        match move:
            case "pause":
                self.made.changes.pause(name)
                self.model.pause(name)
            case "resume":
                self.made.changes.resume(name)
                self.model.resume(name)
            case "drop":
                self.made.drop(name)
                self.model.drop(name)
            case "alter" if question is not None and question != self.model.queries[name].question:
                self.model.alter(name, question, self.made.alter(name, question.sql()).first_end_us)
                self._note(self.model.queries[name])

    def restart(self) -> None:
        """Open the stream anew: it stands where it stood, and may remember longer what dropped queries have said."""
        self.model.outlive(self.clock())
        before = self.made.standing()
        self.made.reopen()
        self.model.start(self.clock())
        after = self.made.standing()
        assert before.pop("departed").items() <= after.pop("departed").items()
        assert after == before

    def flush(self) -> None:
        self.model.outlive(self.clock())
        self.made.runner.flush()
        self.model.flush()

    def check(self) -> None:
        """Compare all that was ever said, and what became of the rows."""
        clock = self.made.pipeline.progress.clock
        assert clock.watermark_us == self.model.watermark
        assert asdict(clock.counts) == {**asdict(Counts()), **self.model.counts}
        for standing, definition in self.ever:
            names = ["revision", "op", *standing.question.names]
            found = lines_of(self.made.revisions(definition), names)
            wanted = [line(standing, entry, logged=True) for entry in standing.revisions()]
            agree(found, wanted, f"{standing.name}: {standing.question.sql()}")

    def _note(self, standing: Standing) -> None:
        self.ever.append((standing, self.made.catalog.query(standing.name)))


cases_of_moves = given(
    setting=settings_of_streams,
    present=st.lists(any_question, min_size=1, max_size=3),
    taken=st.lists(moves, min_size=8, max_size=30),
)
Moves = list[tuple[int, tuple[str, Any, Any]]]


@settings(max_examples=cases(20), deadline=None)
@cases_of_moves
def test_random_moves_restarts_and_deaths_are_answered_as_the_model_says(
    setting: Setting, present: list[Question], taken: Moves
) -> None:
    judge(setting, present, taken)


@pytest.mark.soak
@settings(max_examples=2_000, deadline=None)
@cases_of_moves
def test_many_random_moves_are_answered_as_the_model_says(
    setting: Setting, present: list[Question], taken: Moves
) -> None:
    judge(setting, present, taken)


def judge(setting: Setting, present: list[Question], taken: Moves) -> None:
    """Take moves, and compare after each of them."""
    with tempfile.TemporaryDirectory(prefix="penstock-moves-") as folder:
        judged = Judged(Path(folder), setting)
        for number, question in enumerate(present):
            judged.create(f"q{number}", question)
        for quarters, move in taken:
            judged.take(quarters, *move)
            judged.check()
        judged.flush()
        judged.check()
        judged.restart()
        judged.check()
