"""Strands and the price of each step come in; what a tree costs a second of event time goes out.

Two prices of the same form. `UnitCosts` is Eq. 1 to 5 of Guirguis et al. (2011): a row and a merged slice cost one
each, so a tree costs λ + E·Ω. `MeasuredCosts` asks what this engine does: a row finds its slice in every tree and is
copied for every grouping of it, every slice makes a partial for each group and fragment that holds a row of it and has
a cell for every group, and the kernel answers a window from two prefixes, from a tree of partials, or slice by slice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from penstock.model.duration import SECOND
from penstock.share.weave.strands import FloatArray, Places, Strand


class Weighing(Protocol):
    """The costs of trees, one a row; trees are merged into one another."""

    def knows(self, strand: Strand) -> bool:
        """Tell whether rows can hold a strand."""

    def costs(self, rates: FloatArray, rows: Places) -> FloatArray:
        """Return what trees with these edge rates cost."""

    def merged(self, row: int, others: Places, rates: FloatArray) -> FloatArray:
        """Return what a tree would cost together with each of some others; ``rates`` are those of the unions."""

    def merge(self, row: int, other: int) -> None:
        """Let a tree take another one's strands."""

    def put(self, row: int, strands: Sequence[Strand]) -> None:
        """Let a tree hold just these strands."""


class Costs(Protocol):
    """Prices, from which a weighing of trees is made."""

    def weighing(self, strands: Sequence[Strand], rows: int) -> Weighing:
        """Make room for trees of such strands, none of which is held yet."""


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """The paper's own: aggregate operations per second at an input rate λ."""

    rows_per_second: float

    def weighing(self, strands: Sequence[Strand], rows: int) -> Weighing:
        """Weigh trees by λ + E·Ω (Eq. 1)."""
        return UnitWeighing(self.rows_per_second, np.zeros(rows))


