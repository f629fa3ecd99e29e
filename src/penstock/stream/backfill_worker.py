"""Reads the past of a running stream's queries in a thread of its own, when neither a batch nor an answer waits.

A stream's batches wait only between two of them: while it is looked what has come since the past was read, and while
it is taken over. What came since is read beside batches first. So as a rule nothing is left to be read while they wait,
and a few units at most, about what a batch brings.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError, StateError
from penstock.evaluate.typed import Definition, TypedQuery
from penstock.language.options import since_of
from penstock.spark.session.embedded import spark_is_over
from penstock.spark.session.pools import BACKGROUND, in_pool
from penstock.stream.admission import NeededPast
from penstock.stream.backfill_tickets import BackfillTicket
from penstock.stream.background_share import BackgroundShare

if TYPE_CHECKING:
    from penstock.stream.runner import StreamRunner

LOG: Final = logging.getLogger("penstock")
WAIT_S: Final = 0.02  # between two looks whether a part may be read
FEW_UNITS: Final = 8  # that batches may wait for


class BackfillWorker:
    """Reads what queries of one stream ask for."""

    def __init__(self, runner: StreamRunner) -> None:
        """Begin without a thread."""
        self._runner = runner
        self._thread: threading.Thread | None = None
        self._share = BackgroundShare(runner.pipeline.steady)
        self._finishing = threading.Event()  # whoever asks reads the rest
        self._batches: int | None = None  # that there were when all was read, and waited to be taken over

    def check(self, typed: TypedQuery, number: int, *, waits: bool) -> None:
        """Refuse a query, of a number to come, whose past cannot be had; ``waits``: batches wait meanwhile.

        Looking at a past may take long: a stream that reads it aside looks before its batches have to wait.
        """
        past = self._runner.pipeline.past
        if since_of(typed.query) is None or waits == past.is_aside:
            return
        with self._runner.between_batches():
            needed = past.try_out(self._runner.snapshot(), Definition(number, typed))
        self._check_files(needed)

    def check_back(self, chosen: Mapping[int, int | None], *, accept_changed_files: bool) -> None:
        """Refuse windows of the past that cannot be had, while batches go on; nothing is answered yet."""
        pipeline = self._runner.pipeline
        with self._runner.between_batches():
            layout = pipeline.plan(self._runner.snapshot())
            needed = pipeline.admission.needed_back(chosen, layout, accept=accept_changed_files)
        self._check_files(needed)

    def _check_files(self, needed: Iterable[NeededPast]) -> None:
        """Refuse a past that cannot be read again as it was."""
        for one in needed:
            past = self._runner.pipeline.intake.past
            past.check(one.since_us, one.source, accept_changed_files=one.accept)

    def ask(self, chosen: Mapping[int, int | None], *, accept_changed_files: bool = False) -> BackfillTicket:
        """Ask for windows of the past; a stream that runs answers them beside what comes, others at once."""
        past = self._runner.pipeline.past
        with self._runner.between_batches():
            if past.is_aside:
                return past.ask(self._runner.snapshot(), chosen, accept=accept_changed_files)
            ticket = past.tickets.give(())
            ticket.windows = self._runner.backfill(chosen, accept_changed_files=accept_changed_files)
            return ticket

    def look(self) -> None:
        """Start a thread if there is something to be read."""
        if self._runner.pipeline.progress.windows.asked and (self._thread is None or not self._thread.is_alive()):
            name = f"penstock-past-{self._runner.stream.name}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Wait until nothing is read any more: the stream is stopping."""
        self._end_thread()
        self._runner.pipeline.past.backfills.stop()

    def finish(self) -> None:
        """Read and answer all that is asked for, now; whoever calls holds no lock of the stream."""
        pipeline = self._runner.pipeline
        self._end_thread()
        while pipeline.progress.windows.asked or pipeline.committer.past:
            if not self.go_on():
                pipeline.past.answer()

    def finish_unless_running(self) -> None:
        """Read and answer all that is asked for, where no running stream will do so."""
        if not self._runner.running:
            self.finish()

    def _end_thread(self) -> None:
        """Let the thread end after the piece that it is at."""
        if self._thread is not None:
            self._finishing.set()
            self._thread.join()
            self._finishing.clear()
            self._thread = None

    def go_on(self) -> bool:
        """Do the next piece of reading; False: there is none now."""
        pipeline = self._runner.pipeline
        if not pipeline.progress.windows.asked:
            return False
        try:
            with in_pool(pipeline.session, BACKGROUND):
                return self._piece()
        except PenstockError as error:
            self._give_up(error)
        except Exception as error:
            if spark_is_over():
                raise
            LOG.error(f"a past could not be read: {error!r}", extra=self._about("backfill failed"), exc_info=True)
            self._give_up(StateError(f"a defect of Penstock: {error!r}", hint="See the log, and report it."))
        return True

    def may_go_on(self) -> bool:
        """Tell whether nothing else waits, or has waited for too long."""
        if self._runner.pipeline.given.settings.cap.stops_background:  # memory runs short
            return False
        return self._share.is_owed() or (
            not self._runner.is_in_batch()
            and not self._runner.pipeline.committer.unanswered
            and (not self._is_to_be_taken_over() or self._is_right_after_a_batch())
        )

    def _piece(self) -> bool:
        """List what is to be read, read a part, or take over what is read."""
        pipeline, backfills = self._runner.pipeline, self._runner.pipeline.past.backfills
        if backfills.reading is None or not backfills.is_wanted:
            with self._runner.between_batches():
                return pipeline.past.begin(self._runner.snapshot())
        if not backfills.reading.is_read:
            backfills.reading.go_on()
            return True
        left = self._take_over(0)
        if left is not None and 0 < left <= FEW_UNITS:
            self._read_rest()  # while batches go on
            self._take_over(FEW_UNITS)
        return True

    def _take_over(self, most: int) -> int | None:
        """Take over what is read, if at most so many units came since; return how many, or None to read all again."""
        pipeline = self._runner.pipeline
        with self._runner.no_batch():
            snapshot = self._runner.snapshot()
            with pipeline.step():
                left = None if pipeline.past.backfills.reading is None else pipeline.past.catch_up(snapshot)
            if left is None or left > most:
                return left
            self._read_rest()
            with pipeline.step():
                pipeline.past.take(snapshot)
        self._runner.desk.wake()
        return 0

    def _read_rest(self) -> None:
        """Read all that is listed."""
        backfills = self._runner.pipeline.past.backfills
        while (reading := backfills.reading) is not None and not reading.is_read:
            reading.go_on()

    def _give_up(self, error: PenstockError) -> None:
        """Ask for what cannot be had no more."""
        with self._runner.between_batches():
            self._runner.pipeline.past.give_up(self._runner.snapshot(), error)

    def _run(self) -> None:
        """Read until nothing is asked for, or the stream stops."""
        runner = self._runner
        try:
            while runner.running and not self._finishing.is_set() and runner.pipeline.progress.windows.asked:
                if not self.may_go_on() or not self.go_on():
                    self._finishing.wait(WAIT_S)
                else:
                    self._share.had()
        except BaseException as error:  # the stream itself fails too, and tells why
            LOG.warning(f"the past is read no more: {error!r}", extra=self._about("backfill failed"))

    def _is_to_be_taken_over(self) -> bool:
        """Tell whether the next piece is the one that batches wait for."""
        backfills = self._runner.pipeline.past.backfills
        if backfills.reading is not None and backfills.reading.is_read:
            return True
        self._batches = None
        return False

    def _is_right_after_a_batch(self) -> bool:
        """Tell whether a batch has just ended: the next one is as far away as it ever is then."""
        batches = self._runner.pipeline.metrics.batches
        if self._batches is None:
            self._batches = batches
        return batches != self._batches

    def _about(self, event: str) -> dict[str, str]:
        """Name what a line of the log concerns."""
        return {"event": event, "stream": self._runner.stream.name}
