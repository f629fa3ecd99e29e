"""Each stream plans by its own past: neither another stream of the process nor a question about a plan changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW, MANY = 52, 120  # constants of two attributes: together they make one part of cells; apart, two


def planned(bed: TestBed, name: str, count: int) -> list[str]:
    """Let a stream run with conditions on two attributes, and return how its conditions are told apart."""
    bed.stream(name, "ts timestamp, n bigint, m bigint")
    for column in "nm":
        bed.query(f"{name}_{column}", asked(name, column, count))
    return run(bed, name, 1)


def run(bed: TestBed, name: str, at: int) -> list[str]:
    bed.feed(name, [(at, 5, 1)])
    return parts(str(bed.engine.explain()), name)


def asked(stream: str, column: str, count: int) -> str:
    listed = ", ".join(str(i) for i in range(count))
    return f"SELECT count(*) AS c FROM {stream} [RANGE 10 s SLIDE 10 s] WHERE {column} IN ({listed})"


def parts(plan: str, name: str) -> list[str]:
    [own] = [one for one in plan.split("stream ") if one.startswith(f"{name}:")]
    return [line.strip() for line in own.splitlines() if "conditions on" in line or "condition on" in line]


def test_two_engines_plan_alike_whatever_the_other_did(spark: SparkSession) -> None:
    with TestBed(spark) as first, TestBed(spark) as second, TestBed(spark) as third:
        alone = planned(first, "t", FEW)
        assert len(alone) == 1
        assert len(planned(second, "t", MANY)) == 2
        assert planned(third, "t", FEW) == alone
        assert run(first, "t", 2) == alone


def test_two_streams_of_one_engine_plan_alike_whatever_the_other_did(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        assert len(planned(bed, "one", MANY)) == 2
        assert len(planned(bed, "other", FEW)) == 1


def test_a_plan_that_is_asked_for_does_not_change_the_one_that_runs(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        running = planned(bed, "t", FEW)
        [shown] = bed.engine.execute(f"EXPLAIN {asked('t', 'n', 10 * MANY)}")
        assert len(parts("\n".join(shown["plan"].to_pylist()), "t")) == 2
        bed.query("more", asked("t", "n", FEW - 1))  # a new plan
        assert len(run(bed, "t", 2)) == len(running) == 1
