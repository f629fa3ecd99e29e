"""Estimates what a tree of queries costs for each second of event time.

Two prices of the same form. `UnitCosts` is Eq. 1 to 5 of Guirguis et al. (2011): a row and a merged slice cost one
each, so a tree costs λ + E·Ω. `MeasuredCosts` asks what this engine does: a row finds its slice in every tree and is
copied for every grouping of it, every slice makes a partial for each group and fragment that holds a row of it and has
a cell for every group, and the kernel answers a window from two prefixes, from a tree of partials, or slice by slice.
Trees share a machine: the more groups all of them fill at a time, the farther from the processor a row finds its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from penstock.model.arrays import FloatArray
from penstock.model.duration import SECOND
from penstock.share.weave.plan_queries import Places, PlanQuery


class Weighing(Protocol):
    """The costs of trees, one a row; trees are merged into one another."""

    def knows(self, woven_query: PlanQuery) -> bool:
        """Tell whether rows can hold a query."""

    def costs(self, rates: FloatArray, rows: Places) -> FloatArray:
        """Return what trees with these edge rates cost."""

    def merged(self, row: int, others: Places, rates: FloatArray) -> FloatArray:
        """Return what a tree would cost together with each of some others; ``rates`` are those of the unions."""

    def merge(self, row: int, other: int) -> None:
        """Let a tree take another one's queries."""

    def put(self, row: int, woven_queries: Sequence[PlanQuery]) -> None:
        """Let a tree hold just these queries."""

    def stand(self, rates: FloatArray, rows: Places) -> float:
        """Let prices be those of trees beside each other; return how many groups these fill at a time."""


class Costs(Protocol):
    """Prices, from which a weighing of trees is made."""

    def weighing(self, woven_queries: Sequence[PlanQuery], rows: int) -> Weighing:
        """Make room for trees of such queries, none of which is held yet."""

    def among(self, crowd: float) -> Costs:
        """Return the prices where all trees fill so many groups at a time."""


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """The paper's own: aggregate operations per second at an input rate λ."""

    rows_per_second: float

    def weighing(self, woven_queries: Sequence[PlanQuery], rows: int) -> Weighing:
        """Weigh trees by λ + E·Ω (Eq. 1)."""
        return UnitWeighing(self.rows_per_second, np.zeros(rows))

    def among(self, crowd: float) -> UnitCosts:
        """Leave prices alone."""
        return self


@dataclass(slots=True)
class UnitWeighing:
    """Overlap factors by tree."""

    rows_per_second: float
    overlaps: FloatArray

    def knows(self, woven_query: PlanQuery) -> bool:
        """Take every query."""
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

    def put(self, row: int, woven_queries: Sequence[PlanQuery]) -> None:
        """Add up overlap factors (Eq. 2)."""
        self.overlaps[row] = sum(woven_query.overlap for woven_query in woven_queries)

    def stand(self, rates: FloatArray, rows: Places) -> float:
        """Leave prices alone: operations are as many wherever they are done."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds of this engine for one of each: what calibration measures."""

    scanned: float = 40e-9  # a row read, once for all trees
    sliced: float = 2e-9  # a row placed in its slice, for every tree
    copied: float = 22e-9  # a row copied and aggregated, for every grouping of a tree
    keyed: float = 30e-9  # more than that where the grouping has keys: they are hashed
    crowded: float = 60e-9  # more than that, at most, where groups are too many for the processor's own memory
    asked: float = 25e-9  # a row asked for a condition, in every tree that holds it; several are found by halving
    partial: float = 0.9e-6  # a partial produced, shuffled, shipped and stored
    lone: float = 1.0e-6  # the same where a slice has no other: without keys, less is done at once
    cell: float = 65e-9  # a group in a slice of a lane, with rows or without: room for it is made and added up
    merged: float = 1e-9  # a partial merged into an answer
    evaluation: float = 0.15e-6  # a group of a window answered, whatever it merges
    window: float = 1.1e-6  # a window answered, however many its groups
    batch: float = 0.1  # a batch, once for all trees
    several: float = 17e-3  # more for a batch whose rows are copied, or told apart by conditions: more is to be planned
    query: float = 20e-6  # a query of a batch: its windows are looked for
    tree: float = 0.3e-3  # a tree of a batch: its partials are sorted into lanes
    turn: float = 0.25e-3  # more for a tree that answers in a batch, however much

    def whatever(self, queries: int, *, plain: bool) -> float:
        """Return what a batch costs however its queries are put into trees; ``plain``: rows are in one lane only."""
        return self.batch + queries * self.query + (0.0 if plain else self.several)


DEFAULT_RATES: Final = Rates()
HALF_CROWDED: Final = 130_000.0  # groups filled at a time that make a row's group half as far as it can be


@dataclass(frozen=True, slots=True)
class Load:
    """What a stream brings a second of event time, groups of each grouping, fragments that conditions make."""

    rows_per_second: float
    groups: tuple[float, ...] = (1.0,)
    fragments_per_condition: float = 1.0  # where a tree has several; 1: they lie within one another
    batches_per_second: float = 0.0
    filled: tuple[float, ...] = ()  # groups that rows fall into as if alike; empty: all of them
    free: int | None = None  # condition that takes every row, and so asks for nothing
    crowd: float = 0.0  # groups that all trees fill at a time; at least those of a tree itself

    def filling(self) -> tuple[float, ...]:
        """Return, for each grouping, how many groups rows fall into."""
        return self.filled or self.groups


