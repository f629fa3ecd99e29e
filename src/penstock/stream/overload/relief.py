"""Does for one stream what the stages ask for that are active, between two batches, and undoes it when there is room.

Nothing that a commit names goes before another commit says that it is not needed: a crash at any moment finds what the
last commit promises.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from penstock.evaluate.typed import Definition
from penstock.language.options import is_preemptible
from penstock.model.byte_sizes import format_bytes
from penstock.stream.accounting.accounts import balance_of
from penstock.stream.accounting.in_memory import fed_by
from penstock.stream.overload.queue_relief import QueueRelief
from penstock.stream.overload.sampling_level import SamplingLevel
from penstock.stream.overload.stages import BLOCKS, HOLD, PREEMPT, SKIP
from penstock.stream.pauses import pause_by_hand, pause_for_memory, resume
from penstock.stream.period_changes import PeriodChanges
from penstock.stream.step import Step

if TYPE_CHECKING:
    from penstock.stream.runner import StreamRunner

LOOK_S: Final = 0.05  # between two looks, while batches wait
IDLE_S: Final = 0.5  # between two looks of a stream that has no batch
CALM: Final = 0.95  # of what a paused query held still counts after a look at which no stage is active


class Relief:
    """Keeps one stream within the engine's cap."""

    def __init__(self, runner: StreamRunner) -> None:
        """Begin without a look."""
        self.runner, self.pipeline = runner, runner.pipeline
        self.cap = runner.pipeline.given.settings.cap
        self.queues, self.sampling = QueueRelief(runner), SamplingLevel(runner)
        self.periods = PeriodChanges(runner.stream.name, runner.catalog, runner.pipeline)
        self._paused: dict[int, float] = {}  # what queries held that were paused
        self._looked = 0.0

    # -- between two batches -------------------------------------------------------------------------------------

    def look_after_batch(self) -> None:
        """Look, and let queries that shed load take fewer rows of the next batch, or more."""
        self.look(after_batch=True)
        self.sampling.look()

    def look(self, *, after_batch: bool = False) -> None:
        """Measure, skip what is superseded, and let queries go on that have room; the stream's memory is had."""
        self.queues.look(after_batch=after_batch)
        if self.cap.is_set and not self.pipeline.half_done:
            self.measure(after_batch=after_batch)
            if self.cap.is_active(BLOCKS) and self.pipeline.continuous.operators.drop_copies():
                self.measure()
            if self.cap.is_active(SKIP):
                self.cap.skipped += self.pipeline.committer.unanswered.skip_superseded()
        if not self.cap.active:  # the load that made it large may be gone
            self._paused = {number: size * CALM for number, size in self._paused.items()}
        self._resume()

    def look_idle(self) -> None:
        """Look now and then while no batch comes."""
        if (self.cap.is_set or self.queues.queue.cap.is_set) and time.monotonic() - self._looked < IDLE_S:
            return
        self._looked = time.monotonic()
        self.look()

    def measure(self, *, after_batch: bool = False) -> None:
        """Note what the stream holds, and those that it feeds."""
        self._looked = time.monotonic()
        for one in (self.runner, *_fed(self.runner)):
            self.cap.note(one.stream.name, balance_of(one, "memory").total, batch=after_batch)

    # -- before a batch ------------------------------------------------------------------------------------------

    def hold(self, stopping: threading.Event) -> None:
        """Let a batch wait while it is too much, and something can still be answered, taken or paused."""
        self.queues.hold(stopping)
        if not self.cap.is_active(HOLD):
            return
        began = time.monotonic()
        while not stopping.is_set():
            with self.runner.between_batches():
                self._give_up()
                self.measure()
            if not self.cap.is_active(HOLD):
                break
            if self._sinks_are_taking():
                stopping.wait(LOOK_S)
                continue
            with self.runner.between_batches():
                if not self.cap.is_active(PREEMPT) or not self._preempt():
                    if self.cap.is_active(PREEMPT):
                        self.cap.tell_over(self.runner.stream.name)
                    break
        self.cap.held_s += time.monotonic() - began

    def _give_up(self) -> None:
        """Answer what is final, and let go of all that is not needed after that."""
        unanswered = self.pipeline.committer.unanswered
        if self.pipeline.half_done or not (unanswered or self.pipeline.upkeep):
            return
        self.cap.skipped += unanswered.skip_superseded()
        self.pipeline.drain()
        self._let_go()

    def _let_go(self) -> None:
        """Commit what stands now, and then drop the partials that it does not need."""
        layout = self.pipeline.layout
        if layout is None or self.pipeline.progress.clock.watermark_us is None:
            return
        committer = self.pipeline.committer
        with self.pipeline.changing():
            committer.commit(Step("change", (), self.pipeline.clock()), layout)
            committer.expire(layout)
            committer.synopsis.give_back(committer.corrections.groupings(layout))

    def _sinks_are_taking(self) -> bool:
        """Tell whether a sink that works has answers in memory to take."""
        return any(one.held_bytes and one.outlet.failing is None for one in self.runner.delivery.threads)

    # -- pauses --------------------------------------------------------------------------------------------------

    def _preempt(self) -> bool:
        """Pause the query that holds most, of those that allow it; False: there is none."""
        held = balance_of(self.runner, "memory").by_query
        allowed = sorted(self.preemptible(), key=lambda one: (-held.get(one.id, 0.0), one.id))
        if not allowed:
            return False
        chosen = allowed[0]
        size = self._paused[chosen.id] = held.get(chosen.id, 0.0)
        told = f"it held {format_bytes(size)} of the cap of {format_bytes(self.cap.bytes)}"
        reason = pause_for_memory(self.pipeline.progress, chosen, told)
        self.pipeline.due_windows.report(chosen, f" is {reason}", "query paused")
        self.cap.preempted += 1
        self._let_go()
        self.measure()
        return True

    def preemptible(self) -> Iterator[Definition]:
        """List the queries that may be paused and are not; a stream that a query makes must miss no window."""
        windows, layout = self.pipeline.progress.windows, self.pipeline.layout
        for one in () if layout is None else layout.plan.definitions:
            busy = one.handover is not None or one.id in {*windows.paused, *windows.asked, *windows.past}
            if is_preemptible(one.query) and not busy and not self.runner.catalog.makes_stream(one.name):
                yield one

    def _resume(self) -> None:
        """Let queries go on that were paused for memory and have room now: those that hold least come first."""
        windows, layout = self.pipeline.progress.windows, self.pipeline.layout
        if not windows.paused or layout is None or self.pipeline.half_done:
            return
        mine = [one for one in layout.plan.definitions if one.id in windows.paused]
        waiting = [one for one in mine if windows.paused[one.id].kind == "for memory"]
        for one in sorted(waiting, key=lambda one: self._paused.get(one.id, 0.0)):
            if not self.cap.has_room_for(self._paused.get(one.id, 0.0)):
                return
            resume(self.pipeline.progress, one)
            self._paused.pop(one.id, None)
            self.cap.resumed += 1
            self.pipeline.due_windows.report(one, " answers again: there is memory for it", "query resumed")
            if self.runner.catalog.user_paused(one.name):
                pause_by_hand(self.pipeline.progress, one)
            return  # what it takes is seen at the next look


def _fed(runner: StreamRunner) -> Iterator[StreamRunner]:
    """List the streams that one feeds, directly or not."""
    for one in fed_by(runner):
        yield one
        yield from _fed(one)
