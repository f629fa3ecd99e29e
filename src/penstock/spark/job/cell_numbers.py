"""Writes the Spark SQL that computes each row's cell number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column

from penstock.kernel.row_cells import NO_CELL
from penstock.share.conditions.axes import FAILED_AT, FALSE_AT, FIRST_AT, NULL_AT, TRUE_AT, AxisKey
from penstock.share.conditions.cells import CellPart, Cells, Digit
from penstock.share.conditions.condition_groups import MOST_HEADS
from penstock.spark.job.binary_search import search, table
from penstock.spark.job.jvm_columns import written

SMALL: Final = "__small"


class CellNumbers:
    """Writes, for every axis, a row's place on it, and for every part, the row's number in it."""

    def __init__(self, cells: Cells, read: Callable[[str], str]) -> None:
        """Prepare the tables; ``read`` writes where an attribute's value is read."""
        self.cells, self.read = cells, read
        self.attempts = {  # attributes that may fail, and the columns where they are attempted
            text: f"__a{number}"
            for number, text in enumerate(
                dict.fromkeys(axis.key.attribute.text for axis in cells.axes if axis.key.attribute.may_fail)
            )
        }
        self._small: list[int] = []  # all tables whose sizes do not depend on constants, one after the other
        self._flags: dict[bytes, int] = {}  # where the tables of heads are among them; equal ones are one
        self._heads: dict[str, str] = {}  # their texts and columns: parts with the same flags have one head
        self._columns: list[Column] = []
        self._texts = [[self._number(part) for part in parts] for parts in cells.parts]
        if self._small:
            self._columns.append(table(np.array(self._small, np.int64), SMALL))

    def columns(self) -> list[Column]:
        """Write the columns that the numbers are looked up by: a search on every axis, and the tables."""
        found = []
        for number, axis in enumerate(self.cells.axes):
            text = ordered(axis.key, self.value(axis.key))
            flag, name = axis.key.kind == "boolean", f"__r{number}"
            found.append(written(text, name) if flag else search(axis.key.kind, tuple(axis.constants), text, name))
        return [*found, *self._columns]

    def heads(self) -> list[Column]:
        """Write the columns that tables of several attributes are chosen by."""
        return [written(text, name) for text, name in self._heads.items()]

    def text(self, grouping: int, part: int) -> str:
        """Write a row's number in a part of a grouping."""
        return self._texts[grouping][part]

    @property
    def shape(self) -> tuple[object, ...]:
        """Return what generated code depends on: all but the constants and tables."""
        texts = tuple(self._heads), tuple(map(tuple, self._texts))
        return tuple(axis.key for axis in self.cells.axes), texts

    def value(self, key: AxisKey) -> str:
        """Write where an attribute's value is read: from its attempt if it may fail."""
        text = key.attribute.text
        return f"{self.attempts[text]}.v" if text in self.attempts else self.read(text)

    def _place(self, number: int) -> str:
        """Write a row's position on an axis."""
        key, found = self.cells.axes[number].key, f"__r{number}"
        if key.kind == "boolean":
            place = f"WHEN {found} THEN {TRUE_AT} WHEN {found} IS NULL THEN {NULL_AT} ELSE {FALSE_AT} END"
        else:
            hit, gap = f"2 * {found} + {FIRST_AT + 1}", f"-2 * {found} + {FIRST_AT - 2}"
            place = f"WHEN {found} >= 0 THEN {hit} WHEN {found} < 0 THEN {gap} ELSE {NULL_AT} END"
        if key.attribute.may_fail:
            return f"CASE WHEN {self.attempts[key.attribute.text]} IS NULL THEN {FAILED_AT} {place}"
        return f"CASE {place}"

    def _table(self, numbers: npt.NDArray[np.int64]) -> str:
        """Name a table; the names follow from the parts alone, so that other constants leave the text as it is."""
        name = f"__n{len(self._columns)}"
        self._columns.append(table(numbers, name))
        return name

    def _head(self, part: CellPart) -> str:
        """Name the column of a part's head; the number 0 without flags."""
        if not part.heads:
            return "0"
        flags = []
        for digit in part.heads:
            at = self._flags.setdefault(digit.table.tobytes(), len(self._small))
            if at == len(self._small):
                self._small += digit.table.tolist()
            flags.append(f"{SMALL}[{at} + {self._place(digit.axis)}]")
        return self._heads.setdefault(self._index(flags), f"__h{len(self._heads)}")

    def _small_table(self, numbers: npt.NDArray[np.int64], size: int, index: str) -> str:
        """Look up a number in a small table: they are all in one, at fixed places."""
        at = len(self._small)
        self._small += [*numbers.tolist(), *[0] * (size - len(numbers))]
        return f"{SMALL}[{at} + {index}]"

    def _number(self, part: CellPart) -> str:
        """Write a row's number in one part, negative where no condition takes it."""
        head = self._head(part)
        if part.numbers is not None and not part.digits:
            return self._small_table(part.numbers, MOST_HEADS, head)
        if part.numbers is not None and len(part.digits) == 1:
            return self._looked_up(part, part.digits[0], _flat(part, part.digits[0], part.numbers), head)
        summed = [self._looked_up(part, digit, digit.table, head) for digit in part.digits]
        if part.numbers is not None:
            bases = [self._small_table(part.bases, MOST_HEADS, head)] if len(part.bases) > 1 else []
            return f"{self._table(part.numbers)}[{self._index([*bases, *summed])}]"
        bases = [self._small_table(np.where(part.dead, NO_CELL, part.bases + part.first), MOST_HEADS, head)]
        return " + ".join([*bases, *summed])

    def _looked_up(self, part: CellPart, digit: Digit, numbers: npt.NDArray[np.int64], head: str) -> str:
        """Look a number up by a row's place on an axis, in the stretch of its head."""
        starts = [] if digit.starts is None else [self._small_table(digit.starts, MOST_HEADS, head)]
        return f"{self._table(numbers)}[{self._index([*starts, self._place(digit.axis)])}]"

    def _index(self, texts: list[str]) -> str:
        """Add numbers up to an index, which must be an int."""
        return f"cast({' + '.join(texts)} as int)" if texts else "0"


def _flat(part: CellPart, digit: Digit, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Put the numbers of a part of one axis where the places on it find them at once."""
    size = len(digit.table) // len(part.bases)
    found: npt.NDArray[np.int64] = numbers[np.repeat(part.bases, size) + digit.table]
    return found


def ordered(key: AxisKey, text: str) -> str:
    """Write an attribute's value in the order of its axis."""
    type_ = key.attribute.type
    match key.kind:
        case "long":
            if type_ == "date":
                return f"cast(unix_date({text}) as bigint)"
            if type_ in ("timestamp", "timestamp_ntz"):
                return f"unix_micros(cast({text} as timestamp))"
            return f"cast({text} as bigint)"
        case "double":
            return f"cast({text} as double) + 0.0D"
    return f"({text})"
