"""The whole way of the data: statements and rows in, answers out.

::

    text ─parse─► Statement ─bind─► Query ─type─► Definition ─plan─► Layout        language/ spark/typing share/
    source ─► batch ─► partials ─► synopsis ─► due windows ─► answers ─► sinks     stream/ store/ sinks/
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.catalog.execution import Execution
from penstock.catalog.questions import Questions
from penstock.errors import UnknownStream, nearest
from penstock.evaluate.typed import Definition, TypedQuery
from penstock.language.bind import bind
from penstock.language.duration import parse_duration
from penstock.language.parse import parse_query, parse_script
from penstock.language.statements import Select
from penstock.model.function import Function
from penstock.model.schema import Column, Stream, Table
from penstock.report.notebook import StreamRow, engine_summary
from penstock.share.explain import explain_plan
from penstock.share.explanation import Explanation, StreamPlan
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
from penstock.store.forms import Form, in_form
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
            self.catalog.restore(change, self.typed(parse_query(text), change["name"]) if text else None)

    # -- statements ----------------------------------------------------------------------------------------------

    def execute(self, script: str) -> list[pa.Table]:
        """Carry out statements separated by semicolons; return one table for each EXPLAIN, SHOW and DESCRIBE.

        Queries that follow each other are entered together.
        """
        return self._execution.run(parse_script(script))

    def create_stream(
        self, name: str, source: DataFrame, *, time: str, lateness: str = "0 s", max_ahead: str = "10 min"
    ) -> None:
        """Take a streaming DataFrame of the program itself as a stream."""
        lengths = parse_duration(lateness), parse_duration(max_ahead)
        self._enter_stream(Stream(name, sources.columns_of_stream(name, source), time, *lengths))
        self._frames[name] = source

    def create_table(self, name: str, source: DataFrame | pa.Table) -> None:
        """Take a DataFrame or Arrow table of the program itself as a table."""
        frame = self.session.createDataFrame(source.combine_chunks()) if isinstance(source, pa.Table) else source
        self._tables.register(name, frame)
        self.catalog.create_table(Table(name, sources.columns_of(frame)))

    def create_query(self, name: str, text: str) -> Definition:
        """Enter a query at any time; it takes effect at the stream's next batch."""
        return self.catalog.create_queries([self.typed(parse_query(text), name)])[0]

    def alter_query(self, name: str, text: str) -> Definition:
        """Give a query a new SELECT from the stream's next batch on; its answers so far stay in the sinks."""
        return self._execution.replace(name, parse_query(text))

    def typed(self, select: Select, name: str) -> TypedQuery:
        """Bind a query's names and let Spark type it."""
        query = bind(select, self.catalog, name, self.catalog.functions())
        stream = self.catalog.stream(query.stream)
        assert stream is not None
        return self._typer.type_query(query, stream, self.catalog.tables())

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

    def results(self, name: str, form: Form = "arrow") -> Any:
        """Return a query's answers by window, then group: window_start, window_end and its columns.

        ``form`` is ``"arrow"`` (a pyarrow.Table), ``"pandas"``, ``"polars"`` or ``"rows"`` (a list of dicts).
        """
        definition = self.catalog.query(name)
        return in_form(self.stream(definition.query.stream).results(definition), form)

    def explain(self) -> Explanation:
        """Show who shares what: trees, slices, groupings, and counted operations shared and alone."""
        plans: list[StreamPlan] = []
        for name in self.catalog.stream_names():
            version, definitions = self.catalog.snapshot(name)
            plans += explain_plan(name, definitions, self.strategy, version, self._rate(name)).streams
        return Explanation(tuple(plans))

    def _repr_html_(self) -> str:
        """Show the engine in a notebook: its streams with what came and went, then who shares what."""
        rows = [self._stream_row(name) for name in self.catalog.stream_names()]
        return engine_summary(rows, self.explain())

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

    @property
    def _execution(self) -> Execution:
        """Give statements the hands they need."""
        questions = Questions(self.catalog, self.strategy, self.typed, self._rate)
        return Execution(
            self.catalog, questions, self.typed, self._enter, self._check_function, self.resume_query, self._leave
        )

    def _enter(self, source: Stream | Table) -> None:
        """Enter a stream or table of files, with the columns its files have if none are given."""
        sources.check_source(source)
        columns = source.columns or sources.inferred_columns(self.session, source)
        if isinstance(source, Stream):
            self._enter_stream(replace(source, columns=columns))
        else:
            self.catalog.create_table(replace(source, columns=columns))

    def _check_function(self, function: Function) -> None:
        """Let Spark type a function's body."""
        body = f"CAST({function.body} AS {function.returns})" if function.returns else function.body
        self._typer.type_of(body, [Column(p.name, p.type) for p in function.parameters], f"function {function.name}")

    def _leave(self, name: str) -> None:
        """Stop a stream that was dropped; without a state folder its position is forgotten too."""
        for known in [known for known in self._at_work if known.lower() == name.lower()]:
            self._at_work.pop(known).stop()
            shutil.rmtree(Path(self._scratch.name) / "checkpoint" / known, ignore_errors=True)

    def _rate(self, name: str) -> float | None:
        """Return the rows a second that a stream was seen to bring."""
        return self._at_work[name].pipeline.rate() if name in self._at_work else None

    def _enter_stream(self, stream: Stream) -> None:
        """Enter a stream whose time column is one."""
        sources.check_columns(stream)
        self.catalog.create_stream(stream)

    def _stream_row(self, name: str) -> StreamRow:
        """Tell what came and went in one stream."""
        queries, at_work = len(self.catalog.definitions(name)), self._at_work.get(name)
        if at_work is None:
            return StreamRow(name, queries)
        progress, answers = at_work.pipeline.progress, at_work.pipeline.metrics.answers
        counts = progress.counts
        return StreamRow(name, queries, counts.ingested, counts.late, counts.invalid, answers, progress.watermark_us)

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
