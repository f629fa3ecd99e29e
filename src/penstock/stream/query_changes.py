"""Creates, replaces, pauses and resumes queries in the catalog and in their streams, between two batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from penstock.catalog import Catalog
from penstock.catalog.catalog import Origin
from penstock.errors import UnknownQuery, WrongType
from penstock.evaluate.typed import Definition, TypedQuery
from penstock.language.options import moment_us, since_of
from penstock.model.derived import beginning_at, is_apart, is_line, join_of, source_of
from penstock.model.query import Query
from penstock.model.schema import Stream
from penstock.model.window import SessionWindow
from penstock.stream.admitted import Admitted
from penstock.stream.derived.columns import columns_of_answers, refuse_past, refuse_resuming, stream_made_by
from penstock.stream.handover import begins_after, said_before
from penstock.stream.runner import StreamRunner

Opened = Callable[[Iterable[str]], Mapping[str, StreamRunner]]


class QueryChanges:
    """Enters, replaces, pauses and resumes queries; ``opened`` returns the streams among some that have had rows."""

    def __init__(self, catalog: Catalog, opened: Opened) -> None:
        """Change a catalog and its streams."""
        self.catalog, self.opened = catalog, opened

    def create(self, typed: Sequence[TypedQuery], origin: Origin = "") -> list[Admitted]:
        """Enter queries, all of them or none."""
        self._check_before(typed)
        with self._waiting({one.query.stream for one in typed}) as streams:
            self._check(typed, streams)
            begins = {one.query.name: _said_before(one, streams) for one in typed}
            return self._admitted(self.catalog.create_queries(typed, origin, _since(typed, streams), begins))

    def may_refuse(self, query: Query) -> bool:
        """Tell whether a query may ask for what cannot be had: its past, or groups that the executors keep."""
        known = self.opened([query.stream]).values()
        return since_of(query) is not None or any(
            keys == query.keys and not query.is_continuous
            for stream in known
            for _, keys in stream.pipeline.groupings.spread
        )

    def check(self, typed: TypedQuery) -> None:
        """Refuse a query that asks for what cannot be had, before anything changes."""
        self._check_before([typed])
        with self._waiting({typed.query.stream}) as streams:
            self._check([typed], streams)

    def _check(self, typed: Sequence[TypedQuery], streams: Mapping[str, StreamRunner]) -> None:
        """Let streams refuse queries; one that is there as it is changes nothing, and is not refused."""
        for one in typed:
            if one.query.stream in streams and not self.catalog.holds(one):
                streams[one.query.stream].check_past(one)

    def _check_before(self, typed: Sequence[TypedQuery]) -> None:
        """Let running streams look at the past that queries ask for, before their batches have to wait."""
        windowed = [one for one in typed if not one.query.is_continuous]
        streams = self.opened(dict.fromkeys(one.query.stream for one in windowed if since_of(one.query) is not None))
        for one in windowed:
            if one.query.stream in streams and not self.catalog.holds(one):
                streams[one.query.stream].past.check(one, self.catalog.next_id, waits=False)

    def create_stream(self, name: str, typed: TypedQuery) -> Admitted:
        """Enter a query whose answers are a stream."""
        query = typed.query
        stream = stream_made_by(query, columns_of_answers(typed), self.catalog)
        self._check_before([typed])
        with self._waiting({query.stream}) as streams:
            self._check([typed], streams)
            entered = self._admitted([self.catalog.create_answers(stream, typed)])[0]
            self.opened([name])
            return entered

    def create_joined(self, stream: Stream) -> None:
        """Enter a join of two streams; it takes the rows of batches to come."""
        join = join_of(stream)
        assert join is not None
        with self._waiting({side.stream for side in join.sides}) as streams:
            if self.catalog.holds_join(stream):
                return
            places = [_last_commit(streams.get(side.stream)) for side in join.sides]
            self.catalog.create_joined(beginning_at(stream, (places[0], places[1])))
            self.opened([stream.name])

    def replace(self, typed: TypedQuery, origin: Origin | None = None) -> Admitted:
        """Put a query in the place of the one of its name; windows that have begun remain that one's."""
        before = self.catalog.query(typed.query.name)
        self._check_before([typed])
        with self._waiting({typed.query.stream, before.query.stream}) as streams:
            self._check([typed], streams)
            times = _begins_at(before, typed, streams), _hands_over_at(before, typed, streams)
            new = self.catalog.replace_query(typed, _since([typed], streams), *times, origin=origin)
            return self._admitted([new])[0]

    def pause(self, name: str) -> None:
        """Let a query answer no more."""
        self._controlled(name, self.catalog.pause)

    def resume(self, name: str) -> None:
        """Let a query answer again."""
        definition = self.catalog.query(name)
        line = self.opened([definition.query.stream]).get(definition.query.stream)
        if line is not None:
            if not definition.query.is_continuous:
                line.pipeline.groupings.refuse_what_cannot_be(definition)
            refuse_resuming(definition, line.pipeline.progress.windows.paused)
        self._controlled(name, self.catalog.resume)

    def backfill(self, names: Sequence[str], since: str, *, accept_changed_files: bool = False) -> dict[str, int]:
        """Answer windows of the past, one job a stream; return how many windows each query had not answered."""
        if not names:
            raise UnknownQuery("no query to backfill was named", hint="Name one or more.")
        start = _moment(since)
        chosen = [self.catalog.query(name) for name in dict.fromkeys(names)]
        refuse_past(chosen, self.catalog, since)
        found, lines = dict[int, int](), {d.query.stream for d in chosen}
        asked = {line: {d.id: start for d in chosen if d.query.stream == line} for line in lines}
        for name, stream in self.opened(sorted(lines)).items():
            stream.past.check_back(asked[name], accept_changed_files=accept_changed_files)
        with self._waiting(lines) as streams:
            chosen = [self.catalog.query(definition.name) for definition in chosen]  # its period may have changed
            asked = {line: {d.id: start for d in chosen if d.query.stream == line} for line in lines}
            named = [(stream, asked[name]) for name, stream in streams.items() if name in asked]
            tickets = [stream.past.ask(some, accept_changed_files=accept_changed_files) for stream, some in named]
        for stream, _ in named:
            stream.past.finish_unless_running()
        for ticket in tickets:
            found |= ticket.wait()
        return {d.name: found.get(d.id, 0) for d in chosen}

    def _controlled(self, name: str, record: Callable[[str], object]) -> None:
        """Record what a user wants, and let it take effect."""
        line = self.catalog.query(name).query.stream
        with self._waiting({line}):
            record(name)
            for stream in self.opened([line]).values():
                stream.settle()

    @contextmanager
    def _waiting(self, names: Iterable[str]) -> Iterator[Mapping[str, StreamRunner]]:
        """Keep the batches of some streams waiting; numbered rows wait with their stream."""
        sources = {source_of(name) for name in names}
        streams = self.opened(sorted(sources, key=lambda name: (self.catalog.depth(name), name)))
        with ExitStack() as stack:
            for stream in streams.values():
                stack.enter_context(stream.between_batches())
            yield streams

    def _admitted(self, definitions: Sequence[Definition]) -> list[Admitted]:
        """Let streams that have had rows say from when on they answer queries."""
        found: dict[int, Admitted] = {}
        for name, stream in self.opened(dict.fromkeys(d.query.stream for d in definitions)).items():
            found |= {e.id: e for e in stream.admit([d for d in definitions if d.query.stream == name])}
        return [found.get(d.id) or Admitted(d, None, "no row has come yet") for d in definitions]


