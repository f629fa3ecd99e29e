"""An engine that dies before, in the middle of, or after any durable write goes on as if nothing had happened."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.store.faults import MOMENTS, POINTS
from tests.always.driven import KEEPING, PLAIN, PRESENT, Driven
from tests.always.judged import Judged
from tests.always.machine import rows_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ELSEWHERE = {
    "format",
    "migration",
    "backup",
    "record",
    "waiting",
    "joining",  # tests/stream/test_joins.py
    "taken",
    "taken.plan",
    "taken.fragments",
    "taken.record",
    "taken.outputs",  # tests/stream/test_operators.py
    "taken.together",
    "forgotten",
    "sink.parquet.columns",  # once for each query: tests/always/test_continuous_faults.py
}  # not written by such a stream on its way
KEPT = ("keys", "rows")
FAN = 3  # files that are put together, instead of sixteen


def moments_of(point: str) -> list[str]:
    return [f"{point}.{moment}" for moment in MOMENTS if (point, moment) != ("catalog", "torn")]


@pytest.fixture(autouse=True)
def eager_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put files together early: the way there would be long."""
    monkeypatch.setattr("penstock.store.compaction.FAN", FAN)
    monkeypatch.setattr("penstock.stream.batch_taking.COMPACTED_EVERY", FAN)


def test_a_death_at_any_durable_write_loses_and_repeats_nothing(spark: SparkSession, tmp_path: Path) -> None:
    driven = Driven(spark, tmp_path, PLAIN, seed=1)
    for moment in (moment for point in POINTS if point not in ELSEWHERE.union(KEPT) for moment in moments_of(point)):
        driven.die_at(moment, 1)
    driven.judged.flush()
    driven.judged.check_all_delivered()
    driven.judged.close()


def test_a_death_while_keys_or_rows_are_kept_loses_and_repeats_nothing(spark: SparkSession, tmp_path: Path) -> None:
    driven = Driven(spark, tmp_path, KEEPING, seed=2)
    for moment in (moment for point in KEPT for moment in moments_of(point)):
        driven.die_at(moment, 1)
    driven.judged.flush()
    driven.judged.check_all_delivered()
    driven.judged.close()


def test_a_death_when_rows_are_first_kept_loses_and_repeats_nothing(spark: SparkSession, tmp_path: Path) -> None:
    for moment in moments_of("record"):
        driven = Driven(spark, tmp_path / moment, KEEPING, seed=2, dying=[(moment, 1)])
        assert driven.judged.kills == [moment]
        driven.step()
        driven.judged.check_all_delivered()
        driven.judged.close()


def test_a_death_while_a_state_folder_is_made_leaves_one_that_can_be_used(spark: SparkSession, tmp_path: Path) -> None:
    for moment in moments_of("format"):
        judged = Judged(spark, tmp_path / moment, PLAIN, dying=[(moment, 1)])
        assert judged.kills == [moment]
        judged.create("q0", PRESENT[0])
        judged.feed(rows_at(judged.clock(), [(0, 0, 1), (12, 0, 2)]))
        judged.flush()
        judged.check_all_delivered()
        judged.close()


def test_a_death_in_a_backup_leaves_the_original_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    driven = Driven(spark, tmp_path / "original", PLAIN, seed=1)
    judged = driven.judged
    for number, moment in enumerate(moments_of("backup")):
        judged.arm([(moment, 1)])
        judged.step(partial(judged.bed.engine.backup, tmp_path / f"copy{number}"), done=lambda: True)
        assert judged.kills[-1] == moment
        driven.step()
        judged.check_all_delivered()
    judged.close()


def test_a_death_between_groups_of_answers_loses_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", 0.0)  # a group for every window of a lane
    driven = Driven(spark, tmp_path, PLAIN, seed=3)
    for times in (1, 2, 4):
        for moment in moments_of("answers"):
            driven.die_at(moment, times)
    driven.judged.flush()
    driven.judged.check_all_delivered()
    driven.judged.close()


@pytest.mark.parametrize("seed", range(2))
def test_answers_that_lag_behind_say_the_same_whenever_they_are_made_and_whenever_the_engine_dies(
    spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lag_and_die(spark, tmp_path, seed, 12, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_answers_lag_behind_while_the_engine_dies_again_and_again(
    spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lag_and_die(spark, tmp_path, 100 + seed, 60, monkeypatch)


def lag_and_die(spark: SparkSession, folder: Path, seed: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take steps while answers lag behind, answer some of them in any order, and die at any durable write."""
    draw = random.Random(seed)
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", draw.choice([0.0, 0.25]))
    driven = Driven(spark, folder, replace(draw.choice([PLAIN, KEEPING]), lags=True), seed)
    points = [point for point in POINTS if point not in ELSEWHERE.union(KEPT) and not point.startswith("compaction")]
    for number in range(steps):
        if draw.random() < 0.6:
            driven.judged.arm([(draw.choice(moments_of(draw.choice(points))), draw.randint(1, 3))])
        if draw.random() < 0.4:
            driven.step()
        else:  # on time, so that windows may wait
            driven.judged.clock.advance(4)
            times = [draw.randint(12, 15) for _ in range(draw.randint(1, 4))]
            driven.judged.feed(rows_at(driven.judged.clock(), [(t, 0, draw.randrange(13)) for t in times]))
        for _ in range(draw.randint(0, 2)):
            driven.judged.answer_some(draw)
        if number % 4 == 3:
            driven.judged.arm([])
            driven.judged.check()
    assert driven.judged.lagged > steps
    driven.judged.arm([])
    driven.judged.flush()
    driven.judged.check_all_delivered()
    driven.judged.close()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_deaths_at_every_durable_write_one_after_the_other(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    driven, draw = Driven(spark, tmp_path, KEEPING, seed=1_000 + seed), random.Random(seed)
    moments = [moment for point in POINTS if point not in ELSEWHERE for moment in moments_of(point)]
    draw.shuffle(moments)
    for moment in moments:
        driven.die_at(moment, draw.randint(1, 2))
    driven.judged.flush()
    driven.judged.check_all_delivered()
    driven.judged.close()
