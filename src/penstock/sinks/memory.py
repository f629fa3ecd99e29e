"""Keeps answers as tables in the running process, rebuilt from the answer log at every start."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.sinks.protocol import Progressing


class MemorySink:
    """Keeps answers for a program to read while the engine runs."""

    kind = "memory"

    def __init__(self) -> None:
        """Start empty."""
        self._kept: dict[str, list[pa.Table]] = {}  # by stream

    def open(self, stream: str, memory: Progressing) -> MemoryWriter:
        """Open the writer of one stream; what was there before comes again."""
        return MemoryWriter(self._kept.setdefault(stream, []))

    def answers(self, query: str) -> list[pa.Table]:
        """Return a query's answers in the order they came, a table for each list of columns in turn."""
        found = []
        for tables in list(self._kept.values()):
            for table in list(tables):
                mine = _of_query(table, query)
                if mine.num_rows:
                    found.append(mine)
        return found


class MemoryWriter:
    """Keeps one stream's answers."""

    def __init__(self, kept: list[pa.Table]) -> None:
        """Forget what was there: the log gives it again."""
        self._kept, self._delivered = kept, -1
        kept.clear()

    @property
    def delivered(self) -> int:
        """Return the number of the last answers here."""
        return self._delivered

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Take answers."""
        if number > self._delivered:
            self._kept.extend(tables)
            self._delivered = number

    def roll(self) -> None:
        """Do nothing: what is kept is visible."""


def _of_query(table: pa.Table, query: str) -> pa.Table:
    """Choose the rows of a query, by its name or among the names of those that take a row."""
    if "query_name" in table.column_names:
        return table.filter(pc.equal(table["query_name"].cast(pa.string()), query))
    lists = table["queries"].combine_chunks()
    hit = pc.equal(lists.flatten(), query)
    return table.take(pc.list_parent_indices(lists).filter(hit))
