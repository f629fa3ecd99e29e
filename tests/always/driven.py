"""A stream that is driven, with queries that come and go, until its engine dies where it should."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

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
TIRELESS = 60  # batches in which every point must be reached


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
