"""Answers each window by merging every partial in it, as the papers do, and counts the operations.

This is the final step of Krishnamurthy, Wu and Franklin (2006, §3.2) as written: the strategy to compare with, and the
one that needs no more room than its partials. Windows that are asked for together and overlap are answered by one
scan, as in Golab, Bijay and Özsu (2006, §2.2); both counts are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from penstock.evaluate.components.numbers import Component, Values
from penstock.evaluate.components.states import bytes_of
from penstock.evaluate.windows.partials import (
    Distinct,
    Merged,
    Partials,
    compact,
    concatenate,
    fill_empty,
    join_planes,
    no_partials,
    reduce_runs,
    run_starts,
    sort_pairs,
)
from penstock.evaluate.windows.sweeps import Sweep, sweeps
from penstock.model.arrays import Int64Array

SAVED_STATES = 8  # partials that a sweep must save a window to be worth its steps,
SAVED_NUMBERS = 1_000  # and without states
MOST_CELLS = 4_000_000  # temporary cells of one step


class ScanLane:
    """The partials of one predicate of one grouping, as rows sorted by slice label and group."""

    def __init__(self, components: Sequence[Component]) -> None:
        """Begin without partials; the first component counts rows."""
        self.components = tuple(components)
        self.operations = 0
        self.window_partials = 0  # what merging every window by itself would have taken
        self._stored = no_partials(self.components)
        self._pending: list[Partials] = []
        self._horizon: int | None = None

    def add(
        self, labels: Int64Array, groups: Int64Array, values: Sequence[Values], distinct: Distinct | None = None
    ) -> None:
        """Take partials in any order; those of one label and group combine."""
        planes = tuple(c.planes_of(v) for c, v in zip(self.components, values, strict=True))
        self.add_partials(Partials(labels, groups, planes))

    def add_partials(self, partials: Partials) -> None:
        """Take partials that are split into planes already."""
        if self._horizon is not None and len(partials) and partials.labels.min() < self._horizon:
            partials = partials.take(partials.labels >= self._horizon)
        if len(partials):
            self._pending.append(partials)

    def evaluate(
        self,
        starts: Int64Array,
        ends: Int64Array,
        *,
        keep_empty: bool = False,
        ranks: Int64Array | None = None,
        wanted: Sequence[Component] | None = None,
    ) -> Merged:
        """Merge for each evaluation all partials with start <= label < end, group by group, in order of their ranks."""
        stored, components = self._settle(), self.components
        if wanted is not None:
            planes = dict(zip(components, stored.planes, strict=True))
            components = tuple(wanted)
            stored = Partials(stored.labels, stored.groups, tuple(planes[c] for c in components))
        lo = np.searchsorted(stored.labels, starts)
        hi = np.maximum(lo, np.searchsorted(stored.labels, ends))
        self.window_partials += int((hi - lo).sum())
        found = sweeps(lo, hi) if _overlap(components, lo, hi) else []
        if found and _saves(components, stored, found, int((hi - lo).sum())):
            parts, operations = _swept(components, stored, found, ranks)
        else:
            parts = [_scan(components, stored, at, (lo, hi), ranks) for at in _portions(hi - lo)]
            operations = int((hi - lo).sum())
        self.operations += operations
        merged = _joined(components, parts)
        return fill_empty(components, merged, len(starts)) if keep_empty else merged

    def expire(self, before: int) -> None:
        """Forget labels before a time; they are never asked for again."""
        self._horizon = before if self._horizon is None else max(before, self._horizon)
        stored = self._settle()
        first = int(np.searchsorted(stored.labels, self._horizon))
        if first:
            self._stored = stored.take(np.arange(first, len(stored)))

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Forget all partials but some of those that :meth:`stored` lists."""
        if not mask.all():
            self._stored = self._settle().take(np.flatnonzero(mask))

    def reopen(self, since: int) -> None:
        """Take labels from a time on again: somebody new needs them, and none of them came yet."""
        if self._horizon is not None:
            self._horizon = min(since, self._horizon)

    def hold(self, components: Sequence[Component]) -> ScanLane:
        """Keep just these components; what is stored holds nothing of the new ones."""
        stored = self._settle()
        known = dict(zip(self.components, stored.planes, strict=True))
        planes = tuple(known[c] if c in known else c.identities(len(stored)) for c in components)
        self._stored = Partials(stored.labels, stored.groups, planes)
        self.components = tuple(components)
        return self

    def stored(self) -> Partials:
        """Return all partials."""
        return self._settle()

    def groups(self) -> Int64Array:
        """Return the groups of the partials."""
        return np.unique(self._settle().groups)

    def renumber(self, moved: Int64Array) -> None:
        """Take groups' new numbers, in the same order as the old ones: what is sorted stays so."""
        stored = self._settle()
        self._stored = Partials(stored.labels, moved[stored.groups], stored.planes)

    @property
    def state_bytes(self) -> int:
        """Return about how much memory states take."""
        states = [place for place, component in enumerate(self.components) if component.is_state]
        parts = [self._stored, *self._pending]
        return sum(bytes_of(part.planes[place][0]) for part in parts for place in states)

    @property
    def nbytes(self) -> int:
        """Return about how much memory the lane takes."""
        return sum(part.nbytes for part in (self._stored, *self._pending)) + self.state_bytes

    @property
    def cells(self) -> int:
        """Return how many partials are stored."""
        return len(self._settle())

    def _settle(self) -> Partials:
        """Sort what has arrived into what is stored."""
        if self._pending:
            self._stored = compact(self.components, concatenate([self._stored, *self._pending]))
            self._pending = []
        return self._stored


