"""Keeps only the answers that differ from the last one of their group, for ``emit = 'change'``.

The last answers are in the answer log, so they are known again after a restart. A group without rows in a window emits
nothing, and is not forgotten: when it has rows again, its answer is emitted if it differs from the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from sys import getsizeof
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.evaluate.expressions.raw_times import raw_values
from penstock.evaluate.typed import Definition
from penstock.kernel.revisions import KEY
from penstock.language.options import says_changes
from penstock.model.arrays import Int64Array
from penstock.model.object_sizes import bytes_of_all, bytes_of_row
from penstock.store.answer_parts import DEFINITION
from penstock.store.answers import AnswerLog

Row = tuple[Hashable, ...]
WINDOW = ("window_start", "window_end")


def saying_changes(definitions: Iterable[Definition]) -> list[int]:
    """List the queries that say only answers that differ from the last one of their group."""
    return [d.id for d in definitions if says_changes(d.query)]


class EmitChanges:
    """Remembers, query by query, the last answer of every group."""

    def __init__(self) -> None:
        """Start with nothing said."""
        self._said: dict[int, dict[Row, Row]] = {}

    def restore(self, definitions: Collection[int], log: AnswerLog) -> None:
        """Read what was said before a restart."""
        for definition in definitions:
            said = [
                t.append_column(DEFINITION, pa.array(np.full(t.num_rows, definition))) for t in log.of([definition])
            ]
            self.changed(said, [definition])

    def bytes_by_query(self) -> dict[int, int]:
        """Return about how much memory the answers of each query take; any thread may ask."""
        found: dict[int, int] = {}
        for definition, said in list(self._said.items()):
            entries = list(said.items())
            found[definition] = getsizeof(said) + bytes_of_all(
                entries, lambda one: bytes_of_row(one[0]) + bytes_of_row(one[1])
            )
        return found

    def forget_others(self, current: Collection[int]) -> None:
        """Forget queries that are gone."""
        self._said = {definition: said for definition, said in self._said.items() if definition in current}

    def changed(self, tables: Sequence[pa.Table], wanted: Collection[int]) -> list[pa.Table]:
        """Keep, of some queries' answers, those that differ from the last one of their group, and remember them."""
        if not wanted:
            return list(tables)
        anew: dict[int, dict[Row, Row]] = {}  # remembered only if nothing fails
        found = [table.filter(pa.array(self.kept_rows(table, wanted, anew))) for table in tables]
        for definition, said in anew.items():
            self._said.setdefault(definition, {}).update(said)
        return [table for table in found if table.num_rows]

    def kept_rows(
        self, table: pa.Table, wanted: Collection[int], anew: dict[int, dict[Row, Row]]
    ) -> npt.NDArray[np.bool_]:
        """Tell which rows of a table to keep, in the order of their windows; ``anew`` is what was said of late."""
        definitions = np.asarray(table[DEFINITION].to_numpy(), np.int64)
        kept, mine = np.ones(len(definitions), np.bool_), np.flatnonzero(np.isin(definitions, list(wanted)))
        if not len(mine):
            return kept
        chosen = table.take(pa.array(mine))
        keys = _rows(chosen, [name for name in chosen.column_names if name.startswith(KEY)])
        values = _rows(chosen, [n for n in chosen.column_names if not n.startswith("#") and n not in WINDOW])
        for place in np.argsort(_ends(chosen), kind="stable").tolist():
            number, key = int(definitions[mine[place]]), keys[place]
            said = anew.setdefault(number, {})
            last = said[key] if key in said else self._said.get(number, {}).get(key)
            kept[mine[place]] = last != values[place]
            said[key] = values[place]
        return kept


def _ends(table: pa.Table) -> Int64Array:
    """Read the ends of answers' windows."""
    return np.asarray(table["window_end"].cast(pa.int64()).to_numpy(), np.int64)


def _rows(table: pa.Table, names: Sequence[str]) -> list[Row]:
    """Read columns row by row as values that compare: NaN is NaN, and -0.0 is 0.0."""
    columns = [[_comparable(value) for value in _plain(table[name])] for name in names]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Read a column; times of far years are none of Python's."""
    return raw_values(column)


def _comparable(value: Any) -> Hashable:
    """Write a value as one that compares."""
    if isinstance(value, float) and value != value:
        return "NaN", float
    if isinstance(value, list | dict):
        return repr(value)
    hashable: Hashable = value
    return hashable
