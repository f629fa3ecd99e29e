"""Every row that comes is on time, corrected, late, invalid or a duplicate; each term is the model's."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.testing import ManualClock, TestBed
from tests.always.judged import EPOCH_US, SECOND, Setting, agree, batch_of, instant, line, lines_of
from tests.always.model import TERMS, Model
from tests.always.questions import Question, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = range(12)
MORE_SEEDS = range(12, 500)


class Lawful:
    """A stream whose counts are compared after every batch, and whose answers at the end."""

    def __init__(self, spark: SparkSession, setting: Setting, questions: Sequence[Question], now_us: int) -> None:
        self.clock = ManualClock(instant(now_us))
        self.model = Model(setting.lateness_us, setting.max_ahead_us, setting.idle_us, setting.dedup)
        self.model.start(now_us)
        self.bed = TestBed(spark, clock=self.clock, strategy=setting.strategy, kernel=setting.kernel)
        self.bed.declare(setting.stream())
        for number, question in enumerate(questions):
            self.bed.query(f"q{number}", question.sql())
            self.model.create(f"q{number}", question, None)

    def feed(self, rows: Sequence[Row]) -> None:
        self.bed.feed("s", batch_of(rows))
        self.model.batch(rows, self.clock())
        counts = self.bed.counts("s")
        found = {term: getattr(counts, term) for term in TERMS}
        assert found == {term: self.model.counts[term] for term in TERMS}
        assert counts.ingested == self.model.counts["ingested"] == sum(found.values())

    def check_answers(self) -> None:
        for standing in self.model.queries.values():
            found = lines_of(self.bed.results(standing.name), standing.question.names)
            agree(found, [line(standing, entry) for entry in standing.current()], standing.question.sql())

    def __enter__(self) -> Lawful:
        return self

    def __exit__(self, *error: object) -> None:
        self.bed.close()


# -- random disorder -----------------------------------------------------------------------------------------------


def disorder(spark: SparkSession, seed: int) -> None:
    """Run one stream of a random kind of disorder."""
    draw = random.Random(seed)
    setting = Setting(
        lateness_us=draw.choice([0, 1, 3 * SECOND, 10 * SECOND, draw.randint(0, 20 * SECOND)]),
        max_ahead_us=draw.choice([0, 5 * SECOND, 60 * SECOND]),
        dedup=draw.choice([(), (), (), ("id",), ("id", "k")]),
        strategy=draw.choice(["shared paired", "unshared paired"]),
    )
    questions = [random_question(draw) for _ in range(draw.randint(1, 2))]
    with Lawful(spark, setting, questions, EPOCH_US) as lawful:
        for _ in range(draw.randint(2, 3)):
            lawful.clock.advance(draw.randint(0, 20))
            lawful.feed(random_rows(draw, lawful.clock()))
        lawful.check_answers()


def random_question(draw: random.Random) -> Question:
    slide = draw.choice([1, 2, 5, 7]) * SECOND + draw.choice([0, 0, 250_000])
    range_us = draw.choice([slide, 2 * slide, 10 * SECOND, SECOND])
    revise = draw.choice([None, SECOND, 10 * SECOND, 60 * SECOND, draw.randint(1, 30 * SECOND)])
    keys = draw.choice([(), ("k",)])
    return Question(
        range_us, slide, draw.randrange(0, slide, 250_000), keys, ("count(*)", "sum(v)"), None, None, revise
    )


def random_rows(draw: random.Random, clock: int) -> list[Row]:
    """Draw rows around the clock, many on a quarter of a second or beside it."""
    spread, rows = draw.choice([2, 20, 60]), list[Row]()
    for _ in range(draw.randint(0, 200)):
        ts: int | None = (
            clock + draw.randint(-4 * spread, 8) * 250_000 + draw.choice([0, 0, 1, -1, draw.randint(0, 99_999)])
        )
        number = draw.randrange(200)
        if draw.random() < 0.05:
            ts = None if draw.random() < 0.5 else clock + draw.randint(0, 90) * SECOND
        mark = number if ts is None else number + ts
        rows.append({"id": number or None, "ts": ts, "k": "abc"[mark % 3], "j": 0, "v": mark % 7})
    return rows


def test_the_law_holds_in_random_disorder(spark: SparkSession) -> None:
    for seed in SEEDS:
        disorder(spark, seed)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_the_law_holds_in_much_random_disorder(spark: SparkSession, part: int) -> None:
    for seed in MORE_SEEDS[part::10]:
        disorder(spark, seed)


# -- real feeds ----------------------------------------------------------------------------------------------------


def cut(rows: Sequence[Row], batches: int) -> Iterator[Sequence[Row]]:
    size = -(-len(rows) // batches)
    return (rows[start : start + size] for start in range(0, len(rows), size))


def test_the_law_holds_for_trades_in_order_of_arrival(spark: SparkSession, shared_data: Path) -> None:
    with gzip.open(shared_data / "binance-trades-2024" / "trades.csv.gz", "rt") as file:
        cells = [text.rstrip("\n").split(",") for text in file][1:]
    rows: list[Row] = [
        {"id": int(c[5]), "ts": int(c[2]) * 1000, "k": c[3] + c[4], "j": int(c[8]), "v": int(c[6].replace(".", ""))}
        for c in cells
    ]
    questions = [
        Question(SECOND, SECOND, 0, (), ("count(*)",)),
        Question(2 * SECOND, 500_000, 0, ("k",), ("count(*)", "max(v)"), None, None, 10 * SECOND),
        Question(60 * SECOND, 10 * SECOND, 0, ("j",), ("sum(v)",), None, None, 100_000),
    ]
    with Lawful(spark, Setting(0, dedup=("id", "k")), questions, rows[-1]["ts"] + SECOND) as lawful:
        for batch in cut(rows, 12):
            lawful.feed(batch)
        lawful.check_answers()
        counts = lawful.bed.counts("s")
    assert counts.ingested == len(rows)
    assert min(counts.on_time, counts.corrected, counts.late) > 0


def test_the_law_holds_for_a_log_in_severe_disorder(spark: SparkSession, shared_data: Path) -> None:
    with gzip.open(shared_data / "zeek-dns" / "dns.log.gz", "rt") as file:
        cells = [text.split("\t") for text in file if not text.startswith("#")]
    rows: list[Row] = [
        {
            "id": number,
            "ts": _micros(c[0]),
            "k": c[15],
            "j": int(c[16] == "T"),
            "v": None if c[8] == "-" else _micros(c[8]),
        }
        for number, c in enumerate(cells)
    ]
    questions = [
        Question(60 * SECOND, 60 * SECOND, 0, (), ("count(*)", "count(v)")),
        Question(90 * SECOND, 40 * SECOND, 7 * SECOND, ("k",), ("count(*)", "max(v)"), None, None, 120 * SECOND),
    ]
    latest = max(row["ts"] for row in rows)
    # The clock stands 700 s before the last row, and 600 s ahead are allowed: the last rows cannot be.
    with Lawful(spark, Setting(30 * SECOND), questions, latest - 700 * SECOND) as lawful:
        for batch in cut(rows, 12):
            lawful.feed(batch)
        lawful.check_answers()
        counts = lawful.bed.counts("s")
    assert counts.ingested == len(rows)
    assert min(counts.on_time, counts.corrected, counts.late, counts.invalid) > 0


def _micros(seconds: str) -> int:
    whole, _, rest = seconds.partition(".")
    return int(whole) * SECOND + int(rest.ljust(6, "0")[:6])
