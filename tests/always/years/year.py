"""Lives through a year of a project: changes, rows, deaths, restarts; and compares what readers of its sinks see."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from penstock.errors import CatalogError
from penstock.store import faults
from penstock.stream.runner import StreamRunner
from tests.always.delivered import Delivered, delivered
from tests.always.judged import Killed, bury
from tests.always.kills import REPOSITORY, end_group
from tests.always.model import Model, Standing
from tests.always.years.asked import Asked
from tests.always.years.life import Known, known, opened
from tests.always.years.plan import SINKS, Plan
from tests.always.years.reading import lines, shown
from tests.always.years.rows import DAY, rows_of, write_rows

if TYPE_CHECKING:
    from penstock.engine import Engine

FOREVER: Final = 1 << 62
FARTHEST: Final = 60  # moments of durable writes that a life goes on to, at most
ALWAYS: Final = 16  # so many are in each life that takes rows


class Year:
    """A project's folder and the model of its stream, brought on step by step."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Draw the project."""
        self.folder, self.draw = folder, random.Random(seed)
        self.plan = Plan(random.Random(f"plan {seed}"))
        self.plan.begin()
        self.model = Model(0, FOREVER)
        self.sinks: list[list[str]] = []  # by place: folders that the sink had
        self.kills: Counter[str] = Counter()
        self.refusals = 0
        self._was: dict[str, Asked] = {}
        self._columns: list[str] = []
        self._added_at: dict[str, int] = {}  # when a column came: rows before do not have it
        self._rows_of_before: list[Any] = []
        self._seen: list[list[list[dict[str, Any]]]] = []  # by death of this step and sink: what it held
        self._dead: str | None = None  # where the engine died, until the next one

    def step(self, number: int, *, by_hand: bool = False, kill: int = 0) -> None:
        """Change the project, let rows come, run, and compare; ``kill``: how often it is killed with SIGKILL first."""
        for _ in range(self.draw.randint(1, 4) if number else 0):
            self.plan.change(number, sinks=not by_hand)
        self._keep_what_is_read(number)
        rows = [*rows_of(self.draw, number), *(self._again() if number and self.draw.random() < 0.3 else ())]
        self._rows_of_before = rows
        self._seen = []
        if by_hand:
            said = self._live(lambda engine: self._change_by_hand(engine, number, rows))
        else:
            self._arrive(number, rows)
            for _ in range(kill):
                self._die_for_real()
            said = self._live(_nothing)
        self._follow(said)
        self.model.batch([self.plan.joined(row) for row in rows], FOREVER)
        self._check()

    def _again(self) -> list[Any]:
        """Let a row come a second time: it counts twice."""
        return [self.draw.choice(self._rows_of_before)]

    def _arrive(self, number: int, rows: list[Any]) -> None:
        (self.folder / self.plan.rows_in).mkdir(exist_ok=True)
        self.plan.write(self.folder, number)
        write_rows(self.folder / self.plan.rows_in, number, rows)

    # -- changes -------------------------------------------------------------------------------------------------

    def _keep_what_is_read(self, number: int) -> None:
        """See that a column which a definition of before still reads cannot go, with who is in the way; and keep it."""
        going = [name for name in self._columns if name not in self.plan.columns]
        staying = [s for s in self._answering() if s.name in self.plan.queries]  # queries that go, go before
        readers = {name: [s for s in staying if _question(s).reads(name)] for name in going}
        in_the_way = {name: found for name, found in readers.items() if found}
        if not in_the_way:
            return
        (self.folder / self.plan.rows_in).mkdir(exist_ok=True)
        self.plan.write(self.folder, number)
        with pytest.raises(CatalogError) as refused, opened(self.folder):
            pass
        named = re.search(r'column "(\w+)" of stream "s" is bigint, and cannot go', refused.value.what)
        assert named is not None, refused.value
        assert named[1] in in_the_way, refused.value
        names = {standing.name for standing in in_the_way[named[1]]}
        assert all(f'query "{name}"' in str(refused.value.detail) for name in names), refused.value
        self.refusals += 1
        self.plan.columns += sorted(in_the_way)

    def _answering(self) -> list[Standing]:
        """List the definitions that may answer more windows: those of edited queries until their last one."""
        return [
            standing
            for standing in self.model.standing()
            if standing.until is None
            or standing.next_end is None
            or standing.next_end - standing.question.range_us < standing.until
        ]

    def _change_by_hand(self, engine: Engine, number: int, rows: list[Any]) -> None:
        """Make the changes by statements and calls while the engine is open, and in the folder for the next one."""
        from penstock.project.folder import read_project
        from penstock.project.opening import create_statement

        self._arrive(number, rows)
        project = read_project(self.folder)
        for declared in (*project.settings.streams, *project.settings.tables):
            engine.replace_source(create_statement(declared))
        for name in [name for name in self._was if name not in self.plan.queries]:
            if engine.catalog.has("query", name):  # else it went when another change was refused
                engine.drop_query(name)
        for name, asked in self.plan.queries.items():
            if name in self._was:
                engine.execute(f"ALTER QUERY {name} AS {asked.words}")
            else:
                engine.create_query(name, asked.words)

    def _follow(self, said: dict[str, Known]) -> None:
        """Let the model take the same changes, before the rows that came after them."""
        greatest = -FOREVER if self.model.greatest is None else self.model.greatest
        self._added_at |= {name: greatest for name in self.plan.columns if name not in self._columns}
        self._columns = list(self.plan.columns)
        self.model.lateness_us = self.plan.lateness * DAY
        for name in [name for name in self._was if name not in self.plan.queries]:
            self.model.drop(name)
        for name, asked in self.plan.queries.items():
            found = said[name]
            first_end = None if self.model.greatest is None else found.first_end
            if name not in self._was:
                self.model.create(name, asked, first_end)
            elif asked != self._was[name]:
                self.model.alter(name, asked, first_end)
            standing = self.model.queries[name]
            assert standing.version == found.version, (name, found)
            self._has_its_columns(standing, first_end)
        self._was = dict(self.plan.queries)
        self._note_sinks()

    def _has_its_columns(self, standing: Standing, first_end: int | None) -> None:
        """A query answers no window that begins before a column came which it reads."""
        for name, since in self._added_at.items():
            if first_end is not None and _question(standing).reads(name) and name in self._columns:
                assert first_end - standing.question.range_us > since, (standing.name, name)

    def _note_sinks(self) -> None:
        for place, (folder, _) in enumerate(self.plan.sinks):
            if place == len(self.sinks):
                self.sinks.append([])
            if folder not in self.sinks[place]:
                self.sinks[place].append(folder)

    # -- lives ---------------------------------------------------------------------------------------------------

    def _live(self, change: Callable[[Engine], None]) -> dict[str, Known]:
        """Let one engine after the other try until one comes to the end; return what it says of its queries.

        What the first of them did not change by hand, the next ones find in the folder.
        """
        while True:
            self._arm(self.draw.randint(1, FARTHEST) if self.draw.random() < 0.5 else 0)
            try:
                with deaths_reach_java(), opened(self.folder) as engine:
                    change(engine)
                    engine.process_available()
                    found = known(engine)
                self._dead = None
                return found
            except BaseException as error:
                if self._dead is None:
                    raise
                if isinstance(error, Killed):
                    bury(error)
            finally:
                faults.hook = None
            self.kills[self._dead.partition(".")[0]] += 1
            self._dead, change = None, _nothing
            self._look()

    def _arm(self, nth: int) -> None:
        """Let the engine die at the n-th moment of its durable writes, from which on it writes nothing; 0: never."""
        left = nth

        def reached(point: str) -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                self._dead = self._dead or point
                raise Killed(point)

        faults.hook = reached if nth else None

    def _die_for_real(self) -> None:
        """Let an engine in a process of its own kill itself somewhere on the way."""
        command = [
            sys.executable,
            "-m",
            "tests.always.years.life",
            str(self.folder),
            str(self.draw.randint(1, ALWAYS)),
        ]
        child = subprocess.Popen(
            command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            told, _ = child.communicate(timeout=300)
        finally:
            end_group(child)
        assert child.returncode in (0, -signal.SIGKILL), told.decode()[-4_000:]
        self.kills["SIGKILL"] += child.returncode != 0
        self._look()

    # -- what is to be seen --------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Read what the dead have left in the sinks: it must not be more than what will be there."""
        self._seen.append([lines(self.folder / name for name in self._folders(place)) for place in range(len(SINKS))])

    def _folders(self, place: int) -> list[str]:
        """List the folders that a sink has had."""
        before, now = self.sinks[place : place + 1], self.plan.sinks[place : place + 1]
        return list(dict.fromkeys([*(before[0] if before else []), *(folder for folder, _ in now)]))

    def _check(self) -> None:
        """Compare all sinks with the model, now and as they were after each death."""
        wanted = delivered(self.model)
        columns = {(s.name, s.version): tuple(s.question.names) for s in self.model.ever}
        windows = Counter((s.name, end - s.question.range_us, end) for s in self.model.ever for end in s.answered)
        assert windows.total() == len(windows), "two definitions answer one window"
        for place in range(len(self.sinks)):
            found = shown(lines(self.folder / name for name in self._folders(place)), columns)
            self._agree(found, wanted, f"sink {place}", whole=place < len(self.plan.sinks))
            for seen in self._seen:
                self._agree(shown(seen[place], columns), wanted, f"sink {place} after a death", whole=False)

    def _agree(self, found: Delivered, wanted: Delivered, where: str, *, whole: bool) -> None:
        extra, missing = found - wanted, wanted - found if whole else Counter()
        if extra or missing:
            told = "\n".join(self.plan.said)
            raise AssertionError(f"{where}\n  extra: {_some(extra)}\n  missing: {_some(missing)}\n{told}\n{self.kills}")


@contextmanager
def deaths_reach_java() -> Iterator[None]:
    """Let Java hear of a death in a batch: the thread that it called would only be gone, and it would wait for ever."""
    processing = StreamRunner.process

    def process(self: StreamRunner, *batch: Any) -> None:
        try:
            processing(self, *batch)
        except Killed as killed:
            raise ChildProcessError("the engine died in a batch") from killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamRunner, "process", process)
        yield


def _some(answers: Delivered) -> str:
    return f"{answers.total()}, such as {list(answers.items())[:3]}"


def _nothing(engine: Engine) -> None:
    """Change nothing: the folder says it all."""


def _question(standing: Standing) -> Asked:
    assert isinstance(standing.question, Asked)
    return standing.question
