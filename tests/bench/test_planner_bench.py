"""The evidence that the benchmark of the planner gives: which plans it lists, and that these are the plans it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench._planner import live as lives
from bench._planner.evidence import classes_of, partitions, run_all, run_as
from penstock.share.weave.costs import Rates

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

WINDOWS = ((60, 20), (90, 30), (120, 40), (200, 50))


@pytest.fixture(scope="module")
def case(interpreted: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> lives.Live:
    scratch: Path = tmp_path_factory.mktemp("planner")
    return lives.write(interpreted, scratch, "tiny", 1_600, 2.0, lives.acqs(WINDOWS))


@pytest.mark.parametrize(("classes", "plans"), [(1, 1), (2, 2), (3, 5), (4, 15), (5, 52)])
def test_all_partitions_are_listed_once_with_all_in_one_first(classes: int, plans: int) -> None:
    listed = [tuple(sorted(tuple(sorted(tree)) for tree in plan)) for plan in partitions(classes)]
    assert listed[0] == (tuple(range(classes)),)
    assert len(listed) == len(set(listed)) == plans
    assert all(sorted(sum(plan, ())) == list(range(classes)) for plan in listed)


def test_classes_hold_every_query_once_by_slide_and_condition(interpreted: SparkSession, case: lives.Live) -> None:
    with lives.opened(interpreted, case, "shared paired", case.folder) as engine:
        by_slide = classes_of(engine.catalog.definitions("trades"), 2)
    assert by_slide == [[0, 1], [2, 3]]
    texts = lives.shards(16, WINDOWS)  # four windows by four conditions
    shards = lives.Live("shards", case.folder, case.rows, case.rate, tuple(texts))
    with lives.opened(interpreted, shards, "shared paired", case.folder) as engine:
        classes = classes_of(engine.catalog.definitions("trades"), 4)
    assert sorted(query for part in classes for query in part) == list(range(16))
    assert [len(part) for part in classes] == [4, 4, 4, 4]
    conditions = [{texts[query].split(" WHERE ")[1] for query in part} for part in classes]
    assert all(len(found) == 2 for found in conditions)


@pytest.mark.soak
def test_plans_run_with_the_trees_they_name(interpreted: SparkSession, case: lives.Live) -> None:
    for trees in ([[0, 1, 2, 3]], [[0, 3], [1], [2]]):
        assert run_as(interpreted, case, Rates(), trees).trees == len(trees)


@pytest.mark.soak
def test_every_plan_is_timed_as_often_as_asked(interpreted: SparkSession, case: lives.Live) -> None:
    said = list[str]()
    runs = run_all(interpreted, case, Rates(), [[0, 1], [2, 3]], 1, said.append)
    assert [run["plan"] for run in runs] == [[[0, 1]], [[0], [1]]]
    assert all(len(run["seconds"]) == 1 and run["median_seconds"] == run["seconds"][0] > 0 for run in runs)
    assert len(said) == 4  # two plans, with a run of each to warm up
