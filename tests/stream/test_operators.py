"""Expensive functions behind queues answer what plain Python answers row by row, whatever happens on the way."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.errors import Unsupported
from penstock.schedule.operator_queues import is_for_operators
from penstock.schedule.registry import POLICIES
from penstock.sinks.memory import MemorySink
from penstock.store import faults
from penstock.store.verifying import verify_state
from penstock.stream.operators.answering import answer_what_is_through
from penstock.stream.operators.operator_queues import OperatorStep
from penstock.stream.operators.step_choice import StepChoice
from penstock.stream.operators.worker_process import WorkerLimits, WorkerProcess
from penstock.testing import TestBed
from tests.stream.operated import (
    QUERIES,
    Answer,
    Clockwork,
    Killed,
    Row,
    answers,
    bed_with,
    expected,
    finish,
    queue,
    raised,
    rows_from,
    score,
    share_processes,
    slots_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

LIVE = [name for name, policy in POLICIES.items() if is_for_operators(policy)]


@pytest.fixture(autouse=True)
def no_hook_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    share_processes(monkeypatch)
    yield
    faults.hook = None


def enter(bed: TestBed) -> None:
    for name, (text, _) in QUERIES.items():
        bed.query(name, text)
    bed.query("n", "SELECT count(*) AS n FROM s [RANGE 2 s SLIDE 2 s]")


def check(bed: TestBed, rows: list[Row]) -> None:
    for name in QUERIES:
        assert answers(bed, name) == expected(name, rows), name
    last = int((rows[-1][0] - 1) // 2) * 2  # before the watermark
    assert [n for end, n in bed.timeline("n") if end <= last] == [20] * (last // 2)


def test_answers_are_those_of_plain_python_under_every_policy_and_in_any_batches(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.kernel.operator_block.BLOCK_ROWS", 7)
    draw, given = random.Random(5), list[Row]()
    with bed_with(spark) as bed:
        enter(bed)
        for place, name in enumerate([*LIVE, "Mixed(0.5)", "FAS-MCQ(0.5)"]):
            monkeypatch.setattr("penstock.stream.continuous.row_storing.FEW_ROWS", 5 if place % 4 == 3 else 200_000)
            bed.engine.set_operator_policy(name)
            for _ in range(1 + (place % 3 == 0)):
                rows = rows_from(len(given), draw.randint(1, 40))
                given += rows
                queue(bed, rows)
            finish(bed)
        check(bed, given)
        assert not any(map(bed.paused, QUERIES))
        queues = bed.engine.stream("s").pipeline.continuous.operators
        assert (queues.queue_rows, queues.queue_bytes, queues.oldest) == (0, 0, None)


def test_what_waits_at_the_end_of_an_engine_goes_on_with_the_next(spark: SparkSession, tmp_path: Path) -> None:
    given, sink = rows_from(0, 90), MemorySink()
    with bed_with(spark, tmp_path) as bed:
        enter(bed)
        queue(bed, given[:30])
        assert bed.engine.stream("s").pipeline.continuous.operators.queue_rows == 30
    with bed_with(spark, tmp_path, sinks=[sink]) as bed:
        assert answers(bed, "plain") == expected("plain", given[:30])
        assert answers(bed, "every") == []
        queue(bed, given[30:60])
        finish(bed)
    with bed_with(spark, tmp_path, sinks=[sink]) as bed:
        queue(bed, given[60:])
        finish(bed)
        check(bed, given)
        bed.engine.streams.wait_for_sinks()
        for name in QUERIES:
            told = [row["id"] for table in sink.answers(name) for row in table.to_pylist()]
            assert told == [row["id"] for row in bed.answers(name)]
    assert verify_state(tmp_path).problems == ()


def test_a_change_of_the_plan_leaves_queued_rows_to_the_definition_that_queued_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    given = rows_from(0, 60)
    with bed_with(spark, tmp_path) as bed:
        bed.query("q", "SELECT id, score(v) AS p FROM s WHERE score(v) > 4")
        bed.query("gone", "SELECT id FROM s WHERE score(v) > 4")
        queue(bed, given[:20])
        bed.engine.execute("ALTER QUERY q AS SELECT id, score(v) AS p FROM s WHERE score(v) > 10")
        bed.engine.drop_query("gone")
        queue(bed, given[20:40])
        bed.engine.create_function("score", score, expensive=False, replace=True)
    with bed_with(spark, tmp_path) as bed:
        finish(bed)
        queue(bed, given[40:])
        finish(bed)
        bounds = [4] * 20 + [10] * 40
        kept = [(r, p) for r, b in zip(given, bounds, strict=True) if (p := score(r[2])) is not None and p > b]
        assert answers(bed, "q") == [(r[1], p) for r, p in kept]
        bed.query("gone", "SELECT id FROM s WHERE score(v) > 4")
        assert answers(bed, "gone") == []


def test_a_function_that_fails_pauses_its_queries_alone(spark: SparkSession, tmp_path: Path) -> None:
    with bed_with(spark, tmp_path) as bed:
        bed.query("fails", "SELECT id FROM s WHERE risky(v) > 4")
        bed.query("spared", "SELECT id FROM s WHERE v <> 13 AND risky(v) > 4")
        bed.query("guarded", "SELECT id FROM s WHERE risky(v) > 4 AND score(v) > 100")
        bed.query("sound", "SELECT id FROM s WHERE score(v) > 4")
        first: list[Row] = [(0.5, 1, 7, 1.0, "a"), (0.6, 2, 3, 1.0, "a")]
        bad: list[Row] = [(1.5, 3, 7, 1.0, "a"), (1.6, 4, 13, 1.0, "a")]
        bed.feed("s", first)
        queue(bed, bad)
        queue(bed, [(1.7, 5, 7, 1.0, "a")])
        finish(bed)
        assert answers(bed, "fails") == [(1,), (2,)]
        assert answers(bed, "spared") == [(1,), (2,), (3,), (5,)]
        assert answers(bed, "sound") == [(1,), (2,), (3,), (4,), (5,)]
        assert [bed.paused(name) is not None for name in ("fails", "spared", "guarded", "sound")] == [
            True, False, False, False
        ]  # fmt: skip
        paused = bed.engine.stream("s").pipeline.progress.windows.paused
        [reason] = [one.reason for one in paused.values()]
        assert reason == "risky() failed: ValueError: unlucky, on a row of 2026-01-05T00:00:01.600000Z"
        bed.engine.resume_query("fails")
        bed.feed("s", [(2.5, 6, 7, 1.0, "a")])
        assert answers(bed, "fails") == [(1,), (2,), (6,)]


@pytest.mark.parametrize(("value", "why"), [(13, "ended its process, with exit code 3"), (14, "did not return within")])
def test_a_function_that_ends_or_blocks_its_worker_pauses_its_queries_alone(
    spark: SparkSession, value: int, why: str
) -> None:
    with bed_with(spark) as bed:
        slots_of(bed).limits = WorkerLimits(seconds=1.5)
        bed.query("fails", "SELECT id FROM s WHERE deadly(v) > 4")
        bed.query("spared", f"SELECT id FROM s WHERE v <> {value} AND deadly(v) > 4")
        bed.query("sound", "SELECT id FROM s WHERE score(v) > 4")
        bed.feed("s", [(0.5, 1, 7, 1.0, "a"), (0.6, 2, 3, 1.0, "a"), (0.7, 3, value, 1.0, "a")])
        bed.feed("s", [(1.5, 4, 7, 1.0, "a")])
        assert (answers(bed, "fails"), answers(bed, "sound")) == ([], [(1,), (2,), (3,), (4,)])
        assert answers(bed, "spared") == [(1,), (2,), (4,)]
        paused = bed.engine.stream("s").pipeline.progress.windows.paused
        assert [why in one.reason for one in paused.values()] == [True]


def test_a_worker_that_is_killed_is_replaced_and_its_step_taken_again(spark: SparkSession, tmp_path: Path) -> None:
    with bed_with(spark) as bed:
        bed.query("q", f"SELECT killed_once('{tmp_path / 'killed'}', id) AS p FROM s")
        bed.feed("s", rows_from(0, 20))
        assert answers(bed, "q") == [(n + 1,) for n in range(20)]
        slots = slots_of(bed)
        assert sum(process.lost for process in slots.processes) == 1
        for process in slots.processes:  # between two steps
            process.kill()
        bed.feed("s", rows_from(20, 20))
        assert answers(bed, "q") == [(n + 1,) for n in range(40)]
        assert not bed.paused("q")


def test_what_was_committed_of_a_function_is_never_computed_again(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "drawn"
    with bed_with(spark, tmp_path / "state") as bed:
        bed.query("first", f"SELECT id, drawn('{log}', v) AS p FROM s")
        bed.query("apart", "SELECT id FROM s WHERE score(id) >= 0")
        bed.query("last", f"SELECT id, drawn('{log}', v) AS p FROM s WHERE weight(w, name) > 0")
        queue(bed, [(n / 10, n, n, 1.0, "a") for n in range(10)])
        left = run_and_commit(bed, "drawn", steps_of(bed))
        left = run_and_commit(bed, "score", left)
        told = answers(bed, "first")
        assert [len(answers(bed, name)) for name in ("first", "apart", "last")] == [10, 10, 0]
        assert [step.operator.function.name for step in left] == ["weight"]
        held = bed.engine.metrics()
        assert held.streams[0].memory["queued"] > 0
        stored = [file.stat().st_size for file in tmp_path.rglob("taken/**/*") if file.suffix in (".arrow", ".parquet")]
        assert held.streams[0].disk["taken"] + held.streams[0].disk["queued"] == sum(stored)
        assert held.query("last").memory_bytes > held.query("first").memory_bytes  # which waits for nothing any more
    with bed_with(spark, tmp_path / "state") as bed:
        finish(bed)
        assert answers(bed, "first") == answers(bed, "last") == told
    assert log.stat().st_size == 10


def test_rows_that_left_a_block_stay_away_after_a_restart_and_cost_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Each value is drawn anew, so that a condition that looked at another one would let other rows through."""
    log = tmp_path / "drawn"
    with bed_with(spark, tmp_path / "state") as bed:
        call = f"drawn('{log}', v)"  # of row n, which is the n-th: n * 1000 + n + 1
        bed.query("first", f"SELECT id, {call} AS p FROM s WHERE v < 8")
        bed.query("last", f"SELECT id, {call} AS p FROM s WHERE {call} % 3 = 0 AND weight(w, name) > 0")
        queue(bed, [(n / 10, n, n, 1.0, "a") for n in range(12)])
        Clockwork(bed, {"drawn": 1e-6, "weight": 1.0}).believe()  # so it is drawn first
        [step] = run_and_commit(bed, "drawn", steps_of(bed))
        assert step.block.numbers.tolist() == [1, 4, 7, 10]
        assert set(step.block.rows.column_names) == {"id", "w", "name"}  # v was read by what has been computed
        assert bed.engine.metrics().streams[0].memory["queued"] == step.block.bytes
        told = [(n, n * 1_000 + n + 1) for n in range(12)]
        assert answers(bed, "first") == told[:8]
    with bed_with(spark, tmp_path / "state") as bed:
        finish(bed)
        assert answers(bed, "last") == told[1::3]
    assert log.stat().st_size == 12


