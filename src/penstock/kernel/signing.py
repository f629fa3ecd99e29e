"""Replaces the cell numbers of a batch's partials by signatures, one bit for each condition.

Which conditions a cell stands for is worked out once, when it is first seen, and remembered as long as the plan is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.sorting import stable_order
from penstock.share.conditions.cells import NOBODY, CellPart, Cells, Signatures, signatures
from penstock.share.layout import Layout, Member
from penstock.share.partial_schema import (
    BASE_COUNT,
    CELL,
    COUNTED_ONCE,
    DOUBTED,
    GROUPING,
    LABEL,
    ROW_COUNT,
    failure_name,
    tried_name,
    word_name,
)
from penstock.share.plan import BITS_PER_WORD

LONE = 1  # the number of the rows that a grouping's only condition takes


@dataclass(frozen=True, slots=True)
class Sent:
    """What a batch's job sent to the driver."""

    partials: int = 0
    cells: int = 0  # distinct ones, fragments where these were told in the job already
    signatures: int = 0  # distinct ones
    bytes: int = 0
    rows: int = 0  # that the driver aggregated; 0: Spark aggregated, and sent partials


class FailedRows(Exception):
    """Some query takes a row on which one of its expressions fails: the batch must be run with care."""


@dataclass(slots=True)
class SeenCells:
    """The cells of one part seen so far, in order, with their signatures."""

    part: CellPart
    cells: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    words: Int64Array = field(init=False)
    failed: BoolArray = field(default_factory=lambda: np.empty(0, np.bool_))

    def __post_init__(self) -> None:
        """Start with none."""
        self.words = np.empty((0, self.part.words), np.int64)

    def look_up(self, cells: Int64Array) -> Signatures:
        """Return the signatures of cells, counted from 0; new ones are worked out."""
        distinct = np.unique(cells)
        new = distinct[~np.isin(distinct, self.cells, assume_unique=True)]
        if len(new):
            self._learn(new, signatures(self.part, new))
        place = np.searchsorted(self.cells, cells)
        return Signatures(self.words[place], self.failed[place])

    def _learn(self, new: Int64Array, found: Signatures) -> None:
        """Remember new cells."""
        cells = np.concatenate([self.cells, new])
        order = np.argsort(cells, kind="stable")
        self.cells = cells[order]
        self.words = np.concatenate([self.words, found.words])[order]
        self.failed = np.concatenate([self.failed, found.failed])[order]


