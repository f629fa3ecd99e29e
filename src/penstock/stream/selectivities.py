"""Learns how many of a query's windows say something: the selectivity by which policies rank what waits.

Of a tuple, the paper's selectivity is how many are expected at the end for one that enters (Sharaf 2007, §2.1). What
enters here is a window, and what comes out is its answer, however many rows that has: the figures of queries count
windows too. Most queries answer every window. One with HAVING, or that says changes only, answers some; of these it is
measured, and what is new weighs more (§3.3.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.typed import Definition
from penstock.kernel.pending import Pending
from penstock.language.options import says_changes
from penstock.model.query import Query
from penstock.model.window import RowsWindow
from penstock.store.answer_parts import DEFINITION

NEW: Final = 1 / 16  # how much one window counts against those before it
LEAST: Final = 0.1  # that a query counts for which hardly ever says something: an alert is not to come last for that


class Selectivities:
    """The part of its windows that each query answers with some row, as measured so far."""

    def __init__(self) -> None:
        """Expect every window to say something."""
        self.watched: set[int] = set()  # definitions of which some windows may say nothing
        self._parts: dict[int, float] = {}  # by definition

    def watch(self, definition: Definition) -> None:
        """Measure a definition's windows from now on, if some of them may say nothing.

        Windows of rows are answered in one go, whatever the policy, and several of them may end at one time.
        """
        if may_be_silent(definition.query) and not isinstance(definition.query.window, RowsWindow):
            self.watched.add(definition.id)

    def of(self, number: int) -> float:
        """Return the part of a definition's windows that is expected to say something."""
        return max(LEAST, self._parts.get(number, 1.0))

    def measured(self) -> dict[int, float]:
        """Return the part that said something, by definition of which that is measured; any thread may ask."""
        return dict(self._parts)

    def learn(self, windows: Mapping[int, int], said: Mapping[int, int]) -> None:
        """Learn from windows that were answered, and how many of them had rows, by definition."""
        for number, many in windows.items():
            before, part = self._parts.get(number, 1.0), min(1.0, said.get(number, 0) / many)
            self._parts[number] = part + (before - part) * (1.0 - NEW) ** many

    def believed(self, due: Iterable[Pending]) -> dict[int, float]:
        """Return what is expected of the definitions that are measured, among those of some windows."""
        watched = self.watched
        return {one.definition.id: self.of(one.definition.id) for one in due if one.definition.id in watched}

    def forget(self, current: Container[int]) -> None:
        """Forget the queries that are gone."""
        self.watched = {number for number in self.watched if number in current}
        self._parts = {number: part for number, part in self._parts.items() if number in current}


class SaidWindows:
    """Counts, of windows that are answered together, those that say something."""

    def __init__(self, selectivities: Selectivities, due: Iterable[Pending]) -> None:
        """Count the windows of the queries that are measured."""
        self._selectivities, self._windows, self._said = selectivities, dict[int, int](), Counter[int]()
        for one in due if selectivities.watched else ():
            if (number := one.definition.id) in selectivities.watched:
                self._windows[number] = self._windows.get(number, 0) + len(one.ends)

    def note(self, answers: Sequence[pa.Table]) -> None:
        """Count the windows that have rows among answers; the rows of a window follow one another."""
        for table in answers if self._windows else ():
            definitions = np.asarray(table[DEFINITION].to_numpy(), np.int64)
            ends = np.asarray(table["window_end"].cast(pa.int64()).to_numpy(), np.int64)
            begins = np.append(True, (definitions[1:] != definitions[:-1]) | (ends[1:] != ends[:-1]))
            numbers, windows = np.unique(definitions[begins[: len(definitions)]], return_counts=True)
            for number, many in zip(numbers.tolist(), windows.tolist(), strict=True):
                if number in self._windows:
                    self._said[number] += many

    def learn(self) -> None:
        """Learn from what was counted."""
        self._selectivities.learn(self._windows, self._said)


def may_be_silent(query: Query) -> bool:
    """Tell whether some windows of a query may have no row to say, though rows came."""
    return query.having is not None or query.offset > 0 or says_changes(query)