def test_chain_keeps_the_queues_small_in_the_papers_example(spark: SparkSession) -> None:
    """Babcock et al. 2004, §2.2, Example 1: one operator lets a fifth through, the next takes as long for that."""
    with bed_with(spark) as bed:
        bed.query("q", "SELECT id FROM s WHERE score(v) = 1 AND weight(w, name) > 100")
        clockwork = Clockwork(bed, {"score": 0.1, "weight": 0.5})
        peaks = {}
        for policy, sizes in {
            "Chain": [1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2],
            "FIFO": [1, 1.2, 2.0, 2.2, 3.0, 3.2, 4.0],
        }.items():
            clockwork.believe([0.2, 0.0])
            found, held = list[float](), list[int]()
            for _ in range(7):
                at = len(found) if policy == "Chain" else 7 + len(found)
                queue(bed, [(at + n / 10, at * 10 + n, 1 if n < 2 else 2, 1.0, "a") for n in range(10)])
                found.append(clockwork.queues.queue_rows / 10)
                clockwork.step(policy)
                held.append(clockwork.queues.queue_bytes)
            while clockwork.step(policy) is not None:
                pass
            clockwork.commit()
            assert found == pytest.approx(sizes)
            peaks[policy] = max(held)
        assert answers(bed, "q") == []
        assert clockwork.now_us == 28_000_000
        assert peaks["Chain"] < 0.6 * peaks["FIFO"]


