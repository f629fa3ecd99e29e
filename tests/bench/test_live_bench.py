"""The live benchmark runs alerts beside reports, and the same work under every policy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from bench import live
from bench._live.desk_costs import DeskLoad, choosing, condition_queries, throughput, window_queries
from bench._live.freshness import Looks, Overload, stale
from bench._live.freshness import queries as dashboards
from bench._live.midnight import Midnight, midnight, queries
from bench._live.neighbours import SECOND_US, START_US, Neighbourhood, respond
from bench._live.neighbours import queries as neighbours
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


def test_of_dashboards_every_window_is_answered_or_counted_and_exact_queries_lose_none(spark: SparkSession) -> None:
    load = Overload(200, 20, 5, 1, 0.2, 3, 1, 9, 4)
    found = stale(spark, load, 4, fresh=True)
    assert found["lost"] == 0
    assert found["uncounted"] == 0
    assert found["answers"] + found["skipped"] == 4 * (load.files - 1)
    assert 0 <= found["staleness"] <= found["most stale"]


def test_staleness_is_how_far_the_newest_answer_is_behind_the_watermark() -> None:
    clock = SimpleNamespace(watermark_us=START_US + 9 * SECOND_US, last_us=START_US + 9 * SECOND_US)
    stream = SimpleNamespace(pipeline=SimpleNamespace(progress=SimpleNamespace(clock=clock)))
    engine: Any = SimpleNamespace(stream=lambda name: stream)
    looks = Looks(newest={"a": START_US + 8 * SECOND_US, "b": START_US + 3 * SECOND_US})
    looks.look(engine, ["a", "b"], appeared=11)
    assert (looks.stale, looks.unread) == ([3.5], [2.0])


def test_the_desk_is_measured_by_throughput_and_by_what_choosing_takes(spark: SparkSession) -> None:
    load = DeskLoad(400, 3, 1, 3, 6, 1)
    assert throughput(spark, load, ordered=True) > 0
    chosen = choosing(spark, load)
    assert chosen["milliseconds a batch"] > 0
    assert chosen["calls a batch"] >= 1


def test_the_queries_of_the_live_benchmark_are_queries() -> None:
    asked = {**queries(Midnight()), **neighbours(Neighbourhood(), reports=True)}
    assert len(asked) == Midnight().queries + Neighbourhood().alerts + Neighbourhood().reports
    more = {**dashboards(Overload(), 7, fresh=True), **window_queries(9), **condition_queries(9)}
    for text in (*asked.values(), *more.values()):
        parse_query(text)
    assert live.Workload().rounds == live.ROUNDS
