"""The live benchmark runs alerts beside reports, and the same work under every policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench import live
from bench._live.midnight import Midnight, midnight, queries
from bench._live.neighbours import Neighbourhood, respond
from bench._live.neighbours import queries as neighbours
from penstock.language.grammar.parse import parse_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")


def test_alerts_are_answered_beside_reports_and_timed_from_the_file_that_made_them_final(spark: SparkSession) -> None:
    load = Neighbourhood(200, 30, 5, 1, 0.3, 4, 2, 2, 4, 0.1, past_minutes=0)
    found = respond(spark, load, reports=True)
    assert {end for end, _ in found.seconds} >= {1, 2, 3}
    assert all(took > 0 for _, took in found.seconds)
    assert found.reports


def test_the_past_that_a_query_asks_for_is_answered_beside_the_alerts(spark: SparkSession) -> None:
    load = Neighbourhood(200, 30, 13, 1, 0.1, 4, 1, 2, 4, 0.1, past_minutes=12, backfill_at=2)
    found = respond(spark, load, reports=True)
    assert len(found.past) == load.past_minutes
    assert {end for end, _ in found.seconds} >= {11, 12}


def test_every_query_that_is_due_at_midnight_is_judged(spark: SparkSession) -> None:
    load = Midnight(400, 20, 12, 3, 2)
    found = midnight(spark, load, "HNR")
    assert found["answered"] == load.queries * (load.batches - load.first)
    assert 1.0 <= found["mean slowdown"] <= found["maximum slowdown"]


def test_the_queries_of_the_live_benchmark_are_queries() -> None:
    asked = {**queries(Midnight()), **neighbours(Neighbourhood(), reports=True)}
    assert len(asked) == Midnight().queries + Neighbourhood().alerts + Neighbourhood().reports
    for text in asked.values():
        parse_query(text)
    assert live.Workload().rounds == live.ROUNDS
