"""A stream with fresh and exact queries to which anything may happen, and the laws that their answers keep.

A fresh query's answer is the exact one at its own end; its ends increase; none is further from the one before than the
slide, unless answers wait. An exact query answers its own ends, all of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from penstock.evaluate.typed import Definition
from penstock.store import faults
from penstock.store.answers import DEFINITION
from tests.always.judged import Killed
from tests.always.questions import Row
from tests.stream.made import SECOND, MadeStream, row

TECHNIQUES = ("AS", "HS", "CS", "C-LP")
LATENESS_S = 2


DISTINCT = "approx_count_distinct(v)"  # of sketches, which windows merge in one pass


def fresh(range_s: int, slide_s: int, offset_s: int = 0, aggregate: str = DISTINCT) -> str:
    return f"{exact(range_s, slide_s, offset_s, aggregate)} WITH (emit = 'fresh')"


def exact(range_s: int, slide_s: int, offset_s: int = 0, aggregate: str = DISTINCT) -> str:
    offset = f" OFFSET {offset_s} s" if offset_s else ""
    return f"SELECT {aggregate} AS n FROM s [RANGE {range_s} s SLIDE {slide_s} s{offset}]"


@dataclass(frozen=True, slots=True)
class Fed:
    """A row and the watermark when it came: it enters windows that end later."""

    ts: int
    v: int
    final_us: int


@dataclass(frozen=True, slots=True)
class Said:
    """One answer, in the order in which they were logged."""

    definition: int
    end: int
    n: int


@dataclass(slots=True)
class FreshRun:
    """One stream, what it was fed, and what has to hold of its answers."""

    made: MadeStream
    fed: list[Fed] = field(default_factory=list)
    definitions: dict[int, Definition] = field(default_factory=dict)  # that ever were
    known_us: dict[int, int] = field(default_factory=dict)  # first number of a query → the watermark when it came
    gone_us: dict[int, int] = field(default_factory=dict)  # first number of a query → an end that nothing tells before
    backfilled: bool = False
    kill_at: int | None = None  # a moment of a durable write, counted from now on
    killed: int = 0

    @property
    def watermark_us(self) -> int:
        known = self.made.pipeline.progress.clock.watermark_us
        return -(1 << 62) if known is None else known

    # -- what happens ------------------------------------------------------------------------------------------------

    def feed(self, *rows: Row) -> None:
        final_us, number = self.watermark_us, self.made.pipeline.progress.clock.batch + 1
        self.surely(lambda: self.made.pipeline.progress.clock.batch >= number, lambda: self.made.feed(*rows))
        self.fed += [Fed(one["ts"], one["v"], final_us) for one in rows]
        self.note()

    def surely(self, done: Callable[[], bool], do: Callable[[], object]) -> None:
        """Do something; if the process ends at a durable write meanwhile, begin anew and do it unless it was done."""
        reached = 0

        def dies(here: str) -> None:
            nonlocal reached
            reached += 1
            if self.kill_at is not None and reached > self.kill_at:
                raise Killed(here)

        faults.hook = dies
        try:
            do()
        except Killed:
            self.killed, self.kill_at, faults.hook = self.killed + 1, None, None
            lags = self.made.pipeline.lags
            self.made.reopen()
            self.made.runner.let_answers_lag(may=lags)
            if not done():
                do()
        finally:
            faults.hook = None

    def note(self) -> None:
        """Remember the definitions there are, and from when on each is known."""
        every = map(self.made.catalog.edition, range(1, self.made.catalog.next_id))
        self.definitions |= {d.id: d for d in every if d is not None}
        for definition in self.definitions.values():
            self.known_us.setdefault(definition.first, self.watermark_us)

    def create(self, name: str, text: str) -> None:
        self.surely(lambda: self.made.catalog.has("query", name), lambda: self.made.create(name, text))
        self.note()

    def alter(self, name: str, text: str) -> None:
        self.surely(lambda: False, lambda: self.made.alter(name, text))  # the same once more changes nothing
        self.note()

    def drop(self, name: str) -> None:
        self.note()
        self.surely(lambda: not self.made.catalog.has("query", name), lambda: self.made.drop(name))

    def control(self, name: str, *, pause: bool) -> None:
        self.gone_us[self.made.catalog.query(name).first] = self.watermark_us
        self.surely(lambda: False, lambda: self.made.control(name, pause=pause))

    def backfill(self, name: str, since: str) -> None:
        self.backfilled = True
        self.surely(lambda: False, lambda: self.made.changes.backfill([name], since))

    def settle(self) -> None:
        """Let changes take effect, as between two batches."""
        self.surely(lambda: False, lambda: self.made.runner.settle())
        self.note()

    def synchronize(self, technique: str) -> None:
        self.made.synchronize_by(technique)
        self.settle()

    def answer_some(self, draw: random.Random) -> None:
        """Answer some of what waits."""
        waiting = list(self.made.pipeline.committer.unanswered.items)
        if waiting:
            self.surely(lambda: True, lambda: self.made.pipeline.answer_next(draw.sample(waiting, 1)))

    # -- what is to be seen ------------------------------------------------------------------------------------------

    def said(self) -> list[Said]:
        found = list[Said]()
        for _, tables in self.made.pipeline.answers.batches(-1):
            for table in tables:
                ends = table["window_end"].cast(pa.int64()).to_pylist()
                told = zip(table[DEFINITION].to_pylist(), ends, table["n"].to_pylist(), strict=True)
                found += [Said(*one) for one in told]
        return found

    def ends(self, name: str) -> list[float]:
        """List the ends of a query's answers as they were logged, in seconds."""
        return [s.end / SECOND for s in self.said() if self.made.catalog.name_of(s.definition) == name]

    def expected(self, definition: Definition, end: int) -> int:
        start = end - definition.query.window.length
        rows = [f for f in self.fed if start <= f.ts < end and (f.final_us < end or self.backfilled)]
        return len({f.v for f in rows}) if DISTINCT in definition.query.text else len(rows)

    def check(self) -> None:
        """Check every answer, and the ends of every query."""
        said = self.said()
        for one in said:
            definition = self.definitions[one.definition]
            stored = one.end <= self.known_us[definition.first]  # late rows were stored for others or were not
            assert stored or one.n == self.expected(definition, one.end), (definition.name, one.end / SECOND)
            window = definition.query.window
            assert (one.end - window.offset) % window.slide == 0
            swept = DISTINCT in definition.query.text or self.made.kernel == "scan"
            assert definition.retimed is None or ("fresh" in definition.query.text and swept)
        firsts = {self.definitions[one.definition].first for one in said}
        for first in firsts:
            self.check_ends(first, [s for s in said if self.definitions[s.definition].first == first])

    def check_ends(self, first: int, said: list[Said]) -> None:
        ends, definition = [one.end for one in said], self.definitions[first]
        if self.backfilled:  # what a backfill says of the past comes later, and each version says it once
            assert len({(s.definition, s.end) for s in said}) == len(said)
            if self.is_there(definition) and not self.is_altered(definition):
                shown = [end for end, _ in self.made.timeline(definition.name)]
                assert shown == sorted(set(shown))
            return
        assert ends == sorted(set(ends)), (definition.name, [end / SECOND for end in ends])
        if "fresh" not in definition.query.text and first not in self.gone_us:
            assert ends == list(range(ends[0], ends[-1] + 1, definition.query.window.slide))

    def check_fresh(self) -> None:
        """Check that each query that has begun has answered an end which is no further back than its slide."""
        said = self.said()
        for definition in [d for d in self.made.catalog.definitions("s") if d.handover is None]:
            since = self.gone_us.get(definition.first, -(1 << 62))
            mine = [s.end for s in said if self.definitions[s.definition].first == definition.first and s.end > since]
            if mine and not self.is_paused(definition) and not self.made.pipeline.committer.unanswered:
                last, slide = max(mine), definition.asked.slide
                assert last + slide > self.watermark_us, (definition.name, last / SECOND, self.watermark_us / SECOND)

    def is_there(self, definition: Definition) -> bool:
        known = self.made.catalog
        return known.has("query", definition.name) and known.query(definition.name).first == definition.first

    def is_altered(self, definition: Definition) -> bool:
        firsts = {d.first for d in self.definitions.values() if d.name == definition.name}
        return firsts != {definition.first}

    def is_paused(self, definition: Definition) -> bool:
        return definition.id in self.made.pipeline.progress.windows.paused


def opened(folder: Path, technique: str = "AS", lateness_s: int = 0, **more: object) -> FreshRun:
    folder.mkdir(parents=True, exist_ok=True)
    how = {"synchronize": technique, "lateness_us": lateness_s * SECOND} | more
    return FreshRun(MadeStream(folder, **how))  # type: ignore[arg-type]


def seconds(first: int, last: int) -> list[Row]:
    """Make a row at each second, all of other values."""
    return [row(second, second) for second in range(first, last)]
