"""A batch is done when the sink has the last group of its answers, however many groups there are."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench._batch_ends import BatchEnds
from bench._mixed.workloads import edits
from bench._noting import NotingSink
from penstock.engine import Engine
from penstock.schedule import work_groups
from penstock.stream import evaluation_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_batch_ends_with_the_last_group_of_its_answers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation_order, "GROUP_S", 0.0)  # nothing is answered in one go,
    for name in ("GROUP_S", "LITTLE_S"):
        monkeypatch.setattr(work_groups, name, 0.0)  # and nothing together with others
    load = edits(tmp_path / "edits", rows=600, files=3)
    groups: list[int] = []
    ends = BatchEnds(lambda: groups.append(len(ends.ends())))
    with Engine(tmp_path / "state", spark=spark, sinks=[NotingSink(tmp_path / "answers", ends.note, "s")]) as engine:
        engine.execute(load.script(list(load.queries)[:6]))
        ends.watch(engine, "s")
        engine.process_available(flush=True)
    assert len(groups) > load.files
    assert len(ends.ends()) == load.files
    assert all(before < after for before, after in pairwise(ends.ends()))
