"""An engine and the model side by side: each step is taken by both, and all that can be seen is compared."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.engine import Engine
from penstock.kernel.synopsis import Kernel
from penstock.model.schema import Column, Stream
from penstock.share.plan import Strategy
from penstock.sinks.jsonl import JsonLinesSink
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.protocol import Sink
from penstock.store import faults
from penstock.store.folder import StateFolder
from penstock.testing import ManualClock, TestBed
from tests.always.delivered import delivered, lines_in, tables_in
from tests.always.model import TERMS, Entry, Model, Standing
from tests.always.questions import Question, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000
EPOCH_US = 1_767_571_200 * SECOND  # 2026-01-05, where the rows of the tests begin
COLUMNS = (
    Column("id", "bigint"),
    Column("ts", "timestamp"),
    Column("k", "string"),
    Column("j", "int"),
    Column("v", "bigint"),
)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("k", pa.string()),
        ("j", pa.int32()),
        ("v", pa.int64()),
    ]
)
Line = tuple[Any, ...]
Taken = tuple[int, str, tuple[Any, ...]]  # the clock, the name of a step, its arguments
Moment = tuple[str, int]  # of a durable write, and at which arrival


class Killed(BaseException):
    """The end of a process, as far as the engine can tell."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a stream is like, and how it is run."""

    lateness_us: int = 0
    max_ahead_us: int = 600 * SECOND
    idle_us: int = 0
    dedup: tuple[str, ...] = ()
    strategy: Strategy = "shared paired"
    kernel: Kernel = "fast"
    retain_rows_us: int = 0
    roll_seconds: float = 60.0  # after which the Parquet sink shows what it holds
    lags: bool = False  # final windows are answered when the test says so, or must be

    def stream(self) -> Stream:
        return Stream(
            "s",
            COLUMNS,
            "ts",
            self.lateness_us,
            self.max_ahead_us,
            idle_us=self.idle_us,
            dedup=self.dedup,
            retain_rows_us=self.retain_rows_us,
        )


