"""Functions that nobody marked run behind queues once they have cost too much, and no answer changes over it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.spark.functions.measured_costs import MeasuredCost
from penstock.store import faults
from penstock.stream.operators.leaving_pass import CostLooks
from tests.stream.operated import (
    QUERIES,
    Killed,
    Row,
    answers,
    bed_with,
    expected,
    finish,
    queue,
    rows_from,
    score,
    share_processes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from penstock.testing import TestBed


CALLING = ("scored", "shared", "nested")


@pytest.fixture(autouse=True)
def no_hook_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    share_processes(monkeypatch)
    yield
    faults.hook = None


def slow(v: int | None) -> int | None:
    time.sleep(0.003)
    return score(v)


def slow_too(v: int | None) -> int | None:
    time.sleep(0.003)
    return score(v)


def operators_of(bed: TestBed) -> set[str]:
    """Name the functions that run behind queues."""
    runner = bed.engine.stream("s")
    continuous = [one for one in runner.catalog.definitions("s") if one.query.is_continuous]
    divided = runner.pipeline.continuous.operators.gates.divided(continuous)
    return {operator.function.name for query in divided.values() for operator in query.operators.values()}


def test_a_cost_is_too_much_when_two_looks_after_the_first_batch_find_it() -> None:
    batches = [(100, 5.0), (600, 0.5), (600, 0.5), (2_000, 0.001), (1_500, 0.5), (999, 9.0), (1, 0.0), (1_000, 0.02)]
    total = MeasuredCost()
    looks, found = CostLooks(lambda _: total), list[float | None]()
    for rows, seconds in batches:
        total = MeasuredCost(total.rows + rows, total.seconds + seconds)
        found.append(looks.too_much_us("f"))
    # What loads it, half a look, too much, little, too much, half a look, too much again, and just what is allowed.
    assert found == [None, None, None, None, None, None, pytest.approx(9_000), None]


def test_a_function_leaves_the_pass_by_what_it_costs_unless_that_is_forbidden(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.stream.operators.leaving_pass.BOUND_US", 1_000.0)
    monkeypatch.setattr("penstock.stream.operators.leaving_pass.LOOK_ROWS", 30)
    given, told = list[Row](), list[set[str]]()
    with bed_with(spark, tmp_path, expensive=None) as bed:
        bed.engine.create_function("slow", slow)
        bed.engine.create_function("forbidden", slow_too, expensive=False)
        for name in ("score", "slow", "forbidden"):
            bed.query(name, f"SELECT id FROM s WHERE {name}(v) > 4")
        for _ in range(4):
            rows = rows_from(len(given), 40)
            given += rows
            queue(bed, rows)
            told.append(operators_of(bed))
        assert told == [set(), set(), {"slow"}, {"slow"}]
        text = str(bed.engine.explain())
        assert "slow(v): " in text
        assert "left the pass as measured, at " in text
        [operator] = bed.engine.status()["streams"][0]["operators"]["operators"]
        assert operator["measured_us"] > 3_000
        assert "expensive as measured: " in str(bed.engine.execute("DESCRIBE FUNCTION slow")[0].to_pylist())
    with bed_with(spark, tmp_path) as bed:  # which nobody measures again
        bed.engine.create_function("slow", slow)  # as a program does when it starts
        assert operators_of(bed) == {"slow"}
        finish(bed)
        wanted = [(r[1],) for r in given if (score(r[2]) or 0) > 4]
        assert [answers(bed, name) for name in ("score", "slow", "forbidden")] == [wanted] * 3
        bed.engine.create_function("slow", slow, expensive=False, replace=True)
        assert operators_of(bed) == set()


def test_answers_are_the_same_before_over_and_after_the_switch_whenever_the_engine_dies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.stream.operators.leaving_pass.BOUND_US", -1.0)
    monkeypatch.setattr("penstock.stream.operators.leaving_pass.LOOK_ROWS", 1)
    monkeypatch.setattr("penstock.stream.operators.leaving_pass.LOOKS", 1)
    monkeypatch.setattr("penstock.kernel.operator_block.BLOCK_ROWS", 5)
    armed, given, seen = list[str](), list[Row](), list[frozenset[str]]()

    def reached(moment: str) -> None:
        if armed and moment == armed[-1]:
            armed.pop()
            raise Killed

    bed, batch = bed_with(spark, tmp_path, expensive=None), 0
    for name in CALLING:
        bed.query(name, QUERIES[name][0])
    faults.hook = reached
    # The first function to leave is not recorded; it is, and the other one is not; rows of the batch after wait.
    for moment in ("catalog.before", "catalog.after", "commit.before", "catalog.after", "commit.after", ""):
        armed[:] = [moment] if moment else []
        for _ in range(3):
            rows = rows_from(len(given), 9)
            given += rows
            try:
                queue(bed, rows, number=batch)
            except Killed:
                bed.engine.streams.abandon_sinks()
                bed.engine.release()
                bed = bed_with(spark, tmp_path)
                queue(bed, rows, number=batch)  # as Spark sends it again
            batch += 1
            seen.append(frozenset(operators_of(bed)))
            if moment and not armed:
                break
        assert not armed, moment
    finish(bed)
    faults.hook = None
    assert list(dict.fromkeys(seen)) == [frozenset(), {"score"}, {"score", "weight"}]
    for name in CALLING:
        assert answers(bed, name) == expected(name, given), name
    bed.close()
