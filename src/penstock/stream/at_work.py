"""One stream at work: its Spark query, its pipeline and its sinks, fed from the catalog as it stands at each batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.evaluate.typed import Definition
from penstock.model.schema import Stream
from penstock.sinks.delivery import Delivery
from penstock.spark.running import Running
from penstock.store.answering import sorted_answers
from penstock.store.answers import answers_of
from penstock.stream.agenda import LOG
from penstock.stream.pausing import resume
from penstock.stream.pipeline import Pipeline, Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StreamAtWork:
    """Runs one stream; a query that needs a new column restarts its stateless Spark query between two batches."""

    def __init__(
        self,
        stream: Stream,
        catalog: Catalog,
        pipeline: Pipeline,
        delivery: Delivery,
        open_frame: Callable[[], DataFrame],
        checkpoint: Path,
    ) -> None:
        """Bring back what was committed before the first batch."""
        self.stream, self.catalog, self.pipeline, self.delivery = stream, catalog, pipeline, delivery
        self._open_frame, self._checkpoint = open_frame, checkpoint
        self._running: Running | None = None
        self._supervisor: threading.Thread | None = None
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._busy = threading.RLock()
        pipeline.deliver = delivery.deliver
        pipeline.recover(self.snapshot)

    # -- what a batch sees ---------------------------------------------------------------------------------------

    def snapshot(self, version: int | None = None) -> Snapshot:
        """Return the catalog as a batch sees it."""
        found, definitions = self.catalog.snapshot(self.stream.name, version)
        return Snapshot(found, definitions, self.catalog.tables())

    def columns(self) -> frozenset[str]:
        """Return the columns that the queries of now need, and the time column."""
        read = (d.typed.columns for d in self.catalog.definitions(self.stream.name))
        return frozenset({self.stream.time}).union(*read)

    def process(self, batch: DataFrame, batch_id: int, source: str = "") -> None:
        """Take one batch with the queries whose columns it has."""
        with self._busy:
            self.pipeline.process(batch, batch_id, self._snapshot_with(frozenset(batch.columns)), source)

    def _snapshot_with(self, columns: frozenset[str]) -> Snapshot:
        """Return the newest catalog version whose queries the batch's columns can answer."""
        current = self.snapshot()
        waiting = [d.created for d in current.definitions if not d.typed.columns <= columns]
        return self.snapshot(min(waiting) - 1) if waiting else current

    # -- running -------------------------------------------------------------------------------------------------

    def run_available(self) -> None:
        """Process all that the source holds now."""
        running = self._open()
        while True:
            wanted = self.columns()
            running.run_available(wanted)
            if self.columns() <= wanted:
                return

    def start(self) -> None:
        """Run on in the background."""
        if self._supervisor is not None:
            return
        self._stopping.clear()
        self._failure = None
        self._supervisor = threading.Thread(target=self._supervise, name=f"penstock-{self.stream.name}", daemon=True)
        self._supervisor.start()

    def stop(self) -> None:
        """Stop after the current batch and raise what stopped the stream before."""
        self._stopping.set()
        if self._supervisor is not None:
            self._supervisor.join()
            self._supervisor = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    @property
    def running(self) -> bool:
        """Tell whether the stream runs in the background."""
        return self._supervisor is not None and self._supervisor.is_alive()

    def _supervise(self) -> None:
        """Keep the Spark query running; give it new columns when queries ask for them."""
        running = self._open()
        try:
            while not self._stopping.is_set():
                wanted = self.columns()
                running.start(wanted)
                while running.active and self.columns() <= wanted and not self._stopping.wait(0.05):
                    pass
                if not running.active:
                    running.wait()
                running.stop()
        except BaseException as error:
            LOG.error(error)
            self._failure = error

    def _open(self) -> Running:
        """Open the source once."""
        if self._running is None:
            self._running = Running(self.stream.name, self._open_frame(), self._checkpoint, self.process)
        return self._running

    # -- answers -------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """End the stream and answer its last windows."""
        with self._busy:
            self.pipeline.flush(self.snapshot())

    def results(self, definition: Definition) -> pa.Table:
        """Return a query's answers so far."""
        return sorted_answers(answers_of(self.pipeline.answers, [definition.id]), definition.typed.schema)

    def resume(self, definition: Definition) -> None:
        """Let a paused query answer again."""
        with self._busy:
            resume(self.pipeline.progress, definition)

    def open_windows(self) -> int:
        """Count the windows that hold rows and are not final."""
        with self._busy:
            return self.pipeline.agenda.open_windows(self.pipeline.plan(self.snapshot()))
