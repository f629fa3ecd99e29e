"""Delivers a stream's answers to every sink; sinks that lag catch up from the answer log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, overload

import pyarrow as pa

from penstock.errors import SinkError
from penstock.model.instants import Clock, wall_clock_us
from penstock.sinks.outlet import Failing, Numbered, Outlet
from penstock.sinks.progress import progress_of
from penstock.sinks.protocol import Sink, names_of
from penstock.store.answer_files import LargeTables
from penstock.store.answers import DEFINITION, AnswerLog
from penstock.store.folder import StateFolder

QUERY: Final = "query_name"  # first column of every answer in a sink; no output of a query may have this name
VERSION: Final = "query_version"  # second column: which definition of the query answered; nor may an output have it
SHOWN: Final = {"#revision": "revision", "#op": "op"}  # internal columns that sinks get, after window_end
NameOf = Callable[[int], str]
VersionOf = Callable[[int], int]


class Delivery:
    """Hands one stream's answers to its sinks; one that fails holds up neither the stream nor the others."""

    def __init__(
        self,
        stream: str,
        sinks: Sequence[Sink],
        answers: AnswerLog,
        state: StateFolder | None,
        name_of: NameOf,
        version_of: VersionOf,
        clock: Clock = wall_clock_us,
    ) -> None:
        """Open a writer in each sink, and give it what it missed."""
        self.stream, self.answers, self._durable = stream, answers, state is not None
        self.name_of, self.version_of = name_of, version_of
        self._lock = threading.RLock()
        names = names_of(sinks)
        memories = progress_of(stream, names, state)
        self.outlets = [
            Outlet(name, sink, stream, memory, self._missed, clock)
            for name, sink, memory in zip(names, sinks, memories, strict=True)
        ]
        self.retry()

    @property
    def failing(self) -> dict[str, Failing]:
        """Return the sinks that get no answers now, by name."""
        return {o.name: o.failing for o in self.outlets if o.failing is not None}

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Give a commit's answers to every sink; they must be in the log already."""
        if self.outlets:
            named = self._named(tables)
            with self._lock:
                for outlet in self.outlets:
                    outlet.deliver(number, named)

    def retry(self, now_us: int | None = None) -> None:
        """Try the sinks that have failed, those whose time has come; call it now and then."""
        with self._lock:
            for outlet in self.outlets:
                outlet.attempt(now_us)

    def roll(self) -> None:
        """Make everything delivered visible, and raise if a sink still lacks answers."""
        with self._lock:
            for outlet in self.outlets:
                outlet.roll()
        if self.failing:
            raise self._lacking()

    def taken(self) -> int:
        """Return the last commit whose answers every sink holds for good."""
        with self._lock:
            return min((o.taken for o in self.outlets), default=1 << 62)

    def _lacking(self) -> SinkError:
        """Word that a sink lacks answers, where they are, and how to go on."""
        (name, failing), *others = self.failing.items()
        detail = [failing.error.detail] if failing.error.detail else []
        detail += [f"{other}: {f.error.what}" for other, f in others]
        kept = "The answers are kept in the state folder and are delivered at the next start"
        lost = "The answers are in memory until the engine ends"
        hint = (
            f"{kept}; fix the sink first." if self._durable else f"{lost}: fix the sink and process again before that."
        )
        what = f'sink {name} lacks answers of stream "{self.stream}": {failing.error.what}'
        return SinkError(what, detail="\n".join(detail) or None, hint=hint)

    def _missed(self, after: int) -> Iterator[Numbered]:
        """Read the answers after a commit from the log, named."""
        return ((number, self._named(tables)) for number, tables in self.answers.batches(after))

    def _named(self, tables: Sequence[pa.Table]) -> Sequence[pa.Table]:
        """Put the query's name in place of its number; of many answers, when a sink reads them."""
        if isinstance(tables, LargeTables):
            return Named(tables, self.name_of, self.version_of)
        return [for_sinks(table, self.name_of, self.version_of) for table in tables]


@dataclass(frozen=True, slots=True)
class Named(Sequence[pa.Table]):
    """Answers that executors wrote, read and named one table at a time: all of them may not fit into memory."""

    tables: LargeTables
    name_of: NameOf
    version_of: VersionOf

    def __len__(self) -> int:
        """Count the tables."""
        return len(self.tables)

    @overload
    def __getitem__(self, place: int) -> pa.Table: ...

    @overload
    def __getitem__(self, place: slice) -> list[pa.Table]: ...

    def __getitem__(self, place: int | slice) -> pa.Table | list[pa.Table]:
        """Read and name a table."""
        if isinstance(place, slice):
            return [for_sinks(table, self.name_of, self.version_of) for table in self.tables[place]]
        return for_sinks(self.tables[place], self.name_of, self.version_of)


def for_sinks(table: pa.Table, name_of: NameOf, version_of: VersionOf) -> pa.Table:
    """Name the queries of a table and their versions; show revisions, hide the rest.

    Names are a dictionary column: each is stored once.
    """
    encoded = table[DEFINITION].combine_chunks().dictionary_encode()
    numbers = encoded.dictionary.to_pylist()
    queries = pa.DictionaryArray.from_arrays(encoded.indices, pa.array([name_of(d) for d in numbers], pa.string()))
    versions = pa.array([version_of(d) for d in numbers], pa.int32()).take(encoded.indices)
    plain = [c for c in table.column_names if not c.startswith("#")]
    behind = plain.index("window_end") + 1 if "window_end" in plain else 0
    order = [*plain[:behind], *(c for c in SHOWN if c in table.column_names), *plain[behind:]]
    columns = [queries, versions, *(table[c] for c in order)]
    return pa.table(columns, names=[QUERY, VERSION, *(SHOWN.get(c, c) for c in order)])
