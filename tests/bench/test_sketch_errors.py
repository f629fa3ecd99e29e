"""The errors of approximate aggregates on a real data set are what their sketches state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench._groupings.sketch_errors import SETS, print_errors, sketch_errors

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession


def test_measured_errors_are_within_what_the_sketches_state(
    spark: SparkSession, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bars = [one for one in SETS if one.name == "us-option-bars-2014"]
    found = sketch_errors(spark, shared_data, bars)
    assert [one.aggregate for one in found] == ["approx_count_distinct", "approx_percentile", "approx_top_k"]
    assert all(one.windows >= 14 and one.within >= 0.99 for one in found)
    print_errors(found)
    assert "us-option-bars-2014" in capsys.readouterr().out
