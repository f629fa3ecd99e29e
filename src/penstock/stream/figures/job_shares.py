"""Divides what a batch's job made among the queries that use it.

The seconds and bytes of a batch are divided among its groupings by the partials that each has made. A grouping's part
is divided evenly among its lanes, the conditions that its queries have, and a lane's evenly among its queries. So two
queries that differ in nothing but their windows pay half each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.model.arrays import FloatArray, Int64Array
from penstock.share.layout import Layout
from penstock.share.plan import LaneKey


@dataclass(frozen=True, slots=True)
class JobShares:
    """Which part of each grouping belongs to which query of a layout."""

    definitions: tuple[int, ...]
    query: Int64Array  # place among the definitions,
    member: Int64Array  # grouping,
    part: FloatArray  # and the query's part of it

    @staticmethod
    def of(layout: Layout) -> JobShares:
        """Find the lanes that each grouping of a job feeds, and their queries."""
        numbers = {d.id: place for place, d in enumerate(layout.plan.definitions)}
        found: list[tuple[int, int, float]] = []
        for member in layout.members:
            tree = layout.plan.trees[member.tree]
            keys = {LaneKey(tree.space, fed.grouping.keys, c) for fed in member.feeds for c in fed.grouping.conditions}
            lanes = [tree.lanes[key] for key in keys if key in tree.lanes]
            for users in lanes:
                part = 1.0 / (len(lanes) * len(users))
                found += [(numbers[one.id], member.number, part) for one in users]
        query, group, part_of = zip(*found, strict=True) if found else ((), (), ())
        arrays = np.array(query, np.int64), np.array(group, np.int64), np.array(part_of, np.float64)
        return JobShares(tuple(numbers), *arrays)

    def of_batch(self, partials: Sequence[int]) -> FloatArray:
        """Return each query's share of a batch whose groupings made so many partials; together they are one."""
        made = np.maximum(1.0, np.asarray(partials, np.float64))  # rows were looked at for one that made none, too
        shares = np.zeros(len(self.definitions))
        np.add.at(shares, self.query, self.part * made[self.member])
        total = shares.sum()
        return np.asarray(shares / total if total else shares, np.float64)
