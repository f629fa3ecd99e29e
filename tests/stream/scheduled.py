"""A stream whose answers come when a schedule says so, its twin that answers at once, and the model: all say the same.

The schedule is drawn from one seed: which policy chooses, which windows are answered when, rows on time and late,
queries that come, change, pause and go, windows of the past, ends of the process at any durable write.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.schedule.live_policy import LivePolicy
from penstock.schedule.ordering import LIVE
from penstock.schedule.policy import Manner, Policy
from penstock.store import faults
from penstock.store.answers import DEFINITION
from penstock.store.faults import MOMENTS
from penstock.stream.admitted import Admitted
from penstock.stream.desk import Desk
from tests.always.delivered import Delivered, counted, delivered
from tests.always.judged import Killed, killer, taken_at_last
from tests.always.model import Model
from tests.always.questions import Question, Row
from tests.stream.made import SECOND, MadeStream, row

LATENESS_US = 2 * SECOND
CHANGES = "SELECT k, min(v) AS x FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k WITH (emit = 'change', priority = 2)"
POINTS = ("commit", "answers", "catalog")  # that such a stream writes on its way
KEYS: tuple[tuple[str, ...], ...] = ((), (), ("k",), ("k",), ("k", "j"))
AGGREGATES = ("count(*)", "count(v)", "sum(v)", "min(v)", "max(v)")
WHERES = (None, None, None, "v > 3", "v <= 3", "k = 'a'", "j = 1")
HAVINGS = (None, None, None, "count(*) > 1", "count(*) < 4", "sum(v) > 4")
URGENCIES: tuple[tuple[str, ...], ...] = (
    (),
    (),
    ("priority = 7",),
    ("deadline = '10 ms'",),
    ("priority = 2", "deadline = '9 s'"),
)
SHOWN = {"#revision": "revision", "#op": "op"}  # as sinks name them


class AnyChoice(LivePolicy):
    """Lets chance choose."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.draw = draw

    def current(self) -> Policy:
        return Policy("any", "chance decides", lambda _: self.draw.random(), Manner.LIVE)


def drawn_policy(draw: random.Random) -> LivePolicy:
    """Draw chance, or one of the policies of the live engine."""
    name = draw.choice(["any", "any", *sorted(LIVE)])
    return AnyChoice(random.Random(draw.random())) if name == "any" else LivePolicy(name)


def drawn_question(draw: random.Random) -> Question:
    return Question(
        draw.choice([1, 2, 3, 5, 8, 13, 20]) * SECOND,
        draw.choice([1, 2, 3, 5, 10]) * SECOND,
        draw.choice([0, 0, 0, SECOND, 1_500_000]),
        draw.choice(KEYS),
        tuple(draw.sample(AGGREGATES, draw.randint(1, 2))),
        draw.choice(WHERES),
        draw.choice(HAVINGS),
        draw.choice([None, None, None, 20 * SECOND, 60 * SECOND]),
        options=draw.choice(URGENCIES),
        most=draw.choice([None, None, 1, 2]),
    )


def drawn_batch(draw: random.Random, clock_s: float) -> list[Row]:
    """Draw rows around a time, some of them late, some too late for everything but a revision."""
    times = [clock_s + draw.uniform(-2, 4) for _ in range(draw.randint(1, 6))]
    times += [clock_s - draw.uniform(2, 30) for _ in range(draw.choice([0, 0, 1, 3]))]
    found = [row(max(0.0, t), draw.randrange(-2, 9), draw.choice("abc"), draw.randrange(2)) for t in times]
    return [{**one, "v": None} if draw.random() < 0.1 else one for one in found]


def drawn_batches(draw: random.Random) -> list[list[Row]]:
    """Draw batches of rows as time goes on."""
    found, clock_s = [], 0.0
    for _ in range(draw.randint(3, 9)):
        clock_s += draw.choice([0.5, 3, 8, 25])
        found.append(drawn_batch(draw, clock_s))
    return found


