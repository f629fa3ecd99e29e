"""Remembers which slices hold rows of the stream, as exactly as the windows of each lane cut them.

Slices are known by their start, so a lane may read only those that were cut at all of its windows' edges: the slices of
its tree since it came there, and those of the trees where it was before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from penstock.model.arrays import Int64Array
from penstock.share.plan import LaneKey


class Presence:
    """The slices that hold rows: of each tree, and what lanes brought along from other trees."""

    def __init__(self) -> None:
        """Start with a stream without rows."""
        self._home: dict[LaneKey, str] = {}  # lane → tree
        self._slices: dict[str, dict[int, Int64Array]] = {}  # tree → starts of slices, by what time they were noted
        self._time = 0  # how often lanes have moved
        self._since: dict[LaneKey, int] = {}  # lane that moved → when it came to its tree
        self._brought: dict[LaneKey, Int64Array] = {}

    def settle(self, home: Mapping[LaneKey, str]) -> None:
        """Note the tree of every lane; lanes that move take along what they know, trees without lanes are forgotten."""
        moved = [key for key, tree in home.items() if self._home.get(key, tree) != tree]
        brought = {key: self.of(key) for key in moved}
        self._time += bool(moved)
        self._home = dict(home)
        self._since = {key: at for key, at in self._since.items() if key in home} | dict.fromkeys(moved, self._time)
        self._brought = {key: known for key, known in self._brought.items() if key in home} | brought
        trees = set(home.values())
        self._slices = {tree: known for tree, known in self._slices.items() if tree in trees}

    def note(self, tree: str, starts: Int64Array) -> None:
        """Remember that slices of a tree hold rows."""
        known = self._slices.setdefault(tree, {})
        known[self._time] = _together([known[self._time], starts] if self._time in known else [starts])

    def of(self, key: LaneKey) -> Int64Array:
        """Return the starts of the slices that hold rows, in order, as a lane's windows are cut."""
        tree, since = self._home.get(key), self._since.get(key, 0)
        found = [] if tree is None else [s for at, s in self._slices.get(tree, {}).items() if at >= since]
        found += [self._brought[key]] if key in self._brought else []
        return found[0] if len(found) == 1 else _together(found)

    def expire(self, floors: Mapping[LaneKey, int]) -> None:
        """Forget, lane by lane, the slices before the start of every window still to come."""
        needed: dict[str, int] = {}
        for key, floor in floors.items():
            tree = self._home[key]
            needed[tree] = min(floor, needed.get(tree, floor))
            if key in self._brought:
                self._brought[key] = _from(floor, self._brought[key])
        for tree in needed.keys() & self._slices.keys():
            rest = {at: _from(needed[tree], starts) for at, starts in self._slices[tree].items()}
            self._slices[tree] = {at: starts for at, starts in rest.items() if len(starts)}
        for key in [key for key in self._since if self._has_nothing_old(key)]:
            del self._since[key]
            self._brought.pop(key, None)

    def _has_nothing_old(self, key: LaneKey) -> bool:
        """Tell whether nothing is left of the time before a lane came to its tree."""
        noted: Collection[int] = self._slices.get(self._home[key], {})
        return not len(self._brought.get(key, ())) and all(at >= self._since[key] for at in noted)


class NothingKept(Presence):
    """What is kept where every window holds rows: nothing."""

    def note(self, tree: str, starts: Int64Array) -> None:
        """Pass over slices."""


def _from(floor: int, starts: Int64Array) -> Int64Array:
    """Return the slices that start at a time or later."""
    return starts[np.searchsorted(starts, floor) :]


def _together(starts: Iterable[Int64Array]) -> Int64Array:
    """Return starts of slices in order, each once."""
    return np.unique(np.concatenate([np.empty(0, np.int64), *starts]))
