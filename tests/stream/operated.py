"""Expensive functions of continuous queries, and the same computed row by row in plain Python."""

from __future__ import annotations

import atexit
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest

from penstock.kernel.operator_block import Passed
from penstock.schedule.operator_queues import operator_policy_named
from penstock.spark.functions.resident_worker import StepAnswered
from penstock.spark.functions.udf_worker import UdfWorker
from penstock.spark.sources.rows import frame_of, schema_of
from penstock.stream.operators.answering import answer_what_is_through
from penstock.stream.operators.operator_queues import OperatorQueues
from penstock.stream.operators.slots import OperatorSlots
from penstock.stream.operators.step_choice import StepChoice
from penstock.stream.operators.worker_process import WorkerLimits, WorkerProcess
from penstock.testing import TestBed
from penstock.testing.values import arrow_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "ts TIMESTAMP, id BIGINT, v BIGINT, w DOUBLE, name STRING"
Row = tuple[float, int, int | None, float | None, str | None]
Answer = tuple[Any, ...]


def score(v: int | None) -> int | None:
    return None if v is None else v * v % 17


def weight(w: float | None, name: str | None) -> float | None:
    return None if w is None or name is None else w * len(name)


def risky(v: int | None) -> int | None:
    if v == 13:
        raise ValueError("unlucky")
    return score(v)


def deadly(v: int | None) -> int | None:
    if v == 13:
        os._exit(3)
    if v == 14:
        time.sleep(600)
    return score(v)


def killed_once(path: str, v: int) -> int:
    """End the process that computes this, the first time."""
    if not Path(path).exists():
        Path(path).write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return v + 1


def drawn(path: str, v: int) -> int:
    """Compute another value each time, and note which."""
    with open(path, "ab") as file:
        file.write(b".")
        return v * 1_000 + file.tell()


class Killed(BaseException):
    """The end of a process, as far as the engine can tell."""


def above(x: float | None, bound: float) -> bool:
    return x is not None and x > bound


# name → SELECT, and what it answers of a row: None where it does not take it
QUERIES: dict[str, tuple[str, Callable[[Row], Answer | None]]] = {
    "plain": ("SELECT id, v FROM s WHERE v > 5", lambda r: (r[1], r[2]) if above(r[2], 5) else None),
    "scored": (
        "SELECT id, score(v) AS p FROM s WHERE v > 2 AND score(v) > 4",
        lambda r: (r[1], score(r[2])) if above(r[2], 2) and above(score(r[2]), 4) else None,
    ),
    "shared": (
        "SELECT id, name FROM s WHERE score(v) < 9 AND weight(w, name) > 3",
        lambda r: (
            (r[1], r[4])
            if score(r[2]) is not None and not above(score(r[2]), 8) and above(weight(r[3], r[4]), 3)
            else None
        ),
    ),
    "nested": (
        "SELECT score(score(v)) + id AS p, id FROM s WHERE w < 8 AND (score(v) > 12 OR weight(w, name) < 2)",
        lambda r: _nested(r),
    ),
    "every": ("SELECT id, weight(w, name) AS x FROM s", lambda r: (r[1], weight(r[3], r[4]))),
}


def _nested(row: Row) -> Answer | None:
    light = weight(row[3], row[4])
    either = above(score(row[2]), 12) or (light is not None and light < 2)
    if row[3] is None or row[3] >= 8 or not either:
        return None
    twice = score(score(row[2]))
    return None if twice is None else twice + row[1], row[1]


def expected(name: str, rows: Sequence[Row]) -> list[Answer]:
    """Compute a query's answers row by row."""
    return [answer for row in rows if (answer := QUERIES[name][1](row)) is not None]


def bed_with(spark: SparkSession, state: Path | None = None, *, expensive: bool | None = True, **told: Any) -> TestBed:
    """Open a bed; the stream and its queries are there after the first time."""
    bed = TestBed(spark, state=state, **told)
    if "s" not in bed.engine.catalog.stream_names():
        bed.stream("s", COLUMNS, lateness="1 s")
        for function in (score, weight, risky, deadly, killed_once, drawn):
            bed.engine.create_function(function.__name__, function, expensive=expensive)
    return bed


