"""Chooses which neighbouring files compaction merges.

Sixteen files of one size make one of the next, so n batches leave in the order of log n files, and every row is
written again at most log n times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

FAN: Final = 16  # files that make one; also how many commits pass between two looks
MOST_BYTES: Final = 8 << 20  # of a file made of others: bounds how long a batch waits for it


@dataclass(frozen=True, slots=True)
class Weighed:
    """A file as compaction sees it."""

    weight: int  # batches in it
    shape: str | None  # files of different shapes stay apart; None: stays alone
    size: int  # bytes


def worth_merging(files: Sequence[Weighed], most_bytes: int = MOST_BYTES) -> Iterator[range]:
    """List the stretches of neighbours of one shape and size class that are enough for a file of the next."""
    numbered = groupby(range(len(files)), key=lambda i: (files[i].shape, _tier(files[i].weight)))
    for (shape, _), positions in numbered:
        stretch = list(positions)
        if shape is None or len(stretch) < FAN or sum(files[i].size for i in stretch) > most_bytes:
            continue
        yield range(stretch[0], stretch[-1] + 1)


def _tier(weight: int) -> int:
    """Return the size class of a file that stands for so many batches."""
    tier = 0
    while weight >= FAN:
        weight, tier = weight // FAN, tier + 1
    return tier
