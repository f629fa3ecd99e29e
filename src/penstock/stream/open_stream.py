"""Opens a stream of the catalog: its logs, folders, sinks and source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog import Catalog
from penstock.kernel.synopsis import Kernel
from penstock.model.derived import ROWS, is_apart, is_line
from penstock.model.instants import Clock
from penstock.model.schema import Stream
from penstock.share.plan import Strategy
from penstock.share.weave.costs import Rates
from penstock.sinks.delivery import Delivery
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.protocol import Sink
from penstock.spark.answers.large_answers import executor_writer
from penstock.spark.job.lookup_tables import LookupTables
from penstock.store.answers import AnswerLog, DiskAnswerLog, MemoryAnswerLog
from penstock.store.commits import CommitLog, DiskCommitLog, MemoryCommitLog
from penstock.store.folder import StateFolder
from penstock.store.rates import stored_rates
from penstock.store.verifying import check_together
from penstock.stream.derived.partitioned_rows import PartitionedRowStream, PartitionPipeline
from penstock.stream.derived.query_answers import QueryStream
from penstock.stream.derived.row_windows import RowWindowStream
from penstock.stream.past_rows import Places
from penstock.stream.pipeline import Pipeline
from penstock.stream.runner import StreamRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What all streams of an engine have in common; ``scratch`` serves where there is no state folder."""

    session: SparkSession
    tables: LookupTables
    catalog: Catalog
    folder: StateFolder | None
    scratch: Path
    sinks: Sequence[Sink]
    strategy: Strategy
    kernel: Kernel
    clock: Clock
    spread_over: int  # groups of one grouping that the driver keeps
    rates: Rates = field(default_factory=stored_rates)


def put_to_work(
    stream: Stream, settings: StreamSettings, open_frame: Callable[[], DataFrame], leader: StreamRunner | None = None
) -> StreamRunner:
    """Open a stream's logs, folders and sinks, and bring back what was committed; a ``leader`` feeds it."""
    places = _places(stream.name, settings)
    commits, answers = _logs(stream.name, settings.folder)
    if settings.folder is not None:
        version = settings.catalog.version
        check_together(settings.folder.path, stream.name, commits.last(), answers.last(), version)
    pipeline = (PartitionPipeline if is_apart(stream.name) else Pipeline)(
        stream,
        settings.session,
        settings.tables,
        commits,
        answers,
        places,
        settings.strategy,
        settings.kernel,
        settings.clock,
        settings.spread_over,
        settings.rates,
    )
    for sink in settings.sinks:
        if isinstance(sink, ParquetSink) and sink.write_large is None:
            sink.write_large = executor_writer(settings.session)
    called = settings.catalog.name_of, settings.catalog.version_of
    delivery = Delivery(stream.name, settings.sinks, answers, settings.folder, *called)
    if leader is not None:
        return _fed_as(stream)(stream, settings.catalog, pipeline, delivery, leader)
    return StreamRunner(stream, settings.catalog, pipeline, delivery, open_frame, places.checkpoint)


def _fed_as(stream: Stream) -> type[QueryStream | RowWindowStream]:
    """Choose how a stream is fed by another one."""
    if stream.format != ROWS:
        return QueryStream
    return PartitionedRowStream if is_apart(stream.name) else RowWindowStream


def _logs(name: str, folder: StateFolder | None) -> tuple[CommitLog, AnswerLog]:
    """Open a stream's commits and answers."""
    if folder is None:
        return MemoryCommitLog(), MemoryAnswerLog()
    return DiskCommitLog(folder.commits(name)), DiskAnswerLog(folder.answers(name))


def _places(name: str, settings: StreamSettings) -> Places:
    """Choose a stream's folders."""
    folder, scratch = settings.folder, settings.scratch
    if folder is None:
        return Places(*(scratch / part / name for part in ("keys", "rows", "checkpoint", "waiting")))
    own = folder.keys(name), folder.rows(name), folder.checkpoint(name), folder.waiting(name), folder.invalid(name)
    return Places(*own, *(() if is_line(name) else (folder.spread(name), folder.answers(name))))
