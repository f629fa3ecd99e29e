"""Answer tables by definition in, the same by query name to every sink out; sinks that lag catch up from the log."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from penstock.sinks.protocol import Sink
from penstock.store.answers import DEFINITION, AnswerLog
from penstock.store.files import read_record, write_record
from penstock.store.folder import StateFolder

QUERY: Final = "query_name"  # first column of every answer in a sink; no output of a query may have this name
NameOf = Callable[[int], str]


class Delivery:
    """Hands one stream's answers to its sinks."""

    def __init__(
        self, stream: str, sinks: Sequence[Sink], answers: AnswerLog, state: StateFolder | None, name_of: NameOf
    ) -> None:
        """Open a writer in each sink, and give it what it missed."""
        self.name_of = name_of
        self.writers = [s.open(stream, _memory(state, f"{stream}-{i}")) for i, s in enumerate(sinks)]
        for writer in self.writers:
            for number, tables in answers.batches(writer.delivered):
                writer.deliver(number, self._named(tables))

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Give a commit's answers to every sink."""
        if self.writers:
            named = self._named(tables)
            for writer in self.writers:
                writer.deliver(number, named)

    def roll(self) -> None:
        """Make everything delivered visible."""
        for writer in self.writers:
            writer.roll()

    def _named(self, tables: Sequence[pa.Table]) -> list[pa.Table]:
        """Put the query's name in place of its number."""
        return [_named(table, self.name_of) for table in tables]


def _named(table: pa.Table, name_of: NameOf) -> pa.Table:
    """Name the queries of a table, as a dictionary column: each name is stored once."""
    encoded = table[DEFINITION].combine_chunks().dictionary_encode()
    names = pa.array([name_of(d) for d in encoded.dictionary.to_pylist()], pa.string())
    queries = pa.DictionaryArray.from_arrays(encoded.indices, names)
    return table.set_column(0, QUERY, queries)


class _RecordedProgress:
    """Remembers in a file of the state folder."""

    def __init__(self, path: Path, owner: str) -> None:
        """Use a file."""
        self.path, self.owner = path, owner

    def read(self) -> dict[str, object]:
        """Return what was last written; empty at first."""
        return read_record(self.path) if self.path.exists() else {}

    def write(self, progress: dict[str, object]) -> None:
        """Remember durably."""
        write_record(self.path, progress)


class _PassingProgress:
    """Remembers for as long as the engine lives."""

    def __init__(self) -> None:
        """Start empty."""
        self.owner = uuid.uuid4().hex[:8]
        self._progress: dict[str, object] = {}

    def read(self) -> dict[str, object]:
        """Return what was last written; empty at first."""
        return self._progress

    def write(self, progress: dict[str, object]) -> None:
        """Remember."""
        self._progress = progress


def _memory(state: StateFolder | None, name: str) -> _RecordedProgress | _PassingProgress:
    """Choose where a sink remembers."""
    if state is None:
        return _PassingProgress()
    state.sinks.mkdir(parents=True, exist_ok=True)
    return _RecordedProgress(state.sinks / f"{name}.json", state.id)
