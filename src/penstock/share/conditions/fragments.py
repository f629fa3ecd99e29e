"""Finds the conditions that a signature holds, and counts the operations that fragments save.

A fragment is all rows of one signature (Krishnamurthy, Wu and Franklin 2006, §4.2); what aggregating them costs is in
their §4.3.3, Tables 4 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.model.arrays import BoolArray, Int64Array
from penstock.share.plan import BITS_PER_WORD

Words = Sequence[Int64Array]  # of signatures, an array for each word


@dataclass(frozen=True, slots=True)
class FragmentCounts:
    """What §4.3.3 counts of a set of rows T, in whole numbers; α and β are quotients of them.

    Rows that satisfy no predicate are a fragment, too, if there are any: the paper's F₀, in |T| and in k. They cost no
    final operation, and an engine may drop them before the partial ones.
    """

    rows: int  # |T|
    queries: int  # n
    fragments: int  # k, distinct signatures
    satisfied: int  # Σ |b|·f over signatures b of f rows: pairs of a row and a query that takes it
    final: int  # Σ |b| = k·β: each fragment is merged once for each query that takes it
    dropped: int  # rows of F₀

    @property
    def alpha(self) -> float:
        """Return the queries that take a row, on average over the rows."""
        return self.satisfied / self.rows if self.rows else 0.0

    @property
    def beta(self) -> float:
        """Return the queries that take a fragment, on average over the fragments."""
        return self.final / self.fragments if self.fragments else 0.0

    @property
    def unshared(self) -> int:
        """Return the operations without sharing: α·|T|."""
        return self.satisfied

    @property
    def partial(self) -> int:
        """Return the operations that aggregate rows to fragments: |T|."""
        return self.rows

    @property
    def shared(self) -> int:
        """Return the operations of sharing, partial and final: |T| + k·β."""
        return self.partial + self.final

    def __str__(self) -> str:
        """Print the counts as a line."""
        return (
            f"{self.rows:,} rows, {self.queries:,} queries, {self.fragments:,} fragments, "
            f"alpha {self.alpha:.2f}, beta {self.beta:.2f}; operations: {self.unshared:,} unshared, "
            f"{self.shared:,} shared ({self.partial:,} partial, {self.final:,} final)"
        )


def count_fragments(words: Sequence[Int64Array], rows: Int64Array, queries: Sequence[int]) -> FragmentCounts:
    """Count the fragments of partial rows, which may hold one signature several times.

    ``words`` are the signature's longs of each partial row, ``rows`` how many rows it stands for, and ``queries`` how
    many queries have the condition of each bit, in order.
    """
    if len(words) * BITS_PER_WORD < len(queries):
        raise ValueError(f"{len(queries)} conditions do not fit {len(words)} word(s)")
    distinct, frequency = _distinct(words, np.asarray(rows, np.int64))
    sizes = np.zeros(len(frequency), np.int64)  # |b|, by signature
    taken = np.zeros(len(frequency), np.bool_)
    for bit, weight in enumerate(queries):
        word, place = divmod(bit, BITS_PER_WORD)
        held = (distinct[word] >> place) & 1
        sizes += held * weight
        taken |= held > 0
    total = int(frequency.sum())
    satisfied, dropped = int(sizes @ frequency), int(frequency[~taken].sum())
    return FragmentCounts(total, sum(queries), len(frequency), satisfied, int(sizes.sum()), dropped)


def _distinct(words: Sequence[Int64Array], rows: Int64Array) -> tuple[list[Int64Array], Int64Array]:
    """Return every signature of at least one row once, word by word, and the rows of each."""
    some = np.flatnonzero(rows > 0)
    if not len(some):
        return [np.empty(0, np.int64) for _ in words], np.empty(0, np.int64)
    if not words:  # no condition at all: one signature
        return [], np.array([rows.sum()], np.int64)
    order = some[np.lexsort([word[some] for word in words])]
    held = [np.asarray(word[order], np.int64) for word in words]
    changes = np.any([word[1:] != word[:-1] for word in held], axis=0)
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    return [word[starts] for word in held], np.add.reduceat(rows[order], starts)


def takes(words: Words, condition: int) -> BoolArray:
    """Tell which rows a condition takes."""
    word, bit = divmod(condition, BITS_PER_WORD)
    taken: BoolArray = (words[word] & (1 << bit)) != 0
    return taken


def takes_any(words: Words, conditions: Sequence[int]) -> BoolArray:
    """Tell which rows one of some conditions takes."""
    masks = [0] * len(words)
    for condition in conditions:
        word, bit = divmod(condition, BITS_PER_WORD)
        masks[word] |= 1 << bit
    found = np.zeros(len(words[0]), np.bool_)
    for longs, mask in zip(words, masks, strict=True):
        if mask:
            found |= (longs & mask) != 0
    return found


def taken_pairs(words: Words, conditions: Sequence[int]) -> tuple[Int64Array, Int64Array]:
    """List all pairs of a row and a condition, by its place among those given, that takes it."""
    taken = np.empty((len(words[0]), len(conditions)), np.bool_)
    for place, condition in enumerate(conditions):
        taken[:, place] = takes(words, condition)
    row, place_of = np.nonzero(taken)
    return row, place_of
