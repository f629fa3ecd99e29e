"""Sizes from which on the engine goes another way, set so low that a dozen rows are beyond them.

What happens with millions of rows, hundreds of commits or dozens of trees happens here in a scenario of seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

Place = tuple[str, str]  # a module, and a name in it

WAYS: dict[str, dict[Place, Any]] = {
    "files are put together": {
        ("stream.batch_taking", "COMPACTED_EVERY"): 2,
        ("store.commits", "FAN"): 1,
        ("store.answers", "FAN"): 1,
        ("store.compaction", "FAN"): 2,
        ("spark.kept_rows.commit_folders", "FAN_IN"): 2,
        ("stream.upkeep", "PIECE_S"): 0.0,
    },
    "groupings feed others": {
        ("stream.grouping_plan", "MANY_ROWS"): 1,
        ("stream.grouping_plan", "MANY_BYTES"): 1,
        ("stream.grouping_plan", "LOOK_AGAIN"): 2,
    },
    "slices are searched": {("share.locate", "PROGRESSIONS_AT_MOST"): 0, ("share.slices", "FEW_PROGRESSIONS"): 0},
    "trees are many": {("share.locate", "FEW_TREES"): 1, ("spark.job.many_trees", "FEW_TREES"): 1},
    "groups are forgotten": {("kernel.synopsis", "FEW_GROUPS"): 1},
    "lanes are scanned": {("kernel.synopsis", "MOST_CELLS"): 8},
    "rows are numbered by stretch": {("spark.kept_rows.row_numbers", "FEW_ROWS"): 2},
    "trees are woven often": {("stream.tree_planner", "LOOKED_EVERY"): 1},
    "answers are in parts": {("store.answer_parts", "MOST_ROWS"): 2, ("kernel.answering", "MUCH"): 2},
    "cells are searched": {("share.conditions.cells", "MOST_LISTED"): 1},
}


class Thresholds:
    """Sets some of them while a scenario runs."""

    def __init__(self, ways: Iterable[str]) -> None:
        """Set those of some ways."""
        self._before: dict[Place, Any] = {}
        for place, value in ((p, v) for way in ways for p, v in WAYS[way].items()):
            module = import_module(f"penstock.{place[0]}")
            self._before.setdefault(place, getattr(module, place[1]))
            setattr(module, place[1], value)

    def restore(self) -> None:
        """Set them as they were."""
        for (module, name), value in self._before.items():
            setattr(import_module(f"penstock.{module}"), name, value)