def _last_commit(stream: StreamRunner | None) -> int:
    """Return the number of a stream's last commit; −1: there is none."""
    return -1 if stream is None else stream.pipeline.progress.clock.number


def _since(typed: Sequence[TypedQuery], streams: Mapping[str, StreamRunner]) -> dict[str, int | None]:
    """Tell, for the numbered rows that queries read, the first time of which their stream has seen no row."""
    lines = {one.query.stream for one in typed if is_line(one.query.stream)}
    known = {line: streams.get(source_of(line)) for line in lines}
    return {
        line: None if stream is None else stream.pipeline.progress.clock.seen_until_us for line, stream in known.items()
    }


def _begins_at(before: Definition, typed: TypedQuery, streams: Mapping[str, StreamRunner]) -> int | None:
    """Return the time at which the windows of a query that takes another's place begin; None: it does not matter."""
    query = typed.query
    if query.is_continuous or is_line(query.stream) or since_of(query) is not None:
        return None  # rows that are numbered tell it themselves
    return _first_begin(typed, _changes_at(before, typed, streams))


def _changes_at(before: Definition, typed: TypedQuery, streams: Mapping[str, StreamRunner]) -> int | None:
    """Return the time of a change; if the query reads another stream now, what has been seen of either is before it."""
    named = [streams[name] for name in {before.query.stream, typed.query.stream} if name in streams]
    times = [begins_after(stream.pipeline.progress, before) for stream in named]
    return max((time for time in times if time is not None), default=None)


def _first_begin(typed: TypedQuery, seen_until_us: int | None) -> int | None:
    """Return the time from which on a new query's windows begin: a session must not have begun before the query."""
    is_session = isinstance(typed.query.window, SessionWindow)
    return seen_until_us + typed.query.window.length if is_session and seen_until_us is not None else seen_until_us


def _hands_over_at(before: Definition, typed: TypedQuery, streams: Mapping[str, StreamRunner]) -> int | None:
    """Return the time before which a replaced definition's last windows begin; None: it goes at once.

    That is so if it answers nothing, if the new one answers all windows, and where numbers of rows cannot be told:
    those that are numbered apart by keys, or for which the new one does not ask.
    """
    stream, since = streams.get(source_of(before.query.stream)), since_of(typed.query)
    progress = None if stream is None else stream.pipeline.progress
    if (
        progress is None
        or before.query.is_continuous
        or progress.clock.seen_until_us is None
        or since == "beginning"
        or before.id in progress.windows.paused
    ):
        return None
    if is_line(before.query.stream):
        same = before.query.stream == typed.query.stream and not is_apart(typed.query.stream)
        return progress.clock.seen_until_us if same else None
    change_us = _changes_at(before, typed, streams)
    if isinstance(since, int) and change_us is not None:
        return min(change_us, since)
    return _first_begin(typed, change_us)


def _said_before(typed: TypedQuery, streams: Mapping[str, StreamRunner]) -> int | None:
    """Return the time before which the windows begin that a query of that name has answered; None: it has none."""
    stream = streams.get(typed.query.stream)
    if stream is None or since_of(typed.query) is not None or typed.query.is_continuous:
        return None
    progress, layout, name = stream.pipeline.progress, stream.pipeline.layout, typed.query.name.lower()
    known = [] if layout is None else [d for d in layout.plan.definitions if d.name.lower() == name]
    said = [progress.windows.departed.get(name), *(said_before(progress, definition) for definition in known)]
    return max((time for time in said if time is not None), default=None)


def _moment(since: str) -> int | None:
    """Read from when on the past is asked for; None: from the first row."""
    if since.strip().lower() == "beginning":
        return None
    try:
        return moment_us(since)
    except ValueError:
        what = f"a backfill begins at 'beginning' or a timestamp, not at \"{since[:40]}\""
        raise WrongType(what, hint="Write it as 2026-01-05 09:30:00.") from None
