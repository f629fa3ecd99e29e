"""The mixed loads are what they say, repeat with their seed, and are answered alike wherever rows are aggregated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench import latency, mixed
from bench._groupings.running import differing_sums
from bench._measure import Progress
from bench._mixed.drawn import drawn_queries
from bench._mixed.real_packets import packet_queries, real_packets
from bench._mixed.rivals import SAMPLE
from bench._mixed.running import run
from bench._mixed.spark_steps import Collected, SparkSteps, Stage, transfer_ms
from bench._mixed.workloads import EDIT_CONDITIONS, edit_queries, edits, flight_queries, flights
from bench._results.mixed import mixed as mixed_section
from bench._results.mixed import spark_steps_table
from penstock.language.grammar.parse import parse_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")


def test_the_mixes_have_as_many_queries_groupings_and_predicates_as_they_say() -> None:
    airline, encyclopedia = flight_queries(), edit_queries()
    assert len(set(airline.values())) == 34
    assert len({keys_of(text) for text in airline.values()}) == 13
    assert sum("[ROWS" in text for text in airline.values()) == 2
    assert len(encyclopedia) == 90
    assert len({keys_of(text) for text in encyclopedia.values()}) == 7
    assert len(EDIT_CONDITIONS) == 14
    assert all(any(f"WHERE {one}" in text for text in encyclopedia.values()) for one in EDIT_CONDITIONS)
    assert {query.name for query in SAMPLE} <= airline.keys()


def keys_of(text: str) -> str:
    return str(parse_query(text)).partition(" GROUP BY ")[2].partition(" HAVING ")[0]


def test_fewer_drawn_queries_are_the_first_of_more() -> None:
    many = drawn_queries(300)
    assert drawn_queries(100) == dict(list(many.items())[:100])
    assert drawn_queries(100, seed=2) != drawn_queries(100)
    for text in many.values():
        parse_query(text)


def test_queries_of_packets_mix_groupings_and_a_joined_table() -> None:
    packets = packet_queries()
    assert len(packets) == 44
    assert len({keys_of(text) for text in packets.values()}) == 8
    assert sum("JOIN services" in text for text in packets.values()) == 4


def test_real_packets_are_read_where_they_are(tmp_path: Path, shared_data: Path) -> None:
    load = real_packets(tmp_path / "packets", rows=1_000, files=2)
    assert load is not None
    assert load.rows == 1_000
    assert len(list(load.folder.glob("*.parquet"))) == load.files == 2


def test_without_packets_there_is_no_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    assert real_packets(tmp_path / "packets", rows=10, files=1) is None


def test_transfer_goes_from_the_last_task_of_a_job_to_the_driver() -> None:
    #      0         50   60      100           200    210
    #      [ tasks ..|....|.......)  job one
    #                |    `- stage 3 ends, rows arrive at 100
    #                `- stage 2 (a shuffle) ends           [ rows without a job )
    stages = [Stage(2, 40, 0, 50.0), Stage(3, 8, 1, 60.0), Stage(4, 8, 2, 150.0)]
    assert transfer_ms(stages, [Collected(0.0, 100.0, 8), Collected(200.0, 210.0, 8)]) == 40.0 + 3.0


def test_what_spark_takes_is_told_step_by_step(spark: SparkSession) -> None:
    with SparkSteps(spark) as steps:
        rows = spark.range(200_000).repartition(2).selectExpr("id", "repeat('x', 20) AS text").toArrow()
    assert list(steps.seconds)[:3] == ["analysis", "optimization", "planning"]
    assert list(steps.seconds)[-2:] == ["tasks", "transfer"]
    assert steps.bytes == rows.nbytes > 0
    assert 0 < steps.seconds["transfer"] < 60
    with SparkSteps(spark) as steps:
        spark.range(5).count()
    assert steps.bytes == 0  # what comes as rows of Python is not what a batch sends


def test_the_page_tells_of_transfer_where_it_was_measured() -> None:
    before = {"seconds": 2.0, "steps": {}, "spark_steps": {"analysis": 0.5, "tasks": 1.0}}
    after = {**before, "spark_steps": {"analysis": 0.5, "tasks": 1.0, "transfer": 0.25}, "transferred_bytes": 3 << 20}
    [old], [new] = (spark_steps_table({"edits": {"together": ran}}) for ran in (before, after))
    assert (old.head, old.rows) == (("load", "analysis", "tasks"), (("edits", "0.50", "1.00"),))
    assert new.head == ("load", "analysis", "tasks", "transfer", "MiB sent")
    assert new.rows == (("edits", "0.50", "1.00", "0.25", "3"),)


@pytest.mark.soak
def test_mixed_queries_answer_alike_wherever_rows_are_aggregated(spark: SparkSession, tmp_path: Path) -> None:
    load = flights(tmp_path / "flights", rows=1_200, files=2)
    here, there = (run(spark, load, aggregation=place) for place in ("driver", "executors"))
    assert here.answers == there.answers > 0
    assert differing_sums(here.sums, there.sums) == []
    drawn = replace(edits(tmp_path / "edits", rows=300, files=2), queries=drawn_queries(25))
    one, other = (run(spark, drawn, aggregation=place) for place in ("driver", "executors"))
    assert differing_sums(one.sums, other.sums) == []


@pytest.mark.soak
def test_the_benchmarks_run_and_their_figures_make_a_section(spark: SparkSession) -> None:
    figures = mixed.measure(spark, mixed.sized(2_000, full=False), Progress())
    assert figures.measurements["flights"]["differing"] == []
    section = mixed_section({"measurements": figures.measurements, "targets": []})
    assert len(section.tables) == 5
    strategies = figures.measurements["alike"]["8 groupings of trades"]["seconds"]
    assert set(strategies) == {"weave", "shared paired", "fragments"}
    quick = latency.Workload(batch=500, batches=6, first=2, queries=(10,), restarted=4)
    assert latency.measure(spark, quick, Progress()).measurements["queries"]["10"]["batches"] == 4
