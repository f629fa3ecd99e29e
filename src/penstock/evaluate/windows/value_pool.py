"""Numbers values that numpy has no numbers for (strings, decimals, tuples), so that tables of them are flat arrays."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import numpy as np

from penstock.evaluate.components.component import Array
from penstock.evaluate.components.frequencies import objects
from penstock.evaluate.components.frequency_tables import FlatTables
from penstock.model.arrays import Int64Array
from penstock.model.sorting import stable_order

MANY: Final = 1_024  # values; fewer are never forgotten
VALUE_BYTES: Final = 150  # that a value and its place in a dictionary take, about


class ValuePool:
    """The distinct values of one index, numbered in the order they came."""

    def __init__(self) -> None:
        """Start without values."""
        self._codes: dict[Hashable, int] = {}
        self._values: Array = objects([])
        self._ranks: Int64Array = np.empty(0, np.int64)

    def encode(self, values: Array) -> Int64Array:
        """Return the numbers of values; new ones get the next."""
        codes, listed = self._codes, values.tolist()
        found = list(map(codes.get, listed))
        if None in found:
            found = [codes.setdefault(value, len(codes)) for value in listed]
        return np.array(found, np.int64)

    def decode(self, tables: FlatTables) -> FlatTables:
        """Put values in place of numbers, in each table in the order of the values."""
        values, ranks = self._known()
        owner = np.repeat(np.arange(len(tables)), tables.lengths)
        order = stable_order(owner * len(ranks) + ranks[tables.values], len(tables) * len(ranks))
        return FlatTables(values[tables.values[order]], tables.weights[order], tables.bounds)

    def forget_others(self, used: Int64Array) -> Int64Array | None:
        """Forget values that are not used, once they are most; return the new numbers of all, −1 of those gone."""
        kept = np.unique(used)
        if len(self._codes) < MANY or 2 * len(kept) > len(self._codes):
            return None
        values, _ = self._known()
        moved = np.full(len(values), -1, np.int64)
        moved[kept] = np.arange(len(kept))
        self._codes = {value: code for code, value in enumerate(values[kept])}
        self._values = objects([])
        return moved

    @property
    def nbytes(self) -> int:
        """Return about how much memory the values take."""
        return VALUE_BYTES * len(self._codes)

    def _known(self) -> tuple[Array, Int64Array]:
        """Return all values by their numbers, and the place of each in their order."""
        if len(self._values) != len(self._codes):
            self._values = objects(list(self._codes))
            order = np.array(sorted(range(len(self._values)), key=self._place), np.int64)
            self._ranks = np.empty(len(order), np.int64)
            self._ranks[order] = np.arange(len(order))
        return self._values, self._ranks

    def _place(self, number: int) -> Any:
        """Return what a value is ordered by."""
        return self._values[number]