class Judged:
    """Steps that an engine and the model take together."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        setting: Setting,
        *,
        durable: bool = True,
        dying: Sequence[Moment] = (),
    ) -> None:
        """Open an engine, which may die of it; without a state folder it cannot be killed or restarted."""
        self.spark, self.folder, self.setting, self.durable = spark, folder, setting, durable
        self.clock = ManualClock(instant(EPOCH_US))
        self.model = Model(setting.lateness_us, setting.max_ahead_us, setting.idle_us, setting.dedup)
        self._bed: TestBed | None = None
        self.taken: list[Taken] = []
        self.kills: list[str] = []
        self.lagged = 0  # items that were not answered when some of them were to be
        self.armed: list[Moment] = []
        self.arm(dying)
        self.step(self._reopen, done=lambda: True)
        self._sent: tuple[pa.Table, int] | None = None

    def _open(self) -> TestBed:
        rolling = self.setting.roll_seconds
        sinks: list[Sink] = [
            JsonLinesSink(self.folder / "lines", roll_bytes=2_000),
            ParquetSink(self.folder / "tables", roll_seconds=rolling),
        ]
        state = self.folder / "state" if self.durable else None
        strategy, kernel = self.setting.strategy, self.setting.kernel
        return TestBed(self.spark, clock=self.clock, state=state, sinks=sinks, strategy=strategy, kernel=kernel)

    @property
    def bed(self) -> TestBed:
        assert self._bed is not None
        return self._bed

    # -- steps ---------------------------------------------------------------------------------------------------

    def create(self, name: str, question: Question) -> None:
        self._note("create", name, question)
        self.model.create(name, question, self._enter(name, lambda: self.bed.engine.create_query(name, question.sql())))

    def alter(self, name: str, question: Question) -> None:
        self._note("alter", name, question)
        first = self._enter(name, lambda: self.bed.engine.alter_query(name, question.sql()))
        self.model.alter(name, question, first)

    def drop(self, name: str) -> None:
        self._note("drop", name)
        self.step(lambda: self.bed.engine.drop_query(name), done=lambda: name not in self._names())
        self.model.drop(name)

    def pause(self, name: str) -> None:
        self._note("pause", name)
        self.step(lambda: self.bed.engine.pause_query(name))
        self.model.pause(name)

    def resume(self, name: str) -> None:
        self._note("resume", name)
        self.step(lambda: self.bed.engine.resume_query(name))
        self.model.resume(name)

    def feed(self, rows: Sequence[Row]) -> None:
        self._note("feed", list(rows))
        table = batch_of(rows)
        number = self.bed.engine.stream("s").pipeline.progress.clock.batch + 1
        self.step(lambda: self.bed.feed("s", table, number=number))
        self._sent = table, number
        self.model.batch(rows, self.clock())

    def heartbeat(self) -> None:
        self._note("heartbeat")
        since, kills = self.model.at, len(self.kills)
        self.model.outlive(self.clock())
        self.step(self._tick)
        died = len(self.kills) > kills
        if died and self.bed.engine.stream("s").pipeline.progress.clock.watermark_us == self.model.watermark:
            return  # it died before the heartbeat was committed, and idleness counts anew
        self.model.at = since
        self.model.heartbeat(self.clock())

    def _tick(self) -> None:
        with self.bed.working():
            self.bed.engine.stream("s").tick()

    def backfill(self, name: str) -> None:
        """Answer what was before a query's first window, as far back as rows are kept."""
        self._note("backfill", name)
        kills = len(self.kills)
        found = self.step(lambda: self.bed.engine.backfill([name]))
        at_work = self.bed.engine.stream("s")
        if self.model.watermark is not None and self.model.queries[name].first_end is not None:
            progress, definition = at_work.pipeline.progress, self.bed.engine.catalog.query(name).id
            number = self.model.backfill(
                name, progress.windows.first_ends[definition], progress.windows.starts[definition]
            )
            unknown = len(self.kills) > kills or self.model.queries[name].question.keys  # an empty group is no answer
            assert unknown or found == {name: number}, f"{found}, the model {number}"

    def restart(self, send_again: bool = False) -> None:
        """Close the engine as a program would, and open it anew; Spark may send its last batch again."""
        self._note("restart", send_again)
        before = len(self.kills)
        self.step(self.bed.close, done=lambda: True)
        if len(self.kills) == before:  # else another one is open already
            self.step(self._reopen, done=lambda: True)
        if send_again and self._sent is not None:
            table, number = self._sent
            self.step(lambda: self.bed.feed("s", table, number=number))

    def _reopen(self) -> None:
        """Open an engine and put the stream to work."""
        self._bed = None
        self._bed = self._open()
        if "s" not in self.bed.engine.catalog.stream_names():
            self.bed.declare(self.setting.stream())
        self.bed.engine.stream("s").let_answers_lag(may=self.setting.lags)
        self.model.start(self.clock())

    def _read_past(self) -> None:
        """Read the past that queries ask for, as a running stream does beside its batches."""
        with self.bed.working():
            self.bed.engine.stream("s").past.finish()

    def answer_some(self, draw: random.Random) -> None:
        """Answer some of the windows that are final, in any order; queries keep theirs."""

        def answer() -> None:
            pipeline = self.bed.engine.stream("s").pipeline
            keys = list(pipeline.committer.unanswered.items)
            self.lagged += len(keys)
            with self.bed.working():
                pipeline.answer_next(draw.sample(keys, draw.randint(0, len(keys))))

        self.step(answer)

    def _catch_up(self) -> None:
        """Answer all that is final, then let answers lag again."""
        self.step(lambda: self.bed.engine.stream("s").let_answers_lag(may=False))
        self.step(lambda: self.bed.engine.streams.wait_for_sinks())  # the engine may have been opened just now
        self.bed.engine.stream("s").let_answers_lag(may=self.setting.lags)

    def flush(self) -> None:
        self.step(lambda: self.bed.flush())
        self.model.flush()

    def ask(self, question: Question) -> None:
        """Compare a one-time answer with the rows of the window that it names."""
        self._note("ask", question)
        found = self.bed.engine.ask(question.asked())
        rows = lines_of(found, question.names)
        ends = set(found["window_end"].cast(pa.int64()).to_pylist())
        assert len(ends) <= 1, ends
        for end in ends:
            assert [(row[0], row[1], *row[2:]) for row in rows] == [
                (end - question.range_us, end, *group, *values) for group, values in self.model.ask(question, end)
            ], question.asked()

    def _enter(self, name: str, change: Callable[[], Any]) -> int | None:
        """Carry out a CREATE or ALTER; if the engine died on the way, look afterwards whether it had happened."""
        before = self._definition(name)
        said = self.step(change, done=lambda: self._definition(name) != before)
        self.step(lambda: self.bed.engine.stream("s").settle())  # if it died, its past is asked for now
        self.step(self._read_past)
        definition = self.bed.engine.catalog.query(name)
        if said is not None:
            assert said.definition.id == definition.id
            found: int | None = said.first_end_us
            return found
        return self.bed.engine.stream("s").pipeline.progress.windows.first_ends.get(definition.id)

    # -- death ---------------------------------------------------------------------------------------------------

    def arm(self, moments: Sequence[Moment]) -> None:
        """Let the engine die at the n-th arrival at a moment; the next ones wait for the engines after it."""
        self._note("arm", list(moments))
        self.armed = list(moments)
        self._load()

    def _load(self) -> None:
        faults.hook = killer(*self.armed.pop(0)) if self.armed else None

    def step(self, action: Callable[[], Any], done: Callable[[], bool] | None = None) -> Any:
        """Take a step; if the engine dies in it, open a new one and take it again unless it was done."""

        def killed(error: Killed) -> None:
            self.kills.append(str(error))
            self._load()

        return taken_at_last(action, done, self._die, killed)

    def die(self) -> None:
        """Leave the engine as a killed process does: nothing is closed, only the lock is gone."""
        self._note("die")
        self._die()

    def _die(self) -> None:
        if self._bed is not None:
            self._bed.engine.release()
        self._reopen()

    def _note(self, step: str, *arguments: Any) -> None:
        """Write a step down, so that a run can be repeated."""
        self.taken.append((self.clock(), step, arguments))

    def _names(self) -> set[str]:
        return {d.name for d in self.bed.engine.catalog.definitions("s")}

    def _definition(self, name: str) -> int | None:
        return self.bed.engine.catalog.query(name).id if name in self._names() else None

    # -- what is to be seen --------------------------------------------------------------------------------------

    def check(self) -> None:
        """Compare time, counts, every query's answers and what the sinks hold."""
        self._catch_up()
        progress = self.bed.engine.stream("s").pipeline.progress
        assert progress.clock.watermark_us == self.model.watermark, (progress.clock.watermark_us, self.model.watermark)
        counts = self.bed.counts("s")
        found, wanted = ({t: of(t) for t in TERMS} for of in (counts.__getattribute__, self.model.counts.__getitem__))
        assert found == wanted, f"counted {found}, the model {wanted}"
        assert counts.ingested == self.model.counts["ingested"] == sum(found.values())
        for standing in self.model.standing():
            self._check_query(standing)
        self._check_sinks()

    def _check_query(self, standing: Standing) -> None:
        question, engine = standing.question, self.bed.engine
        where = f"{standing.name}: {question.sql()}"
        if standing.until is not None and not standing.log:  # what its columns were is not known
            assert not engine.results(standing.name, version=standing.version).num_rows, where
            return
        found = lines_of(engine.results(standing.name, version=standing.version), question.names)
        agree(found, [line(standing, entry) for entry in standing.current()], where)
        if question.revise_for_us is not None:
            logged = engine.results(standing.name, revisions=True, version=standing.version)
            log = lines_of(logged, ["revision", "op", *question.names])
            agree(log, [line(standing, entry, logged=True) for entry in standing.revisions()], where)

    def _check_sinks(self) -> None:
        """Every answer is in the lines once, and at most once in the Parquet files, which wait for more."""
        expected = delivered(self.model)
        assert lines_in(self.folder / "lines") == expected
        assert not tables_in(self.folder / "tables") - expected, "answers in Parquet that nobody gave"

    def check_all_delivered(self) -> None:
        """Make all answers visible; now both sinks hold each exactly once."""
        self.arm([])
        self.bed.engine.stream("s").delivery.roll()
        self.check()
        assert tables_in(self.folder / "tables") == delivered(self.model)

    def close(self) -> None:
        faults.hook = None
        self.bed.close()


