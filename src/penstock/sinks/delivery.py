"""Delivers a stream's answers to every sink in a thread of its own; sinks that lag catch up from the answer log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, overload

import pyarrow as pa

from penstock.errors import SinkError
from penstock.model.instants import Clock, wall_clock_us
from penstock.sinks.outlet import Failing, Numbered, Outlet, Tables
from penstock.sinks.progress import progress_of
from penstock.sinks.protocol import KeyedTables, Sink, names_of
from penstock.sinks.settings import SINK_BACKLOG
from penstock.sinks.sink_thread import LoggedAnswers, SinkThread
from penstock.store.answer_files import LargeTables
from penstock.store.answers import DEFINITION, AnswerLog
from penstock.store.folder import StateFolder

QUERY: Final = "query_name"  # first column of every answer in a sink; no output of a query may have this name
VERSION: Final = "query_version"  # second column: which definition of the query answered; nor may an output have it
SHOWN: Final = {"#revision": "revision", "#op": "op"}  # internal columns that sinks get, after window_end
REVISED: Final = "#revision"
GROUP_KEY: Final = "#k"
NameOf = Callable[[int], str]
VersionOf = Callable[[int], int]


class Delivery:
    """Hands one stream's answers to its sinks; one that is slow or fails holds up neither the stream nor the others.

    Only a sink that works, and still has more than ``most_backlog`` answers to take, makes the stream wait.
    """

    def __init__(
        self,
        stream: str,
        sinks: Sequence[Sink],
        answers: AnswerLog,
        state: StateFolder | None,
        name_of: NameOf,
        version_of: VersionOf,
        clock: Clock = wall_clock_us,
        most_backlog: int = SINK_BACKLOG,
    ) -> None:
        """Let every sink be opened and given what it missed; nobody waits for that."""
        self.answers, self.name_of, self.version_of = answers, name_of, version_of
        self._begin(stream, state, most_backlog)
        names = names_of(sinks)
        memories = progress_of(stream, names, state)
        outlets = zip(names, sinks, memories, strict=True)
        self._open([Outlet(name, sink, stream, memory, self._missed, clock) for name, sink, memory in outlets])

    def _begin(self, stream: str, state: StateFolder | None, most_backlog: int) -> None:
        """Begin without sinks."""
        self.stream, self._durable, self.most_backlog = stream, state is not None, most_backlog
        self._let_through = threading.Event()

    def _open(self, outlets: Sequence[Outlet]) -> None:
        """Give each sink a thread, and what it missed."""
        self.outlets = list(outlets)
        self.threads = [SinkThread(outlet, self.stream) for outlet in self.outlets]
        self.retry()

    @property
    def failing(self) -> dict[str, Failing]:
        """Return the sinks that get no answers now, by name."""
        return {o.name: o.failing for o in self.outlets if o.failing is not None}

    def deliver(self, number: int, tables: Tables) -> None:
        """Leave answers for every sink, and wait for one that is too far behind; they must be logged."""
        self._leave(self._logged(number, tables))

    def _leave(self, answers: LoggedAnswers) -> None:
        """Leave answers for every sink."""
        for thread in self.threads:
            thread.give(answers)
        for thread in self.threads:
            thread.hold(self.most_backlog, self._let_through.is_set)

    def catch_up(self) -> None:
        """Let every sink that has not failed be given what the log has and it has not; nobody waits for that."""
        for thread in self.threads:
            thread.catch_up()

    def retry(self, now_us: int | None = None) -> None:
        """Let the sinks that have failed be tried, those whose time has come; call it now and then."""
        for thread in self.threads:
            thread.attempt(now_us)

    def look_after(self) -> None:
        """Let sinks be tried that have failed, and those be rolled that have kept answers back for long enough."""
        self.retry()
        for thread in self.threads:
            if not thread.busy and thread.outlet.is_to_be_rolled:
                thread.roll()

    def roll_soon(self) -> None:
        """Let what sinks have collected be made visible; nobody waits for it."""
        for thread in self.threads:
            if thread.outlet.keeps_back and not thread.busy:
                thread.roll()

    def wait(self) -> None:
        """Wait until every sink has been given all there is, or fails."""
        for thread in self.threads:
            thread.wait()

    def roll(self) -> None:
        """Make everything delivered visible, and raise if a sink still lacks answers."""
        for thread in self.threads:
            thread.roll()
        self.wait()
        if self.failing:
            raise self._lacking()

    def let_through(self, *, always: bool = True) -> None:
        """Do not wait for sinks that are too far behind, as a stream that is to stop does; False: wait again."""
        (self._let_through.set if always else self._let_through.clear)()

    def abandon(self) -> None:
        """End the threads, and leave undone what they have not begun: the next start does it from the log."""
        for thread in self.threads:
            thread.abandon()

    def taken(self) -> int:
        """Return the number of the last answers that every sink holds for good."""
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

    def _logged(self, number: int, tables: Tables) -> LoggedAnswers:
        """Tell how much answers are; the first sink that takes them has them named for all."""
        if isinstance(tables, LargeTables):  # read by each sink on its own, a table at a time
            rows = sum(part.holds.rows for part in tables.file.parts)
            return LoggedAnswers(number, lambda: self._named(tables), rows, 0)
        rows, size = sum(table.num_rows for table in tables), sum(table.nbytes for table in tables)
        return LoggedAnswers(number, computed_once(lambda: self._named(tables)), rows, size, tables)

    def _named(self, tables: Tables) -> Tables:
        """Put the query's name in place of its number; of many answers, when a sink reads them."""
        if isinstance(tables, LargeTables):
            return Named(tables, self.name_of, self.version_of)
        named = [for_sinks(table, self.name_of, self.version_of) for table in tables]
        return KeyedTables(named, [_group_keys(table) for table in tables])


def raise_lacking(failures: Sequence[SinkError]) -> None:
    """Raise what was found of sinks that lack answers, if anything was: the first, with what the others say."""
    if not failures:
        return
    first, others = failures[0], [error.what for error in failures[1:]]
    raise SinkError(first.what, detail="\n".join(filter(None, [first.detail, *others])) or None, hint=first.hint)


def raise_first(failures: Sequence[BaseException]) -> None:
    """Raise what stopped streams, if anything did; sinks that lack answers are told where nothing else is."""
    for error in failures:
        if not isinstance(error, SinkError):
            raise error
    raise_lacking([error for error in failures if isinstance(error, SinkError)])


def computed_once(compute: Callable[[], Tables]) -> Callable[[], Tables]:
    """Return a function that several threads may call, and that computes what it returns for the first of them."""
    lock, found = threading.Lock(), list[Tables]()

    def get() -> Tables:
        with lock:
            if not found:
                found.append(compute())
            return found[0]

    return get


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


def _group_keys(table: pa.Table) -> pa.Table | None:
    """Return the keys of the groups of answers that late rows may revise; None: they are never revised."""
    if REVISED not in table.column_names:
        return None
    return table.select([name for name in table.column_names if name.startswith(GROUP_KEY)])
