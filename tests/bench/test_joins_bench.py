"""The benchmark of joins, so small that its times mean nothing: it runs, and all sides answer the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench._measure import Figures, Progress, machine, write_json
from bench._results.joins import joins
from bench._results.page import page_and_charts, read_results
from bench.joins import Workload, measure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.soak
def test_all_sides_pair_the_same_rows(interpreted: SparkSession, tmp_path: Path) -> None:
    tiny = Workload(rows=2_000, files=2, customers=300, ranges_s=(60, 900), repetitions=1)
    write_json(tmp_path / "joins.json", machine(), measure(interpreted, tiny, Progress()))
    told = json.loads((tmp_path / "joins.json").read_text(encoding="utf-8"))
    verdicts = {target["name"]: target["met"] for target in told["targets"]}
    assert verdicts.pop("one join: all sides answer the same")
    assert verdicts.pop("all joins: all sides answer the same")
    assert set(verdicts) == {
        "8 joins of Spark's against Penstock, times seconds",
        "8 joins of Spark's against Penstock, times processor seconds",
    }
    assert told["measurements"]["all joins"]["pairs"] > 1_000


@pytest.mark.soak
def test_joins_of_sparks_that_take_too_long_are_stopped(interpreted: SparkSession) -> None:
    tiny = Workload(rows=2_000, files=2, customers=300, ranges_s=(60, 900), repetitions=1, longest_s=0.5)
    figures = measure(interpreted, tiny, Progress())
    runs = figures.measurements["all joins"]["runs"]
    assert all(run["stopped"] for side in ("spark, in memory", "spark, RocksDB") for run in runs[side])
    assert "stopped" not in runs["penstock"][0]
    assert not interpreted.streams.active


def some_runs(*processor_seconds: float) -> list[dict[str, Any]]:
    return [{"seconds": seconds / 2, "processor_seconds": seconds} for seconds in processor_seconds]


def test_the_section_shows_the_best_runs_and_what_they_are_times_ours(tmp_path: Path) -> None:
    runs = {"penstock": some_runs(12, 10), "spark, in memory": some_runs(250, 300), "spark, RocksDB": some_runs(905)}
    found = {
        "workload": {"rows": 1_200_000, "files": 8, "customers": 400_000, "ranges_s": [60, 3_600], "repetitions": 2},
        "one join": {"joins": 1, "pairs": 0, "runs": {"penstock": some_runs(5), "spark, in memory": []}},
        "all joins": {"joins": 16, "pairs": 2_231_747, "runs": runs},
    }
    runs["spark, RocksDB"][0]["stopped"] = True  # it took longer than it was given
    section = joins({"measurements": found})
    assert section.asked.endswith("Best of 2 runs.")
    apart = {**found, "workload": {**found["workload"], "repetitions_of_all": 1}}
    assert joins({"measurements": apart}).asked.endswith("One join: best of 2 runs. All joins: one run each.")
    assert "600,000\nrows come in 8 batches" in section.asked
    assert "within 60 or 3,600 s" in section.asked
    one, every = section.tables
    assert one.rows[0] == ("Penstock", "2.5", "1.0", "5.0", "1.0")
    assert one.rows[1] == ("Spark, state in memory", "", "", "", "")
    assert every.caption == "16 joins, 2,231,747 pairs:"
    assert every.rows[1:] == (
        ("Spark, state in memory", "125.0", "25.0", "250.0", "25.0"),
        ("Spark, state in RocksDB", *(f"at least {told}" for told in ("452.5", "90.5", "905.0", "90.5"))),
    )
    write_json(tmp_path / "joins.json", machine(), Figures(found))
    made = page_and_charts(read_results(tmp_path, tmp_path))
    assert "## Joins of two streams" in made["RESULTS.md"]
    assert "Spark, state in RocksDB" in made["results/joins.svg"]
