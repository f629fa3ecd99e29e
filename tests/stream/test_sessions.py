"""Sessions are answered once each, whatever comes when, and whenever the process ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.kernel.revisions import shown_answers
from penstock.store import faults
from penstock.store.answers import answers_of
from tests.always.judged import Killed
from tests.cases import cases
from tests.stream.made import SECOND, MadeStream, row
from tests.stream.scheduled import Moments
from tests.stream.sessions_by_hand import Asked, SessionModel, order

LATENESS_S = 3
WHERES = (None, None, "v > 3", "k = 'a'", "j = 1")
HAVINGS = (None, None, None, "count(*) > 1", "sum(v) > 4")
NOT_DONE: Callable[[], bool] = lambda: False  # noqa: E731
AGGREGATES = ("count(*)", "count(v)", "sum(v)", "min(v)", "max(v)")


def drawn(draw: random.Random) -> Asked:
    return Asked(
        draw.choice([1, 2, 2, 5, 9]) * SECOND + draw.choice([0, 0, 1]),
        draw.choice([(), ("k",), ("k",), ("k", "j")]),
        tuple(draw.sample(AGGREGATES, draw.randint(1, 2))),
        draw.choice(WHERES),
        draw.choice(HAVINGS),
        draw.random() < 0.3,
    )


def drawn_rows(draw: random.Random, clock_s: float) -> list[dict[str, Any]]:
    """Draw rows around a time, some late, some much too late, some exactly a gap apart."""
    times = [clock_s + draw.choice([draw.uniform(-3, 4), draw.randint(-3, 4)]) for _ in range(draw.randint(0, 6))]
    times += [clock_s - draw.choice([draw.uniform(2, 25), draw.randint(2, 25)]) for _ in range(draw.choice([0, 0, 2]))]
    found = [row(max(0.0, t), draw.randrange(-2, 9), draw.choice("abc"), draw.randrange(2)) for t in times]
    return [{**one, draw.choice("kv"): None} if draw.random() < 0.15 else dict(one) for one in found]


class Both:
    """A made stream and the meaning by hand; the stream may end at any durable write, and is opened again."""

    def __init__(self, folder: Path, strategy: Any = "shared paired") -> None:
        self.made = MadeStream(folder, lateness_us=LATENESS_S * SECOND, strategy=strategy)
        self.model, self.paused = SessionModel(LATENESS_S * SECOND), set[str]()
        self.kills = self._names = 0

    def new_name(self) -> str:
        """Name a query as none was before."""
        self._names += 1
        return f"q{self._names}"

    def step(self, do: Callable[[], object], dies_at: int | None, done: Callable[[], bool] = NOT_DONE) -> None:
        """Do something; if the process ends meanwhile, it begins anew and does it again unless it is done."""
        faults.hook = Moments(dies_at)
        try:
            do()
        except Killed:
            self.kills += 1
            faults.hook = None
            self.made.reopen()
            if not done():
                do()
        finally:
            faults.hook = None

    def feed(self, rows: list[dict[str, Any]], dies_at: int | None = None) -> None:
        number = self.made.pipeline.progress.clock.batch + 1
        self.step(lambda: self.made.feed(*rows, number=number), dies_at)
        self.model.batch(rows)

    def create(self, name: str, asked: Asked, dies_at: int | None = None) -> None:
        known = lambda: name in [d.name for d in self.made.catalog.definitions("s")]  # noqa: E731
        self.step(lambda: self.made.create(name, asked.sql()), dies_at, known)
        self.model.create(name, asked)

    def alter(self, name: str, asked: Asked) -> None:
        if name in self.paused or self.model.queries[name][-1].asked == asked:
            return
        if self.made.catalog.query(name).query.text == self.made.typed_text(asked.sql(), name).query.text:
            return
        self.made.alter(name, asked.sql())
        self.model.create(name, asked, alter=True)

    def drop(self, name: str) -> None:
        self.made.drop(name)
        self.paused.discard(name)
        del self.model.queries[name]

    def pause_or_resume(self, name: str) -> None:
        if len(self.model.queries[name]) > 1:  # what is replaced is not paused with the rest
            return
        self.made.control(name, pause=name not in self.paused)
        self.paused ^= {name}
        self.model.queries[name][-1].paused = name in self.paused

    def flush(self) -> None:
        self.made.pipeline.flush(self.made.runner.snapshot())
        self.model.flush()

    def check(self) -> None:
        for name in self.model.queries:
            assert said(self.made, name) == self.model.said(name), name
            if len(self.model.queries[name]) == 1:
                number = self.made.catalog.query(name).id
                too_late = self.made.pipeline.progress.windows.too_late.get(number, 0)
                assert too_late == self.model.queries[name][0].too_late


def said(made: MadeStream, name: str) -> list[list[tuple[Any, ...]]]:
    """List the answers of each definition of a query: end, start, and its columns."""
    found = list[list[tuple[Any, ...]]]()
    for number in made.catalog.editions(name):
        definition, log = made.catalog.edition(number), answers_of(made.pipeline.answers, [number])
        if definition is None:  # one that is gone and answered nothing is forgotten
            assert not log
            found.append([])
            continue
        table = shown_answers(log, definition.typed.schema, revisions=False)
        ends, starts = (table[one].cast(pa.int64()).to_pylist() for one in ("window_end", "window_start"))
        assert ends == sorted(ends)
        rows = zip(ends, starts, *(column.to_pylist() for column in table.columns[2:]), strict=True)
        found.append(sorted(rows, key=order))
    return found


def run(draw: random.Random, folder: Path, *, dies: bool) -> int:
    """Take drawn steps, and compare on the way and in the end."""
    both, clock_s = Both(folder, draw.choice(["shared paired", "weave", "unshared paired", "fragments"])), 0.0
    for _ in range(draw.randint(1, 3)):
        both.create(both.new_name(), drawn(draw))
    for _ in range(draw.randint(4, 12)):
        clock_s += draw.choice([0.5, 2, 3, 6, 20])
        both.feed(drawn_rows(draw, clock_s), draw.randrange(12) if dies and draw.random() < 0.5 else None)
        happens(draw, both, dies=dies)
    both.flush()
    both.check()
    both.made.reopen()
    both.check()
    return both.kills


def happens(draw: random.Random, both: Both, *, dies: bool) -> None:
    """Do one more thing."""
    known = sorted(both.model.queries)
    match draw.randrange(9):
        case 0 if len(known) < 4:
            both.create(both.new_name(), drawn(draw), 0 if dies else None)
        case 1 if known:  # the same rows as another: their sessions are shared
            asked = both.model.queries[draw.choice(known)][-1].asked
            if len(known) < 5:
                both.create(both.new_name(), asked)
        case 2 if known:
            both.alter(draw.choice(known), drawn(draw))
        case 3 if known:
            both.drop(draw.choice(known))
        case 4 if known:
            both.pause_or_resume(draw.choice(known))
        case 5:
            both.made.reopen()
        case 6:
            both.check()


@pytest.fixture(autouse=True)
def eager_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = ("store.compaction.FAN", "store.commits.FAN", "store.answers.FAN")
    for name in (*folders, "stream.batch_taking.COMPACTED_EVERY"):
        monkeypatch.setattr(f"penstock.{name}", 3)


@settings(max_examples=cases(60, soak=6_000), deadline=None)
@given(seed=st.integers(0, 1 << 60))
@example(seed=461)  # a definition that answered nothing is forgotten
@example(seed=1_816_336)  # a successor of a short gap is done before the definition that hands over to it
def test_sessions_say_what_plain_rows_say(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    run(random.Random(seed), tmp_path_factory.mktemp("sessions"), dies=False)


@settings(max_examples=cases(60, soak=6_000), deadline=None)
@given(seed=st.integers(0, 1 << 60))
def test_sessions_say_the_same_when_the_process_ends_at_any_write(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run(random.Random(seed), tmp_path_factory.mktemp("sessions"), dies=True)


@pytest.mark.parametrize("sessions_first", [True, False])
@pytest.mark.parametrize("having", [None, "count(*) > 1"])
def test_windows_of_the_same_text_stand_beside_sessions(
    sessions_first: bool, having: str | None, tmp_path: Path
) -> None:
    """Both are finished by the same aggregates, but sessions have times that windows have not."""
    both, draw = Both(tmp_path), random.Random(7)
    asked = Asked(2 * SECOND, ("k",), ("count(*)", "sum(v)"), None, having, in_brackets=True)
    windowed = asked.sql().replace("[SESSION 2000000 us]", "[RANGE 5 s SLIDE 5 s]")
    if sessions_first:
        both.create("sessions", asked)
    both.made.create("windows", windowed)
    if not sessions_first:
        both.create("sessions", asked)
    rows = [row(second + draw.random(), draw.randrange(9), draw.choice("ab")) for second in range(60)]
    for at in range(0, 60, 7):
        both.feed([dict(one) for one in rows[at : at + 7]])
    both.flush()
    both.check()
    expected = []
    for end in range(5, 65, 5):
        for key in "ab":
            held = [r["v"] for r in rows if (end - 5) * SECOND <= r["ts"] < end * SECOND and r["k"] == key]
            if len(held) > (having is not None):
                expected.append((end * SECOND, (end - 5) * SECOND, key, len(held), sum(held)))
    assert said(both.made, "windows") == [expected]
    assert not both.made.pipeline.progress.windows.paused
