"""A cap of what waits for expensive functions: batches wait, Chain takes over, all of it is told and undone."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.cli.status_text import status_text
from penstock.errors import ProjectError
from penstock.model.caps import LEAST_QUEUE, queue_size_of
from penstock.stream.accounting.accounts import balance_of
from penstock.stream.operators.step_choice import StepChoice
from penstock.stream.overload.queue_cap import QueueCap, QueueFigures
from penstock.testing import TestBed
from tests.stream.operated import Row, answers, bed_with, expected, finish, queue, raised, slots_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAP = 200_000
ROWS = 1_200


def rows_of(batch: int, count: int = ROWS) -> list[Row]:
    """Make rows that files hardly shorten."""
    draw = random.Random(batch)
    numbers = range(batch * ROWS, batch * ROWS + count)
    names = ["".join(draw.choices("abcdefgh", k=24)) for _ in numbers]
    return [(n / 400, n, draw.randint(0, 11), draw.random() * 9, name) for n, name in zip(numbers, names, strict=True)]


QUERIES = {
    "scored": ("SELECT id, score(v) AS p FROM s WHERE v > 2 AND score(v) > 4", "scored"),
    "shared": ("SELECT id, name FROM s WHERE score(v) < 9 AND weight(w, name) > 3", "shared"),
}


def entered(bed: TestBed) -> TestBed:
    for name, (text, _) in QUERIES.items():
        if not bed.engine.catalog.has("query", name):
            bed.query(name, text)
    return bed


def figures_of(bed: TestBed) -> QueueFigures:
    found = bed.engine.metrics().streams[0].queue
    assert found is not None
    return found


def test_batches_wait_while_the_queues_are_full_and_no_answer_is_lost(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Files and blocks in memory stay within a tenth above the cap; a restart in the middle goes on with it."""
    given: list[Row] = []
    with caplog.at_level(logging.INFO, "penstock"):
        for life in range(2):
            with bed_with(spark, tmp_path) as bed:
                bed.engine.set_queue_bytes(CAP)
                entered(bed)
                for batch in range(life * 8, life * 8 + 8):
                    given += (rows := rows_of(batch))
                    queue(bed, rows)
                    operators = bed.engine.stream("s").pipeline.continuous.operators
                    assert operators.stored_bytes <= 1.1 * CAP
                figures = figures_of(bed)
                assert 0.5 * CAP < figures.peak_bytes <= 1.1 * CAP
                assert figures.held_s > 0
                assert figures.over == 0
                disk = balance_of(bed.engine.stream("s"), "disk")
                assert disk.by_kind["queued"] == sum(held for held, _ in operators.in_files())
                told = {**bed.engine.status(), "folder": "f", "pid": 1, "since_us": None, "answers_requests": True}
                assert "at most, of 200.0 kB" in status_text(told)
                if life:
                    finish(bed)
                    with bed.engine.stream("s").between_batches():
                        bed.engine.stream("s").relief.look()
                    assert figures_of(bed).held_bytes == 0
                    assert [one.stage for one in figures_of(bed).stages if one.active] == []
                    for name, (_, like) in QUERIES.items():
                        assert answers(bed, name) == expected(like, given), name
    told_of = "\n".join(caplog.messages)
    assert 'queues of stream "s": stage chain begins' in told_of
    assert 'queues of stream "s": stage chain ends' in told_of


def test_above_seven_tenths_of_the_cap_chain_chooses_and_below_half_of_it_the_users_policy_again() -> None:
    cap = QueueCap(1_000_000)
    one = cap.of("s")
    for held, active in [(690_000, False), (710_000, True), (510_000, True), (490_000, False), (650_000, False)]:
        one.note(held)
        assert one.is_active("chain") == active
    cap.change(None)
    assert not one.is_active("chain")


def test_the_policy_that_holds_is_told(spark: SparkSession) -> None:
    with bed_with(spark) as bed:
        bed.engine.set_queue_bytes(CAP)
        bed.engine.set_operator_policy("HNR")
        entered(bed)
        queue(bed, rows_of(0, 50))
        pipeline = bed.engine.stream("s").pipeline
        known = [bed.engine.catalog.query(name) for name in QUERIES]
        for held, name in [(0, "HNR"), (0.8 * CAP, "Chain"), (0.6 * CAP, "Chain"), (0.4 * CAP, "HNR")]:
            pipeline.given.settings.cap.queues.of("s").note(held)
            standing = slots_of(bed).standing(pipeline, known)
            assert standing is not None
            assert standing.policy == name


def test_a_batch_that_does_not_fit_is_let_in_once_nothing_waits_and_counted(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    with bed_with(spark) as bed:
        bed.engine.set_queue_bytes(LEAST_QUEUE)
        entered(bed)
        for batch in range(3):
            queue(bed, rows_of(batch, 4 * ROWS))
        assert figures_of(bed).over == 2
        assert caplog.text.count("let batches be smaller, or the cap larger") == 1
        finish(bed)
        assert answers(bed, "scored") == expected("scored", [r for b in range(3) for r in rows_of(b, 4 * ROWS)])


def test_blocks_are_let_go_of_when_memory_runs_short_and_read_again(spark: SparkSession) -> None:
    with bed_with(spark) as bed:
        entered(bed)
        given = [rows_of(batch, 200) for batch in range(4)]
        for rows in given:
            queue(bed, rows)
        operators = bed.engine.stream("s").pipeline.continuous.operators
        step = StepChoice().next_step([operators], slots_of(bed).policy.current(), raised)
        assert step is not None
        assert len(operators.held()) == 4
        bed.engine.set_memory(1_000)
        with bed.engine.stream("s").between_batches():
            bed.engine.stream("s").relief.look()
        assert len(operators.held()) == 1
        operators.give_back(step)
        finish(bed)
        assert answers(bed, "shared") == expected("shared", [row for rows in given for row in rows])


@pytest.mark.parametrize("text", ["", "4 apples", "0", "-1 MB", "1 kB", str(LEAST_QUEUE - 1)])
def test_absurd_caps_are_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ProjectError) as refused:
        queue_size_of(text)
    assert refused.value.what.startswith("queue_bytes: ")
    assert "leave it out" in str(refused.value.hint).lower()
