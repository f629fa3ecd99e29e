"""Lists the fragments of hundreds of thousands of cells beforehand, where all conditions are conjunctions.

Thousands of ranges cut attributes into many cells, most of which the same conditions take as their neighbours. A row
that is stored with the number of its fragment takes less room than one with the number of its cell, and who takes a
fragment is known before the first row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from penstock.model.arrays import Int64Array
from penstock.model.recent import Recent
from penstock.share.conditions.axes import Axis
from penstock.share.conditions.cells import CellPart, Cells, Signatures
from penstock.share.conditions.conjunction_bits import Bits, conjunction_bits
from penstock.share.plan import BITS_PER_WORD

MOST_CELLS: Final = 1 << 20  # of a part that are looked through
MOST_BYTES: Final = 1 << 27  # of the fragments of a part
AT_ONCE: Final = 1_024  # fragments that are unpacked together
FIRST: Final = 1  # number of a part's fragments: 0 and less stand for rows that nobody takes

_listed: Recent[object, CellPart] = Recent(8)  # by all that makes them: most parts stay when a query comes or goes


def with_listed_fragments(cells: Cells) -> Cells:
    """List the fragments of parts that have only cells; the numbers of every part begin at 1."""
    parts = tuple(tuple(_of_part(part, cells.axes).starting_at(FIRST) for part in each) for each in cells.parts)
    return replace(cells, parts=parts)


def _of_part(part: CellPart, axes: Sequence[Axis]) -> CellPart:
    """List the fragments of a part, or return it as it is."""
    if part.numbers is not None or part.cells > MOST_CELLS:
        return part
    name = part.formulas, part.conditions, part.words
    return _listed.get_or(name, lambda: _looked_through(part.starting_at(0), axes))


def _looked_through(part: CellPart, axes: Sequence[Axis]) -> CellPart:
    """Evaluate a part's conditions in all of its cells."""
    together = conjunction_bits(part, axes)
    if together is None:
        return part
    known: dict[bytes, int] = {}
    kinds = []
    for bits in together.pieces(np.arange(part.cells)):
        changes = (bits[1:] != bits[:-1]).any(axis=1)  # most cells are as the one before
        runs = np.concatenate([[0], np.flatnonzero(changes) + 1])
        found = [known.setdefault(row.tobytes(), len(known)) for row in bits[runs]]
        if len(known) * 8 * part.words > MOST_BYTES:
            return part
        kinds.append(np.repeat(np.array(found, np.int64), np.diff(np.append(runs, len(bits)))))
    distinct = np.frombuffer(b"".join(known), np.uint8).reshape(len(known), -1)
    taken = distinct.any(axis=1)
    numbers = np.where(taken, np.cumsum(taken) - 1, -1)
    words = _words(part, distinct[taken])
    return replace(
        part, numbers=numbers[np.concatenate(kinds)], fragments=Signatures(words, np.zeros(len(words), np.bool_))
    )


def _words(part: CellPart, distinct: Bits) -> Int64Array:
    """Write fragments as words of the bits of all conditions, from bits of the part's own."""
    places = np.asarray(part.conditions, np.int64)
    columns = (places // BITS_PER_WORD) * 64 + places % BITS_PER_WORD
    words = np.zeros((len(distinct), part.words), np.int64)
    for start in range(0, len(distinct), AT_ONCE):
        some = distinct[start : start + AT_ONCE]
        spread = np.zeros((len(some), part.words * 64), np.uint8)
        spread[:, columns] = np.unpackbits(some, axis=1, bitorder="little")[:, : len(places)]
        words[start : start + AT_ONCE] = np.packbits(spread, axis=1, bitorder="little").view(np.int64)
    return words
