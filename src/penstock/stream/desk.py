"""Decides what the driver answers next, among all streams of an engine that run in the background.

It is the one processor of the papers: one group of windows is answered at a time, in a thread of its own, while Spark
runs the jobs of the next batches. A stream's own steps go before: rows, changes and heartbeats never wait for more than
the group that is being answered. A batch whose job runs is compared with the windows that wait: what it will make final
may be more urgent, and both share the machine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from penstock.kernel.pending import ItemKey
from penstock.model.garbage_collection import GARBAGE
from penstock.model.instants import steady_clock_us
from penstock.stream.background_share import BackgroundShare
from penstock.stream.operators.slots import OperatorSlots
from penstock.stream.upkeep_worker import upkeep_aside

if TYPE_CHECKING:
    from penstock.stream.pipeline import Pipeline

LOOK_S: Final = 0.02  # between two looks, while nobody says that there is something to do
GIVES_WAY_S: Final = 0.05  # between two looks, while a batch is more urgent than all that waits
BUSY_S: Final = 0.001  # between two looks, while all streams that have something are in the middle of a step


class Desk:
    """Answers the windows of streams that let their answers lag behind."""

    def __init__(self, operators: OperatorSlots | None = None) -> None:
        """Begin without streams; the thread starts with the first one. Expensive functions have ``operators``."""
        self.operators = OperatorSlots() if operators is None else operators
        self._pipelines: list[Pipeline] = []
        self._changed = threading.Condition()
        self._share, self._upkeep_share = BackgroundShare(steady_clock_us), BackgroundShare(steady_clock_us)
        self._thread: threading.Thread | None = None

    def join(self, pipeline: Pipeline) -> None:
        """Answer the windows of a stream from now on."""
        with self._changed:
            self._pipelines = [*(p for p in self._pipelines if p is not pipeline), pipeline]
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-desk", daemon=True)
                self._thread.start()

    def leave(self, pipeline: Pipeline) -> None:
        """Answer nothing of a stream any more; what it has not answered, it drains itself."""
        with self._changed:
            self._pipelines = [p for p in self._pipelines if p is not pipeline]
            thread = None if self._pipelines else self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def upkeep_aside(self, pipeline: Pipeline) -> AbstractContextManager[None]:
        """Let the upkeep of a stream wait that is not here: a thread of its own does it, and it is done in the end."""
        return upkeep_aside(pipeline)

    @property
    def is_running(self) -> bool:
        """Tell whether its thread runs."""
        return self._thread is not None

    def wake(self) -> None:
        """Look at once: windows became final."""
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        """Answer what waits, as long as there is a stream."""
        while True:
            with self._changed:
                if not self._pipelines:
                    self._thread = None
                    return
            if not self._do_next():
                if not any(p.committer.order.under_way.since_us is not None for p in self._pipelines):
                    GARBAGE.catch_up()
                with self._changed:
                    self._changed.wait(LOOK_S)

    def _do_next(self) -> bool:
        """Answer the most urgent windows, or do upkeep where nothing waits; False: there is nothing to do now."""
        waiting, held_up = self._waiting()
        in_batch = any(p.committer.order.under_way.since_us is not None for p in self._pipelines)
        waits = bool(waiting) or held_up or in_batch
        past = self._in_background(lambda p: p.committer.past, self._share, waits=waits)
        if past is not None:
            _guarded(past, past.past.answer)
            return True
        idle = self._in_background(lambda p: p.upkeep, self._upkeep_share, waits=waits)
        if idle is not None:
            _guarded(idle, idle.do_upkeep)
            return True
        if waiting:
            chosen = self._chosen(waiting)
            if chosen is None:
                with self._changed:
                    self._changed.wait(GIVES_WAY_S)
                return True
            pipeline, keys = chosen
            _guarded(pipeline, lambda: pipeline.answer_next(keys))
            return True
        if held_up:
            threading.Event().wait(BUSY_S)
        return held_up

    def _in_background(
        self, has: Callable[[Pipeline], object], share: BackgroundShare, *, waits: bool
    ) -> Pipeline | None:
        """Choose a stream that has something which can wait, if nothing else ``waits`` or a turn is owed to it."""
        found, chosen = [p for p in self._pipelines if has(p)], None
        if found and (not waits or share.is_owed()):
            chosen = next((p for p in found if not p.is_wanted and not p.half_done and _is_free(p)), None)
        if chosen is not None or not found:
            share.had()
        return chosen

    def _waiting(self) -> tuple[list[tuple[Pipeline, ItemKey]], bool]:
        """List what may be answered now; also tell whether some of it cannot be, as its stream is in a step."""
        found: list[tuple[Pipeline, ItemKey]] = []
        held_up = False
        for pipeline in self._pipelines:
            if not pipeline.committer.unanswered:
                continue
            if pipeline.is_wanted or not pipeline.memory.acquire(blocking=False):
                held_up = True
                continue
            try:
                if not pipeline.half_done:  # otherwise a step failed in the middle, and its stream is about to stop
                    found += [(pipeline, key) for key in pipeline.committer.unanswered.items]
            finally:
                pipeline.memory.release()
        return found, held_up

    def _chosen(self, waiting: list[tuple[Pipeline, ItemKey]]) -> tuple[Pipeline, list[ItemKey]] | None:
        """Choose the items that are answered next: of one stream, that of the most urgent one.

        None: a batch that is being taken is more urgent than all of them, by what it will make final.
        """
        known = [(p, key, item) for p, key in waiting if (item := p.committer.unanswered.items.get(key)) is not None]
        if not known:
            return waiting[0][0], []
        batches = [pipeline.committer.order.under_way for pipeline in self._pipelines]
        places = known[0][0].committer.order.first([item for _, _, item in known], batches)
        if not places:
            return None
        pipeline = known[places[0]][0]
        return pipeline, [known[place][1] for place in places if known[place][0] is pipeline]


def _is_free(pipeline: Pipeline) -> bool:
    """Tell whether a stream is not in the middle of a step."""
    if not pipeline.memory.acquire(blocking=False):
        return False
    pipeline.memory.release()
    return True


def _guarded(pipeline: Pipeline, do: Callable[[], object]) -> None:
    """Do something for a stream; what it raises stops the stream at its next step."""
    try:
        do()
    except BaseException as error:
        pipeline.failure = error
