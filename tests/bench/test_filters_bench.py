"""The benchmark of filters, so small that its times mean nothing: it runs, and all sides answer the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench._measure import Progress
from bench.filters import Workload, drawn_filters, measure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = Workload(rows=2_000, files=2, filters=(1, 6), takers=(1.0,), by_case=(6,), separate=(1, 2), warm=False)


def test_filters_are_as_many_as_asked_for_and_the_same_each_time() -> None:
    assert len(drawn_filters(10, 1.0, 1)) == 10
    assert drawn_filters(10, 1.0, 1) == drawn_filters(10, 1.0, 1)


@pytest.mark.soak
def test_all_sides_of_the_benchmark_of_filters_answer_the_same(interpreted: SparkSession) -> None:
    figures = measure(interpreted, TINY, Progress())
    equal = [target for target in figures.targets if target.name.startswith("answers equal")]
    assert len(equal) == 3
    assert all(target.met for target in equal)
    assert figures.measurements["runs"]["Penstock 6, 1 takers"]["answers"] > 0