def queue(bed: TestBed, rows: Sequence[Row], number: int | None = None) -> None:
    """Give the stream a batch, and leave what it queues."""
    runner = bed.engine.stream("s")
    table = arrow_rows(rows, schema_of(bed.engine.session, runner.stream.columns), "rows", bed.epoch)
    with bed.working():
        frame = frame_of(bed.engine.session, table, runner.stream.columns)
        runner.process(frame, runner.pipeline.progress.clock.batch + 1 if number is None else number)


def finish(bed: TestBed) -> None:
    """Let all that waits go through."""
    runner = bed.engine.stream("s")
    runner.operators.finish(runner.pipeline)


class SharedProcess:
    """A worker process that goes on to the next engine when its own ends: starting one takes most of a test's time.

    A process ends with the thread that has started it, so steps are asked for in a thread that stays.
    """

    idle: ClassVar[list[tuple[WorkerProcess, ThreadPoolExecutor]]] = []

    def __init__(self, limits: WorkerLimits) -> None:
        """Take a process that lives, or a new one."""
        self.process, self.thread = self.idle.pop() if self.idle else (WorkerProcess(limits), ThreadPoolExecutor(1))
        self.process.limits, self._lost_before = limits, self.process.lost
        self.kill = self.process.kill

    def run(self, worker: UdfWorker, pinned: str, arguments: list[pa.Array]) -> StepAnswered:
        """Run a step."""
        return self.thread.submit(self.process.run, worker, pinned, arguments).result()

    @property
    def lost(self) -> int:
        """Count the processes that were lost since."""
        return self.process.lost - self._lost_before

    def stop(self) -> None:
        """Leave the process to the next engine."""
        self.idle.append((self.process, self.thread))

    def close(self) -> None:
        """Let the step that runs come to its end."""


def share_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let engines that come after one another share worker processes."""
    monkeypatch.setattr("penstock.stream.operators.slots.WorkerProcess", SharedProcess)


@atexit.register
def end_processes() -> None:
    for process, _ in SharedProcess.idle:
        process.stop()


def slots_of(bed: TestBed) -> OperatorSlots:
    return bed.engine.streams.settings.desk.operators


def answers(bed: TestBed, query: str) -> list[Answer]:
    """Return a query's own columns, in their order."""
    return [tuple(row.values())[4:] for row in bed.answers(query)]


def rows_from(first: int, count: int) -> list[Row]:
    """Make rows with their numbers, NULLs among them; times go on."""
    made: list[Row] = []
    for n in range(first, first + count):
        name = None if n % 11 == 3 else "abc"[: 1 + n % 3]
        made.append((n / 10, n, None if n % 7 == 5 else n % 12, None if n % 13 == 4 else n % 10 / 2, name))
    return made


def raised(queues: OperatorQueues, error: BaseException) -> None:
    """Let nothing fail."""
    raise error


class Clockwork:
    """Takes the steps of a bed here, one at a time, by a clock that goes on by what each is said to cost."""

    def __init__(self, bed: TestBed, costs: dict[str, float]) -> None:
        """Begin; ``costs`` are seconds a row, by function, and known from the start."""
        self.runner, self.costs, self.now_us, self.choice = bed.engine.stream("s"), costs, 0, StepChoice()
        self.queues.clock = lambda: self.now_us

    @property
    def queues(self) -> OperatorQueues:
        """Return the queues of the stream."""
        return self.runner.pipeline.continuous.operators

    def believe(self, passed: Sequence[float] = ()) -> None:
        """Let the queues know what functions cost and, if told, what conjuncts let through, from rows of long ago."""
        for number, query in self.queues.gates.divided(self.runner.catalog.definitions("s")).items():
            for name, operator in query.operators.items():
                self.queues.estimates.note_step(name, 1_000, 1_000 * self.costs[operator.function.name])
            told = [Passed(number, place, 1_000, round(1_000 * part)) for place, part in enumerate(passed)]
            self.queues.estimates.note_passed(told)

    def step(self, policy: str) -> str | None:
        """Take a step; return its function, None if nothing can run."""
        step = self.choice.next_step([self.queues], operator_policy_named(policy), raised)
        if step is None:
            return None
        name, rows = step.operator.function.name, len(step.sent[0])
        values, errors = self.runner.operators.worker_of(step.operator).called(step.sent)
        self.now_us += round(rows * self.costs[name] * 1e6)
        self.queues.finish(step, StepAnswered(values, errors, rows * self.costs[name]))
        return name

    def commit(self) -> None:
        """Commit what is through."""
        with self.runner.pipeline.step():
            answer_what_is_through(self.runner.pipeline)
