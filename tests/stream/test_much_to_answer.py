"""What is done otherwise where there is much: lanes answered by threads, edges listed for the times of a batch."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.kernel.answering import Answering
from penstock.kernel.synopsis import Synopsis
from penstock.share.locate import BySearch
from penstock.spark.job.partials import time_span
from penstock.stream import searched_edges
from penstock.testing import TestBed
from tests.stream import feeding

FORMS = (
    "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE 9 s SLIDE {s} s]",
    "SELECT k, count(*) AS n, max(v) AS x FROM s [RANGE 12 s SLIDE {s} s] GROUP BY k",
    "SELECT k, median(v) AS x, count(DISTINCT v) AS n FROM s [RANGE 20 s SLIDE {s} s] WHERE v > 2 GROUP BY k",
)


KEYED = "SELECT k, count(*) AS n, max(v) AS x FROM s [RANGE {r} s SLIDE {s} s] GROUP BY k"
OFTEN = [FORMS[number % 3].format(s=(2, 3, 5, 7)[number % 4]) for number in range(12)]
SELDOM = [KEYED.format(r=s + 5, s=s) for s in (101, 103, 107, 109, 113, 127, 131, 137, 139)]  # searched, not divided


def answers(spark: SparkSession, texts: list[str], pace: int = 1) -> dict[str, list[tuple[object, ...]]]:
    draw, asked = random.Random(7), {f"q{number}": text for number, text in enumerate(texts)}
    with feeding.open_bed(spark) as bed:
        for name, text in asked.items():
            bed.query(name, text)
        for clock in (0, 15, 30, 50):
            times = (pace * (clock + draw.randrange(20)) for _ in range(40))
            bed.feed("s", [{"ts": t, "k": draw.choice("abc"), "v": draw.randrange(9)} for t in times])
        layout = bed.engine.stream("s").pipeline.layout
        assert layout is not None
        assert isinstance(layout.locating[0], BySearch) == (texts is SELDOM)
        return {name: sorted(map(tuple, bed.timeline(name)), key=repr) for name in asked}


def test_lanes_answered_by_threads_answer_as_by_one(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, pools = answers(spark, OFTEN), list[int]()

    class Noted(ThreadPoolExecutor):
        def __init__(self, workers: int, prefix: str) -> None:
            pools.append(workers)
            super().__init__(workers, prefix)

    monkeypatch.setattr("penstock.kernel.answering.MUCH", 1)
    monkeypatch.setattr("penstock.kernel.answering.os.cpu_count", lambda: 3)
    monkeypatch.setattr("penstock.kernel.answering.ThreadPoolExecutor", Noted)
    assert answers(spark, OFTEN) == alone
    assert all(alone.values())
    assert max(pools) > 1


def test_what_threads_take_at_once_adds_up_to_the_time_that_passes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge, answer, spent = Synopsis.merged, Answering.answer, Answering.spent
    passed, found = [0.0], list[tuple[float, float]]()

    def slowly(self: Synopsis, *about: Any, **how: Any) -> Any:
        threading.Event().wait(0.02)  # which others need not wait for
        return merge(self, *about, **how)

    def timed(self: Answering, due: Any) -> Any:
        began = time.perf_counter()
        answered = answer(self, due)
        passed[0] += time.perf_counter() - began
        return answered

    def noted(self: Answering) -> Any:
        told = spent(self)
        found.append((sum(one.seconds for one in told), passed[0]))
        passed[0] = 0.0
        return told

    monkeypatch.setattr("penstock.kernel.answering.MUCH", 1)
    monkeypatch.setattr("penstock.kernel.answering.os.cpu_count", lambda: 3)
    monkeypatch.setattr(Synopsis, "merged", slowly)
    monkeypatch.setattr(Answering, "answer", timed)
    monkeypatch.setattr(Answering, "spent", noted)
    answers(spark, [text.format(s=5) for text in FORMS])
    assert max(told for told, _ in found) > 0.02
    assert all(told <= took + 1e-6 for told, took in found)


@pytest.mark.parametrize("most", [60, 0])
def test_edges_too_many_to_be_foreseen_change_no_answer(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    foreseen = answers(spark, SELDOM, 10)
    monkeypatch.setattr("penstock.stream.searched_edges.MOST_EDGES", most)  # of 0, rows compute their slices
    assert answers(spark, SELDOM, 10) == foreseen
    assert all(foreseen.values())


LONG = [KEYED.format(r=500 * s, s=s) for s in (101, 103, 107, 109, 113, 127, 131, 137, 139)]


def disordered(spark: SparkSession) -> dict[str, list[tuple[object, ...]]]:
    """Feed batches of which the fifth has rows from far behind those that came before, within the stream's lateness."""
    draw, asked = random.Random(9), {f"q{number}": text for number, text in enumerate(LONG)}
    with TestBed(spark) as bed:
        bed.stream("s", "ts TIMESTAMP, k STRING, v INT", lateness="20 MIN")
        for name, text in asked.items():
            bed.query(name, text)
        for number in range(8):
            times = [200 * number + draw.randrange(200) for _ in range(30)] + ([150, 420, 15] if number == 4 else [])
            bed.feed("s", [{"ts": t, "k": draw.choice("abc"), "v": draw.randrange(9)} for t in times])
        bed.flush()
        return {name: sorted(map(tuple, bed.timeline(name)), key=repr) for name in asked}


def test_edges_are_listed_for_recent_times_without_a_look_at_the_rows(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, looks = disordered(spark), list[str]()

    def looked(batch: DataFrame, time: str, ahead_us: int) -> tuple[int, int]:
        looks.append(time)
        return time_span(batch, time, ahead_us)

    monkeypatch.setattr(searched_edges, "time_span", looked)
    monkeypatch.setattr(searched_edges, "MOST_EDGES", 700)
    assert disordered(spark) == known
    assert all(known.values())
    assert len(looks) == 1  # of all batches, the one from far behind; one row told about the first batch
