"""Makes a sink of a Python function, which is called with the answers of one number after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SinkError
from penstock.sinks.parquet_by_query import QUERY, by_query
from penstock.sinks.protocol import ForEachQuery, Progressing
from penstock.sinks.recorded import RecordedWriter


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """Answers that a sink gets together. Numbers rise; one that comes again holds the same answers."""

    stream: str  # or its name and #each: rows of its continuous queries, which are numbered apart
    state: str  # the state folder that the answers come from
    number: int
    tables: Sequence[pa.Table]

    @property
    def key(self) -> str:
        """Name the batch as no other one is named: what was written under this key need not be written again."""
        return f"{self.state}/{self.stream}/{self.number}"

    def queries(self) -> Iterator[tuple[str, pa.Table]]:
        """Give the answers of one query after the other, each query once.

        One whose columns have changed has those of all its versions, with NULL where a version has none; a column whose
        types cannot be united is text.
        """
        parts, last = dict[str, list[pa.Table]](), dict[str, int]()
        for number, table in enumerate(self._each()):
            last |= dict.fromkeys(pc.unique(table[QUERY]).to_pylist(), number)
        for number, table in enumerate(self._each()):
            for name, part in by_query(table):
                parts.setdefault(name, []).append(part)
                if last[name] == number:
                    yield name, united(parts.pop(name))

    def _each(self) -> Iterable[pa.Table]:
        """Give the tables, rows of continuous queries for each of them; all may not fit into memory."""
        return self.tables.for_each_query() if isinstance(self.tables, ForEachQuery) else self.tables


def united(parts: Sequence[pa.Table]) -> pa.Table:
    """Put tables of one query together by the names of their columns."""
    if len(parts) == 1:
        return parts[0]
    schemas = [part.schema for part in parts]
    names = dict.fromkeys(name for schema in schemas for name in schema.names)
    fields = [pa.field(name, _wide_type([s.field(name).type for s in schemas if name in s.names])) for name in names]
    wide = pa.schema(fields)
    each = [part.cast(pa.schema([wide.field(name) for name in part.column_names])) for part in parts]
    return pa.concat_tables(each, promote_options="default").select(wide.names)


def _wide_type(types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type that holds the values of all, text if there is no other."""
    schemas = [pa.schema([("value", one)]) for one in types]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field("value").type
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return pa.string()


Called = Callable[[SinkBatch], Any]


class CallbackSink:
    """Calls a function with each batch of answers.

    At least once: a batch whose call ended and was not recorded when the process died comes again, with the same
    number and the same answers. A function that keeps the number with what it writes has each answer once.
    """

    kind = "function"

    def __init__(self, called: Called, name: str | None = None) -> None:
        """Call a function; by its name the sink finds how far it came."""
        if not callable(called):
            raise SinkError("a sink is made of a function", hint="Write @penstock.sink before a function of one batch.")
        self.called = called
        self.place = name or getattr(called, "__name__", type(called).__name__)

    def __call__(self, batch: SinkBatch) -> Any:
        """Call the function, as a test of it does."""
        return self.called(batch)

    def open(self, stream: str, memory: Progressing) -> CallbackWriter:
        """Open the writer of one stream."""
        return CallbackWriter(self, stream, memory)


class CallbackWriter(RecordedWriter):
    """Calls the function with one stream's answers."""

    def __init__(self, sink: CallbackSink, stream: str, memory: Progressing) -> None:
        """Go on where the last record stands."""
        super().__init__(memory)
        self.sink, self.stream = sink, stream

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Call the function, and remember the number once it has returned."""
        if number <= self._delivered:
            return
        if len(tables):
            self.sink(SinkBatch(self.stream, self.memory.owner, number, tables))
        self.memory.write({"delivered": number})
        self._delivered = number

    def roll(self) -> None:
        """Do nothing: the function has made its answers visible when it returns."""


@overload
def sink(called: Called, /) -> CallbackSink: ...


@overload
def sink(*, name: str | None = None) -> Callable[[Called], CallbackSink]: ...


def sink(called: Called | None = None, /, *, name: str | None = None) -> Any:
    """Make a sink of a function of one batch, for ``Engine(sinks=[…])``; in functions.py it is the project's."""
    if called is not None:
        return CallbackSink(called)
    return lambda decorated: CallbackSink(decorated, name)
