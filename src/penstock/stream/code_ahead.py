"""Lets Spark generate the code of a stream's job after a restart, while commits are read and the source opens.

The job of the last plan is run over no rows in a thread of its own: Spark analyses and plans it, compiles its code and
loads what else a first batch needs. The first batch writes the same job, and finds all of that in place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.catalog import Catalog
from penstock.model.derived import FED
from penstock.model.schema import Stream
from penstock.share.layout import Layout
from penstock.spark.job.no_rows import no_rows
from penstock.spark.job.partials import PartialsJob
from penstock.spark.job.writer import Bounds
from penstock.spark.session.pools import BACKGROUND, in_pool
from penstock.stream.aggregation_choice import LastBatch
from penstock.stream.batch_job import BatchJob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CodeAhead:
    """Runs one job over no rows, in the background; nothing depends on it, and what fails in it the batch will tell."""

    def __init__(self, session: SparkSession, stream: Stream, catalog: Catalog, computing: BatchJob) -> None:
        """Prepare for the batches of a stream; nothing is begun yet."""
        self.session, self.stream, self.catalog, self.computing = session, stream, catalog, computing
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def taken_back(
        self, layout: Layout, last: tuple[int, int], clock_us: int, columns: Callable[[], Collection[str]]
    ) -> None:
        """Begin as soon as a batch is back that has the plan of now: ``last`` are its rows and partials.

        ``columns`` tells those of the next batch.
        """
        if self._thread is not None or self._left_to_batches(layout):
            return
        if [d.id for d in layout.plan.definitions] == [d.id for d in self.catalog.definitions(self.stream.name)]:
            self.begin(*self.computing.ahead(layout, clock_us, LastBatch(*last)), columns())

    def _left_to_batches(self, layout: Layout) -> bool:
        """Tell whether batches look otherwise, or the job would do more than compute: read tables, start workers."""
        apart = self.stream.format in (None, *FED)
        otherwise = layout.attempts or layout.samples
        return bool(apart or otherwise or layout.spread or layout.plan.joins or self.catalog.python_functions())

    def begin(self, write: Callable[[], PartialsJob], bounds: Bounds, columns: Collection[str]) -> None:
        """Begin with a job that ``write`` makes, over the columns that batches will have; computed ones are unknown."""
        known = {c.name: c.type for c in self.stream.columns}
        if not known.keys() >= set(columns):
            return
        types = {name: known[name] for name in sorted(columns)}
        self._thread = threading.Thread(target=self._run, args=(write, bounds, types), daemon=True)
        self._thread.start()

    def _run(self, write: Callable[[], PartialsJob], bounds: Bounds, types: dict[str, str]) -> None:
        """Write the job and run it, unless it is not wanted any more."""
        with suppress(Exception):
            job = write()
            with in_pool(self.session, BACKGROUND):
                if self._stopping.is_set():
                    return
                job.run(no_rows(self.session, types), {}, bounds)

    def wait(self) -> None:
        """Wait for the job: a batch that came meanwhile would let Spark do the same once more."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """Run the job no more, unless Spark has begun."""
        self._stopping.set()
        self.wait()
