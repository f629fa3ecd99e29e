"""Runs a stream as one stateless Spark streaming query, which restarts only for new columns."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.errors import PenstockError, SourceError
from penstock.kernel.defects import is_of_spark
from penstock.model.schema import Stream
from penstock.spark.functions.register import WATCHED
from penstock.spark.job.jvm_columns import keep, written
from penstock.spark.job.literals import quoted
from penstock.spark.messages import message_of
from penstock.spark.session.embedded import ended, gone_away, spark_is_over
from penstock.spark.session.own_session import moved
from penstock.spark.session.temporary_settings import cloned
from penstock.spark.sources.readers import reader_of
from penstock.spark.sources.unreadable import worded

LOG: Final = logging.getLogger("penstock")
Trigger = Callable[[DataStreamWriter], DataStreamWriter]
Process = Callable[[DataFrame, int, str], None]  # batch, its number, the source's position

# In a session of the stream's own; what a query means is fixed by the engine's session that it is cloned from.
BATCH_SETTINGS: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    **WATCHED,
}


def as_for_batches(session: SparkSession) -> SparkSession:
    """Clone a session with the settings that batches run under: rows of the past must mean the same."""
    return cloned(session, batch_settings(session))


def batch_settings(session: SparkSession) -> dict[str, str]:
    """Return the settings for batches; where the JVM leaves large methods interpreted, Spark is told to split them.

    Many opaque predicates make methods of more than HotSpot's 8,000 bytes; our own session compiles these
    (:func:`~penstock.spark.session.embedded.embedded`); on a given one expressions are computed outside of them.
    """
    conf = session.conf  # has what Spark was started with, too; a copy of that takes hundreds of calls into the JVM
    master = conf.get("spark.master", "") or ""
    local = master.startswith("local") and not master.startswith("local-cluster")
    options = conf.get(f"spark.{'driver' if local else 'executor'}.extraJavaOptions", "") or ""
    if "-XX:-DontCompileHugeMethods" in options:
        return dict(BATCH_SETTINGS)
    return BATCH_SETTINGS | {"spark.sql.codegen.hugeMethodLimit": "8000"}


class Halted(Exception):
    """A batch is refused: the query is being stopped, or lacks a column; Spark does not count it as done."""


class _Callback:
    """What Spark calls with each batch. Py4J keeps it as long as Java does, so it can let go of the stream."""

    def __init__(self, take: Callable[[DataFrame, int], None]) -> None:
        """Hand batches on."""
        self._take: Callable[[DataFrame, int], None] | None = take

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Hand one batch on; after the end it is refused."""
        if self._take is None:
            raise Halted
        self._take(batch, batch_id)

    def let_go(self) -> None:
        """Hand no batch on from now on."""
        self._take = None


