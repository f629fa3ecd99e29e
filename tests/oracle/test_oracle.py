"""Every strategy, kernel and way of cutting into batches gives the answers of DuckDB on plain rows."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.cases import sweep
from tests.oracle.cases import make_alike, make_case, make_of_few_windows
from tests.oracle.harness import check_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("seed", sweep(range(44), 8))
def test_random_queries_equal_the_oracle(spark: SparkSession, seed: int) -> None:
    check_case(spark, make_case(seed), compiled=seed % 4 == 0)


@pytest.mark.parametrize("seed", sweep(range(1000, 1012), 3))
def test_late_rows_enter_windows_that_are_not_final(spark: SparkSession, seed: int) -> None:
    check_case(spark, make_case(seed, most_queries=15, late_rows=True), compiled=seed % 4 == 0)


@pytest.mark.parametrize("seed", sweep(range(2000, 2012), 3))
def test_queries_that_differ_in_their_windows_only_equal_the_oracle(spark: SparkSession, seed: int) -> None:
    check_case(spark, make_alike(seed), compiled=False)


@pytest.mark.parametrize("seed", sweep(range(3000, 3008), 2))
def test_queries_of_few_windows_that_share_fragments_equal_the_oracle(spark: SparkSession, seed: int) -> None:
    check_case(spark, make_of_few_windows(seed), compiled=False)


def test_a_row_before_all_searched_edges_enters_no_slice(spark: SparkSession) -> None:
    check_case(spark, make_case(783865914501, late_rows=True), compiled=False)  # found by a soak


def test_a_late_row_enters_the_first_window_of_a_query_that_has_had_none(spark: SparkSession) -> None:
    check_case(spark, make_case(107356157568, late_rows=True), compiled=False)  # found by a soak


def test_edges_that_are_too_many_to_list_are_computed(spark: SparkSession) -> None:
    check_case(spark, make_case(529433658442), compiled=False)  # found by a soak


@pytest.mark.soak
def test_fresh_seeds_equal_the_oracle(spark: SparkSession) -> None:
    for _ in range(int(os.environ.get("PENSTOCK_SOAK_CASES", "2000"))):
        seed = random.SystemRandom().randrange(1 << 40)
        if seed % 5 == 0:
            case = make_alike(seed)
        elif seed % 5 == 1:
            case = make_of_few_windows(seed)
        else:
            case = make_case(seed, late_rows=seed % 3 == 0)
        check_case(spark, case, compiled=seed % 8 == 0)
