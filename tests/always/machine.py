"""Random actions on an engine and the model: whatever is done, both say the same after each step."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from penstock.errors import PenstockError
from penstock.store.faults import MOMENTS, POINTS
from tests.always.judged import SECOND, Judged, Setting
from tests.always.questions import AGGREGATES, HAVINGS, WHERES, Question, Row
from tests.always.replay import keep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUARTER = SECOND // 4
NAMES = tuple(f"q{number}" for number in range(6))
WRITES = [
    f"{point}.{moment}" for point in POINTS for moment in MOMENTS if point not in ("format", "migration", "backup")
]
KEYS: tuple[tuple[str, ...], ...] = ((), (), ("k",), ("k",), ("k", "j"))

settings_of_streams = st.builds(
    Setting,
    lateness_us=st.sampled_from([0, 2 * SECOND, 5 * SECOND]),
    max_ahead_us=st.just(15 * SECOND),
    idle_us=st.sampled_from([0, 3 * SECOND, 10 * SECOND]),
    dedup=st.sampled_from([(), (), (), (), (), ("id",), ("id", "k")]),
    strategy=st.sampled_from(["shared paired", "shared paired", "unshared paired", "shared paned", "fragments"]),
    kernel=st.sampled_from(["fast", "fast", "scan"]),
    roll_seconds=st.sampled_from([0.0, 60.0]),
    retain_rows_us=st.sampled_from([0, 0, 0, 0, 20 * SECOND, 60 * SECOND]),
)
questions = st.builds(
    Question,
    range_us=st.sampled_from([1, 2, 3, 5, 8, 13, 20, 30]).map(lambda s: s * SECOND),
    slide_us=st.sampled_from([1, 2, 3, 5, 10]).map(lambda s: s * SECOND),
    offset_us=st.sampled_from([0, 0, 0, SECOND, 1_500_000, 123_456]),
    keys=st.sampled_from(KEYS),
    aggregates=st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=2, unique=True).map(tuple),
    where=st.one_of(st.none(), st.sampled_from(sorted(WHERES))),
    having=st.one_of(st.none(), st.none(), st.none(), st.sampled_from(sorted(HAVINGS))),
    revise_for_us=st.sampled_from([None, None, 5 * SECOND, 20 * SECOND, 60 * SECOND]),
    lifetime_us=st.sampled_from([None, None, None, 20 * SECOND]),
    options=st.sampled_from([(), (), (), ("retain = '20 s'",), ("retain = '60 s'",)]),
)
one_time_questions = st.builds(
    Question,
    range_us=st.sampled_from([1, 2, 5, 10, 30]).map(lambda s: s * SECOND),
    slide_us=st.just(1),
    keys=st.sampled_from(KEYS),
    aggregates=st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=2, unique=True).map(tuple),
    where=st.one_of(st.none(), st.none(), st.sampled_from(sorted(WHERES))),
)
# How far from the clock a row's time is, in quarters of a second, and by how many microseconds it misses the quarter.
# Most are near it; some are late by a minute, some too far ahead, some have no time.
near, wide, odd = st.integers(-20, 20), st.integers(-240, 59), st.sampled_from([None, 60, 61, -8])
distances = st.one_of(*[near] * 9, *[wide] * 4, odd)
misses = st.sampled_from([0, 0, 0, 0, 1, -1, 77])
raw_rows = st.lists(st.tuples(distances, misses, st.integers(0, 12)), max_size=7)


def rows_at(clock: int, raw: Sequence[tuple[int | None, int, int]]) -> list[Row]:
    """Place rows around the clock; a row's values follow from its id and time, so that equal ones are identical."""
    return [_row(None if far is None else clock + far * QUARTER + miss, number) for far, miss, number in raw]


def _row(ts: int | None, number: int) -> Row:
    mark = number if ts is None else number * 7 + ts // QUARTER
    return {
        "id": number if number < 12 else None,
        "ts": ts,
        "k": (None, "a", "b", "a", "c")[mark % 5],
        "j": mark % 3,
        "v": None if mark % 11 == 0 else mark % 13 - 2,
    }


