"""Estimates what a tree of queries costs for each second of event time.

Two prices of the same form. `UnitCosts` is Eq. 1 to 5 of Guirguis et al. (2011): a row and a merged slice cost one
each, so a tree costs λ + E·Ω. `MeasuredCosts` asks what this engine does: a row finds its slice in every tree and is
copied for every grouping of it, every slice makes a partial for each group and fragment that holds a row of it and has
a cell for every group, and the kernel answers a window from two prefixes, from a tree of partials, or slice by slice.
Where rows are sent to the driver (decision 0033), they are not copied but sorted, for every grouping of a tree.
Trees share a machine: the more groups all of them fill at a time, the farther from the processor a row finds its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

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
    component: float = 4e-9  # a component of the job updated by a copy of a row, whichever grouping asks for it
    column: float = 40e-9  # a component of a partial sent and stored
    state: float = 1.5e-6  # a state of a partial: a table or a sketch is written, sent and stored as one object
    sorted: float = 0.16e-6  # a row that was sent, sorted and counted for a grouping of a tree
    reduced: float = 25e-9  # a component made of a row that was sent
    tabled: float = 0.2e-6  # a state made of a row that was sent
    filed: float = 0.4e-6  # a partial made of rows that were sent, and stored
    member: float = 1.2e-3  # a grouping of a tree in a batch whose rows were sent: arrays are made for it

    def whatever(self, queries: int, *, plain: bool) -> float:
        """Return what a batch costs however its queries are put into trees; ``plain``: rows are in one lane only."""
        return self.batch + queries * self.query + (0.0 if plain else self.several)


Words = npt.NDArray[np.uint64]
WORD: Final = 64  # bits
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
    numbers: tuple[float, ...] = ()  # components that each grouping asks for and that are numbers; empty: not known
    states: tuple[float, ...] = ()  # … and that are states
    rows_sent: bool = False  # to the driver, which aggregates them

    @property
    def components(self) -> float:
        """Return how many components the job has: in Spark's aggregation a copy of a row updates all of them."""
        return max(self.numbers, default=0.0) + sum(self.states)

    def asked(self, grouping: int) -> tuple[float, float]:
        """Return how many numbers and states a grouping asks for."""
        known = grouping < len(self.numbers)
        return (self.numbers[grouping], self.states[grouping]) if known else (0.0, 0.0)

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
        held = [np.zeros((rows, -(-conditions // WORD)), np.uint64) for _ in self.load.groups]
        asked = {s.grouping for s in woven_queries}
        return MeasuredWeighing(self.rates, self.load, np.zeros((rows, 5)), held, self.load.crowd, asked)

    def among(self, crowd: float) -> MeasuredCosts:
        """Return the prices where all trees fill so many groups at a time."""
        return replace(self, load=replace(self.load, crowd=crowd))


@dataclass(slots=True)
class MeasuredWeighing:
    """For each tree: what its evaluations cost, and the conditions it holds under each grouping."""

    rates: Rates
    load: Load
    answered: FloatArray  # [tree, (fixed, by log₂ of the edge rate, its part of the ranges, by the edge rate, windows)]
    held: list[Words]  # grouping → [tree, conditions, a bit each]
    crowd: float
    asked: set[int]  # groupings that some query has

    def knows(self, woven_query: PlanQuery) -> bool:
        """Take queries whose condition has a number here."""
        return woven_query.grouping < len(self.held) and woven_query.condition < WORD * self.held[0].shape[1]

    def costs(self, rates: FloatArray, rows: Places) -> FloatArray:
        """Return seconds a second of trees."""
        return self._cost(rates, self.answered[rows], {g: self.held[g][rows] for g in self.asked})

    def merged(self, row: int, others: Places, rates: FloatArray) -> FloatArray:
        """Return seconds a second of unions."""
        answered = self.answered[row] + self.answered[others]
        return self._cost(rates, answered, {g: self.held[g][row] | self.held[g][others] for g in self.asked})

    def merge(self, row: int, other: int) -> None:
        """Add up evaluations, and hold the conditions of both."""
        self.answered[row] += self.answered[other]
        for part in self.held:
            part[row] |= part[other]

    def put(self, row: int, woven_queries: Sequence[PlanQuery]) -> None:
        """Add up evaluations, and hold each condition once."""
        self.answered[row] = 0.0
        for part in self.held:
            part[row] = 0
        for woven_query in woven_queries:
            self.answered[row] += self._answering(woven_query)
            word, bit = divmod(woven_query.condition, WORD)
            self.held[woven_query.grouping][row, word] |= np.uint64(1 << bit)
            self.asked.add(woven_query.grouping)

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
        counts = {g: _count(self.held[g][rows]) for g in sorted(self.asked)}
        self.crowd = float(sum(np.sum(fill) for fill in self._filled(rates, counts).values()))
        return self.crowd

    def _filled(self, rates: FloatArray, counts: Mapping[int, FloatArray]) -> dict[int, FloatArray]:
        """Return, by grouping, in how many shards of a slice of each tree rows of one batch fall."""
        cut = np.maximum(rates + self.load.batches_per_second, 1e-300)  # a batch cuts slices that it does not end
        filling, found = self.load.filling(), {}
        for grouping, conditions in counts.items():
            several = np.maximum(1.0, self.load.fragments_per_condition * conditions)
            shards = filling[grouping] * np.where(conditions > 1, several, conditions)
            found[grouping] = partials_per_second(self.load.rows_per_second, cut, shards) / cut
        return found

    def _free(self, part: Words) -> FloatArray | float:
        """Tell which trees hold the condition that asks for nothing; it may not have come yet."""
        free = self.load.free
        if free is None or free >= WORD * part.shape[1]:
            return 0.0
        word, bit = divmod(free, WORD)
        found: FloatArray = ((part[:, word] >> np.uint64(bit)) & np.uint64(1)).astype(np.float64)
        return found

    def _cost(self, rates: FloatArray, answered: FloatArray, held: Mapping[int, Words]) -> FloatArray:
        """Add up rows copied or sorted, partials made and windows answered."""
        arriving, batches = self.load.rows_per_second, self.load.batches_per_second
        total = np.full(len(rates), arriving * self.rates.sliced + batches * self.rates.tree)
        counts = {grouping: _count(held[grouping]) for grouping in sorted(held)}
        fills = self._filled(rates, counts)
        crowd = np.maximum(self.crowd, np.sum(list(fills.values()), axis=0))
        far = self.rates.keyed + self.rates.crowded * crowding(crowd)
        for grouping, conditions in counts.items():
            keyed = self.load.groups[grouping] > 1
            row, partial, member = self._prices(grouping, far if keyed else np.zeros(1))
            made = (rates + batches) * fills[grouping] * partial
            cells = rates * conditions * (self.load.groups[grouping] if keyed else 0.0)
            asking = np.log2(1.0 + conditions - self._free(held[grouping])) * self.rates.asked
            there = conditions > 0
            total += arriving * (there * row + asking) + made + cells * self.rates.cell + there * batches * member
        deep = np.maximum(0.0, answered[:, 1] * np.log2(np.maximum(rates, 1e-12)) + answered[:, 2])
        turns = np.minimum(batches, answered[:, 4])
        out: FloatArray = total + answered[:, 0] + deep + rates * answered[:, 3] + turns * self.rates.turn
        return out

    def _prices(self, grouping: int, far: FloatArray) -> tuple[FloatArray, float, float]:
        """Return what a row and a partial of a grouping cost, and the grouping itself in a batch.

        Spark's aggregation updates every component of the job for every copy of a row; the driver makes only those
        that the grouping asks for.
        """
        rates, (numbers, states) = self.rates, self.load.asked(grouping)
        kept = numbers * rates.column + states * rates.state
        if self.load.rows_sent:
            row = rates.sorted + numbers * rates.reduced + states * rates.tabled
            return np.full(1, row), rates.filed + kept, rates.member
        row = rates.copied + self.load.components * rates.component
        lone = rates.partial if self.load.groups[grouping] > 1 else rates.lone
        return row + far, lone + kept, 0.0


def _count(part: Words) -> FloatArray:
    """Count the conditions of trees."""
    found: FloatArray = np.bitwise_count(part).sum(axis=1, dtype=np.float64)
    return found


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
