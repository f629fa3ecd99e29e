"""A stream made of rows that go through operators says what it says where the pass computes them, only later."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.store import faults
from tests.cases import cases
from tests.stream.operated import Killed, Row, bed_with, finish, queue, share_processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from penstock.testing import TestBed

WINDOW = "SELECT count(*) AS n, sum(id) AS total, max(p) AS most FROM dear [RANGE 2 s SLIDE 1 s]"


@pytest.fixture(autouse=True)
def no_hook_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    share_processes(monkeypatch)
    yield
    faults.hook = None


# Of a commit of what has come through, and of the stream that is made of it.
MOMENTS = ("taken.after", "taken.record.after", "commit.before", "commit.torn", "commit.after", "answers.before")


def enter(bed: TestBed) -> None:
    bed.engine.execute("CREATE STREAM dear AS SELECT id, w, score(v) AS p FROM s WHERE id <> 40 AND score(v) > 4")
    bed.query("windows", WINDOW)
    bed.query("rows", "SELECT id, p FROM dear WHERE w < 4")
    bed.query("beside", "SELECT id FROM s WHERE weight(w, name) > 3")


def drawn(draw: random.Random, second: int, first: int) -> list[Row]:
    """Draw rows of about a second, some late and some too late for every window."""
    times = [second + draw.choice([draw.random(), draw.random(), -1.2 * draw.random(), -4.0]) for _ in range(12)]
    return [(max(t, 0.0), first + n, draw.randrange(12), float(draw.randrange(6)), "ab") for n, t in enumerate(times)]


def told(bed: TestBed, query: str) -> list[tuple[Any, ...]]:
    """Return a query's answers without the commits that brought them."""
    hidden = {"commit", "ordinal"}
    return [tuple(v for name, v in row.items() if name not in hidden) for row in bed.answers(query)]


def watermark(bed: TestBed, stream: str) -> int | None:
    return bed.engine.stream(stream).pipeline.progress.clock.watermark_us


@pytest.mark.parametrize("seed", range(1, 1 + cases(1, soak=30)))
def test_windows_over_rows_of_operators_are_those_over_rows_of_the_pass(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("penstock.kernel.operator_block.BLOCK_ROWS", 5)
    draw, waited = random.Random(seed), False
    batches = [drawn(draw, second, 12 * second) for second in range(7)]
    with bed_with(spark, expensive=False) as bed:
        enter(bed)
        for rows in batches:
            bed.feed("s", rows)
        bed.flush()
        wanted = {name: told(bed, name) for name in ("windows", "rows", "beside")}
        late = bed.counts("dear").late
    bed, armed, deaths = bed_with(spark, tmp_path), list[str](), 0
    enter(bed)

    def reached(moment: str) -> None:
        if armed and moment == armed[-1]:
            armed.pop()
            raise Killed

    faults.hook = reached
    for rows in batches:
        queue(bed, rows)
        waited |= watermark(bed, "dear") != watermark(bed, "s")
        if draw.random() < 0.4:
            continue
        armed[:] = [draw.choice(["", *MOMENTS])]
        try:
            finish(bed)
            bed.engine.stream("s").lead()
            assert watermark(bed, "dear") == watermark(bed, "s")
        except Killed:
            deaths += 1
            bed.engine.streams.abandon_sinks()
            bed.engine.release()
            bed = bed_with(spark, tmp_path)
        armed.clear()
    faults.hook = None
    assert deaths
    bed.flush()
    assert waited
    assert late > 0
    for name, answers in wanted.items():
        key = None if name == "windows" else repr
        assert sorted(told(bed, name), key=key) == sorted(answers, key=key), name
    assert bed.counts("dear").late == late
    bed.close()
