"""The benchmark of filters, so small that its times mean nothing: it runs, and all sides answer the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from bench._filters import esper
from bench._filters.drawn import drawn, drawn_filters
from bench._measure import Progress
from bench._results.filters import filters
from bench.filters import Workload, measure, write_evenly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = Workload(
    rows=2_000,
    files=2,
    filters=(1, 6),
    takers=(1.0,),
    by_case=(6,),
    separate=(1, 2),
    esper=(6,),
    small_batch=500,
    warm=False,
)


def test_filters_are_as_many_as_asked_for_and_the_same_each_time() -> None:
    assert len(drawn_filters(10, 1.0, 1)) == 10
    assert drawn_filters(10, 1.0, 1) == drawn_filters(10, 1.0, 1)


def test_filters_take_as_many_rows_as_they_are_drawn_for(tmp_path: Path) -> None:
    write_evenly(tmp_path / "trades", replace(TINY, rows=20_000))
    files = tmp_path / "trades" / "*.parquet"
    for takers in (0.1, 1.0, 10.0):
        taken = " + ".join(f"CAST({one} AS INT)" for one in drawn_filters(300, takers, 1))
        found = duckdb.execute(f"SELECT avg({taken}) FROM '{files}'").fetchall()[0][0]
        assert found == pytest.approx(takers, rel=0.2)


def test_without_its_jars_esper_is_skipped_and_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(esper.VARIABLE, str(tmp_path))
    assert esper.why_absent() == esper.ABSENT
    assert drawn(300, 1.0, 1)[1].epl.startswith("symbol = 'S")


@pytest.mark.soak
def test_all_sides_of_the_benchmark_of_filters_answer_the_same(interpreted: SparkSession) -> None:
    figures = measure(interpreted, TINY, Progress())
    equal = [target for target in figures.targets if target.name.startswith("answers equal")]
    assert len(equal) == 3 + (esper.why_absent() is None)
    assert all(target.met for target in equal)
    assert figures.measurements["runs"]["Penstock 6, 1 takers"]["answers"] > 0
    section = filters({"measurements": figures.measurements, "targets": []})
    assert "Penstock" in str(section.tables[0])
    assert [one["rows"] for one in figures.measurements["actions"]] == [500] * 3 + [1_000] * 3
