"""Sampling by itself: fewer rows while memory runs short, more after it, the same rows again after any death."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from penstock.cli.status_text import status_text
from penstock.model.sampling import share_of
from penstock.stream.overload.sampling_level import MOST_RAISED
from penstock.testing import TestBed
from tests.store.dying import Died, dying_at
from tests.stream.sampled_by_hand import Row, Sampled, differences, hashes, random_rows
from tests.stream.test_shedding import SHED, by_place, opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LENGTH, LATENESS = 10, 4
PRESSED = 8  # batches under pressure
CALM = 7


def level_of(bed: TestBed) -> int:
    return bed.engine.stream("s").pipeline.progress.clock.sampling


class Life:
    """A stream over deaths, beside the same rows sampled by hand at the level that each batch was committed with."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.batch, self.levels, self.deaths = spark, folder, 0, list[int](), 0
        self.sampled = {name: Sampled(LENGTH, LATENESS, keys) for name, keys in (("alone", ()), ("grouped", ("k",)))}

    def feed(self, rows: list[Row], memory: int | None, death: int | None) -> None:
        """Take a batch, perhaps with a death at some commit of it, and what the stage does after it."""
        codes = hashes(self.spark, rows)
        with opened(self.spark, self.folder, "driver") as bed:
            bed.engine.set_memory(memory)
            level, twins = level_of(bed), bed.engine.stream("s").pipeline.progress.clock.twins.factor
            if death is None:
                bed.feed("s", rows, number=self.batch)
            else:
                with suppress(Died), dying_at(death % 2, f"commit.{('before', 'after')[death // 2]}") as reached:
                    bed.feed("s", rows, number=self.batch)
                self.deaths += len(reached) > death % 2
                bed.engine.release()
        if death is not None:
            with opened(self.spark, self.folder, "driver") as bed:
                bed.engine.set_memory(memory)
                known = bed.engine.stream("s").pipeline.progress.clock
                assert known.batch == self.batch or (known.sampling, known.twins.factor) == (level, twins)
                bed.feed("s", rows, number=self.batch)
        self.levels.append(level)
        self.batch += 1
        for model in self.sampled.values():
            model.feed(rows, codes, level, twins)


def test_under_pressure_half_as_many_rows_are_taken_batch_by_batch_and_more_again_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    draw, life, since = Random(11), Life(spark, tmp_path), 0.0
    for number in range(PRESSED + CALM):
        rows, since = random_rows(draw, 60, max(0.0, since - 9), since + 6), since + 6
        death = draw.randrange(4) if number % 3 == 1 else None
        life.feed(rows, 1_000 if number < PRESSED else None, death)
    assert life.deaths >= 4
    assert max(life.levels) == MOST_RAISED
    assert life.levels[: MOST_RAISED + 1] == sorted(life.levels[: MOST_RAISED + 1])
    assert all(abs(after - before) <= 1 for before, after in pairwise(life.levels))
    with opened(spark, tmp_path, "driver") as bed:
        assert level_of(bed) == 0  # as users asked for, once all is calm
        bed.flush()
        assert bed.counts("s").whole
        for name, model in life.sampled.items():
            found, wanted = by_place(bed, name, model.keys), model.answers()
            assert found.keys() == wanted.keys()
            told = {place: differences(found[place], wanted[place], bounded=True) for place in found}
            assert {place: each for place, each in told.items() if each} == {}


def test_the_level_that_users_ask_for_is_the_least_and_outlives_the_pressure(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(spark, tmp_path, "driver") as bed:
        bed.engine.set_sampling("s", "1/2")
        bed.engine.set_memory(1_000)
        for number in range(2):
            bed.feed("s", [{"ts": 5 * number + n / 10, "k": "a"} for n in range(40)])
        assert bed.engine.sampling("s") == share_of(3)
        told = {**bed.engine.status(), "folder": "f", "pid": 1, "since_us": None, "answers_requests": True}
        assert "queries that shed load take 1/8 of the rows, as too much comes" in status_text(told)
        assert "rows halved 2 times for queries that shed" in " ".join(status_text(told).split())
    with opened(spark, tmp_path, "driver") as bed:
        assert bed.engine.sampling("s") == share_of(3)  # the level outlives the process
        for number in range(2, 6):
            bed.feed("s", [{"ts": 5 * number + n / 10, "k": "a"} for n in range(40)])
        assert bed.engine.sampling("s") == "1/2"
        assert bed.engine.metrics().overload.sampled == 0
    assert "queries that shed load take 1/4 of the rows, as less comes" in caplog.text


def test_a_stream_without_queries_that_shed_is_not_sampled(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        bed.stream("s", "ts TIMESTAMP, v INT")
        bed.query("exact", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        bed.engine.set_memory(100)
        bed.feed("s", [{"ts": 1.0, "v": 1}])
        assert bed.engine.sampling("s") == "1"
        bed.query("shed", f"SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] {SHED}")
        bed.feed("s", [{"ts": 2.0, "v": 1}])
        assert bed.engine.sampling("s") == "1/2"
