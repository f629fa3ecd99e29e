"""Names the columns of the rows that a batch's job sends when the driver aggregates them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

TIME: Final = "t"
BASE_FLAG: Final = "base"  # the row is of the stream itself, not a repetition that a join makes of it
REVISED_FLAG: Final = "revised"  # a final window holds the row whose answer late rows revise
SIGN: Final = "sign"  # 1 or −1 of a row that a sample keeps, by hash; 0 of the others
SHED_FLAG: Final = "shed"  # queries that shed load do not look at the row
DOUBTED_FLAG: Final = "doubted"  # a computed column of the row could not be


def label_name(tree: int) -> str:
    """Name the column of the slices of a tree."""
    return f"l{tree}"


def failed_name(place: int) -> str:
    """Name the column that tells whether a tried expression failed."""
    return f"e{place}"


@dataclass(frozen=True, slots=True)
class RowSchema:
    """Where everything stands in the rows that are sent; what several groupings need is sent once."""

    cells: Mapping[int, tuple[str, ...]]  # grouping → column of each of its parts; nothing where all rows are taken
    keys: Mapping[str, str]  # key → column
    arguments: Mapping[int, tuple[str, ...]]  # component → columns that it is aggregated from
    tried: int  # expressions that may have failed
    copied: bool  # some grouping has several parts, in each of which a row may count