class SparkQuery:
    """Runs one stream's query; what a batch raises reaches the caller as it was."""

    def __init__(
        self,
        name: str,
        frame: DataFrame,
        checkpoint: Path,
        process: Process,
        stream: Stream | None = None,
        session: SparkSession | None = None,
        tell: Callable[[str], None] = LOG.warning,
    ) -> None:
        """Prepare to feed batches of a frame to a callback; those of a declared stream may be looked at before.

        Spark plans the frame in its own session; its batches go on in one that is cloned from ``session``.
        """
        self.name, self.frame, self.checkpoint, self.process = name, frame, checkpoint, process
        self._session = as_for_batches(session or frame.sparkSession)
        reader = None if stream is None else reader_of(stream)
        self._arriving = None if reader is None or stream is None else reader.inspector(stream, checkpoint, tell)
        self.columns: frozenset[str] = frozenset()
        self._query: StreamingQuery | None = None
        self._callback = _Callback(self._take)
        self._error: BaseException | None = None
        self._halted = self._refused = False
        self._batch = threading.Lock()

    @property
    def active(self) -> bool:
        """Tell whether the query runs."""
        return self._query is not None and self._query.isActive

    def run_available(self, columns: Iterable[str]) -> bool:
        """Process all that the source holds now; False: a batch was refused and comes again with the next call."""
        self._launch(columns, lambda writer: writer.trigger(availableNow=True))
        self.wait()
        return not self._refused

    def start(self, columns: Iterable[str], every: str = "0 seconds") -> None:
        """Run on, a batch whenever there are rows."""
        self._launch(columns, lambda writer: writer.trigger(processingTime=every))

    def stop(self) -> None:
        """Stop between two batches and raise what a batch raised."""
        query, self._query = self._query, None
        if query is not None:
            with self._batch:  # the current batch is done; one that Spark starts now is refused, and replayed later
                self._halted = True
            try:
                query.stop()
            except (Py4JError, ConnectionError) as error:
                if not spark_is_over():
                    raise self._wrapped(error) from None
                # Whoever ended us ended Spark too, as signals to a whole group do: a batch it was in comes again.
                self._error = None
        self._callback.let_go()
        self._raise()

    def wait(self) -> None:
        """Wait for the query to end and raise what a batch raised."""
        query = self._query
        if query is None:
            return
        try:
            query.awaitTermination()
            self._callback.let_go()
        except StreamingQueryException as error:
            self._query = None
            self._callback.let_go()
            self._raise()
            if self._refused or self._halted:
                return
            raise self._stopped(error) from None
        except (Py4JError, ConnectionError) as error:  # no answer from the JVM at all
            self._query = None
            self._callback.let_go()
            raise self._wrapped(error) from None
        self._raise()

    def _launch(self, columns: Iterable[str], trigger: Trigger) -> None:
        """Start the query with the columns in use only: nothing prunes through foreachBatch."""
        self.columns, self._error = frozenset(columns), None
        self._halted = self._refused = False
        used = keep([written(quoted(c)) for c in sorted(self.columns)]).select(self.frame)
        self._callback = _Callback(self._take)
        writer = used.writeStream.foreachBatch(self._callback).option("checkpointLocation", str(self.checkpoint))
        try:
            self._query = trigger(writer).start()
        except AnalysisException as error:
            hint = "A stream's frame may select, filter and join static data; Penstock does the aggregating."
            raise SourceError(f'stream "{self.name}" cannot start: {message_of(error)}', hint=hint) from None

    def _take(self, batch: DataFrame, batch_id: int) -> None:
        """Feed one batch to the callback."""
        with self._batch:
            if self._halted:
                raise Halted
            try:
                source, rows = self._position(batch_id), moved(batch, self._session)
                rows = rows if self._arriving is None else self._arriving.looked_at(rows, batch_id, source)
                self.process(rows, batch_id, source)
            except Halted:
                self._refused = True
                raise
            except BaseException as error:
                self._error = error
                raise

    def _position(self, batch_id: int) -> str:
        """Read the source's position of a batch from Spark's checkpoint."""
        try:
            return (self.checkpoint / "offsets" / str(batch_id)).read_text()
        except OSError:
            return ""

    def _stopped(self, error: StreamingQueryException) -> PenstockError:
        """Word what stopped Spark's query outside of a batch."""
        before = f'stream "{self.name}" stopped: '
        gone = None if self._arriving is None else self._arriving.gone()
        return ended(self._session, before) or gone or worded(before, error)

    def _raise(self) -> None:
        """Raise what a batch raised."""
        error, self._error = self._error, None
        if error is not None:
            raise error if isinstance(error, PenstockError) else self._wrapped(error)

    def _wrapped(self, error: BaseException) -> BaseException:
        """Word an error of Spark's as one of ours; anything else is a defect and goes as it is."""
        before = f'stream "{self.name}" stopped: '
        if (over := ended(self._session, before)) is not None:
            return over
        if isinstance(error, Py4JError | ConnectionError) and not isinstance(error, Py4JJavaError):
            return gone_away(before)
        if is_of_spark(error):
            return worded(before, error)
        return error
