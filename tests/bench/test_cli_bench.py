"""The benchmark of cold starts, so small that its times mean nothing: it runs, and Spark stays out of it."""

from __future__ import annotations

import json
from pathlib import Path

from bench._measure import machine, write_json
from bench.cli import Workload, make_project, measure
from penstock.project.folder import read_project


def test_cold_starts_are_timed_against_their_targets(tmp_path: Path) -> None:
    said: list[str] = []
    figures = measure(Workload(queries=3, repetitions=1, warm=False), said.append)
    write_json(tmp_path / "cli.json", machine(), figures)
    written = json.loads((tmp_path / "cli.json").read_text(encoding="utf-8"))
    assert list(written) == ["machine", "measurements", "targets"]
    assert list(written["measurements"]["times"]) == ["--help", "--version", "check --help", "check 3 queries"]
    assert all(0 < run["median_seconds"] < 60 for run in written["measurements"]["times"].values())
    sparkless = {t["name"]: t["met"] for t in written["targets"]}["check does not import pyspark"]
    assert sparkless
    assert len(said) == 4


def test_the_benchmark_checks_200_sound_queries(tmp_path: Path) -> None:
    project = read_project(make_project(tmp_path / "project", Workload()))
    assert (len(project.queries), project.problems) == (200, ())
