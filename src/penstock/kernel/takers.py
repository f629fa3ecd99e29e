"""Tells which continuous queries take a row, by the fragments that the row is in.

Each condition is in one part of the cells of its plan, and each row in one fragment, or cell, of every part. What a
fragment stands for is worked out when it is first seen, and stored once as long as the plan is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.kernel.conjunction_bits import ConjunctionBits, conjunction_bits
from penstock.model.arrays import BoolArray, Int64Array
from penstock.share.conditions.axes import Axis
from penstock.share.conditions.cells import CellPart, Cells, Signatures, failing, signatures
from penstock.share.plan import BITS_PER_WORD

AT_ONCE = 1_024  # fragments that are unpacked together


@dataclass(slots=True)
class PartTakers:
    """The fragments of one part that were seen, in order, with a bit for each condition of the part."""

    conditions: int
    fragments: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    bits: np.ndarray[tuple[int, int], np.dtype[np.uint8]] = field(init=False)

    def __post_init__(self) -> None:
        """Start with none."""
        self.bits = np.empty((0, -(-self.conditions // 8)), np.uint8)

    def unknown(self, fragments: Int64Array) -> Int64Array:
        """Choose the distinct fragments that were not seen yet."""
        distinct = np.unique(fragments)
        return distinct[~np.isin(distinct, self.fragments, assume_unique=True)]

    def learn(self, fragments: Int64Array, bits: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> None:
        """Take fragments and the conditions that take them."""
        known = np.concatenate([self.fragments, fragments])
        order = np.argsort(known, kind="stable")
        self.fragments, self.bits = known[order], np.concatenate([self.bits, bits])[order]

    def places(self, fragments: Int64Array) -> Int64Array:
        """Find fragments among those that are known; −1: no condition takes them."""
        if not len(self.fragments):
            return np.full(len(fragments), -1, np.int64)
        at = np.minimum(np.searchsorted(self.fragments, fragments), len(self.fragments) - 1)
        return np.where(self.fragments[at] == fragments, at, -1)

    def takes(self, condition: int, fragments: Int64Array) -> BoolArray:
        """Tell which fragments a condition takes, by its place in the part."""
        byte, bit = divmod(condition, 8)
        column = (self.bits[:, byte] >> bit) & 1 if len(self.bits) else np.empty(0, np.uint8)
        places = self.places(fragments)
        return np.asarray((places >= 0) & np.append(column, 0)[places].astype(np.bool_), np.bool_)

    def pairs(self, fragments: Int64Array) -> tuple[Int64Array, Int64Array]:
        """List all pairs of a row, by its fragment, and a condition that takes it, by its place in the part."""
        places = self.places(fragments)
        used, inverse = np.unique(places, return_inverse=True)
        counts, listed = self._listed(used)
        starts = np.concatenate([[0], np.cumsum(counts)])
        lengths = counts[inverse]
        rows = np.repeat(np.arange(len(fragments)), lengths)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return rows, listed[np.repeat(starts[inverse], lengths) + within]

    def _listed(self, used: Int64Array) -> tuple[Int64Array, Int64Array]:
        """List the conditions of some fragments, one after the other, and how many each has."""
        counts, listed = np.zeros(len(used), np.int64), [np.empty(0, np.int64)]
        for start in range(0, len(used), AT_ONCE):
            some = used[start : start + AT_ONCE]
            found = np.unpackbits(self.bits[np.maximum(some, 0)], axis=1, bitorder="little")[:, : self.conditions]
            found[some < 0] = 0
            place, condition = np.nonzero(found)
            counts[start : start + AT_ONCE] = np.bincount(place, minlength=len(some))
            listed.append(condition.astype(np.int64))
        return counts, np.concatenate(listed)


@dataclass(frozen=True, slots=True)
class Learned:
    """What was worked out for the rows of a batch."""

    added: pa.Table  # part, fragment, bits: those that were not known before
    failed: tuple[int, ...]  # conditions that fail on some row, or may be among those that do


class Takers:
    """Which conditions take the fragments of one plan."""

    def __init__(self, sizes: Sequence[int]) -> None:
        """Start with nothing seen; ``sizes`` are the numbers of conditions of the parts."""
        self.parts = [PartTakers(size) for size in sizes]
        self._together: dict[int, ConjunctionBits | None] = {}

    def together(self, number: int, part: CellPart, axes: Sequence[Axis]) -> ConjunctionBits | None:
        """Return what evaluates the conditions of a part together; None: they are evaluated one by one."""
        if number not in self._together:
            self._together[number] = conjunction_bits(part, axes) if part.numbers is None else None
        return self._together[number]

    def learn(self, told: Cells, rows: Mapping[int, Int64Array]) -> Learned:
        """Work out the fragments of a batch's rows that were not seen yet; ``rows`` are fragments by part."""
        added: list[pa.Table] = []
        failed: set[int] = set()
        for number, (cells, known) in enumerate(zip(told.parts[0], self.parts, strict=True)):
            new = known.unknown(rows[number][rows[number] > 0])
            if not len(new):
                continue
            if (together := self.together(number, cells, told.axes)) is not None:
                bits = together.bits(new - cells.first)
            else:
                found = _signed(cells, own := new - cells.first)
                failed |= _failing(cells, own[found.failed])
                bits = _bits(cells, found)
            if not failed:
                taken = bits.any(axis=1)
                added.append(fragments_table(number, new[taken], bits[taken]))
                known.learn(new[taken], bits[taken])
        return Learned(pa.concat_tables(added) if added else fragments_table(0, _NONE, _NO_BITS), tuple(sorted(failed)))

    def load(self, added: pa.Table) -> None:
        """Take fragments as they were stored."""
        parts = np.asarray(added["part"].to_numpy(), np.int64)
        for number in np.unique(parts).tolist():
            mine = added.filter(pa.array(parts == number))
            bits = np.frombuffer(b"".join(mine["bits"].to_pylist()), np.uint8).reshape(mine.num_rows, -1)
            self.parts[number].learn(np.asarray(mine["fragment"].to_numpy(), np.int64), bits)

    def nobody(self, rows: Mapping[int, Int64Array]) -> BoolArray:
        """Tell the rows that no condition takes."""
        taken = np.zeros(len(next(iter(rows.values()))), np.bool_)
        for number, known in enumerate(self.parts):
            some = known.bits.any(axis=1) if len(known.bits) else np.empty(0, np.bool_)
            places = known.places(rows[number])
            taken |= (places >= 0) & np.append(some, False)[places]
        return ~taken


