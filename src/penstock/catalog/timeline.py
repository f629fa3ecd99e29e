"""Tells which queries a stream had, and which were paused, at every version of the catalog."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from penstock.catalog.typed_records import as_recorded, read_typed
from penstock.evaluate.typed import Definition, Handover
from penstock.model.function import Function

Action = Literal["pause", "resume"]
Options = tuple[tuple[str, Any], ...]
MOST_KEPT: Final = 10_000  # dropped definitions that are nowhere else; no batch looks back so far


@dataclass(frozen=True, slots=True)
class Control:
    """A query was paused or resumed by its user, in one version of the catalog."""

    definition: int
    action: Action
    version: int


@dataclass(frozen=True, slots=True)
class Urgency:
    """How urgent a query's answers are now, if not as its definition was entered: its text and options since."""

    text: str
    options: Options

    def of(self, definition: Definition) -> Definition:
        """Return a definition that is as urgent."""
        query = replace(definition.query, text=self.text, options=self.options)
        return replace(definition, typed=replace(definition.typed, query=query))


@dataclass(slots=True)
class CatalogEntry:
    """One definition: what is known of it without reading it, and what to read it from."""

    id: int
    name: str
    stream: str
    version: int
    created_us: int = 0
    origin: str = ""
    until_us: int | None = None  # when its lifetime ends; None: never
    since_us: int | None = None  # from when on rows are numbered for it
    begins_us: int | None = None  # windows that begin before it were another definition's
    handover: Handover | None = None  # to the definition that took its place, while it still answers
    handed_over: int = 0  # the version that did so
    in_log: bool = False  # its record can be read again
    keeps: bool = False  # its answers, but only for a time
    source: Definition | Mapping[str, Any] | None = None  # itself, or its record; None: it is to be read again
    urgency: Urgency | None = None  # None: as it was entered

    @property
    def forgotten(self) -> bool:
        """Tell whether nothing is left to read it from."""
        return self.source is None and not self.in_log

    def read(self, find: Callable[[int], Mapping[str, Any]], own: Mapping[str, Function]) -> Definition:
        """Return the definition, from its record if it was not needed before."""
        if not isinstance(self.source, Definition):
            record = self.source or find(self.version)
            told = self.version, self.created_us, self.origin, self.since_us, self.begins_us
            found = as_recorded(Definition(self.id, read_typed(record, own), *told), record)
            self.source = found if self.urgency is None else self.urgency.of(found)
        return self.source

    def urge(self, urgency: Urgency) -> None:
        """Be as urgent from now on; a definition that was read already is another object then."""
        self.urgency = urgency
        if isinstance(self.source, Definition):
            self.source = urgency.of(self.source)


@dataclass(slots=True)
class _Stream:
    """What happened to the queries of one stream."""

    version: int = 0  # of the last change
    dropped: list[tuple[int, CatalogEntry]] = field(default_factory=list)  # with the version that dropped it, in order
    controls: list[Control] = field(default_factory=list)  # in order


class Timeline:
    """The queries of every stream at every version; ``find`` reads a change again by its version.

    ``own`` are the users' Python functions, by the names of their very code, as they come.
    """

    def __init__(self, find: Callable[[int], Mapping[str, Any]], own: Mapping[str, Function]) -> None:
        """Start empty."""
        self._find, self._own = find, own
        self._streams: dict[str, _Stream] = defaultdict(_Stream)
        self._paused: set[int] = set()  # definitions

    def read(self, entry: CatalogEntry, version: int | None = None) -> Definition:
        """Return an entry's definition as of a version, or of now."""
        found = entry.read(self._find, self._own)
        if entry.handover is None or (version is not None and version < entry.handed_over):
            return found
        return replace(found, handover=entry.handover)

    def changed(self, stream: str, version: int) -> None:
        """Note that a change concerns a stream's queries."""
        self._streams[stream].version = version

    def dropped(self, entry: CatalogEntry, version: int) -> None:
        """Note that a definition is gone; what the log can tell again is forgotten."""
        stream = self._streams[entry.stream]
        stream.version = version
        self._paused.discard(entry.id)
        if entry.forgotten:
            return
        stream.dropped.append((version, entry))
        if entry.in_log:
            entry.source = None
        elif len(stream.dropped) > 2 * MOST_KEPT:
            del stream.dropped[:MOST_KEPT]

    def leftovers(self, stream: str, upto: int | None = None) -> list[CatalogEntry]:
        """List the definitions of a stream that are gone and not forgotten, all or those dropped by a version."""
        dropped = self._streams[stream].dropped if stream in self._streams else []
        last = len(dropped) if upto is None else bisect_right(dropped, upto, key=lambda one: one[0])
        return [entry for _, entry in dropped[:last]]

    def forget(self, stream: str, numbers: Collection[int]) -> None:
        """Forget definitions of a stream that are gone; nobody asks for a version that had them."""
        known = self._streams[stream]
        known.dropped = [one for one in known.dropped if one[1].id not in numbers]

    def gone(self, number: int, stream: str) -> CatalogEntry | None:
        """Return a definition of a stream that is gone."""
        return next((entry for _, entry in self._streams[stream].dropped if entry.id == number), None)

    def controlled(self, entry: CatalogEntry, action: Action, version: int) -> None:
        """Note that a user paused or resumed a definition."""
        stream = self._streams[entry.stream]
        stream.version = version
        stream.controls.append(Control(entry.id, action, version))
        (self._paused.add if action == "pause" else self._paused.discard)(entry.id)

    def paused(self, entry: CatalogEntry) -> bool:
        """Tell whether a user paused a definition."""
        return entry.id in self._paused

    def all_paused(self) -> frozenset[int]:
        """Return the definitions that users paused."""
        return frozenset(self._paused)

    def version(self, stream: str) -> int:
        """Return the version of the last change that concerns a stream's queries."""
        return self._streams[stream].version if stream in self._streams else 0

    def controls(self, stream: str, after: int, until: int) -> list[Control]:
        """Return what users paused and resumed in the versions after one and up to another, in order."""
        controls = self._streams[stream].controls if stream in self._streams else []
        first = bisect_right(controls, after, key=lambda control: control.version)
        return controls[first : bisect_right(controls, until, key=lambda control: control.version)]

    def at(self, version: int, stream: str, current: Iterable[CatalogEntry]) -> tuple[Definition, ...]:
        """Return a stream's definitions as of a version, in the order of their numbers."""
        dropped = self._streams[stream].dropped if stream in self._streams else []
        later = dropped[bisect_right(dropped, version, key=lambda one: one[0]) :]
        there = [entry for entry in (*current, *(entry for _, entry in later)) if entry.version <= version]
        return tuple(self.read(entry, version) for entry in sorted(there, key=lambda entry: entry.id))
