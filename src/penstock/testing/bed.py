"""Runs an engine that a test feeds by hand, batch by batch, with a clock that the test sets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import accumulate, pairwise
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import pyarrow as pa

from penstock.engine import Engine
from penstock.errors import MalformedSQL, SourceError
from penstock.kernel.synopsis import Kernel
from penstock.language.duration import parse_duration
from penstock.language.grammar.parse import CreateStream, CreateTable, parse_script
from penstock.model.aggregation import Aggregation
from penstock.model.schema import Column, Stream, Table
from penstock.model.strategy import DEFAULT_STRATEGY, MAX_DRIVER_GROUPS, StrategyName
from penstock.sinks.protocol import Sink
from penstock.sinks.row_values import python_rows
from penstock.spark.job.literals import quoted
from penstock.spark.session.temporary_settings import INTERPRETED, set_for_now
from penstock.spark.sources.frames import check_columns
from penstock.spark.sources.rows import columns_in, frame_of, schema_of
from penstock.store.commits import BY_HAND, Counts
from penstock.stream.admitted import Admitted
from penstock.testing.clock import EPOCH, Instant, ManualClock, checked_instant
from penstock.testing.comparison import compare
from penstock.testing.values import Rows, arrow_rows, inferred_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Columns: TypeAlias = str | Sequence[Column] | pa.Schema  # text is what stands in the parentheses of a CREATE STREAM

_FOR_FEW_ROWS: Final = {**INTERPRETED, "spark.sql.shuffle.partitions": "1"}
_AFTER_ALL_ROWS: Final = "9999-01-01"


class TestBed:
    """An engine that is fed by hand, one batch a call.

    ``epoch`` is what times given as numbers count from. Without a ``clock``, no row is ahead of time. ``compiled``
    lets Spark generate code as in production. ``engine`` is the engine itself, for all that is not offered here.
    """

    __test__ = False  # its name is no test's

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        clock: ManualClock | None = None,
        epoch: Instant = EPOCH,
        strategy: StrategyName = DEFAULT_STRATEGY,
        kernel: Kernel = "fast",
        state: str | os.PathLike[str] | None = None,
        sinks: Sequence[Sink] = (),
        compiled: bool = False,
        max_driver_groups: int = MAX_DRIVER_GROUPS,
        aggregation: Aggregation = "auto",
        spread_over: int | None = None,
    ) -> None:
        """Open an engine, on the embedded Spark unless a session is given; ``spread_over``: an old name."""
        self.clock = ManualClock(_AFTER_ALL_ROWS) if clock is None else clock
        self.epoch = checked_instant(epoch)
        self.engine = Engine(
            state,
            spark=spark,
            strategy=strategy,
            kernel=kernel,
            sinks=sinks,
            clock=self.clock,
            max_driver_groups=max_driver_groups,
            aggregation=aggregation,
            spread_over=spread_over,
        )
        self._settings: Mapping[str, str] = {} if compiled else _FOR_FEW_ROWS
        self._schemas: dict[str, pa.Schema] = {}

    # -- what there is -------------------------------------------------------------------------------------------

    def stream(
        self,
        name: str,
        columns: Columns,
        *,
        time: str = "ts",
        lateness: str = "0 s",
        max_ahead: str = "10 min",
        idle: str | None = None,
        dedup: Sequence[str] = (),
        retain_rows: str | None = None,
    ) -> None:
        """Declare a stream, for example of ``"ts TIMESTAMP, symbol STRING, price DOUBLE"``."""
        lengths = parse_duration(lateness), parse_duration(max_ahead)
        idle_us, rows_us = (0 if length is None else parse_duration(length) for length in (idle, retain_rows))
        declared = Stream(name, self._columns(name, columns, time), time, *lengths)
        self.declare(replace(declared, idle_us=idle_us, dedup=tuple(dedup), retain_rows_us=rows_us))

    def declare(self, stream: Stream) -> None:
        """Declare a stream as a catalog or project has it; its source is left alone."""
        stream = replace(stream, format=None, options={})
        check_columns(stream)
        self.engine.catalog.create_stream(stream)

    def table(self, name: str, rows: Rows, *, schema: Columns | None = None) -> None:
        """Declare a table by its rows; without a schema their types are found. Again: the rows are replaced."""
        owner = f'table "{name}"'
        if schema is None:
            found = inferred_schema(rows, owner)
        else:
            found = schema_of(self.engine.session, self._columns(name, schema))
        with self.working():
            self.engine.create_table(name, arrow_rows(rows, found, owner, self.epoch))

    def query(self, name: str, text: str) -> Admitted:
        """Enter a query between two batches; the return value says from which window on it is answered."""
        with self.working():
            return self.engine.create_query(name, text)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Set Spark up for few rows while the bed or its engine works; then wait until sinks have all answers."""
        with set_for_now(self.engine.session, self._settings):
            yield
            self.engine.streams.wait_for_sinks()

    # -- rows in -------------------------------------------------------------------------------------------------

    def feed(self, stream: str, rows: Rows, *, number: int | None = None) -> None:
        """Give a stream one batch of rows; ``number`` is for batches that Spark would send again."""
        at_work = self.engine.stream(stream)
        columns = at_work.stream.columns
        table = arrow_rows(rows, self._schema(at_work.stream), f'stream "{at_work.stream.name}"', self.epoch)
        with self.working():
            frame = frame_of(self.engine.session, table, columns)
            at_work.process(frame, at_work.pipeline.progress.clock.batch + 1 if number is None else number)
            at_work.operators.finish(at_work.pipeline)
            at_work.lead()

    def feed_in_cuts(self, stream: str, rows: Rows, cuts: Sequence[int]) -> None:
        """Give a stream rows in batches of so many rows each; together they must be all rows."""
        if sum(cuts) != len(rows) or any(cut < 0 for cut in cuts):
            what = f'batches of {", ".join(map(str, cuts)) or "no"} rows are not the {len(rows)} rows of "{stream}"'
            raise SourceError(what, hint="Write how many rows each batch takes; the numbers add up to all rows.")
        for start, end in pairwise(accumulate(cuts, initial=0)):
            self.feed(stream, rows[start:end])

    def heartbeat(self, stream: str) -> bool:
        """Let a stream with ``idle`` see how far the clock has gone; tell whether its watermark moved."""
        at_work = self.engine.stream(stream)
        with self.working():
            moved = at_work.pipeline.heartbeat(at_work.snapshot())
            at_work.lead()
            return moved

    def flush(self, stream: str | None = None) -> None:
        """End a stream, or all of them, and answer the last windows."""
        with self.working():
            for name in self.engine.catalog.stream_names() if stream is None else [stream]:
                self.engine.stream(name).flush()

    # -- answers out ---------------------------------------------------------------------------------------------

    def results(self, query: str) -> pa.Table:
        """Return a query's answers as an Arrow table."""
        return self.engine.results(query)

    def answers(self, query: str) -> list[dict[str, Any]]:
        """Return a query's answers as rows."""
        return python_rows(self.results(query))

    def timeline(self, query: str) -> list[tuple[Any, ...]]:
        """Return for each answer its window's end in seconds since the epoch, and the query's columns."""
        return [(self._seconds(end), *values) for _, end, *values in (row.values() for row in self.answers(query))]

    def ask(self, text: str) -> list[dict[str, Any]]:
        """Return the answer to a one-time query as rows."""
        with self.working():
            rows: list[dict[str, Any]] = self.engine.ask(text, "rows")
        return rows

    def revisions(self, query: str) -> list[tuple[Any, ...]]:
        """Return all that was ever said: window's end in seconds, revision, what was done, and the query's columns."""
        rows = self.engine.results(query, "rows", revisions=True)
        return [(self._seconds(end), *values) for _, end, *values in (row.values() for row in rows)]

    def compare(self, query: str, expected: Sequence[Mapping[str, Any]]) -> list[str]:
        """List in words how a query's answers differ from those expected."""
        return compare(self.results(query), expected, epoch=self.epoch)

    def paused(self, query: str) -> str | None:
        """Return why a query is paused, or None if it is not."""
        definition = self.engine.catalog.query(query)
        found = self.engine.stream(definition.query.stream).pipeline.progress.windows.paused.get(definition.id)
        if found is None and self.engine.catalog.user_paused(query):  # it has not begun yet
            return BY_HAND
        return None if found is None else found.reason

    def counts(self, stream: str) -> Counts:
        """Return how many rows came, and how many of them were on time, late and invalid."""
        return self.engine.stream(stream).pipeline.progress.clock.counts

    def reports(self, stream: str) -> list[str]:
        """Return what a stream has to say: paused queries, silences that were not answered."""
        return list(self.engine.stream(stream).pipeline.reports)

    # -- inside --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the engine; the Spark session stays."""
        self.engine.close()

    def __enter__(self) -> Self:
        """Use the bed in a with statement."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the engine."""
        self.close()

    def _columns(self, name: str, columns: Columns, time: str | None = None) -> tuple[Column, ...]:
        """Read columns however they are declared."""
        if isinstance(columns, str):
            return _declared(name, columns, time)
        if isinstance(columns, pa.Schema):
            return columns_in(self.engine.session, columns)
        return tuple(columns)

    def _schema(self, stream: Stream) -> pa.Schema:
        """Return what a stream's rows look like in Arrow."""
        if stream.name not in self._schemas:
            self._schemas[stream.name] = schema_of(self.engine.session, stream.columns)
        return self._schemas[stream.name]

    def _seconds(self, instant: datetime) -> float:
        """Write an instant as seconds since the epoch, whole ones as an integer."""
        seconds = (instant - self.epoch).total_seconds()
        return int(seconds) if seconds.is_integer() else seconds


def _declared(name: str, columns: str, time: str | None) -> tuple[Column, ...]:
    """Read columns as they stand in the statement of a stream, or of a table, which has no time."""
    head = f"CREATE {'TABLE' if time is None else 'STREAM'} {quoted(name)} ("
    tail = "\n) USING csv" if time is None else f"\n) USING csv WATERMARK FOR {quoted(time)}"
    match parse_script(text := f"{head}{columns}{tail}"):
        case [CreateStream(stream=Stream(columns=found)) | CreateTable(table=Table(columns=found))]:
            return found
    raise MalformedSQL("these are not columns", text=text, place=(len(head), len(head) + len(columns)))