def steps_of(bed: TestBed) -> list[OperatorStep]:
    """Take all steps that can run, without running them."""
    runner, found, choice = bed.engine.stream("s"), list[OperatorStep](), StepChoice()
    queues, policy = runner.pipeline.continuous.operators, runner.operators.policy.current()
    while (step := choice.next_step([queues], policy, raised)) is not None:
        found.append(step)
    return found


def run_and_commit(bed: TestBed, function: str, steps: list[OperatorStep]) -> list[OperatorStep]:
    """Run the steps of one function alone and commit what is through; return the others."""
    runner, process = bed.engine.stream("s"), WorkerProcess(WorkerLimits())
    mine = [step for step in steps if step.operator.function.name == function]
    for step in mine:
        worker = runner.operators.worker_of(step.operator)
        step.queues.finish(step, process.run(worker, step.operator.function.pinned, step.sent))
    process.stop()
    with runner.pipeline.step():
        assert answer_what_is_through(runner.pipeline)
    return [step for step in (*steps, *steps_of(bed)) if step not in mine]


# Of a batch that queues rows, which tests/always/test_continuous_faults.py kills at all others, and of what has come
# through, which is the second to reach a moment.
OF_BATCH = ["commit.before", "commit.after", *(f"taken.outputs.{moment}" for moment in faults.MOMENTS)]
OF_ANSWERS = [f"{point}.{moment}" for point in ("taken", "taken.record", "commit") for moment in faults.MOMENTS]


