"""The whole way of the data: statements and rows in, answers out.

::

    text ─parse─► Statement ─bind─► Query ─type─► Definition ─plan─► Layout        language/ spark/typing share/
    source ─► batch ─► partials ─► synopsis ─► due windows ─► answers ─► sinks     stream/ store/ sinks/
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.errors import UnknownStream, Unsupported, nearest
from penstock.evaluate.typed import Definition, TypedQuery
from penstock.language.bind import bind
from penstock.language.duration import parse_duration
from penstock.language.parse import parse_query, parse_script
from penstock.language.statements import CreateQuery, CreateStream, CreateTable, Drop, Select, Statement
from penstock.model.schema import Stream, Table
from penstock.share.explain import explain_plan
from penstock.share.plan import Strategy
from penstock.sinks.delivery import Delivery
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.protocol import Sink
from penstock.spark import sources
from penstock.spark.session import adopt, embedded
from penstock.spark.tables import Tables
from penstock.spark.typing import Typer
from penstock.spark.writing import executor_writer
from penstock.store.answers import DiskAnswerLog, MemoryAnswerLog
from penstock.store.commits import DiskCommitLog, MemoryCommitLog
from penstock.store.folder import StateFolder
from penstock.store.journal import Journal
from penstock.store.synopsis import Kernel
from penstock.stream.at_work import StreamAtWork
from penstock.stream.pipeline import Pipeline, wall_clock_us

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Engine:
    """Runs continuous queries over shared streams, on an embedded local Spark or on a session that is given."""

    def __init__(
        self,
        state: str | os.PathLike[str] | None = None,
        *,
        spark: SparkSession | None = None,
        strategy: Strategy = "shared paired",
        kernel: Kernel = "fast",
        sinks: Sequence[Sink] = (),
        clock: Callable[[], int] = wall_clock_us,
    ) -> None:
        """Open a state folder (or keep everything in memory) and bring back what it holds."""
        self.strategy, self.kernel, self.clock, self.sinks = strategy, kernel, clock, tuple(sinks)
        self._folder = None if state is None else StateFolder(Path(state))
        self.session = embedded() if spark is None else adopt(spark)
        self._scratch = tempfile.TemporaryDirectory(prefix="penstock-")
        self.catalog = Catalog(Journal(self._folder.journal if self._folder else None))
        self._typer, self._tables = Typer(self.session), Tables(self.session)
        self._frames: dict[str, DataFrame] = {}
        self._at_work: dict[str, StreamAtWork] = {}
        for change in self.catalog.history():
            text = change.get("text")
            self.catalog.restore(change, self._typed(parse_query(text), change["name"]) if text else None)

    # -- statements ----------------------------------------------------------------------------------------------

    def execute(self, script: str) -> None:
        """Carry out statements separated by semicolons; queries that follow each other are entered together."""
        waiting: list[TypedQuery] = []
        for statement in parse_script(script):
            if isinstance(statement, CreateQuery):
                waiting.append(self._typed(statement.select, statement.name))
            else:
                self.catalog.create_queries(waiting)
                waiting = []
                self._carry_out(statement)
        self.catalog.create_queries(waiting)

    def create_stream(
        self, name: str, source: DataFrame, *, time: str, lateness: str = "0 s", max_ahead: str = "10 min"
    ) -> None:
        """Take a streaming DataFrame of the program itself as a stream."""
        lengths = parse_duration(lateness), parse_duration(max_ahead)
        self._frames[name] = source
        self._enter_stream(Stream(name, sources.columns_of(source), time, *lengths))

    def create_table(self, name: str, source: DataFrame | pa.Table) -> None:
        """Take a DataFrame or Arrow table of the program itself as a table."""
        frame = self.session.createDataFrame(source.combine_chunks()) if isinstance(source, pa.Table) else source
        self._tables.register(name, frame)
        self.catalog.create_table(Table(name, sources.columns_of(frame)))

    def create_query(self, name: str, text: str) -> Definition:
        """Enter a query at any time; it takes effect at the stream's next batch."""
        return self.catalog.create_queries([self._typed(parse_query(text), name)])[0]

    def drop_query(self, name: str) -> None:
        """Take a query out from the next batch on; its answers stay in the sinks."""
        self.catalog.drop("query", name)

    def resume_query(self, name: str) -> None:
        """Let a query that an error paused answer again, from the first window after it."""
        definition = self.catalog.query(name)
        self.stream(definition.query.stream).resume(definition)

    # -- running -------------------------------------------------------------------------------------------------

    def process_available(self, *, flush: bool = False) -> None:
        """Process all that the sources hold now; ``flush`` ends the streams and answers their last windows."""
        for name in self.catalog.stream_names():
            stream = self.stream(name)
            stream.run_available()
            if flush:
                stream.flush()
            stream.delivery.roll()

    def start(self) -> None:
        """Run on in the background until :meth:`stop`."""
        for name in self.catalog.stream_names():
            self.stream(name).start()

    def stop(self) -> None:
        """Stop after the current batches, make all answers visible, and raise what stopped a stream before."""
        for stream in self._at_work.values():
            stream.stop()
            stream.delivery.roll()

    @property
    def running(self) -> bool:
        """Tell whether every stream still runs in the background."""
        return bool(self._at_work) and all(stream.running for stream in self._at_work.values())

    def results(self, name: str) -> pa.Table:
        """Return a query's answers: window_start, window_end and its columns, by window, then group."""
        definition = self.catalog.query(name)
        return self.stream(definition.query.stream).results(definition)

    def explain(self) -> str:
        """Show who shares what: trees, slices, groupings, and counted operations shared and alone."""
        texts = []
        for name in self.catalog.stream_names():
            version, definitions = self.catalog.snapshot(name)
            rate = self._at_work[name].pipeline.rate() if name in self._at_work else None
            texts.append(explain_plan(name, definitions, self.strategy, version, rate))
        return "\n\n".join(texts)

    def stream(self, name: str) -> StreamAtWork:
        """Return a stream at work: its pipeline has counts, metrics and reports."""
        stream = self.catalog.stream(name)
        if stream is None:
            raise UnknownStream(f'there is no stream "{name}"', hint=nearest(name, self.catalog.stream_names()))
        if stream.name not in self._at_work:
            self._at_work[stream.name] = self._put_to_work(stream)
        return self._at_work[stream.name]

    def close(self) -> None:
        """Stop everything and let go of the state folder; the Spark session stays."""
        try:
            self.stop()
        finally:
            if self._folder is not None:
                self._folder.release()
            self._scratch.cleanup()

    def __enter__(self) -> Self:
        """Use the engine in a with statement."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the engine."""
        self.close()

    # -- inside --------------------------------------------------------------------------------------------------

    def _carry_out(self, statement: Statement) -> None:
        """Carry out a statement that is not a CREATE QUERY."""
        match statement:
            case CreateStream(stream=stream):
                stream = _with_max_ahead(stream)
                sources.check_source(stream)
                columns = stream.columns or sources.inferred_columns(self.session, stream)
                self._enter_stream(replace(stream, columns=columns))
            case CreateTable(table=table):
                sources.check_source(table)
                columns = table.columns or sources.inferred_columns(self.session, table)
                self.catalog.create_table(replace(table, columns=columns))
            case Drop(kind=kind, name=name):
                self.catalog.drop(kind, name)
            case Select() | CreateQuery():
                raise Unsupported("a SELECT needs a name here", hint="Write CREATE QUERY name AS SELECT …")

    def _enter_stream(self, stream: Stream) -> None:
        """Enter a stream whose time column is one."""
        sources.check_columns(stream)
        self.catalog.create_stream(stream)

    def _typed(self, select: Select, name: str) -> TypedQuery:
        """Bind a query's names and let Spark type it."""
        query = bind(select, self.catalog, name)
        stream = self.catalog.stream(query.stream)
        assert stream is not None
        return self._typer.type_query(query, stream, self.catalog.tables())

    def _put_to_work(self, stream: Stream) -> StreamAtWork:
        """Open a stream's logs, sinks and source."""
        folder, name = self._folder, stream.name
        commits = DiskCommitLog(folder.commits(name)) if folder else MemoryCommitLog()
        answers = DiskAnswerLog(folder.answers(name)) if folder else MemoryAnswerLog()
        pipeline = Pipeline(
            stream, self.session, self._tables, commits, answers, self.strategy, self.kernel, self.clock
        )
        for sink in self.sinks:
            if isinstance(sink, ParquetSink) and sink.write_large is None:
                sink.write_large = executor_writer(self.session)
        pipeline.aside = folder.invalid(name) if folder else None
        delivery = Delivery(name, self.sinks, answers, folder, self.catalog.name_of)
        checkpoint = folder.checkpoint(name) if folder else Path(self._scratch.name) / "checkpoint" / name
        return StreamAtWork(stream, self.catalog, pipeline, delivery, lambda: self._frame(stream), checkpoint)

    def _frame(self, stream: Stream) -> DataFrame:
        """Open a stream's source."""
        if stream.format is None:
            return sources.given_frame(self._frames, stream)
        return sources.read_stream(self.session, stream)


def _with_max_ahead(stream: Stream) -> Stream:
    """Take the option ``max_ahead``, which is Penstock's own, from the source's."""
    options = dict(stream.options)
    ahead = options.pop("max_ahead", None)
    return stream if ahead is None else replace(stream, options=options, max_ahead_us=parse_duration(ahead))
