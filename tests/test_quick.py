"""`make quick` leaves out the tests that need Spark and no others; each test here says of itself whether it does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.errors import EnvironmentProblem
from penstock.spark.session.embedded import check_java
from tests.without_spark import NO_JAVA, OPTION, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAKEFILE = Path(__file__).resolve().parents[1] / "Makefile"


def test_a_test_without_spark_is_quick(request: pytest.FixtureRequest) -> None:
    assert not needs_spark(request.node)


def test_a_test_that_asks_for_spark_is_not(request: pytest.FixtureRequest, spark: SparkSession) -> None:
    assert needs_spark(request.node)


def test_a_test_that_asks_for_it_through_another_fixture_is_not(
    request: pytest.FixtureRequest, interpreted: SparkSession
) -> None:
    assert needs_spark(request.node)


@pytest.mark.starts_spark
def test_a_test_that_says_so_is_not(request: pytest.FixtureRequest) -> None:
    assert needs_spark(request.node)


def test_what_needs_spark_and_does_not_say_so_fails_when_java_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", NO_JAVA)
    with pytest.raises(EnvironmentProblem, match=NO_JAVA):
        check_java()


def test_java_is_hidden_exactly_when_it_is_asked_for(request: pytest.FixtureRequest) -> None:
    assert (os.environ.get("JAVA_HOME") == NO_JAVA) == request.config.getoption(OPTION)


def test_make_test_leaves_nothing_out_that_make_quick_does() -> None:
    commands = [line for line in MAKEFILE.read_text(encoding="utf-8").splitlines() if "-m pytest" in line]
    quick, test, soak = commands
    assert OPTION in quick
    assert OPTION not in test + soak
