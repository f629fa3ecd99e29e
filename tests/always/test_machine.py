"""Whatever is done to an engine, in whatever order, it says what the model says."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.always.machine import Machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = 50
PARTS = 10  # of the long run; each can be run on its own
pytestmark = pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")  # of runs that were given up


def run(spark: SparkSession, examples: int, seed: int | None, *, quick: bool = False) -> Counter[str]:
    """Take so many runs of 50 steps; return what was done."""
    Machine.spark, Machine.done, Machine.quick = spark, Counter(), quick
    chosen = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize=seed is None,
        phases=[Phase.generate],  # a failure prints its steps; making them fewer would take an hour
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    factory = Machine if seed is None else _seeded(seed)
    run_state_machine_as_test(factory, settings=chosen)
    print(f"{sum(Machine.done.values()):,} actions: {dict(Machine.done.most_common())}")
    return Machine.done


def _seeded(seed: int) -> type[Machine]:
    class Seeded(Machine):
        _hypothesis_internal_use_seed = seed

    return Seeded


def test_a_hundred_and_fifty_random_actions_agree_with_the_model(spark: SparkSession) -> None:
    done = run(spark, 5, None, quick=True) + run(spark, 1, None)
    assert sum(done.values()) >= 150
    assert {"batch", "late rows", "add", "drop", "alter", "pause", "restart", "kill", "kill in a step"} <= done.keys()


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_ten_thousand_random_actions_agree_with_the_model(spark: SparkSession, part: int) -> None:
    done = run(spark, 1_000 // STEPS + 15, 1_000 + part)
    assert sum(done.values()) >= 1_000
