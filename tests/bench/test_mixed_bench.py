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
from bench._mixed.workloads import EDIT_CONDITIONS, edit_queries, edits, flight_queries, flights
from bench._results.mixed import mixed as mixed_section
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
    assert len(section.tables) == 6
    assert set(figures.measurements["alike"]["8 groupings of trades"]) == {"weave", "shared paired", "fragments"}
    quick = latency.Workload(batch=500, batches=6, first=2, queries=(10,), restarted=4)
    assert latency.measure(spark, quick, Progress()).measurements["queries"]["10"]["batches"] == 4