class Signing:
    """Gives the partials of one layout their signatures."""

    def __init__(self, layout: Layout, cells: Cells, tried: Sequence[str]) -> None:
        """Prepare; ``tried`` are the expressions whose failures the columns ``e0``… count."""
        self.layout, self.cells = layout, cells
        self.members = {m.number: m for m in layout.members if m.signed}
        self.seen = {
            (m, i): SeenCells(p) for m in self.members for i, p in enumerate(cells.parts[m]) if p.numbers is None
        }
        self.tried = list(tried)
        self.users = [[_users(layout, member, text) for text in self.tried] for member in layout.members]
        self.copied = any(len(parts) > 1 for parts in cells.parts)
        self.sent = Sent()  # by the last batch

    def sign(self, partials: pa.Table) -> pa.Table:
        """Put signatures in place of cells; raise FailedRows if a query fails on a row that it takes."""
        rows, size = partials.num_rows, partials.nbytes
        numbers = _numbers(partials, GROUPING, rows)
        valid = partials[LABEL].is_valid().to_numpy()
        words, told = np.zeros((rows, self.layout.words), np.int64), 0
        once = np.ones(rows, np.bool_)
        if self.members:
            cells = _numbers(partials, CELL, rows)
            order, starts = by_number(numbers, len(self.layout.members))
            for member in self.members.values():
                own = order[starts[member.number] : starts[member.number + 1]]
                chosen = own[cells[own] != NOBODY]
                words[chosen, : member.grouping.words], once[chosen] = self._signed(member, cells[chosen])
            told = distinct_rows(cells[:, None])
            partials = partials.drop_columns([CELL])
        self.sent = Sent(rows, told, distinct_rows(words), size)
        partials = _without_doubts(partials)
        self._check_tried(partials, numbers, words, valid)
        partials = self._counted_once(partials, once)
        for word in range(self.layout.words):
            partials = partials.append_column(word_name(word), pa.array(words[:, word]))
        if not self.copied or (counted := once | (words != 0).any(axis=1)).all():
            return partials
        return partials.filter(pa.array(counted))

    def words(self, member: Member, cells: Int64Array) -> Int64Array:
        """Return the signatures of a grouping's cells, [cell, word]; raise FailedRows as :meth:`sign` would."""
        found = np.zeros((len(cells), member.grouping.words), np.int64)
        chosen = np.flatnonzero(cells != NOBODY)
        found[chosen] = self._signed(member, cells[chosen])[0]
        return found

    def _signed(self, member: Member, cells: Int64Array) -> tuple[Int64Array, BoolArray]:
        """Look up the words of one grouping's cells; also tell which are of its first part."""
        parts = self.cells.parts[member.number]
        if not parts:
            return np.ones((len(cells), 1), np.int64), np.ones(len(cells), np.bool_)
        place = np.searchsorted([part.first for part in parts], cells, side="right") - 1
        words = np.zeros((len(cells), member.grouping.words), np.int64)
        for number, part in enumerate(parts):
            rows = np.flatnonzero(place == number)
            if not len(rows):
                continue
            own = cells[rows] - part.first
            if part.fragments is not None:
                words[rows], failed = part.fragments.words[own], part.fragments.failed[own]
            else:
                found = self.seen[member.number, number].look_up(own)
                words[rows], failed = found.words, found.failed
            if failed.any():
                raise FailedRows
        return words, place == 0

    def _check_tried(self, partials: pa.Table, numbers: Int64Array, words: Int64Array, valid: BoolArray) -> None:
        """Raise if an expression failed on a row of a query that computes it."""
        for place in range(len(self.tried)):
            failing = np.flatnonzero((partials[tried_name(place)].to_numpy() > 0) & valid)
            for member in self.layout.members:
                used, rows = self.users[member.number][place], failing[numbers[failing] == member.number]
                if used is not None and len(rows) and (not member.signed or (words[rows, : len(used)] & used).any()):
                    raise FailedRows

    def _counted_once(self, partials: pa.Table, once: BoolArray) -> pa.Table:
        """Let only a row's first copy count for the stream."""
        partials = partials.drop_columns([tried_name(i) for i in range(len(self.tried))])
        if not self.copied:
            return partials
        if BASE_COUNT not in partials.column_names:
            partials = partials.append_column(BASE_COUNT, partials[ROW_COUNT])
        counts = [*COUNTED_ONCE, *(failure_name(d, ROW_COUNT) for d in self.layout.attempts)]
        for name in counts:
            if name in partials.column_names:
                counted = pa.array(np.where(once, partials[name].to_numpy(), 0))
                partials = partials.set_column(partials.column_names.index(name), name, counted)
        return partials


def by_number(numbers: npt.NDArray[np.integer[Any]], count: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return an order of rows by numbers below a count, and where those of each number start in it."""
    order = stable_order(numbers, count)
    return order, np.searchsorted(numbers[order], np.arange(count + 1))


def _without_doubts(partials: pa.Table) -> pa.Table:
    """Raise if a column could not be computed of some row: who reads it must be asked one by one."""
    if DOUBTED not in partials.column_names:
        return partials
    if (partials[DOUBTED].to_numpy() > 0).any():
        raise FailedRows
    return partials.drop_columns([DOUBTED])


def distinct_rows(words: Int64Array) -> int:
    """Count the distinct rows of words."""
    columns = {str(word): words[:, word] for word in range(words.shape[1])}
    return pa.table(columns).group_by(list(columns)).aggregate([]).num_rows if columns else 0


def _numbers(partials: pa.Table, name: str, rows: int) -> Int64Array:
    """Read a column of numbers; zeros if there is none."""
    if name not in partials.column_names:
        return np.zeros(rows, np.int64)
    return np.asarray(partials[name].to_numpy(), np.int64)


def _users(layout: Layout, member: Member, text: str) -> Int64Array | None:
    """Return which conditions of a grouping compute an expression, as words; None: none does."""
    grouping = member.grouping
    each = zip(grouping.components, grouping.users, strict=True)
    users = {condition for component, used in each if text in component.arguments for condition in used}
    for fed in member.feeds:  # a key that a feeder has for others is not theirs
        if text in fed.grouping.keys:
            users |= set(fed.conditions)
    if not users:
        return None
    words = [0] * max(1, grouping.words)
    for condition in users:
        words[condition // BITS_PER_WORD] |= 1 << (condition % BITS_PER_WORD)
    return np.array(words, np.int64)