def test_an_engine_that_dies_at_any_durable_write_answers_each_row_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.kernel.operator_block.BLOCK_ROWS", 5)
    armed, deaths, given = list[str](), list[str](), list[Row]()

    def reached(moment: str) -> None:
        if armed and moment == armed[-1]:
            armed.pop()
            if not armed:
                deaths.append(moment)
                raise Killed

    bed, batch = bed_with(spark, tmp_path), 0
    enter(bed)
    faults.hook = reached
    for times, moments in ((1, OF_BATCH), (2, OF_ANSWERS)):
        for moment in moments:
            rows = rows_from(len(given), 9)
            given += rows
            armed[:] = [moment] * times
            try:
                queue(bed, rows, number=batch)
                finish(bed)
            except Killed:
                bed.engine.streams.abandon_sinks()
                bed.engine.release()
                bed = bed_with(spark, tmp_path)
                queue(bed, rows, number=batch)  # as Spark sends it again
                finish(bed)
            armed.clear()
            batch += 1
    faults.hook = None
    check(bed, given)
    assert set(deaths) == {*OF_BATCH, *OF_ANSWERS}
    bed.close()


def test_rows_go_through_while_the_stream_runs_on_and_the_rest_after_it_stopped(
    spark: SparkSession, tmp_path: Path
) -> None:
    given = rows_from(0, 60)
    with bed_with(spark, tmp_path) as bed:
        enter(bed)
        runner = bed.engine.stream("s")
        slots_of(bed).slots = 3  # so that steps of one block run at the same time
        runner.operators.join(runner.pipeline)
        for at in range(0, 60, 10):
            queue(bed, given[at : at + 10])
        until = time.monotonic() + 60
        while runner.pipeline.continuous.operators.commits and time.monotonic() < until:
            threading.Event().wait(0.05)
        runner.operators.leave(runner.pipeline)
        check(bed, given)


