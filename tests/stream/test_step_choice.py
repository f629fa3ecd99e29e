"""Steps of several streams' operators are chosen by one policy, as if they were the queues of one stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.schedule.operator_queues import operator_policy_named
from penstock.spark.functions.resident_worker import StepAnswered
from penstock.spark.sources.rows import frame_of, schema_of
from penstock.stream.operators.operator_queues import OperatorQueues
from penstock.stream.operators.step_choice import StepChoice
from penstock.testing import TestBed
from penstock.testing.values import arrow_rows
from tests.stream.operated import raised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = {"dear": 0.4, "cheap": 0.1, "frees": 0.2}  # a row


def dear(v: int) -> int:
    return v


def cheap(v: int) -> int:
    return v


def frees(v: int) -> bool:
    return v == 0


class TwoStreams:
    """Two streams whose steps are chosen together, by a clock that each step moves on."""

    def __init__(self, bed: TestBed) -> None:
        self.bed, self.now_us, self.choice = bed, 0, StepChoice()
        for function in (dear, cheap, frees):
            bed.engine.create_function(function.__name__, function, expensive=True)
        for name in "ab":
            bed.stream(name, "ts TIMESTAMP, v BIGINT", lateness="1 s")
        bed.query("dears", "SELECT dear(v) AS p FROM a WITH (deadline = '5 s')")
        bed.query("cheaps", "SELECT cheap(v) AS p FROM b")
        bed.query("few", "SELECT v FROM a WHERE frees(v)")

    def queues(self, stream: str) -> OperatorQueues:
        return self.bed.engine.stream(stream).pipeline.continuous.operators

    def come(self, stream: str, seconds: float) -> None:
        """Let ten rows be queued at a time of the clock."""
        self.now_us, runner = round(seconds * 1e6), self.bed.engine.stream(stream)
        self.queues(stream).clock = lambda: self.now_us
        schema = schema_of(self.bed.engine.session, runner.stream.columns)
        table = arrow_rows([(seconds, n) for n in range(10)], schema, "rows", self.bed.epoch)
        with self.bed.working():
            frame = frame_of(self.bed.engine.session, table, runner.stream.columns)
            runner.process(frame, runner.pipeline.progress.clock.batch + 1)
        for query in self.queues(stream).gates.divided(runner.catalog.definitions(stream)).values():
            for name, operator in query.operators.items():
                self.queues(stream).estimates.note_step(name, 1_000, 1_000 * SECONDS[operator.function.name])

    def run(self, policy: str) -> list[str]:
        """Take all steps; return functions and streams in order."""
        found, both = list[str](), [self.queues("a"), self.queues("b")]
        while (step := self.choice.next_step(both, operator_policy_named(policy), raised)) is not None:
            name, rows = step.operator.function.name, len(step.sent[0])
            self.now_us += round(rows * SECONDS[name] * 1e6)
            values = pa.array([step.operator.function.python is None] * rows).cast(step.operator.returns)
            step.queues.finish(step, StepAnswered(values, pa.nulls(rows, pa.string()), rows * SECONDS[name]))
            found.append(name)
        return found


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("FCFS", ["dear", "frees", "cheap", "dear", "frees", "cheap"]),  # as rows came: a, b, a, b
        ("SRPT", ["cheap", "cheap", "frees", "frees", "dear", "dear"]),
        ("HNR", ["cheap", "cheap", "frees", "dear", "dear", "frees"]),  # which lets nothing pass, as has been learnt
        ("RR", ["dear", "cheap", "frees", "dear", "cheap", "frees"]),  # queries by their numbers
        ("Chain", ["cheap", "cheap", "frees", "frees", "dear", "dear"]),
        ("Chain-Flush", ["dear", "dear", "cheap", "cheap", "frees", "frees"]),  # or the dear one would be too late
    ],
)
def test_one_policy_chooses_among_the_queues_of_all_streams(spark: SparkSession, policy: str, order: list[str]) -> None:
    with TestBed(spark) as bed:
        two = TwoStreams(bed)
        for stream, seconds in (("a", 0.1), ("b", 0.2), ("a", 0.3), ("b", 0.4)):
            two.come(stream, seconds)
        assert two.run(policy) == order


def test_workers_take_the_steps_of_streams_that_are_at_work_together(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        two = TwoStreams(bed)
        for stream, seconds in (("a", 0.1), ("b", 0.2), ("a", 0.3), ("b", 0.4)):
            two.come(stream, seconds)
        pipelines = [bed.engine.stream(name).pipeline for name in "ab"]
        slots = bed.engine.streams.settings.desk.operators
        for pipeline in pipelines:
            slots.join(pipeline)
        for pipeline in pipelines:
            slots.finish(pipeline)
        for query in ("dears", "cheaps"):
            assert sorted(row["p"] for row in bed.answers(query)) == sorted(2 * [*range(10)])
        assert [row["v"] for row in bed.answers("few")] == [0, 0]


def test_a_stream_that_fails_is_told_and_left_out(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with TestBed(spark) as bed:
        two, told = TwoStreams(bed), list[tuple[OperatorQueues, str]]()
        for stream, seconds in (("a", 0.1), ("b", 0.2)):
            two.come(stream, seconds)

        def broken(*arguments: object) -> None:
            raise ValueError("its file is gone")

        both = [two.queues("a"), two.queues("b")]
        monkeypatch.setattr(both[0], "heads", broken)
        step = two.choice.next_step(both, operator_policy_named("FCFS"), lambda q, e: told.append((q, str(e))))
        assert step is not None
        assert step.queues is both[1]
        assert told == [(both[0], "its file is gone")]