class Moments:
    """Notes the moments of durable writes, and ends the process at one of them; the dead write nothing more."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.dies_at, self.reached = dies_at, list[str]()

    def __call__(self, here: str) -> None:
        self.reached.append(here)
        if self.dies_at is not None and len(self.reached) > self.dies_at:
            raise Killed(here)


class Scheduled:
    """One stream that lags behind, its twin and the model."""

    def __init__(
        self,
        folder: Path,
        policy: LivePolicy,
        present: Mapping[str, Question],
        desk: Desk | None,
        *,
        twin: bool,
        retain_rows_us: int = 0,
    ) -> None:
        self.desk, self.kills, self.behind = desk, Counter[str](), 0
        self.armed: Callable[[str], None] | None = None
        for name in ("lagging", "at_once"):
            (folder / name).mkdir(parents=True)
        like: dict[str, Any] = {"lateness_us": LATENESS_US, "retain_rows_us": retain_rows_us}
        self.lagging = MadeStream(folder / "lagging", policy=policy, **like)
        self.at_once = MadeStream(folder / "at_once", **like) if twin else None
        self.model = Model(LATENESS_US, 600 * SECOND)
        self.alike = {"changes"}  # queries that the twin has had since the same windows
        for made in (self.lagging, *self._twins):
            made.create("changes", CHANGES)
        self._let_lag()
        for name, question in present.items():
            self.create(name, question)

    @property
    def _twins(self) -> list[MadeStream]:
        return [] if self.at_once is None else [self.at_once]

    # -- steps ---------------------------------------------------------------------------------------------------

    def feed(self, rows: Sequence[Row]) -> None:
        number = self.lagging.pipeline.progress.clock.batch + 1
        self._take(lambda: self.lagging.feed(*rows, number=number))
        for twin in self._twins:
            twin.feed(*rows)
        self.model.batch(rows, 1 << 60)

    def create(self, name: str, question: Question) -> None:
        firsts = self._entered(name, lambda made: made.create(name, question.sql()))
        self._compare_from(name, firsts)
        self.model.create(name, question, firsts[0])

    def alter(self, name: str, question: Question) -> None:
        if self.model.queries[name].question == question:
            return
        firsts = self._entered(name, lambda made: made.alter(name, question.sql()))
        self._compare_from(name, firsts)
        self.model.alter(name, question, firsts[0])

    def drop(self, name: str) -> None:
        self._take(lambda: self.lagging.runner.past.finish())  # of its past, nothing would be answered afterwards
        self._take(lambda: self.lagging.drop(name), lambda: self._gone(name))
        for twin in self._twins:
            twin.drop(name)
        self.model.drop(name)

    def pause_or_resume(self, name: str) -> None:
        paused = self.model.queries[name].paused
        self._take(lambda: self.lagging.control(name, pause=not paused))
        for twin in self._twins:
            twin.control(name, pause=not paused)
        (self.model.resume if paused else self.model.pause)(name)

    def backfill(self, name: str) -> None:
        """Answer what was before a query's first window, from the first row on."""
        standing = self.model.queries[name]
        if standing.paused or self.model.watermark is None or standing.first_end is None:
            return
        self._take(lambda: self._read_past(name))
        for twin in self._twins:
            twin.changes.backfill([name], "beginning")
        windows, number = self.lagging.pipeline.progress.windows, self.lagging.catalog.query(name).id
        self.model.backfill(name, windows.first_ends[number], windows.starts[number])

    def _read_past(self, name: str) -> None:
        """Have the past of a query read aside, as a running stream does, and answered; what is final waits on."""
        past = self.lagging.runner.past
        past.ask({self.lagging.catalog.query(name).id: None})
        past.finish()

    def answer_some(self, draw: random.Random) -> None:
        """Answer some of what waits: as the policy says, or any of it in any order."""
        unanswered = self.lagging.pipeline.committer.unanswered
        self.behind += len(unanswered.items)

        def answer() -> None:
            pipeline = self.lagging.pipeline
            keys = list(pipeline.committer.unanswered.items)
            if keys and draw.random() < 0.5:
                places = pipeline.committer.order.first(list(pipeline.committer.unanswered.items.values()))
                pipeline.answer_next([keys[place] for place in places])
            else:
                pipeline.answer_next(draw.sample(keys, draw.randint(0, len(keys))))

        self._take(answer)

    def do_upkeep(self) -> None:
        self._take(lambda: self.lagging.pipeline.do_upkeep())

    def reopen(self) -> None:
        """Begin anew from the folder, as after the end of the process."""
        if self.desk is not None:
            self.desk.leave(self.lagging.pipeline)
        self._take(self._reopen, lambda: True)

    def flush(self) -> None:
        self._take(lambda: self.lagging.runner.flush())
        for twin in self._twins:
            twin.runner.flush()
        self.model.flush()

    # -- what must be the same -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Answer what waits, and compare all that was ever said."""
        self._take(lambda: self.lagging.runner.let_answers_lag(may=False))
        self.lagging.runner.let_answers_lag()
        found = said(self.lagging)
        judged = counted(dict(line) for line in found.elements() if dict(line)["query_name"] != "changes")
        wanted = delivered(self.model)
        assert judged == wanted, f"only said: {list(judged - wanted)[:3]}, only wanted: {list(wanted - judged)[:3]}"
        for twin in self._twins:
            assert _of(found, self.alike) == _of(said(twin), self.alike)
        assert self.lagging.pipeline.progress.windows.unanswered == {}
        assert self.lagging.pipeline.progress.windows.skipped == {}

    # -- death ---------------------------------------------------------------------------------------------------

    def arm(self, draw: random.Random) -> None:
        """Let the process end at some durable write to come."""
        point, moment = draw.choice(POINTS), draw.choice(MOMENTS)
        if (point, moment) != ("catalog", "torn"):
            self.armed = killer(f"{point}.{moment}", draw.randint(1, 3))

    def _take(self, action: Callable[[], Any], done: Callable[[], bool] | None = None) -> Any:
        """Take a step; whenever the process ends in it, open the folder anew, and take it again unless it was done."""

        def killed(error: BaseException) -> None:
            faults.hook = self.armed = None
            self.kills[str(error)] += 1

        faults.hook = self.armed  # of this stream alone
        try:
            return taken_at_last(action, done, self._reopen, killed)
        finally:
            faults.hook = None

    def _reopen(self) -> None:
        self.lagging.reopen()
        self._let_lag()

    def _let_lag(self) -> None:
        self.lagging.runner.let_answers_lag()
        if self.desk is not None:
            self.desk.join(self.lagging.pipeline)

    def _entered(self, name: str, change: Callable[[MadeStream], Admitted]) -> tuple[int | None, int | None]:
        """Carry out a CREATE or ALTER on both; if the process ended on the way, look whether it had happened."""
        before = self._definition(name)
        entered = self._take(lambda: change(self.lagging), lambda: self._definition(name) != before)
        self._take(lambda: self.lagging.runner.settle())
        self._take(lambda: self.lagging.runner.past.finish())  # late rows that come before it is read would be in it
        if entered is None:
            first = self.lagging.pipeline.progress.windows.first_ends.get(self.lagging.catalog.query(name).id)
        else:
            first = entered.first_end_us
        return first, first if self.at_once is None else change(self.at_once).first_end_us

    def _compare_from(self, name: str, firsts: tuple[int | None, int | None]) -> None:
        """Compare with the twin as long as both began with the same windows: one may hold more of the past."""
        known = name in self.alike or all(standing.name != name for standing in self.model.ever)
        self.alike = self.alike | {name} if known and firsts[0] == firsts[1] else self.alike - {name}

    def _gone(self, name: str) -> bool:
        return name not in self.lagging.catalog.query_names()

    def _definition(self, name: str) -> int | None:
        return None if self._gone(name) else self.lagging.catalog.query(name).id


def said(made: MadeStream) -> Delivered:
    """Count all that was ever said."""
    lines = []
    for _, tables in made.pipeline.answers.batches(-1):
        for table in tables:
            for name in ("window_start", "window_end"):
                table = table.set_column(table.column_names.index(name), name, table[name].cast("int64"))
            for one in table.to_pylist():
                number = one.pop(DEFINITION)
                names = {"query_name": made.catalog.name_of(number), "query_version": made.catalog.version_of(number)}
                shown = {SHOWN.get(name, name): value for name, value in one.items()}
                lines.append(names | {name: value for name, value in shown.items() if not name.startswith("#")})
    return counted(lines)


def _of(lines: Delivered, names: set[str]) -> Delivered:
    return Counter({line: number for line, number in lines.items() if dict(line)["query_name"] in names})
