"""The live benchmark runs alerts beside reports, and the same work under every policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench import live
from bench._live.midnight import Midnight, midnight, queries
from bench._live.neighbours import Neighbourhood, respond
from bench._live.neighbours import queries as neighbours
from bench._live.replay import REPLAYED, apart, compared, medians, recorded
from penstock.language.grammar.parse import parse_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")


def test_alerts_are_answered_beside_reports_and_timed_from_the_file_that_made_them_final(spark: SparkSession) -> None:
    load = Neighbourhood(200, 30, 5, 1, 0.3, 4, 2, 2, 4, 0.1)
    found = respond(spark, load, reports=True)
    assert {end for end, _ in found.seconds} >= {1, 2, 3}
    assert all(took > 0 for _, took in found.seconds)
    assert found.reports


def test_every_query_that_is_due_at_midnight_is_judged(spark: SparkSession) -> None:
    load = Midnight(400, 20, 12, 3, 2)
    found = midnight(spark, load, "HNR")
    assert found["answered"] == load.queries * (load.batches - load.first)
    assert 1.0 <= found["mean slowdown"] <= found["maximum slowdown"]


def test_what_runs_at_midnight_is_recorded_and_replayed_under_all_policies(spark: SparkSession) -> None:
    load = Midnight(400, 20, 12, 3, 2)
    recordings = {name: recorded(spark, load, name) for name in ("FCFS", "HNR")}
    for one in recordings.values():
        assert sum(windows.answers for windows in one.windows) == load.queries * (load.batches - load.first)
    rows = medians([compared(recordings)])
    assert [(row["ran"], row["replayed"]) for row in rows] == [(a, b) for a in recordings for b in recordings]
    assert all(row["replayed mean"] > 0 for row in rows)
    assert set(recordings) < set(REPLAYED)


def test_a_change_is_right_if_it_has_the_sign_that_was_predicted() -> None:
    def row(ran: str, replayed: str, *times: float) -> dict[str, object]:
        named = dict(zip(("live mean", "replayed mean", "live p95", "replayed p95", "other mean"), times, strict=True))
        return {"ran": ran, "replayed": replayed, **named}

    rounds = [
        [row("A", "A", 1.0, 1.05, 2.0, 1.8, 1.0), row("A", "B", 1.0, 0.5, 2.0, 1.0, 0.9)],
        [row("A", "A", 1.0, 1.05, 2.0, 1.8, 1.0), row("A", "B", 1.0, 0.7, 2.0, 1.0, 1.3)],
    ]
    rows = medians(rounds)
    assert [one["right"] for one in rows] == [None, False]  # 40 % less was predicted, and 10 % more came
    assert rows[1]["predicted"] == pytest.approx(-0.4)
    assert apart(rows, "mean") == pytest.approx(0.05)
    assert apart(rows, "p95") == pytest.approx(0.1)
    assert medians([rounds[0]])[1]["right"] is True


def test_the_queries_of_the_live_benchmark_are_queries() -> None:
    asked = {**queries(Midnight()), **neighbours(Neighbourhood(), reports=True)}
    assert len(asked) == Midnight().queries + Neighbourhood().alerts + Neighbourhood().reports
    for text in asked.values():
        parse_query(text)
    assert live.Workload().rounds == live.ROUNDS
