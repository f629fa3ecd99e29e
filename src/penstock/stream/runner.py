"""Runs one stream: its Spark query, its pipeline and its sinks, with the catalog as it stands at each batch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.errors import PenstockError
from penstock.evaluate.typed import Definition, TypedQuery
from penstock.kernel.versions import Version
from penstock.model.schema import Stream
from penstock.model.stream_join import JoinNeeds, RetainedRows
from penstock.spark.functions.register import provide
from penstock.spark.session.embedded import ended, telling_the_end
from penstock.spark.session.pools import BACKGROUND, INGEST, in_pool
from penstock.spark.sources.computed_columns import with_inputs
from penstock.spark.sources.streaming_query import Halted, SparkQuery
from penstock.stream.admitted import Admitted, admitted_rows
from penstock.stream.answer_targets import AnswerTargets
from penstock.stream.backfill_worker import BackfillWorker
from penstock.stream.handover import have_left
from penstock.stream.one_time_queries import OneTimeQueries
from penstock.stream.overload.relief import Relief
from penstock.stream.pipeline import Pipeline
from penstock.stream.query_results import shown_versions
from penstock.stream.snapshot import Snapshot, continuous, windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOG = logging.getLogger("penstock")
SILENCE_US = 60_000_000  # without rows, after which answers that sinks have collected are made visible
POLL_S = 0.05  # how soon a running stream sees that its queries changed
_tells_the_end = telling_the_end(attrgetter("pipeline.session"))


class StreamRunner:
    """Runs one stream; a query that needs a new column restarts its stateless Spark query between two batches."""

    def __init__(
        self,
        stream: Stream,
        catalog: Catalog,
        pipeline: Pipeline,
        targets: AnswerTargets,
        open_frame: Callable[[], DataFrame],
        checkpoint: Path,
    ) -> None:
        """Bring back what was committed before the first batch."""
        self.stream, self.catalog, self.pipeline = stream, catalog, pipeline
        self.targets, self.delivery = targets, targets.delivery
        self._open_frame, self._checkpoint = open_frame, checkpoint
        self._running: SparkQuery | None = None
        self._supervisor: threading.Thread | None = None
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._busy = threading.RLock()
        self.desk, self._may_lag = pipeline.given.settings.desk, False
        self.operators = self.desk.operators
        self.past, self.relief = BackfillWorker(self), Relief(self)
        self._wanted: tuple[tuple[int, JoinNeeds | None], frozenset[str]] = ((-1, None), frozenset())
        self._known: tuple[int, tuple[Definition, ...], tuple[Definition, ...]] = (-1, (), ())
        self._led = -1  # the last commit that they have taken
        pipeline.recover(self.columns)

    def __repr__(self) -> str:
        """Tell on a line what the stream is and how far it came."""
        queries, counts = len(self.catalog.definitions(self.stream.name)), self.pipeline.progress.clock.counts
        at_work = "running" if self.running else "not running"
        return f"<Stream {self.stream.name}: queries {queries:,}, rows {counts.ingested:,}, {at_work}>"

    # -- what a batch sees ---------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the catalog as the next batch sees it; queries that have outlived their time are dropped first."""
        for definition in self.catalog.end_outlived(self.pipeline.clock()):
            about = {"event": "query ended", **self._about(definition)}
            LOG.info(f'query "{definition.name}" ends: its lifetime is over', extra=about)
        version, definitions, rowwise = self._queries()
        controls = self.catalog.controls(self.stream.name, self.pipeline.version, version)
        numbered = frozenset(d.id for line in self._lines() for d in self.catalog.definitions(line))
        paused, joined = self.catalog.paused_by_users(), self.catalog.join_needs(self.stream.name)
        rest = self.catalog.tables(), tuple(controls), paused, numbered, joined, rowwise
        return Snapshot(version, definitions, *rest)

    def _queries(self) -> tuple[int, tuple[Definition, ...], tuple[Definition, ...]]:
        """Return the version that the stream's queries are of, those with a window and those without."""
        version = self.catalog.stream_version(self.stream.name)
        if self._known[0] != version:
            _, definitions = self.catalog.snapshot(self.stream.name, version)
            self._known = version, windowed(definitions), continuous(definitions)
        return self._known

    def _retire(self) -> None:
        """End the definitions that were replaced and have answered their last window, by what is committed."""
        if not self.pipeline.half_done:
            for definition in have_left(self.pipeline.progress, self.catalog.leaving(self.stream.name)):
                self.catalog.retire(definition)

    def columns(self) -> frozenset[str]:
        """Return the columns that the queries of now need, and what the stream itself is told by."""
        lines = self._lines()
        joined = self.catalog.join_needs(self.stream.name)
        version = max(map(self.catalog.stream_version, (self.stream.name, *lines))), joined
        if self._wanted[0] != version:
            definitions = self.catalog.definitions(self.stream.name)
            own = {self.stream.time, *self.stream.dedup}
            if lines or self.pipeline.intake.kept_for_us(definitions):
                own |= {c.name for c in self.stream.columns}
            if joined is not None:
                own |= set(joined.columns)
            used = frozenset(own).union(*(d.typed.brought for d in definitions))
            self._wanted = version, with_inputs(used, self.pipeline.intake.doubtful)
        return self._wanted[1]

    def _lines(self) -> list[str]:
        """Return the names of this stream's rows as queries have them numbered."""
        return self.catalog.lines_of(self.stream.name)

    def process(self, batch: DataFrame, batch_id: int, source: str = "") -> None:
        """Take one batch; one without a column that is needed by now is refused, and comes again with it."""
        for follower in self.targets.followers:
            follower.hold_back(self, self._stopping)
        self.relief.hold(self._stopping)
        with self._busy:
            if not self.columns() <= frozenset(batch.columns):
                raise Halted
            self.pipeline.code_ahead.wait()
            with self.pipeline.step():
                self.relief.periods.look()
            snapshot = self.snapshot()
            provide(batch.sparkSession, self.catalog.python_functions())  # its session may be older than some of them
            self.pipeline.lags = self._may_lag and not self.targets.followers
            with in_pool(self.pipeline.session, INGEST):
                self.pipeline.process(batch, batch_id, snapshot, source)
            self.desk.wake()
            self.operators.wake()
            with self.pipeline.step():
                self.lead()
                self.relief.look_after_batch()

    def lead(self) -> None:
        """Let the streams that this one feeds take what is new, and end what has been answered to its end."""
        self._retire()
        for follower in self.targets.followers:
            follower.follow()
        if self._led != self.pipeline.progress.clock.number:  # nothing else lets rows wait, or takes them
            lines, metrics = self._lines(), self.pipeline.metrics
            taken = [f.until_us for f in self.targets.followers if f.stream.name in lines]
            metrics.waiting, metrics.waiting_bytes = self.pipeline.intake.let_go(taken) if lines else (0, 0)
            self._led = self.pipeline.progress.clock.number

    # -- running -------------------------------------------------------------------------------------------------

    @_tells_the_end
    def run_available(self) -> bool:
        """Process all that the source holds now; False: it was stopped before."""
        running, done = self._open(), False
        self._go_on()
        self.past.finish()  # what an engine was asked for that ran before
        self.operators.join(self.pipeline)
        try:
            with self.desk.upkeep_aside(self.pipeline):
                while not done and not self._stopping.is_set():
                    wanted = self.columns()
                    done = running.run_available(wanted) and self.columns() <= wanted
            self.operators.finish(self.pipeline, self._stopping.is_set)
        finally:
            self.operators.leave(self.pipeline)
        self.tick()
        return not self._stopping.is_set()

    def start(self) -> None:
        """Run on in the background."""
        if self._supervisor is not None:
            return
        self._go_on()
        self._failure = None
        self.let_answers_lag()
        self.desk.join(self.pipeline)
        self.operators.join(self.pipeline)
        self._supervisor = threading.Thread(target=self._supervise, name=f"penstock-{self.stream.name}", daemon=True)
        self._supervisor.start()

    def _go_on(self) -> None:
        """Forget that the stream was to stop."""
        self._stopping.clear()
        self.delivery.let_through(always=False)

    def stop(self) -> None:
        """Stop after the current batch and raise what stopped the stream before."""
        self._stopping.set()
        self.delivery.let_through()
        self.stop_waiting()
        self.pipeline.code_ahead.stop()
        self.past.stop()
        if self._supervisor is not None:
            self._supervisor.join()
            self._supervisor = None
        elif self._running is not None:
            self._running.stop()
        self.past.stop()  # the last tick may have found more to read
        self.desk.leave(self.pipeline)
        self.operators.leave(self.pipeline)
        with self._busy:  # what somebody else asked for is done
            self._catch_up()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def stop_waiting(self) -> None:
        """Let nobody wait for a backfill any more: it goes on with the next start."""
        self.pipeline.past.tickets.leave(self.stream.name)

    def is_in_batch(self) -> bool:
        """Tell whether a batch, or another step, is in the middle."""
        if not self._busy.acquire(blocking=False):
            return True
        self._busy.release()
        return False

    def let_answers_lag(self, *, may: bool = True) -> None:
        """Let final windows be answered after the next batch, by the desk or by whoever asks; False: catch up."""
        self._may_lag = may
        self.pipeline.lags = may and not self.targets.followers
        if not may:
            with self.pipeline.step():
                self.pipeline.drain()

    def _catch_up(self) -> None:
        """Answer what lags behind, unless the stream has failed; the next start mends that."""
        if self._failure is None:
            try:
                self.let_answers_lag(may=False)
            except BaseException as error:
                self._failure = error
        self._may_lag = self.pipeline.lags = False

    def leave(self) -> None:
        """Stop for good, and make all answers visible."""
        try:
            self.stop()
        finally:
            self.close_sinks()

    def close_sinks(self) -> None:
        """Make all answers visible, and end the threads of the sinks."""
        try:
            self.delivery.roll()
        finally:
            self.delivery.abandon()

    @property
    def running(self) -> bool:
        """Tell whether the stream runs in the background."""
        return self._supervisor is not None and self._supervisor.is_alive()

    @property
    def retained(self) -> tuple[RetainedRows, ...]:
        """Tell which rows of other streams wait for each other in it: none, unless it joins two."""
        return ()

    def rows_in_memory(self) -> tuple[tuple[int, int], ...]:
        """Tell how many bytes of other streams' rows are held in it, and how many streams share each: none."""
        return ()

    @property
    def failure(self) -> BaseException | None:
        """Return what stopped the stream in the background, until it is raised."""
        return self._failure

    def _supervise(self) -> None:
        """Keep the Spark query running; give it new columns when queries ask for them."""
        try:
            running = self._open()
            while not self._stopping.is_set():
                wanted = self.columns()
                running.start(wanted)
                while running.active and self.columns() <= wanted and not self._stopping.wait(POLL_S):
                    if self._busy.acquire(blocking=False):
                        try:
                            self.tick()
                        finally:
                            self._busy.release()
                        self.past.look()
                        with in_pool(self.pipeline.session, BACKGROUND):
                            self.pipeline.warm_up()
                if not running.active:
                    running.wait()
                running.stop()
        except BaseException as raised:
            over = ended(self.pipeline.session, f'stream "{self.stream.name}" stopped: ')
            error = raised if over is None or isinstance(raised, PenstockError) else over
            LOG.error(error, extra={"event": "stream failed", "stream": self.stream.name})
            self._failure = error
            self.stop_waiting()
            if self._running is not None:
                with suppress(Exception):  # the first failure is the one to tell
                    self._running.stop()

    def tick(self) -> None:
        """Do what is due without rows: changes of queries, a heartbeat, sinks to be tried again."""
        with self._busy, self.pipeline.step():
            self.relief.periods.look()
            snapshot = self.snapshot()
            if self.columns() <= (self._running.columns if self._running is not None else self.columns()):
                self.pipeline.settle(snapshot)
                self.pipeline.heartbeat(snapshot)
                self.lead()
                self.relief.look_idle()
            self.delivery.retry()
            if self.pipeline.silent_us() >= SILENCE_US:
                self.delivery.roll_soon()

    def _open(self) -> SparkQuery:
        """Open the source once."""
        if self._running is None:
            source = self.stream.name, self._open_frame(), self._checkpoint
            self._running = SparkQuery(*source, self.process, self.stream, self.pipeline.session, self._tell)
        return self._running

    def _tell(self, text: str) -> None:
        """Tell users of something about the stream."""
        self.pipeline.due_windows.tell(text, self.stream.name)

    # -- queries that come and go --------------------------------------------------------------------------------

    @contextmanager
    def between_batches(self) -> Iterator[None]:
        """Keep batches waiting."""
        with self._busy, self.pipeline.step():
            yield

    @contextmanager
    def no_batch(self) -> Iterator[None]:
        """Keep batches waiting, while final windows are answered."""
        with self._busy:
            yield

    def check_past(self, typed: TypedQuery) -> None:
        """Refuse a query whose past cannot be had, or that cannot be answered where its groups are kept."""
        if typed.query.is_continuous:
            self.pipeline.continuous.check_past(typed, self.pipeline.intake.past)
            return
        new = Definition(self.catalog.next_id, typed)
        self.pipeline.groupings.refuse_what_cannot_be(new)
        self.past.check(typed, self.catalog.next_id, waits=True)

    @_tells_the_end
    def admit(self, new: Sequence[Definition]) -> list[Admitted]:
        """Tell from when on new queries answer; what is there for them is answered at once, or soon if it runs."""
        with self._busy, self.pipeline.step():
            found = admitted_rows(continuous(new))
            past = any(one.asks_for_past for one in found)
            found += self.pipeline.admit(self.snapshot(), windowed(new))
            watermark, ends = self.pipeline.progress.clock.watermark_us, [e.first_end_us for e in found]
            if watermark is not None and (past or any(end is not None and end <= watermark for end in ends)):
                self.settle()
            return found

    @_tells_the_end
    def settle(self) -> None:
        """Let changes take effect now, unless a running stream will do so in a moment."""
        with self._busy, self.pipeline.step():
            if not self.running:
                self.relief.periods.look()
                self.pipeline.settle(self.snapshot())
                self.lead()

    @_tells_the_end
    def backfill(self, chosen: Mapping[int, int | None], *, accept_changed_files: bool = False) -> dict[int, int]:
        """Answer windows of the past, definition → since when."""
        with self._busy, self.pipeline.step():
            return self.pipeline.backfill(self.snapshot(), chosen, accept=accept_changed_files)

    def set_sampling(self, level: int) -> None:
        """Let queries that shed load take one row of 2^level from the next batch on; it outlives a restart."""
        with self._busy, self.pipeline.step():
            self.pipeline.set_sampling(self.snapshot(), level)

    # -- answers -------------------------------------------------------------------------------------------------

    @_tells_the_end
    def flush(self) -> None:
        """End the stream and answer its last windows."""
        self.past.finish()
        self.operators.finish(self.pipeline)
        with self._busy, self.pipeline.step():
            self.pipeline.flush(self.snapshot())
            self.lead()

    @_tells_the_end
    def ask(self, typed: TypedQuery) -> pa.Table:
        """Answer a one-time query from what is stored, as of the watermark."""
        with self._busy, self.pipeline.step():
            self.pipeline.settle(self.snapshot())
            return OneTimeQueries(self.pipeline, self.catalog.tables()).answer(typed)

    def results(
        self, definition: Definition, elsewhere: Mapping[int, list[pa.Table]], version: Version, *, revisions: bool
    ) -> pa.Table:
        """Return a query's answers so far; ``elsewhere`` has those of versions that read another stream, by version."""
        return shown_versions(self.catalog, self.pipeline, definition, elsewhere).answers(version, revisions=revisions)

    def open_windows(self) -> int:
        """Count the windows that hold rows and are not final."""
        with self._busy, self.pipeline.step():
            return self.pipeline.due_windows.open_windows(self.pipeline.plan(self.snapshot()))

    def _about(self, definition: Definition) -> dict[str, Any]:
        """Name what a line of the log concerns."""
        return {"stream": self.stream.name, "query": definition.name}