def taken_at_last(
    action: Callable[[], Any],
    done: Callable[[], bool] | None,
    reopen: Callable[[], None],
    noted: Callable[[Killed], None],
) -> Any:
    """Take a step; whenever the engine dies in it, open a new one, and take it again unless it was done."""
    died = False
    while True:
        try:
            if died:
                reopen()
                if done is not None and done():
                    return None
            return action()
        except Killed as killed:
            died = True
            bury(killed)
            noted(killed)


def bury(killed: Killed) -> None:
    """Abandon an engine that died while it was being made: nobody else knows it."""
    for frame, _ in walk_tb(killed.__traceback__):
        match frame.f_locals.get("self"):
            case StateFolder() as folder:
                folder.release()
            case Engine() as engine if frame.f_code.co_name == "__init__":
                engine.release()


def killer(moment: str, times: int = 1) -> Callable[[str], None]:
    """Make a hook that ends the engine at the n-th arrival at a moment; the dead write nothing more."""
    left = times

    def reached(here: str) -> None:
        nonlocal left
        if here == moment:
            left -= 1
        if left <= 0:
            raise Killed(here)

    return reached


def agree(found: Sequence[Line], wanted: Sequence[Line], where: str) -> None:
    """Compare lines, and show the first that differ."""
    if list(found) != list(wanted):
        extra, missing = [each for each in found if each not in wanted], [each for each in wanted if each not in found]
        raise AssertionError(f"{where}\n  only found: {extra[:4]}\n  only wanted: {missing[:4]}")


def instant(us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)


def batch_of(rows: Sequence[Row]) -> pa.Table:
    return pa.table([pa.array([row[f.name] for row in rows], f.type) for f in SCHEMA], schema=SCHEMA)


def lines_of(table: pa.Table, names: Sequence[str]) -> list[Line]:
    """Read a table of answers as (window_start, window_end, columns …), times in microseconds."""
    assert table.column_names == ["window_start", "window_end", *names], table.column_names
    times = [table[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end")]
    return list(zip(*times, *(table[name].to_pylist() for name in names), strict=True))


def line(standing: Standing, entry: Entry, *, logged: bool = False) -> Line:
    """Write what the model expects of one answer in the same form."""
    revision = (entry.revision, entry.op) if logged else ()
    return (entry.end - standing.question.range_us, entry.end, *revision, *entry.group, *entry.values)
