"""The groupings benchmark runs, on few rows, and its sides answer the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench import groupings
from bench._frame import Bench
from bench._groupings import million
from bench._groupings.workloads import OPTION_KEYS, TRADE_KEYS, grouped_queries, packet_queries
from bench._measure import Progress, as_json
from penstock.language.grammar.parse import parse_query
from penstock.store import executor_state as spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.soak
def test_groupings_together_answer_as_each_alone(spark: SparkSession, tmp_path: Path) -> None:
    workload = groupings.Workload(rows=2_000, files=1, repetitions=1, each=2, warm=False)
    bench = Bench(workload, spark, tmp_path, Progress())
    groupings._trades(bench)
    found = as_json({}, bench.figures)
    assert found["measurements"]["trades"]["queries"] == 16
    assert found["measurements"]["trades"]["differing"] == []
    assert [target["target"] for target in found["targets"]] == ["holds", ">= 3"]


def test_answers_about_many_keys_equal_the_oracle_s(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "BUCKETS", 3)
    monkeypatch.setattr(million, "spark_settings", lambda collections: {})  # on the session that runs
    crowd = million.Crowd(keys=300, rows=1_500, files=3, queries=8, sampled=40, max_driver_groups=100)
    found = million.run(crowd, tmp_path)
    assert found["differing"] == []
    assert found["spread_groupings"] == [["`account`"]]
    assert found["partials_by_executors"] > 0


def test_the_workloads_have_as_many_queries_as_they_say() -> None:
    for keys in (OPTION_KEYS, TRADE_KEYS):
        assert len({query.text for query in grouped_queries(keys, 60)}) == 64
        assert len(set(keys)) == 8
    packets = packet_queries(30, 1)
    assert len(packets) == 240
    for query in packets:
        parse_query(query.text)
    assert len(million.asked(million.Crowd())) == 50