@pytest.mark.parametrize("policy", ["Chain", "Chain-Flush"])
def test_chain_flush_keeps_the_deadline_that_chain_misses(spark: SparkSession, policy: str) -> None:
    """Ten blocks of a second each lie on a steeper segment than two seconds of work that is due after five."""
    with bed_with(spark) as bed:
        bed.query("due", "SELECT id, weight(w, name) AS x FROM s WHERE id < 10 WITH (deadline = '5 s')")
        bed.query("steep", "SELECT id FROM s WHERE score(v) > 100")
        clockwork = Clockwork(bed, {"score": 0.1, "weight": 0.2})
        for at in range(0, 100, 10):
            queue(bed, [(n / 10, n, n, 1.0, "a") for n in range(at, at + 10)])
        clockwork.believe()
        order = list[str]()
        while (name := clockwork.step(policy)) is not None:
            order.append(name)
            if name == "weight":
                done_us = clockwork.now_us
        clockwork.commit()
        assert len(answers(bed, "due")) == 10
        assert answers(bed, "steep") == []
        assert sorted(order) == ["score"] * 10 + ["weight"]
        assert (order.index("weight"), done_us) == ((10, 12_000_000) if policy == "Chain" else (2, 4_000_000))


def test_explain_and_status_show_what_operators_cost_and_who_waits(spark: SparkSession) -> None:
    with bed_with(spark) as bed:
        bed.engine.set_operator_policy("Chain")
        enter(bed)
        bed.feed("s", rows_from(0, 40))
        queue(bed, rows_from(40, 40))
        text = str(bed.engine.explain())
        assert "3 operators behind queues, by Chain: 40 rows wait, 0 bytes in memory" in text
        for line in ("score(v): ", "score(score(v)): ", "weight(w, name): ", "nested: ", "score(v) < 9 ("):
            assert line in text, line
        [stream] = bed.engine.status()["streams"]
        told = {one["call"]: one for one in stream["operators"]["operators"]}
        assert set(told) == {"score(v)", "weight(w, name)", "score(score(v))"}
        assert told["score(v)"]["queries"] == ("nested", "scored", "shared")
        assert all(one["cost_us"] > 0 for one in told.values())
        finish(bed)
        assert bed.engine.status()["streams"][0]["operators"]["queue_rows"] == 0


def test_what_cannot_leave_the_pass_stays_and_says_why(spark: SparkSession) -> None:
    with bed_with(spark) as bed:
        bed.query("text", "SELECT id FROM s WHERE score(length(upper(name))) > 4")
        bed.query("windowed", "SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s] WHERE score(v) > 4")
        bed.query("summed", "SELECT sum(score(v)) AS n FROM s [RANGE 1 s SLIDE 1 s]")
        bed.engine.execute("CREATE STREAM fed AS SELECT id FROM s WHERE score(v) > 4")
        given = rows_from(0, 30)
        bed.feed("s", given)
        gates = bed.engine.stream("s").pipeline.continuous.operators.gates
        assert list(gates.staying.values()) == ["an argument of score() is computed by Spark alone"]
        text = str(bed.engine.explain())
        for name in ("windowed", "summed"):
            assert f"{name} calls expensive functions in the pass: it has a window, which would have to wait" in text
        assert answers(bed, "text") == [(r[1],) for r in given if r[4] is not None and (score(len(r[4])) or 0) > 4]
        with pytest.raises(Unsupported, match="looks at heads alone"):
            bed.engine.set_operator_policy("Chain-Flush*")


def test_a_spark_that_is_not_local_keeps_functions_in_its_own_workers(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.why_not_here", lambda session: "operators run beside a local Spark alone")
    given = rows_from(0, 30)
    with bed_with(spark) as bed:
        bed.query("scored", QUERIES["scored"][0])
        bed.feed("s", given)
        found: list[Answer] = answers(bed, "scored")
        assert found == expected("scored", given)
        assert list(bed.engine.stream("s").pipeline.continuous.operators.gates.staying.values()) == [
            "operators run beside a local Spark alone"
        ]
        assert replace(slots_of(bed).limits, seconds=1.0).bytes > 0