@dataclass(frozen=True, slots=True)
class MeasuredCosts:
    """Seconds of work per second of event time."""

    rates: Rates
    load: Load

    def weighing(self, woven_queries: Sequence[PlanQuery], rows: int) -> Weighing:
        """Weigh trees by rows copied, partials made and windows answered."""
        conditions = 2 * (1 + max((s.condition for s in woven_queries), default=0))  # some may come
        held = [np.zeros((rows, conditions), np.bool_) for _ in self.load.groups]
        return MeasuredWeighing(self.rates, self.load, np.zeros((rows, 5)), held, self.load.crowd)

    def among(self, crowd: float) -> MeasuredCosts:
        """Return the prices where all trees fill so many groups at a time."""
        return replace(self, load=replace(self.load, crowd=crowd))


@dataclass(slots=True)
class MeasuredWeighing:
    """For each tree: what its evaluations cost, and the conditions it holds under each grouping."""

    rates: Rates
    load: Load
    answered: FloatArray  # [tree, (fixed, by log₂ of the edge rate, its part of the ranges, by the edge rate, windows)]
    held: list[np.ndarray]  # grouping → [tree, condition]
    crowd: float

    def knows(self, woven_query: PlanQuery) -> bool:
        """Take queries whose condition has a number here."""
        return woven_query.grouping < len(self.held) and woven_query.condition < self.held[0].shape[1]

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

    def put(self, row: int, woven_queries: Sequence[PlanQuery]) -> None:
        """Add up evaluations, and hold each condition once."""
        self.answered[row] = 0.0
        for part in self.held:
            part[row] = False
        for woven_query in woven_queries:
            self.answered[row] += self._answering(woven_query)
            self.held[woven_query.grouping][row, woven_query.condition] = True

    def _answering(self, woven_query: PlanQuery) -> FloatArray:
        """Return the evaluations of a query, weighed by how they are merged."""
        windows, long_s = SECOND / woven_query.window.slide, woven_query.window.length / SECOND
        answers = self.load.groups[woven_query.grouping] * windows
        found = np.array([windows * self.rates.window + answers * self.rates.evaluation, 0.0, 0.0, 0.0, windows])
        match woven_query.merging:
            case "prefix":
                found[0] += 2 * answers * self.rates.merged
            case "tree":
                found[1:3] = 2 * answers * self.rates.merged * np.array([1.0, np.log2(max(long_s, 1e-6))])
            case "scan":
                found[3] = answers * self.rates.merged * long_s
        return found

    def stand(self, rates: FloatArray, rows: Places) -> float:
        """Count the groups that trees fill between two of their edges, and go by all of them from now on."""
        self.crowd = float(np.sum(self._filled(rates, [part[rows] for part in self.held])))
        return self.crowd

    def _filled(self, rates: FloatArray, held: Sequence[np.ndarray]) -> list[FloatArray]:
        """Return, by grouping, in how many shards of a slice of each tree rows of one batch fall."""
        cut = np.maximum(rates + self.load.batches_per_second, 1e-300)  # a batch cuts slices that it does not end
        found = []
        for filled, part in zip(self.load.filling(), held, strict=True):
            conditions = part.sum(axis=1)
            several = np.maximum(1.0, self.load.fragments_per_condition * conditions)
            shards = filled * np.where(conditions > 1, several, conditions)
            found.append(partials_per_second(self.load.rows_per_second, cut, shards) / cut)
        return found

    def _free(self, part: np.ndarray) -> np.ndarray | int:
        """Tell which trees hold the condition that asks for nothing; it may not have come yet."""
        free = self.load.free
        return 0 if free is None or free >= part.shape[1] else part[:, free]

    def _cost(self, rates: FloatArray, answered: FloatArray, held: Sequence[np.ndarray]) -> FloatArray:
        """Add up rows copied, partials made and windows answered."""
        arriving, batches = self.load.rows_per_second, self.load.batches_per_second
        total = np.full(len(rates), arriving * self.rates.sliced + batches * self.rates.tree)
        fills = self._filled(rates, held)
        crowd = np.maximum(self.crowd, np.sum(fills, axis=0))
        far = self.rates.keyed + self.rates.crowded * crowding(crowd)
        for groups, fill, part in zip(self.load.groups, fills, held, strict=True):
            conditions, keyed = part.sum(axis=1), groups > 1
            copied = self.rates.copied + (far if keyed else 0.0)
            made = (rates + batches) * fill * (self.rates.partial if keyed else self.rates.lone)
            cells = rates * conditions * (groups if keyed else 0.0)
            row = (conditions > 0) * copied + np.log2(1.0 + conditions - self._free(part)) * self.rates.asked
            total += arriving * row + made + cells * self.rates.cell
        deep = np.maximum(0.0, answered[:, 1] * np.log2(np.maximum(rates, 1e-12)) + answered[:, 2])
        turns = np.minimum(batches, answered[:, 4])
        out: FloatArray = total + answered[:, 0] + deep + rates * answered[:, 3] + turns * self.rates.turn
        return out


def crowding(groups: FloatArray) -> FloatArray:
    """Return how far a row's group is if so many are filled at a time, 0 to 1.

    Fitted to 3,000 to 2,000,000 groups: some are all in the processor's own memory, and soon after hardly any is.
    """
    squared = groups**2
    found: FloatArray = squared / (squared + HALF_CROWDED**2)
    return found


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
