"""Holds the cap of bytes that wait in the queues of each stream's operators, and how every stream stands to it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from penstock.model.byte_sizes import format_bytes
from penstock.model.caps import queue_size_of
from penstock.stream.overload.stage_log import StageFigures, StageLog
from penstock.stream.overload.stages import HOLD

LOG: Final = logging.getLogger("penstock")
FORGOTTEN: Final = 0.5  # of the most that a batch queued still counts after the next one


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """How the queues of one stream's operators stand to their cap."""

    cap_bytes: int
    held_bytes: int  # in memory and in files, at the last look
    peak_bytes: int
    stages: tuple[StageFigures, ...]
    held_s: float  # that batches have waited
    over: int  # batches that were let in although they may not fit, as nothing waited any more


@dataclass(slots=True)
class StreamQueue:
    """How the queues of one stream stand to the cap of the engine."""

    cap: QueueCap
    stages: StageLog
    held: float = 0.0
    peak: float = 0.0
    brought: float = 0.0  # the most that a batch queued lately
    to_read: float = 0.0  # that the blocks take which are read next, while none is in memory
    held_s: float = 0.0
    over: int = 0

    def note(self, held: float, to_read: float = 0.0) -> None:
        """Note how many bytes wait now, and enter or leave stages by it; blocks ``to_read`` come to them."""
        with self.cap.changing:
            self.held, self.to_read = held, to_read
            self.peak = max(self.peak, held)
            share = held / self.cap.bytes if self.cap.is_set else 0.0
            self.stages.decide(share, held, self.cap.bytes)

    def note_batch(self, held: float, to_read: float = 0.0) -> None:
        """Note how many bytes wait after a batch: the next one may bring as many as this one did."""
        self.brought = max(held - self.held, FORGOTTEN * self.brought)
        self.note(held, to_read)

    def is_active(self, stage: str) -> bool:
        """Tell whether a stage is active."""
        return stage in self.stages.active

    @property
    def is_full(self) -> bool:
        """Tell whether a batch has to wait: too much does, or what it brings may not fit."""
        if not self.cap.is_set or not self.held:
            return False
        return self.is_active(HOLD) or self.held + self.to_read + self.brought > self.cap.bytes

    def let_in(self) -> None:
        """Count, and say once, that a batch is let in that may not fit: nothing waits that could make room."""
        if self.held or 2 * self.brought <= self.cap.bytes:  # its rows are in a file, and copied to memory
            return
        self.over += 1
        if self.over == 1:
            text = f'stream "{self.stages.about["stream"]}": a batch queues {format_bytes(self.brought)} of rows, '
            text += f"and queue_bytes is {format_bytes(self.cap.bytes)}: let batches be smaller, or the cap larger"
            LOG.warning(text, extra={"event": "overload", **self.stages.about, "held_bytes": round(self.brought)})

    def figures(self) -> QueueFigures:
        """Tell how the queues stand."""
        with self.cap.changing:
            sizes = self.cap.bytes, round(self.held), round(self.peak)
            return QueueFigures(*sizes, self.stages.figures(), round(self.held_s, 3), self.over)


@dataclass(slots=True)
class QueueCap:
    """The cap of one engine, for each of its streams; without one, nothing is looked at."""

    bytes: int = 0
    clock: Callable[[], float] = time.monotonic
    changing: threading.Lock = field(default_factory=threading.Lock)
    _streams: dict[str, StreamQueue] = field(default_factory=dict)

    @property
    def is_set(self) -> bool:
        """Tell whether there is a cap."""
        return self.bytes > 0

    def of(self, stream: str) -> StreamQueue:
        """Return how a stream stands to it."""
        if stream not in self._streams:
            self._streams[stream] = StreamQueue(self, StageLog("queues", self.clock, {"stream": stream}))
        return self._streams[stream]

    def change(self, queue_bytes: str | int | None) -> None:
        """Set another cap from now on; None: none."""
        self.bytes = queue_size_of(queue_bytes)
        for one in list(self._streams.values()):
            one.note(one.held)
