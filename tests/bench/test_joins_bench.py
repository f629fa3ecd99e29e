"""The benchmark of joins, so small that its times mean nothing: it runs, and all sides answer the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench._measure import Progress, machine, write_json
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
