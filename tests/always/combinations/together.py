"""A scenario in, what the engine and the plain meaning say of it compared after every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine import Engine
from penstock.errors import PenstockError
from tests.always.combinations.compared import (
    agree,
    arranged,
    current_lines,
    in_lines,
    in_tables,
    log_lines,
    once_lines,
    ordered,
    said,
    seen_of,
    shown,
)
from tests.always.combinations.meaning import TERMS, Nature, Stream
from tests.always.combinations.mortal import COLUMNS, Mortal
from tests.always.combinations.queries import Query, Standing
from tests.always.combinations.scenario import Scenario, Step
from tests.always.judged import instant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from tests.always.combinations.schemas import CREATE_TABLE, SCHEMA, TABLE


class Together:
    """An engine and the meaning, which take the same steps."""

    def __init__(self, spark: SparkSession, folder: Path, scenario: Scenario) -> None:
        """Open an engine."""
        self.folder, self.scenario, self.setting = folder, scenario, scenario.setting
        setting = self.setting
        nature = Nature(COLUMNS, setting.lateness, setting.max_ahead, setting.idle, setting.dedup)
        self.table: list[Any] = [{}]  # versions
        self.streams = {"s": Stream("s", nature, self.table)}
        self.home: dict[str, str] = {}  # the stream of each query
        self.done: Counter[str] = Counter()
        self._sent: tuple[pa.Table, int] | None = None
        self.mortal = Mortal(spark, folder, setting, self._opened)

    def _opened(self) -> None:
        """Idleness counts from when an engine was opened."""
        if hasattr(self, "mortal"):
            self.streams["s"].at = self.mortal.clock()

    @property
    def engine(self) -> Engine:
        return self.mortal.bed.engine

    def run(self) -> None:
        """Take all steps, end the streams, and compare what is to be seen each time."""
        self.streams["s"].at = self.mortal.clock()
        for number, step in enumerate(self.scenario.steps):
            self.mortal.clock.set(instant(step.at))
            try:
                if getattr(self, f"_{step.kind}")(step):
                    self.done[step.kind] += 1
                    self.check()
            except Exception as error:
                error.add_note(f"in step {number}: {step}")
                raise
        self.finish()

    def finish(self) -> None:
        """End the streams; now both sinks hold every answer exactly once."""
        self.mortal.arm([])
        self.mortal.bed.flush()
        for stream in list(self.streams.values()):
            stream.flush()
        self.check()
        self._count()
        self.mortal.bed.close()
        wanted = said(s for stream in self.streams.values() for s in stream.ever)
        agree(in_lines(self.folder / "lines"), wanted, "JSON lines")
        agree(in_tables(self.folder / "tables"), wanted, "Parquet")

    def close(self) -> None:
        """Let go of the engine."""
        self.mortal.close()

    # -- rows and time: each step tells whether it made sense ----------------------------------------------------

    def _feed(self, step: Step) -> bool:
        columns = [pa.array([row[field.name] for row in step.rows], field.type) for field in SCHEMA]
        table, number = pa.table(columns, schema=SCHEMA), self._progress("s").clock.batch + 1
        self._outlive()
        self.mortal.take(lambda: self.mortal.bed.feed("s", table, number=number))
        self._sent = table, number
        self.streams["s"].batch(step.rows, step.at)
        return True

    def _heartbeat(self, step: Step) -> bool:
        stream, kills = self.streams["s"], len(self.mortal.kills)
        self._outlive()
        since = stream.at
        self.mortal.take(self._tick)
        died = len(self.mortal.kills) > kills
        if died and self._progress("s").clock.watermark_us == stream.watermark:
            return True  # it died before the heartbeat was committed, and idleness counts anew
        stream.at = since
        stream.heartbeat(step.at)
        return True

    def _tick(self) -> None:
        with self.mortal.bed.working():
            self.engine.stream("s").tick()

    def _outlive(self) -> None:
        for stream in self.streams.values():
            stream.outlive(self.mortal.clock())

    def _table(self, step: Step) -> bool:
        """Give the table other rows."""
        folder = self.folder / "t"
        folder.mkdir(exist_ok=True)
        old = list(folder.glob("*.parquet"))
        pq.write_table(pa.Table.from_pylist(list(step.rows), TABLE), folder / f"{len(self.table)}.parquet")
        for path in old:
            path.unlink()
        by_key: dict[Any, list[Any]] = {}
        for row in step.rows:
            by_key.setdefault(row["k"], []).append({"sector": row["sector"], "factor": row["factor"]})
        self.table.append(by_key)
        if len(self.table) == 2:
            has_it = lambda: self.engine.catalog.has("table", "t")  # noqa: E731
            self.mortal.take(lambda: self.engine.execute(CREATE_TABLE.format(folder)), done=has_it)
        return True

    # -- the end, and going on -----------------------------------------------------------------------------------

    def _arm(self, step: Step) -> bool:
        self.mortal.arm(step.moments)
        return True

    def _die(self, step: Step) -> bool:
        self.mortal.die()
        return True

    def _restart(self, step: Step) -> bool:
        """Restart; Spark may send its last batch again."""
        self.mortal.restart()
        if step.name and self._sent is not None:
            table, number = self._sent
            self.mortal.take(lambda: self.mortal.bed.feed("s", table, number=number))
        return True

    # -- queries -------------------------------------------------------------------------------------------------

    def _derive(self, step: Step) -> bool:
        query = step.query
        assert query is not None
        text = f"CREATE STREAM {step.name} AS {query.sql()}"
        first = self._enter(step.name, "s", lambda: self.engine.execute(text))
        source = self.streams["s"]
        self.streams[step.name] = Stream(step.name, Nature(query.types(), -1), self.table)
        standing = source.create(step.name, query, first, self.mortal.clock())
        source.readers.append((standing, self.streams[step.name], [0]))
        source.settle()
        self.home[step.name] = "s"
        return True

    def _create(self, step: Step) -> bool:
        query, name = step.query, step.name
        assert query is not None
        if self._standing(name) is not None or not self._has_all(query):
            return False
        try:
            first = self._enter(name, query.stream, lambda: self.mortal.bed.query(name, query.sql()))
        except PenstockError as refused:
            return self._refused(refused, query)
        self.streams[query.stream].create(name, query, first, self.mortal.clock())
        self.streams[query.stream].settle()
        self.home[name] = query.stream
        return True

    def _alter(self, step: Step) -> bool:
        query, name, old = step.query, step.name, self._standing(step.name)
        assert query is not None
        if old is None or old.query == query or self.home[name] != query.stream or not self._has_all(query):
            return False
        try:
            first = self._enter(name, query.stream, lambda: self.engine.alter_query(name, query.sql()))
        except PenstockError as refused:
            return self._refused(refused, query)
        self._settle(self.engine.catalog.query(name).query.stream)
        self.streams[query.stream].alter(name, query, first, self.mortal.clock())
        self.streams[query.stream].settle()
        return True

    def _enter(self, name: str, stream: str, change: Callable[[], Any]) -> int | None:
        """Carry out a CREATE or ALTER; look afterwards from which window on it is answered."""
        before = self._definition(name)
        self.mortal.take(change, done=lambda: self._definition(name) != before)
        definition = self.engine.catalog.query(name)
        if definition.id not in self._progress(stream).windows.starts:
            self._settle(stream)
        return self._progress(stream).windows.first_ends.get(definition.id)

    def _has_all(self, query: Query) -> bool:
        """Tell whether the stream and the table that a query reads are there."""
        return query.stream in self.streams and (not query.join or len(self.table) > 1)

    def _refused(self, refused: PenstockError, query: Query) -> bool:
        """Check that only what cannot be had is refused, and with a hint: a past, or groups that executors keep."""
        of_executors = self.setting.spreads and query.keys and "executors" in str(refused)
        if not (query.asks_past or of_executors) or not refused.hint:
            raise AssertionError(f"{refused}\n{query.sql()}") from refused
        self.done["refused"] += 1
        return False

    def _drop(self, step: Step) -> bool:
        name = step.name
        if self._standing(name) is None:
            return False
        self.mortal.take(lambda: self.engine.drop_query(name), done=lambda: self._definition(name) is None)
        self.streams[self.home[name]].drop(name)
        return True

    def _pause(self, step: Step) -> bool:
        if self._standing(step.name) is None:
            return False
        self.mortal.take(lambda: self.engine.pause_query(step.name))
        self.streams[self.home[step.name]].pause(step.name)
        return True

    def _resume(self, step: Step) -> bool:
        standing = self._standing(step.name)
        if standing is None or standing.pause is None:
            return False
        self.mortal.take(lambda: self.engine.resume_query(step.name))
        self.streams[self.home[step.name]].resume(step.name)
        return True

    def _backfill(self, step: Step) -> bool:
        """Answer what was before a query's first window, as far back as rows are kept."""
        standing, name = self._standing(step.name), step.name
        if standing is None or standing.pause is not None or self.home[name] != "s":
            return False
        kills, stream = len(self.mortal.kills), self.streams["s"]
        try:
            found = self.mortal.take(lambda: self.engine.backfill([name]))
        except PenstockError as refused:
            return self._with_hint("backfill", refused)
        if stream.watermark is not None and standing.first_end is not None:
            progress, definition = self._progress("s"), self.engine.catalog.query(name).id
            number = stream.backfill(name, progress.windows.first_ends[definition], progress.windows.starts[definition])
            unknown = len(self.mortal.kills) > kills or standing.query.grouped  # an empty group is no answer
            assert unknown or found == {name: number}, f"{found}, the model {number}"
        return True

    def _ask(self, step: Step) -> bool:
        """Compare a one-time answer with the rows of the window that it names."""
        query = step.query
        assert query is not None
        if not self._has_all(query):
            return False
        try:
            with self.mortal.bed.working():
                found = self.engine.ask(query.asked())
        except PenstockError as refused:
            return self._with_hint("ask", refused)
        stream, ends = self.streams[query.stream], set(found["window_end"].cast(pa.int64()).to_pylist())
        assert len(ends) <= 1, ends
        for end in ends:
            assert stream.watermark is not None
            assert end <= stream.watermark, (end, stream.watermark)
            start = end - query.window.length
            wanted = query.answer(stream.rows_in(start, end), start, end)
            agree(shown(found, query.columns), once_lines(start, end, wanted.values()), query.asked())
        return True

    def _with_hint(self, kind: str, refused: PenstockError) -> bool:
        """Check that what is refused comes with a hint."""
        if not refused.hint:
            raise AssertionError(f"refused without a hint: {refused}") from refused
        self.done[f"{kind}, refused"] += 1
        return True

    # -- what is to be seen --------------------------------------------------------------------------------------

    def check(self) -> None:
        """Compare time, counts, who is paused, and every query's answers."""
        for name, stream in self.streams.items():
            watermark, counts = self._progress(name).clock.watermark_us, self.mortal.bed.counts(name)
            assert watermark == stream.watermark, f"watermark of {name}: {watermark}, the model {stream.watermark}"
            found = {term: getattr(counts, term) for term in TERMS}
            wanted = {term: stream.counts[term] for term in TERMS}
            assert found == wanted, f"{name} counted {found}, the model {wanted}"
            assert counts.ingested == stream.counts["ingested"] == sum(found.values())
            for standing in stream.standing():
                self._check_query(standing)

    def _check_query(self, standing: Standing) -> None:
        query, name = standing.query, standing.name
        where = f"{name}: {query.sql()}"
        if standing.ends_before is None:
            reason = self.mortal.bed.paused(name)
            told = f"{where}\n  paused: {reason}, the model {standing.pause}"
            assert (reason is None) == (standing.pause is None), told
        found = self.engine.results(name, version=standing.version)
        if standing.ends_before is not None and not standing.log:  # what its columns were is not known
            assert not found.num_rows, where
            return
        agree(shown(found, query.columns), current_lines(standing), where)
        if query.rows.order:
            assert arranged(found, query), where
        elif not query.rows.bare:
            assert query.sets or query.window.of_rows or ordered(found, query.columns[: len(query.keys)]), where
        if query.revise_for is not None:
            log = self.engine.results(name, revisions=True, version=standing.version)
            agree(shown(log, ("revision", "op", *query.columns)), log_lines(standing), f"revisions of {where}")

    def _standing(self, name: str) -> Standing | None:
        stream = self.streams.get(self.home.get(name, ""))
        return None if stream is None else stream.queries.get(name)

    def _progress(self, stream: str) -> Any:
        return self.engine.stream(stream).pipeline.progress

    def _settle(self, stream: str) -> None:
        with self.mortal.bed.working():
            self.engine.stream(stream).settle()

    def _definition(self, name: str) -> int | None:
        catalog = self.engine.catalog
        return catalog.query(name).id if catalog.has("query", name) else None

    def _count(self) -> None:
        """Count what was done and seen."""
        standings = [s for stream in self.streams.values() for s in stream.ever]
        spread = sum(len(at_work.pipeline.groupings.spread) for at_work in self.engine.streams.runners.values())
        deaths = {"death in a step": len(self.mortal.kills), "groupings kept by executors": spread}
        self.done.update(deaths | seen_of(standings))
