"""Makes a sink of a Python function, which is called with the answers of one number after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import pyarrow as pa

from penstock.errors import SinkError
from penstock.sinks.parquet_by_query import each_query
from penstock.sinks.protocol import Progressing
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
        """Give the answers of one query after the other; one whose columns have changed may come twice."""
        yield from each_query(self.tables)


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
