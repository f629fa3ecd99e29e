"""The benchmarks of a stream that lives, so small that their times mean nothing: they run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench import churn, restart, soak
from bench._living import Pace
from bench._measure import machine, write_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = Pace(rows=50, every_seconds=0.05)


@pytest.mark.soak
def test_queries_come_and_go_while_batches_are_timed(spark: SparkSession, tmp_path: Path) -> None:
    workload = churn.Workload(staying=3, passing=4, stretches=2, batches=2, warm_batches=1, entered=20, pace=QUICK)
    figures = churn.measure(workload, lambda text: None)
    write_json(tmp_path / "churn.json", machine(), figures)
    found = json.loads((tmp_path / "churn.json").read_text())
    assert found["measurements"]["queries_passed"] == 4
    assert found["measurements"]["quiet"]["batches"] >= 4
    assert found["measurements"]["churn"]["batches"] >= 4
    assert found["measurements"]["new_column_restart_seconds"] > 0
    assert all(one["seconds"] > 0 for one in found["measurements"]["entered"].values())
    assert [target["met"] for target in found["targets"]][-1]


@pytest.mark.soak
def test_a_soak_notes_memory_files_and_threads(spark: SparkSession, tmp_path: Path) -> None:
    workload = soak.Workload(minutes=0.1, staying=2, passing=1, sample_seconds=0.2, pace=QUICK)
    figures, samples = soak.measure(workload, lambda text: None)
    assert len(samples) >= 4
    assert all(sample.state_files > 3 and sample.threads > 10 for sample in samples)
    assert {target.name.split(",")[0] for target in figures.targets} == set(soak.SHOWN)
    drawn = soak.plots(samples)
    assert drawn.count("<svg") == len(soak.SHOWN)


@pytest.mark.soak
def test_a_restart_is_timed_in_processes_of_its_own(tmp_path: Path) -> None:
    workload = restart.Workload(queries=3, files=2, repetitions=1, pace=Pace(rows=100, file_seconds=60.0))
    figures = restart.measure(workload, lambda text: None)
    times = figures.measurements["times"]
    assert 0 < times["bare Spark"]["median_seconds"] < 200
    assert 0 < times["Penstock"]["median_seconds"] < 200
    assert list(figures.measurements["steps"][0]) == ["imported", "spark", "recovered", "answered"]
    assert len(figures.targets) == 1


def test_files_of_a_living_stream_repeat(tmp_path: Path) -> None:
    from bench._living import write_file

    one, again = tmp_path / "one", tmp_path / "again"
    for folder in (one, again):
        folder.mkdir()
        write_file(folder, 3, QUICK)
    assert (one / "00000003.parquet").read_bytes() == (again / "00000003.parquet").read_bytes()