def fragments_table(
    part: int, fragments: Int64Array, bits: np.ndarray[tuple[int, int], np.dtype[np.uint8]]
) -> pa.Table:
    """Write fragments of one part as a table."""
    packed = pa.array([row.tobytes() for row in bits], pa.binary())
    return pa.table({"part": pa.array(np.full(len(fragments), part, np.int32)), "fragment": fragments, "bits": packed})


_NONE = np.empty(0, np.int64)
_NO_BITS = np.empty((0, 0), np.uint8)


def _signed(part: CellPart, own: Int64Array) -> Signatures:
    """Return the signatures of a part's numbers, counted from 0."""
    if part.fragments is not None:
        return Signatures(part.fragments.words[own], part.fragments.failed[own])
    return signatures(part, own)


def _bits(part: CellPart, found: Signatures) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Pack the bits of a part's own conditions, taken from words of those of all."""
    places = np.asarray(part.conditions, np.int64)
    columns = (places // BITS_PER_WORD) * 64 + places % BITS_PER_WORD
    packed = [np.empty((0, -(-len(places) // 8)), np.uint8)]
    for words in _cut(np.ascontiguousarray(found.words)):
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
        packed.append(np.packbits(bits[:, columns], axis=1, bitorder="little"))
    return np.concatenate(packed)


def _cut(words: Int64Array) -> Iterator[Int64Array]:
    """Cut words into pieces that are unpacked at once."""
    for start in range(0, len(words), AT_ONCE):
        yield words[start : start + AT_ONCE]


def _failing(part: CellPart, own: Int64Array) -> set[int]:
    """List the conditions that fail in some cell of some numbers."""
    if not len(own):
        return set()
    if part.numbers is not None:
        own = np.flatnonzero(np.isin(part.numbers, own + part.first))
    return failing(part, own)