def _scan(
    components: Sequence[Component],
    stored: Partials,
    at: Int64Array,
    between: tuple[Int64Array, Int64Array],
    ranks: Int64Array | None,
) -> tuple[Int64Array, Int64Array, Partials]:
    """Merge the windows of some evaluations: list their partials, sort by group or its rank, combine runs."""
    lo, hi = between
    lengths = (hi - lo)[at]
    skipped = np.repeat(lo[at] - (np.cumsum(lengths) - lengths), lengths)
    evaluation = np.repeat(at, lengths)
    listed = stored.take(np.arange(int(lengths.sum())) + skipped)
    order = sort_pairs(evaluation, listed.groups if ranks is None else ranks[listed.groups])
    if order is not None:
        evaluation, listed = evaluation[order], listed.take(order)
    runs = run_starts(evaluation, listed.groups)
    planes = tuple(reduce_runs(c, p, runs) for c, p in zip(components, listed.planes, strict=True))
    held = np.flatnonzero(planes[0][0] > 0)
    reduced = Partials(listed.labels[runs], listed.groups[runs], planes).take(held)
    return evaluation[runs][held], reduced.groups, reduced


def _worth(components: Sequence[Component]) -> int:
    """Return how many partials a sweep must save a window: numbers are combined in array operations, states are not."""
    return SAVED_STATES if any(component.is_state for component in components) else SAVED_NUMBERS


def _overlap(components: Sequence[Component], lo: Int64Array, hi: Int64Array) -> bool:
    """Tell whether windows overlap so much that it may be worth a look."""
    lengths = hi - lo
    return len(lo) > 1 and int(lengths.sum() - (hi.max() - lo.min())) >= _worth(components) * len(lo)


def _saves(components: Sequence[Component], stored: Partials, found: Sequence[Sweep], alone: int) -> bool:
    """Tell whether sweeps merge so many partials fewer that this is worth their steps, which are taken one by one."""
    steps = sum(hi - lo for sweep in found for lo, hi in (*sweep.backward(), *sweep.forward()))
    groups = len(stored) / max(1, len(np.unique(stored.labels)))  # that are put together anew for each window
    windows, crossing = sum(len(sweep.stretches) for sweep in found), sum(sweep.crossing for sweep in found)
    return alone - steps - crossing * groups >= _worth(components) * windows


def _swept(
    components: Sequence[Component], stored: Partials, found: Sequence[Sweep], ranks: Int64Array | None
) -> tuple[list[tuple[Int64Array, Int64Array, Partials]], int]:
    """Merge windows that overlap in one pass each; return them in order, and how many partials were merged.

    What lies between two starts, or two ends, is merged first, for all sweeps at once.
    """
    steps = [step for sweep in found for step in (*sweep.backward(), *sweep.forward())]
    lo, hi = (np.array([step[side] for step in steps], np.int64) for side in (0, 1))
    scanned = [_scan(components, stored, at, (lo, hi), ranks) for at in _portions(hi - lo)]
    number, groups = (np.concatenate([part[side] for part in scanned]) for side in (0, 1))
    planes = join_planes([part[2].planes for part in scanned])
    whole = Partials(groups if ranks is None else ranks[groups], groups, planes)
    bounds = np.searchsorted(number, np.arange(len(steps) + 1)).tolist()
    taken = (whole.take(np.arange(first, last)) for first, last in pairwise(bounds))
    windows, operations = dict[int, Partials](), int((hi - lo).sum())
    for sweep in found:
        before, behind = dict[int, list[Partials]](), dict[int, list[Partials]]()
        for start, end in sweep.backward():
            before[start] = [_put_together(components, [next(taken), *before.get(end, [])])]
        for start, end in sweep.forward():
            behind[end] = [_put_together(components, [*behind.get(start, []), next(taken)])]
        for one in sweep.stretches:
            parts = [*before.get(one.lo, []), *behind.get(one.hi, [])] or [whole.take(np.arange(0))]
            operations += sum(len(part) for part in parts[1:])
            windows |= dict.fromkeys(one.asked_by, _put_together(components, parts))
    return [(np.full(len(windows[i]), i), windows[i].groups, windows[i]) for i in range(len(windows))], operations


def _put_together(components: Sequence[Component], parts: Sequence[Partials]) -> Partials:
    """Combine partials of the same groups, in order of time; they stay in order of their ranks."""
    return parts[0] if len(parts) == 1 else compact(components, concatenate(parts))


def _joined(components: Sequence[Component], parts: list[tuple[Int64Array, Int64Array, Partials]]) -> Merged:
    """Put the answers of all portions together."""
    planes = join_planes([part.planes for _, _, part in parts])
    evaluation, group = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return Merged(evaluation, group, tuple(c.values_from(p) for c, p in zip(components, planes, strict=True)))


def _portions(lengths: Int64Array) -> Iterator[Int64Array]:
    """Cut evaluations into consecutive portions of a bounded number of partials, at least one portion."""
    edges = np.flatnonzero(np.diff(np.cumsum(lengths) // MOST_CELLS)) + 1
    yield from np.split(np.arange(len(lengths)), edges)