class Machine(RuleBasedStateMachine):
    """Takes random steps; after each one everything is compared."""

    done: ClassVar[Counter[str]] = Counter()  # actions of all runs, by kind
    spark: SparkSession
    quick: ClassVar[bool] = False  # without duplicates and kept rows, which take several Spark jobs a batch

    def __init__(self) -> None:
        super().__init__()
        self.judged: Judged | None = None
        self.scratch = tempfile.TemporaryDirectory(prefix="penstock-judged-")
        self.since_rows = self.since_end = 0  # actions

    @initialize(
        setting=settings_of_streams,
        durable=st.sampled_from([True, True, True, False]),
        present=st.lists(questions, min_size=1, max_size=4),
    )
    def open(self, setting: Setting, durable: bool, present: list[Question]) -> None:
        if self.quick:
            setting = replace(setting, dedup=(), retain_rows_us=0)
        self.judged = Judged(self.spark, Path(self.scratch.name), setting, durable=durable)
        for name, question in zip(NAMES, present, strict=False):
            self.judged.create(name, question)

    @property
    def both(self) -> Judged:
        assert self.judged is not None
        return self.judged

    @property
    def names(self) -> list[str]:
        return sorted(self.both.model.queries)

    def took(self, action: str) -> None:
        """Compare, and count the action."""
        self.both.check()
        Machine.done[action] += 1
        self.since_rows = 0 if action in ("batch", "late rows") else self.since_rows + 1
        self.since_end = 0 if action in ("kill", "restart") else self.since_end + 1

    # -- rows and time -------------------------------------------------------------------------------------------

    @rule(raw=raw_rows, passed=st.integers(0, 40))
    def feed(self, raw: list[tuple[int | None, int, int]], passed: int) -> None:
        self.both.clock.advance(passed / 4)
        self.both.feed(rows_at(self.both.clock(), raw))
        self.took("batch")

    @rule(raw=raw_rows)
    def feed_soon(self, raw: list[tuple[int | None, int, int]]) -> None:
        self.feed(raw, 8)

    @rule(raw=raw_rows)
    def feed_later(self, raw: list[tuple[int | None, int, int]]) -> None:
        self.feed(raw, 20)

    @rule(raw=st.lists(st.tuples(st.integers(-160, -12), misses, st.integers(0, 11)), min_size=1, max_size=4))
    def feed_late(self, raw: list[tuple[int | None, int, int]]) -> None:
        self.both.feed(rows_at(self.both.clock(), raw))
        self.took("late rows")

    @precondition(lambda self: self.both.setting.idle_us and self.since_rows < 3)
    @rule(passed=st.sampled_from([1, 4, 12, 13, 40, 100, -9]))
    def heartbeat(self, passed: int) -> None:
        self.both.clock.advance(passed / 4)
        self.both.heartbeat()
        self.took("heartbeat")

    # -- queries -------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.names) < len(NAMES) and self.since_rows < 4)
    @rule(question=questions)
    def add(self, question: Question) -> None:
        name = next(name for name in NAMES if name not in self.names)
        self.both.create(name, question)
        self.took("add")

    @precondition(lambda self: self.names and self.since_rows < 4)
    @rule(data=st.data(), question=questions)
    def alter(self, data: Any, question: Question) -> None:
        name = self._chosen(data)
        if self.both.model.queries[name].question != question:
            self.both.alter(name, question)
            self.took("alter")

    @precondition(lambda self: self.names and self.since_rows < 4)
    @rule(data=st.data())
    def drop(self, data: Any) -> None:
        self.both.drop(self._chosen(data))
        self.took("drop")

    @precondition(lambda self: self.names and self.since_rows < 4)
    @rule(data=st.data())
    def pause_or_resume(self, data: Any) -> None:
        name = self._chosen(data)
        if self.both.model.queries[name].paused:
            self.both.resume(name)
            self.took("resume")
        else:
            self.both.pause(name)
            self.took("pause")

    @precondition(lambda self: self.both.setting.retain_rows_us and self.names and self.since_rows < 4)
    @rule(data=st.data())
    def backfill(self, data: Any) -> None:
        name = self._chosen(data)
        if self.both.model.queries[name].paused:
            return
        try:
            self.both.backfill(name)
        except PenstockError as refused:
            self.took("backfill, refused" if refused.hint else f"backfill, refused without a hint: {refused}")
        else:
            self.took("backfill")

    @precondition(lambda self: self.names and self.since_rows < 4)
    @rule(data=st.data(), share=st.sampled_from([1, 2, 4]))
    def ask_alike(self, data: Any, share: int) -> None:
        """Ask once what some query answers again and again, of a window as long or shorter."""
        known = self.both.model.queries[self._chosen(data)].question
        self._ask(
            replace(
                known, range_us=max(SECOND, known.range_us // share), options=(), revise_for_us=None, lifetime_us=None
            )
        )

    @precondition(lambda self: self.since_rows < 4)
    @rule(question=one_time_questions)
    def ask(self, question: Question) -> None:
        self._ask(question)

    def _ask(self, question: Question) -> None:
        try:
            self.both.ask(question)
        except PenstockError as refused:
            self.took("ask, refused" if refused.hint else f"ask, refused without a hint: {refused}")
        else:
            self.took("ask")

    def _chosen(self, data: Any) -> str:
        return str(data.draw(st.sampled_from(self.names)))

    # -- the end, and going on -----------------------------------------------------------------------------------

    @precondition(lambda self: self.both.durable and self.since_end > 2)
    @rule(again=st.booleans())
    def restart(self, again: bool) -> None:
        self.both.restart(again)
        self.took("restart")

    @precondition(lambda self: self.both.durable)
    @rule(points=st.lists(st.tuples(st.sampled_from(WRITES), st.integers(1, 3)), min_size=1, max_size=2))
    def arm(self, points: list[tuple[str, int]]) -> None:
        """Let the engine die when it comes to a point, and perhaps once more on its way back."""
        self.both.arm(points)

    @precondition(lambda self: self.both.durable and self.since_end > 2)
    @rule()
    def kill(self) -> None:
        """Let the engine die between two steps."""
        self.both.die()
        self.took("kill")

    def teardown(self) -> None:
        """End the stream and look at everything once more; steps that went wrong are kept."""
        if self.judged is None:
            return
        try:
            if isinstance(sys.exc_info()[1], Exception):
                keep(self.judged)
            else:
                self.finish(self.judged)
        finally:
            self.judged.close()
            self.scratch.cleanup()

    def finish(self, judged: Judged) -> None:
        try:
            judged.flush()
            judged.check_all_delivered()
        except BaseException:
            keep(judged)
            raise
        Machine.done["kill in a step"] += len(judged.kills)
