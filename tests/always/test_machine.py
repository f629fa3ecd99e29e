"""Whatever is done to an engine, in whatever order, it says what the model says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.always.judged import SECOND, Judged, Setting
from tests.always.machine import Machine, rows_at
from tests.always.questions import Question

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


def test_every_kind_of_action_agrees_with_the_model(spark: SparkSession, tmp_path: Path) -> None:
    """What is drawn changes with the constants in our sources; here every kind of action is taken."""
    setting = Setting(2 * SECOND, 15 * SECOND, idle_us=3 * SECOND, dedup=("id",), retain_rows_us=20 * SECOND)
    judged = Judged(spark, tmp_path, setting)
    early, late = (
        Question(5 * SECOND, 2 * SECOND, keys=("k",)),
        Question(8 * SECOND, 3 * SECOND, aggregates=("sum(v)",)),
    )
    steps: list[Callable[[], None]] = [
        lambda: judged.create("q0", early),
        lambda: judged.create("q1", replace(late, revise_for_us=20 * SECOND)),
        lambda: judged.feed(rows_at(judged.clock(), [(n, 0, n) for n in range(8)])),
        lambda: judged.pause("q0"),
        lambda: judged.feed(rows_at(judged.clock(), [(n + 20, 0, n + 1) for n in range(8)])),
        lambda: judged.resume("q0"),
        lambda: judged.alter("q1", late),
        lambda: judged.feed(rows_at(judged.clock(), [(-30, 0, 4), (-12, 0, 5), (24, 0, 6)])),
        lambda: judged.restart(send_again=True),
        judged.heartbeat,
        lambda: judged.backfill("q1"),
        lambda: judged.ask(late),
        judged.die,
        lambda: judged.arm([("commit.after", 1)]),
        lambda: judged.feed(rows_at(judged.clock(), [(n, 0, n + 2) for n in range(8)])),
        lambda: judged.drop("q0"),
    ]
    for step in steps:
        judged.clock.advance(2)
        step()
        judged.check()
    assert judged.kills == ["commit.after"]
    judged.flush()
    judged.check_all_delivered()
    judged.close()


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_ten_thousand_random_actions_agree_with_the_model(spark: SparkSession, part: int) -> None:
    done = run(spark, 1_000 // STEPS + 15, 1_000 + part)
    assert sum(done.values()) >= 1_000
