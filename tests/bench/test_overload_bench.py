"""The overload benchmark lets operators take turns under policies, replays them, and counts what a burst does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from bench import overload
from bench._measure import Figures
from bench._overload.burst import PacketBurst, wrong_groups
from bench._overload.classes import POLICIES, OperatorClasses
from bench._overload.in_a_row import CHAIN, FIFO, FLUSH, OperatorsInARow
from bench._overload.packets import PacketArrivals, digested, hashed, is_whole
from bench._overload.turns import replays
from bench._results.overload import overload as section
from penstock.language.grammar.parse import parse_query
from penstock.schedule.operator_queues import is_for_operators
from penstock.schedule.recorded_operators import OperatorRecording, RecordedOperatorStep, RecordedQueueAnswer
from penstock.schedule.registry import POLICIES as KNOWN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000
STEP = RecordedOperatorStep(
    *(1, "packets", "FCFS", 0, 0, 0, SECOND, (7,), (10,), (9 * SECOND,), (1.0,)),
    *(0, "hashed(1, 1, payload)", 10, 5, 1_000, 1_000, 1.0),
)
ANSWER = RecordedQueueAnswer(1, "packets", 0, 0, SECOND, (7,), (5,), (9 * SECOND,), (1.0,))


def test_a_small_run_measures_all_and_loses_nothing(spark: SparkSession) -> None:
    said = list[str]()
    figures = overload.measure(spark, overload.small(200), said.append)  # type: ignore[arg-type]
    found = figures.measurements
    assert set(found["classes"]) == set(POLICIES)
    assert all(one["rows answered"] > 0 for rounds in found["classes"].values() for one in rounds)
    assert all(one["mean slowdown"] >= 1 for rounds in found["classes"].values() for one in rounds)
    assert set(found["in a row"]) == {FIFO, CHAIN, *([FLUSH] if is_for_operators(KNOWN[FLUSH]) else [])}
    assert {(row["ran"], row["replayed"]) for row in found["replay"]} == {(a, b) for a in POLICIES for b in POLICIES}
    burst = found["burst"]
    lost = "rows lost", "rows answered twice", "exact groups that are wrong", "neither answered nor counted"
    assert [burst[name] for name in lost] == [0, 0, 0, 0]
    assert burst["sampled answers"] > 0
    assert 0 < burst["rows shed"] < burst["rows"]
    _check_section(figures)


def _check_section(figures: Figures) -> None:
    document = json.loads(json.dumps({"measurements": figures.measurements, "targets": []}))
    made = section(document)
    assert [len(one.rows) for one in made.tables][:2] == [len(POLICIES), len(POLICIES) ** 2]
    assert all(len(row) == len(one.head) for one in made.tables for row in one.rows)
    assert {chart.name for chart in made.charts} == {"overload", "overload-queues"}


def test_the_queries_of_the_overload_benchmark_are_queries_and_its_work_is_counted() -> None:
    asked = {**OperatorClasses().queries(), **PacketBurst().queries()}
    for text in (*asked.values(), OperatorsInARow().query(), OperatorsInARow().query(2.5)):
        parse_query(text)
    assert len(OperatorClasses().queries()) == 30
    rounds = {int(text.split("hashed(")[1].split(",")[0]) for text in OperatorClasses().queries().values()}
    assert rounds == {60, 120, 240, 480, 960}
    drawn = [hashed(2, 1, str(n)) for n in range(500)]
    assert all(0 <= one < 1 for one in drawn)
    assert 0.4 < sum(drawn) / len(drawn) < 0.6
    assert digested(2, "a") == digested(2, "a") != digested(3, "a")


def test_arrivals_are_those_of_the_largest_burst() -> None:
    rows = PacketArrivals().rows
    assert (len(rows), sum(rows)) == (20, 800 * 5)
    assert max(rows) > 2.5 * sum(rows) / len(rows)
    burst = PacketBurst()
    assert burst.factors.count(2) + burst.factors.count(4) == 40
    assert len(burst.rows) == len(burst.factors) == 46


def test_a_recording_is_whole_when_every_row_has_come_and_every_commit_is_answered() -> None:
    whole = OperatorRecording((STEP,), (ANSWER,))
    assert is_whole(whole, 10)
    assert not is_whole(whole, 11)
    assert not is_whole(replace(whole, answers=()), 10)
    assert not is_whole(OperatorRecording(), 10)


def test_replays_stand_beside_what_ran() -> None:
    later = replace(STEP, queries=(8,), began_us=SECOND, ended_us=4 * SECOND, seconds=3.0, operator="other(v)")
    other = replace(ANSWER, queries=(8,), ended_us=4 * SECOND)
    rows = replays({"FCFS": OperatorRecording((STEP, later), (ANSWER, other))})
    assert rows == [
        {"ran": "FCFS", "replayed": "FCFS", "live mean": 2.5, "replayed mean": 2.5, "live p95": None}
        | {"replayed p95": None, "other mean": 2.5}
    ]


@pytest.mark.parametrize(("n", "wrong"), [(2, 0), (3, 2)])
def test_exact_groups_that_differ_are_counted(n: int, wrong: int) -> None:
    def at(seconds: float) -> int:
        return round(seconds * SECOND)

    times, sources = [at(0.1), at(0.9), at(1.5), at(30)], ["a", "a", "b", "c"]
    rows: dict[str, Any] = {"ts": times, "source": sources, "size": [1, 2, 3, 4]}
    whole = pa.table(rows).set_column(0, "ts", pa.array(rows["ts"], pa.timestamp("us", tz="UTC")))
    said = pa.table({"window_end": [at(1), at(2)], "source": ["a", "b"], "n": [n, 1], "bytes": [3, 3]})
    assert wrong_groups(said, whole, 0) == wrong
