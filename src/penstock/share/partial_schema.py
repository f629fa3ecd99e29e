"""Names and types every column of the partials that leave a batch's job, and of those that commits keep."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

LABEL: Final = "label"
GROUPING: Final = "grouping"
CELL: Final = "cell"
ROW_COUNT: Final = "rows"
BASE_COUNT: Final = "base"
FIRST_TIME: Final = "first"
LAST_TIME: Final = "last"
LATE_COUNT: Final = "late"
CORRECTED_COUNT: Final = "corrected"
TOUCHED_COUNT: Final = "touched"
SHED_COUNT: Final = "shed"
SIGNED_COUNT: Final = "signed"
DOUBTED: Final = "doubted"
OF_COMMIT: Final = "of_commit"
BEFORE: Final = "before_us"
AFTER: Final = "watermark_us"
BUCKET: Final = "__bucket"
FAILURE_PARTS: Final = ("first", "last", "rows")
# of every row, however many parts have a copy of it
COUNTED_ONCE: Final = (BASE_COUNT, LATE_COUNT, CORRECTED_COUNT, SHED_COUNT, SIGNED_COUNT)
COUNTS: Final = frozenset({ROW_COUNT, TOUCHED_COUNT, *COUNTED_ONCE})


@dataclass(frozen=True, slots=True)
class PartialColumn:
    """A column, or a family of them that differ by numbers."""

    name: str  # a family's numbers are written as N
    type: pa.DataType | None  # None: as the expression or the component has it
    meaning: str
    kept: bool = True  # in the files of commits

    def is_called(self, name: str) -> bool:
        """Tell whether a column of some name is this one, or of this family."""
        return re.fullmatch(self.name.replace("N", r"\d+"), name) is not None


COLUMNS: Final = (
    PartialColumn(LABEL, pa.int64(), "the slice, or what it is found by; NULL for rows without a usable time"),
    PartialColumn(GROUPING, pa.int32(), "number of the grouping; missing where there is one"),
    PartialColumn("sN", pa.int64(), "word N of the signature: the conditions that take the rows, one bit each"),
    PartialColumn("kN", None, "key in slot N"),
    PartialColumn(ROW_COUNT, pa.int64(), "rows in it"),
    PartialColumn(BASE_COUNT, pa.int64(), "rows without the repetitions that joins and parts make"),
    PartialColumn(FIRST_TIME, pa.int64(), "smallest time of its rows"),
    PartialColumn(LAST_TIME, pa.int64(), "greatest time of its rows"),
    PartialColumn(LATE_COUNT, pa.int64(), "late rows"),
    PartialColumn(CORRECTED_COUNT, pa.int64(), "late rows in a final window whose answer is revised"),
    PartialColumn(TOUCHED_COUNT, pa.int64(), "late rows as queries have them, as often as joins repeat them"),
    PartialColumn(SHED_COUNT, pa.int64(), "valid rows that queries which shed load do not look at"),
    PartialColumn(
        SIGNED_COUNT, pa.int64(), "rows that a sample keeps, half of them below 0: its square tells of twins"
    ),
    PartialColumn("cN_N", None, "part N of component N"),
    PartialColumn("fN_first", pa.int64(), "time of the first row on which definition N failed"),
    PartialColumn("fN_last", pa.int64(), "time of the last row on which definition N failed"),
    PartialColumn("fN_rows", pa.int64(), "rows on which definition N failed"),
    PartialColumn(OF_COMMIT, pa.int64(), "number of the commit that brought it, where the order of commits matters"),
    PartialColumn(BEFORE, pa.int64(), "the watermark before that commit"),
    PartialColumn(AFTER, pa.int64(), "the watermark after that commit"),
    PartialColumn(CELL, pa.int64(), "number of the cell, before it becomes a signature", kept=False),
    PartialColumn("eN", pa.int64(), "rows on which tried expression N failed", kept=False),
    PartialColumn(DOUBTED, pa.int64(), "rows of which a computed column could not be", kept=False),
    PartialColumn(BUCKET, pa.int32(), "bucket of keys that executors keep; -1: the driver does", kept=False),
)


def column_called(name: str) -> PartialColumn | None:
    """Find the description of a column; None: there is no such column."""
    return next((column for column in COLUMNS if column.is_called(name)), None)


def key_name(slot: int) -> str:
    """Name the column of a key."""
    return f"k{slot}"


def word_name(word: int) -> str:
    """Name the column of a word of the signature."""
    return f"s{word}"


def component_name(number: int, part: int) -> str:
    """Name the column of a part of a component."""
    return f"c{number}_{part}"


def failure_name(definition: int, part: str) -> str:
    """Name the column of what is known of a definition's failures: first, last or rows."""
    return f"f{definition}_{part}"


def tried_name(place: int) -> str:
    """Name the column that counts failures of a tried expression."""
    return f"e{place}"


def is_word(name: str) -> bool:
    """Tell whether a column is a word of the signature."""
    return name[0] == "s" and name[1:].isdigit()


def is_failure(name: str) -> bool:
    """Tell whether a column tells of failures."""
    return name[0] == "f" and name[1:2].isdigit()


def has_groupings(partials: pa.Table) -> bool:
    """Tell whether partials are of several groupings."""
    return GROUPING in partials.column_names


def stream_rows(partials: pa.Table) -> pa.ChunkedArray:
    """Return how many rows of the stream each partial stands for: repetitions do not count."""
    return partials[BASE_COUNT if BASE_COUNT in partials.column_names else ROW_COUNT]


def labels_of(partials: pa.Table) -> npt.NDArray[np.int64]:
    """Read the labels of partials that all have one."""
    return np.asarray(partials[LABEL].to_numpy(), np.int64)


def words_of(partials: pa.Table, count: int) -> list[npt.NDArray[np.int64]]:
    """Read the words of the signatures."""
    return [partials[word_name(word)].to_numpy() for word in range(count)]
