"""Tells which continuous queries take a row, by the fragments that the row is in.

Each condition is in one part of the cells of its plan, and each row in one fragment, or cell, of every part. What a
fragment stands for is worked out when it is first seen, and stored once as long as the plan is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from penstock.share.conditions.axes import Axis
from penstock.share.conditions.cells import CellPart, Cells, Signatures, failing, signatures
from penstock.share.conditions.conjunction_bits import Bits, ConjunctionBits, conjunction_bits
from penstock.share.plan import BITS_PER_WORD

AT_ONCE: Final = 1_024  # fragments that are unpacked together
_NOWHERE: Final = np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class KnownFragments:
    """Fragments in order, and the conditions that take each, one fragment's after the other's."""

    fragments: Int64Array
    starts: Int64Array  # of a fragment's conditions; one more at the end
    conditions: Int32Array

    def __len__(self) -> int:
        """Count the fragments."""
        return len(self.fragments)

    @property
    def counts(self) -> Int64Array:
        """Count the conditions of each fragment."""
        return np.diff(self.starts)

    def places(self, fragments: Int64Array) -> Int64Array:
        """Find fragments among those that are known; −1: no condition takes them."""
        if not len(self):
            return np.full(len(fragments), -1, np.int64)
        at = np.minimum(np.searchsorted(self.fragments, fragments), len(self) - 1)
        return np.where(self.fragments[at] == fragments, at, -1)

    def chosen(self, places: Int64Array) -> KnownFragments:
        """Choose fragments by their places, −1 for one that nobody takes."""
        lengths = np.append(self.counts, 0)[places]
        starts = np.concatenate([_NOWHERE, np.cumsum(lengths)])
        within = np.arange(int(starts[-1])) + np.repeat(self.starts[:-1][places] - starts[:-1], lengths)
        return KnownFragments(self.fragments[places], starts, self.conditions[within])

    def where(self, wanted: BoolArray) -> KnownFragments:
        """Choose some of the fragments."""
        return self.chosen(np.flatnonzero(wanted))

    def and_others(self, others: KnownFragments) -> KnownFragments:
        """Add fragments that are not among these."""
        starts = np.concatenate([self.starts, others.starts[1:] + self.starts[-1]])
        conditions = np.concatenate([self.conditions, others.conditions])
        whole = KnownFragments(np.concatenate([self.fragments, others.fragments]), starts, conditions)
        return whole.chosen(np.argsort(whole.fragments, kind="stable"))


_NOTHING: Final = KnownFragments(np.empty(0, np.int64), _NOWHERE, np.empty(0, np.int32))


def of_bits(fragments: Int64Array, pieces: Iterable[Bits]) -> KnownFragments:
    """List the conditions of fragments whose bits come piece by piece."""
    counts, listed = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for bits in pieces:
        place, byte = np.nonzero(bits)  # few bytes have a bit
        one, bit = np.nonzero(np.unpackbits(bits[place, byte][:, None], axis=1, bitorder="little"))
        counts.append(np.bincount(place[one], minlength=len(bits)).astype(np.int64))
        listed.append((byte[one] * 8 + bit).astype(np.int32))
    starts = np.concatenate([_NOWHERE, np.cumsum(np.concatenate(counts))])
    return KnownFragments(fragments, starts, np.concatenate(listed))


class PartTakers:
    """The fragments of one part that were seen, with the conditions of the part that take them.

    One thread learns and others read: what is known is replaced as a whole, so that a reader never sees half of it.
    """

    def __init__(self) -> None:
        """Start with none."""
        self.known = _NOTHING

    def unknown(self, fragments: Int64Array) -> Int64Array:
        """Choose the distinct fragments that were not seen yet."""
        distinct = np.unique(fragments)
        return distinct[self.known.places(distinct) < 0]

    def learn(self, found: KnownFragments) -> None:
        """Take fragments that are not known, and the conditions that take them."""
        self.known = self.known.and_others(found)

    def takes(self, condition: int, fragments: Int64Array) -> BoolArray:
        """Tell which fragments a condition takes, by its place in the part."""
        known = self.known
        holders = np.searchsorted(known.starts, np.flatnonzero(known.conditions == condition), side="right") - 1
        taken = np.zeros(len(known) + 1, np.bool_)  # the last stands for all that are not known
        taken[holders] = True
        return taken[known.places(fragments)]

    def pairs(self, fragments: Int64Array) -> tuple[Int64Array, Int64Array]:
        """List all pairs of a row, by its fragment, and a condition that takes it, by its place in the part."""
        known = self.known
        places = known.places(fragments)
        rows = np.flatnonzero(places >= 0)
        mine = known.chosen(places[rows])
        return np.repeat(rows, mine.counts), mine.conditions.astype(np.int64)

    def some(self, fragments: Int64Array) -> BoolArray:
        """Tell which fragments some condition takes."""
        known = self.known
        return np.append(known.counts > 0, False)[known.places(fragments)]


@dataclass(frozen=True, slots=True)
class Learned:
    """What was worked out for the rows of a batch."""

    added: pa.Table  # part, fragment, conditions: those that were not known before
    failed: tuple[int, ...]  # conditions that fail on some row, or may be among those that do


class Takers:
    """Which conditions take the fragments of one plan."""

    def __init__(self, parts: int) -> None:
        """Start with nothing seen of so many parts."""
        self.parts = [PartTakers() for _ in range(parts)]
        self._together: dict[int, ConjunctionBits | None] = {}

    @property
    def nbytes(self) -> int:
        """Return how much memory the fragments take."""
        known = [part.known for part in self.parts]
        return sum(one.fragments.nbytes + one.starts.nbytes + one.conditions.nbytes for one in known)

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
                found = of_bits(new, together.pieces(new - cells.first))
            else:
                signed = _signed(cells, own := new - cells.first)
                failed |= _failing(cells, own[signed.failed])
                found = of_bits(new, _bits(cells, signed))
            if not failed:
                taken = found.where(found.counts > 0)
                added.append(fragments_table(number, taken))
                known.learn(taken)
        return Learned(pa.concat_tables(added) if added else fragments_table(0, _NOTHING), tuple(sorted(failed)))

    def load(self, added: pa.Table) -> None:
        """Take fragments as they were stored."""
        parts = np.asarray(added["part"].to_numpy(), np.int64)
        for number in np.unique(parts).tolist():
            mine = added.filter(pa.array(parts == number)).combine_chunks()
            fragments = np.asarray(mine["fragment"].to_numpy(), np.int64)
            self.parts[number].learn(_read(fragments, mine))

    def nobody(self, rows: Mapping[int, Int64Array]) -> BoolArray:
        """Tell the rows that no condition takes."""
        taken = np.zeros(len(next(iter(rows.values()))), np.bool_)
        for number, known in enumerate(self.parts):
            taken |= known.some(rows[number])
        return ~taken

    def divided(
        self, rows: Mapping[int, Int64Array], users: Sequence[Int64Array]
    ) -> list[tuple[Int64Array, FloatArray]]:
        """Count the rows that each condition takes, and its part of them, part by part.

        A row is divided evenly among its takers; ``users`` are the queries of each condition.
        """
        known = [part.known for part in self.parts]
        places = [one.places(rows[number]) for number, one in enumerate(known)]
        takers = np.zeros(len(places[0]))
        for one, at, queries in zip(known, places, users, strict=True):
            owners = np.repeat(np.arange(len(one)), one.counts)
            takers += np.bincount(owners, queries[one.conditions], len(one) + 1)[at]  # the last is nobody's
        each, found = 1.0 / np.maximum(1.0, takers), list[tuple[Int64Array, FloatArray]]()
        for one, at, queries in zip(known, places, users, strict=True):
            counts, parts = (np.bincount(at + 1, w, len(one) + 1)[1:] for w in (None, each))
            sums = [np.bincount(one.conditions, np.repeat(n, one.counts), len(queries)) for n in (counts, parts)]
            found.append((sums[0].astype(np.int64), sums[1].astype(np.float64)))
        return found


def fragments_table(part: int, found: KnownFragments) -> pa.Table:
    """Write fragments of one part as a table."""
    conditions = pa.ListArray.from_arrays(pa.array(found.starts.astype(np.int32)), pa.array(found.conditions))
    numbers = pa.array(np.full(len(found), part, np.int32))
    return pa.table({"part": numbers, "fragment": found.fragments, "conditions": conditions})


def _read(fragments: Int64Array, stored: pa.Table) -> KnownFragments:
    """Read the conditions of fragments; states of earlier versions have a bit for each condition."""
    if "bits" in stored.column_names:
        bits = np.frombuffer(b"".join(stored["bits"].to_pylist()), np.uint8)
        return of_bits(fragments, [bits.reshape(stored.num_rows, -1)])
    listed = np.asarray(pc.list_value_length(stored["conditions"]).to_numpy(), np.int64)
    conditions = np.asarray(pc.list_flatten(stored["conditions"]).to_numpy(), np.int32)
    return KnownFragments(fragments, np.concatenate([_NOWHERE, np.cumsum(listed)]), conditions)


def _signed(part: CellPart, own: Int64Array) -> Signatures:
    """Return the signatures of a part's numbers, counted from 0."""
    if part.fragments is not None:
        return Signatures(part.fragments.words[own], part.fragments.failed[own])
    return signatures(part, own)


def _bits(part: CellPart, found: Signatures) -> Iterator[Bits]:
    """Pack the bits of a part's own conditions, taken from words of those of all."""
    places = np.asarray(part.conditions, np.int64)
    columns = (places // BITS_PER_WORD) * 64 + places % BITS_PER_WORD
    for words in _cut(np.ascontiguousarray(found.words)):
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
        yield np.packbits(bits[:, columns], axis=1, bitorder="little")


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