@dataclass(slots=True)
class UnitWeighing:
    """Overlap factors by tree."""

    rows_per_second: float
    overlaps: FloatArray

    def knows(self, strand: Strand) -> bool:
        """Take every strand."""
        return True

    def costs(self, rates: FloatArray, rows: Places) -> FloatArray:
        """Return λ + E·Ω of trees (Eq. 1)."""
        return self.rows_per_second + rates * self.overlaps[rows]

    def merged(self, row: int, others: Places, rates: FloatArray) -> FloatArray:
        """Return λ + E·Ω of unions."""
        found: FloatArray = self.rows_per_second + rates * (self.overlaps[row] + self.overlaps[others])
        return found

    def merge(self, row: int, other: int) -> None:
        """Add up overlap factors (Eq. 2)."""
        self.overlaps[row] += self.overlaps[other]

    def put(self, row: int, strands: Sequence[Strand]) -> None:
        """Add up overlap factors (Eq. 2)."""
        self.overlaps[row] = sum(strand.overlap for strand in strands)


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds of this engine for one of each: what calibration measures."""

    scanned: float = 60e-9  # a row read, once for all trees
    sliced: float = 8e-9  # a row placed in its slice, for every tree
    copied: float = 90e-9  # a row copied and aggregated, for every grouping of a tree
    keyed: float = 150e-9  # more than that where the grouping has keys: they are hashed, and their groups are many
    partial: float = 3.0e-6  # a partial produced, shuffled, shipped and stored
    lone: float = 6.0e-6  # the same where a slice has no other: without keys, less is done at once
    cell: float = 10e-9  # a group in a slice of a lane, with rows or without: room for it is made and added up
    merged: float = 40e-9  # a partial merged into an answer
    evaluation: float = 2.0e-6  # a window of a group answered, whatever it merges
    batch: float = 0.2  # a batch, once for all trees
    tree: float = 2.0e-3  # a tree of a batch: planned, its partials sorted into lanes, its windows found


DEFAULT_RATES: Final = Rates()


@dataclass(frozen=True, slots=True)
class Load:
    """What a stream brings a second of event time, groups of each grouping, fragments that conditions make."""

    rows_per_second: float
    groups: tuple[float, ...] = (1.0,)
    fragments_per_condition: float = 1.0  # where a tree has several; 1: they lie within one another
    batches_per_second: float = 0.0
    filled: tuple[float, ...] = ()  # groups that rows fall into as if alike; empty: all of them

    def filling(self) -> tuple[float, ...]:
        """Return, for each grouping, how many groups rows fall into."""
        return self.filled or self.groups


@dataclass(frozen=True, slots=True)
class MeasuredCosts:
    """Seconds of work per second of event time."""

    rates: Rates
    load: Load

    def weighing(self, strands: Sequence[Strand], rows: int) -> Weighing:
        """Weigh trees by rows copied, partials made and windows answered."""
        conditions = 2 * (1 + max((s.condition for s in strands), default=0))  # some may come
        held = [np.zeros((rows, conditions), np.bool_) for _ in self.load.groups]
        return MeasuredWeighing(self.rates, self.load, np.zeros((rows, 4)), held)


@dataclass(slots=True)
class MeasuredWeighing:
    """For each tree: what its evaluations cost, and the conditions it holds under each grouping."""

    rates: Rates
    load: Load
    answered: FloatArray  # [tree, (fixed, by log₂ of the edge rate, its part of the ranges, by the edge rate)]
    held: list[np.ndarray]  # grouping → [tree, condition]

    def knows(self, strand: Strand) -> bool:
        """Take strands whose condition has a number here."""
        return strand.grouping < len(self.held) and strand.condition < self.held[0].shape[1]

    def costs(self, rates: FloatArray, rows: Places) -> FloatArray:
        """Return seconds a second of trees."""
        return self._cost(rates, self.answered[rows], [part[rows] for part in self.held])

    def merged(self, row: int, others: Places, rates: FloatArray) -> FloatArray:
        """Return seconds a second of unions."""
        answered = self.answered[row] + self.answered[others]
        return self._cost(rates, answered, [part[row] | part[others] for part in self.held])

    def merge(self, row: int, other: int) -> None:
        """Add up evaluations, and hold the conditions of both."""
        self.answered[row] += self.answered[other]
        for part in self.held:
            part[row] |= part[other]

    def put(self, row: int, strands: Sequence[Strand]) -> None:
        """Add up evaluations, and hold each condition once."""
        self.answered[row] = 0.0
        for part in self.held:
            part[row] = False
        for strand in strands:
            self.answered[row] += self._answering(strand)
            self.held[strand.grouping][row, strand.condition] = True

    def _answering(self, strand: Strand) -> FloatArray:
        """Return the evaluations of a strand, weighed by how they are merged."""
        answers = self.load.groups[strand.grouping] * SECOND / strand.window.slide_us
        long_s = strand.window.range_us / SECOND
        found = np.array([answers * self.rates.evaluation, 0.0, 0.0, 0.0])
        match strand.merging:
            case "prefix":
                found[0] += 2 * answers * self.rates.merged
            case "tree":
                found[1:3] = 2 * answers * self.rates.merged * np.array([1.0, np.log2(max(long_s, 1e-6))])
            case "scan":
                found[3] = answers * self.rates.merged * long_s
        return found

    def _cost(self, rates: FloatArray, answered: FloatArray, held: Sequence[np.ndarray]) -> FloatArray:
        """Add up rows copied, partials made and windows answered."""
        arriving, batches = self.load.rows_per_second, self.load.batches_per_second
        total = np.full(len(rates), arriving * self.rates.sliced + batches * self.rates.tree)
        for groups, filled, part in zip(self.load.groups, self.load.filling(), held, strict=True):
            conditions = part.sum(axis=1)
            several = np.maximum(1.0, self.load.fragments_per_condition * conditions)
            shards = filled * np.where(conditions > 1, several, conditions)
            made = partials_per_second(arriving, rates + batches, shards)  # a batch cuts slices that it does not end
            keyed = groups > 1
            copied = self.rates.copied + (self.rates.keyed if keyed else 0.0)
            made *= self.rates.partial if keyed else self.rates.lone
            cells = rates * conditions * (groups if keyed else 0.0)
            total += (conditions > 0) * arriving * copied + made + cells * self.rates.cell
        deep = np.maximum(0.0, answered[:, 1] * np.log2(np.maximum(rates, 1e-12)) + answered[:, 2])
        out: FloatArray = total + answered[:, 0] + deep + rates * answered[:, 3]
        return out


def partials_per_second(rows: float, rates: FloatArray, shards: FloatArray) -> FloatArray:
    """Return how many shards of slices hold a row, a second: rows thrown at random into a slice's shards."""
    room = rates * shards
    full = np.maximum(room, 1e-300)
    made: FloatArray = np.where(room > 0, full * -np.expm1(-rows / full), 0.0)
    return made


def shards_of(rows: float, slices: float, partials: float) -> float:
    """Return how many shards a slice has if rows thrown at random into those of some slices make so many partials.

    The inverse of `partials_per_second`: partials / rows = (1 - e^-x) / x where x are the rows a shard.
    """
    if not 0 < partials < rows:
        return float("inf") if partials else 0.0
    low, high = 0.0, rows / partials + 1.0  # rows a shard
    for _ in range(60):
        middle = (low + high) / 2
        more = -math.expm1(-middle) > middle * partials / rows
        low, high = (middle, high) if more else (low, middle)
    return rows / (slices * high)
