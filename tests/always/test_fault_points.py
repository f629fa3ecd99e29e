"""An engine that dies before, in the middle of, or after any durable write goes on as if nothing had happened."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.store.faults import MOMENTS, POINTS
from tests.always.judged import SECOND, Judged, Moment, Setting
from tests.always.machine import rows_at
from tests.always.questions import Question

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAIN = Setting(lateness_us=2 * SECOND, max_ahead_us=15 * SECOND, idle_us=3 * SECOND, roll_seconds=0.0)
KEEPING = replace(PLAIN, dedup=("id",), retain_rows_us=20 * SECOND)  # keys and rows
PRESENT = (
    Question(5 * SECOND, 2 * SECOND, 0, (), ("count(*)", "sum(v)")),
    Question(8 * SECOND, 4 * SECOND, SECOND, ("k",), ("min(v)",), "v > 3"),
    Question(6 * SECOND, 3 * SECOND, 0, ("k", "j"), ("count(*)",), None, "count(*) > 1", 20 * SECOND),
)
PASSING = Question(4 * SECOND, 4 * SECOND, 0, (), ("max(v)",), "k = 'a'")
ELSEWHERE = {
    "format",
    "migration",
    "backup",
    "record",
    "waiting",
    "forgotten",
}  # not written by such a stream on its way
KEPT = ("keys", "rows")
TIRELESS = 60  # batches in which every point must be reached
FAN = 3  # files that are put together, instead of sixteen


class Driven:
    """A stream that is driven until it dies where it should."""

    def __init__(
        self, spark: SparkSession, folder: Path, setting: Setting, seed: int, dying: Sequence[Moment] = ()
    ) -> None:
        self.judged, self.draw = Judged(spark, folder, setting, dying=dying), random.Random(seed)
        for number, question in enumerate(PRESENT):
            self.judged.create(f"q{number}", question)
        for _ in range(2):
            self.step()

    def step(self, *, calm: bool = False) -> None:
        """Feed rows of every kind, unless calm now and then with a change of the queries or a silence before them."""
        draw, judged = self.draw, self.judged
        judged.clock.advance(draw.choice([0.5, 1, 2, 4]))
        match 5 if calm else draw.randrange(6):
            case 0:
                judged.create("passing", PASSING) if "passing" not in judged.model.queries else judged.drop("passing")
            case 1:
                judged.clock.advance(3)
                judged.heartbeat()
        raw = [(draw.randint(-12, 16), draw.choice([0, 0, 1]), draw.randrange(13)) for _ in range(draw.randint(3, 8))]
        raw.append((draw.randint(-60, -12), 0, draw.randrange(13)))
        judged.feed(rows_at(judged.clock(), [*raw, raw[0], (draw.choice([None, 70]), 0, 3)]))

    def die_at(self, moment: str, times: int) -> None:
        """Go on until the engine has died at a moment, and compare all."""
        before = len(self.judged.kills)
        self.judged.arm([(moment, times)])
        for _ in range(TIRELESS):
            self.step(calm=moment.startswith("compaction"))  # only what one plan made is put together
            if len(self.judged.kills) > before:
                break
        else:
            raise AssertionError(f"{moment} was never reached")
        self.judged.check_all_delivered()


def moments_of(point: str) -> list[str]:
    return [f"{point}.{moment}" for moment in MOMENTS if (point, moment) != ("catalog", "torn")]


@pytest.fixture(autouse=True)
def eager_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put files together early: the way there would be long."""
    monkeypatch.setattr("penstock.store.compaction.FAN", FAN)
    monkeypatch.setattr("penstock.stream.pipeline.COMPACTED_EVERY", FAN)


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
