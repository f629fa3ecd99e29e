"""Holds the batches of a stream while too much waits for its operators, within the engine's cap of their queues."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from penstock.stream.overload.queue_cap import QueueFigures

if TYPE_CHECKING:
    from penstock.stream.runner import StreamRunner


class QueueRelief:
    """Keeps the queues of one stream within the cap; what frees them most is chosen by the queues themselves."""

    def __init__(self, runner: StreamRunner) -> None:
        """Begin without a look."""
        self.runner, self.pipeline = runner, runner.pipeline
        self.queue = runner.pipeline.given.settings.cap.queues.of(runner.stream.name)

    def look(self, *, after_batch: bool) -> None:
        """Measure what waits."""
        if self.queue.cap.is_set and not self.pipeline.half_done:
            queues = self.pipeline.continuous.operators
            (self.queue.note_batch if after_batch else self.queue.note)(queues.stored_bytes, queues.bytes_to_read)

    def hold(self, stopping: threading.Event) -> None:
        """Let a batch wait until there is room for what it may queue; rows wait in the source meanwhile."""
        if not self._is_full():
            return
        began = time.monotonic()
        self.runner.operators.finish(self.pipeline, lambda: stopping.is_set() or not self._is_full())
        self.look(after_batch=False)
        self.queue.held_s += time.monotonic() - began
        if not stopping.is_set():
            self.queue.let_in()

    def figures(self) -> QueueFigures | None:
        """Tell how the queues stand; None: there is no cap, or nothing ever waited."""
        return self.queue.figures() if self.queue.cap.is_set and self.queue.peak else None

    def _is_full(self) -> bool:
        """Tell whether too much waits now."""
        self.look(after_batch=False)
        return self.queue.is_full
