"""Holds the cap of an engine's memory, what its streams hold, and the stages that are active; any thread may ask."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from penstock.evaluate.windows.growth import Growth
from penstock.model.byte_sizes import format_bytes
from penstock.model.caps import queue_size_of, size_of
from penstock.stream.overload.queue_cap import QueueCap
from penstock.stream.overload.stage_log import StageFigures, StageLog
from penstock.stream.overload.stages import BACKGROUND, PREEMPT, stages_of

LOG: Final = logging.getLogger("penstock")
SPARE: Final = 0.7  # share of the cap up to which arrays may take more than they need
BATCH: Final = 0.1  # share of the cap that a batch may bring without any stage beginning the sooner
LATELY: Final = 8  # batches, of which the one that brought most tells what the next one may bring


@dataclass(frozen=True, slots=True)
class OverloadFigures:
    """How an engine stands to its cap."""

    cap_bytes: int  # 0: none
    held_bytes: int  # at the last look between two batches
    peak_bytes: int
    stages: tuple[StageFigures, ...]
    skipped: int = 0  # windows, by the stage of that name
    held_s: float = 0.0  # that batches have waited
    preempted: int = 0  # times that a query was paused
    resumed: int = 0
    over: int = 0  # batches that were let in above the cap, as nothing was left to be given up
    sampled: int = 0  # times that queries which shed load were given half as many rows


NO_CAP: Final = OverloadFigures(0, 0, 0, ())


@dataclass(slots=True)
class MemoryCap:
    """The cap of one engine; without one, nothing is looked at."""

    bytes: int = 0
    clock: Callable[[], float] = time.monotonic
    skipped: int = 0
    held_s: float = 0.0
    preempted: int = 0
    resumed: int = 0
    over: int = 0
    sampled: int = 0
    growth: Growth = field(default_factory=Growth)  # of all arrays of partials
    queues: QueueCap = field(default_factory=QueueCap)  # the cap of what waits in each stream for expensive functions
    _held: dict[str, float] = field(default_factory=dict)  # by stream
    _brought: dict[str, deque[float]] = field(default_factory=dict)  # by stream: what batches added lately
    _peak: float = 0.0
    _stages: StageLog = field(init=False)
    _told_over: bool = False
    _changing: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Begin with no stage active."""
        self._stages = StageLog("memory", self.clock)

    @staticmethod
    def sized(memory: str | int | None, queue_bytes: str | int | None) -> MemoryCap:
        """Make the caps that users wrote; None: there is none."""
        cap = MemoryCap(queues=QueueCap(queue_size_of(queue_bytes)))
        cap.change(memory)
        return cap

    @property
    def is_set(self) -> bool:
        """Tell whether there is a cap."""
        return self.bytes > 0

    @property
    def active(self) -> frozenset[str]:
        """Return the stages that are active."""
        return self._stages.active

    @property
    def total(self) -> float:
        """Return what all streams hold, each as it was last looked at."""
        return sum(list(self._held.values()))

    def change(self, memory: str | int | None) -> None:
        """Set another cap from now on; None: none."""
        self.bytes = size_of(memory)
        with self._changing:
            self._decide()

    def is_active(self, stage: str) -> bool:
        """Tell whether a stage is active."""
        return stage in self.active

    @property
    def stops_background(self) -> bool:
        """Tell whether nothing is to be done that no answer waits for."""
        return BACKGROUND in self.active

    def note(self, stream: str, held: float, *, batch: bool = False) -> None:
        """Note what a stream holds now, and enter or leave stages by it; ``batch``: after a batch."""
        with self._changing:
            if batch and stream in self._held:  # the first one opens what later ones find open
                lately = self._brought.setdefault(stream, deque(maxlen=LATELY))
                lately.append(max(0.0, held - self._held[stream]))
            self._held[stream] = held
            self._peak = max(self._peak, self.total)
            self._decide()

    def forget(self, stream: str) -> None:
        """Forget a stream that is not at work any more."""
        with self._changing:
            self._held.pop(stream, None)
            self._brought.pop(stream, None)

    def has_room_for(self, more: float) -> bool:
        """Tell whether so many bytes more would not be too much: a query may go on that was paused."""
        [stage] = [one for one in stages_of("memory") if one.name == PREEMPT]
        return not self.is_set or (not self.active & {PREEMPT} and self.total + more < stage.below * self.bytes)

    def tell_over(self, stream: str) -> None:
        """Say once that the cap cannot be kept: nothing is left to be given up, and rows must not wait for ever."""
        self.over += 1
        if not self._told_over:
            self._told_over = True
            text = f'stream "{stream}": the cap of {format_bytes(self.bytes)} cannot be kept, '
            text += f"{format_bytes(self.total)} are needed for windows that are not final"
            LOG.warning(text, extra={"event": "overload", "stream": stream, "held_bytes": round(self.total)})

    def figures(self) -> OverloadFigures:
        """Tell how the engine stands to its cap."""
        with self._changing:
            held, peak, stages = round(self.total), round(self._peak), self._stages.figures()
            pauses = self.preempted, self.resumed
            done = self.skipped, round(self.held_s, 3), *pauses, self.over, self.sampled
            return OverloadFigures(self.bytes, held, peak, stages, *done)

    def _decide(self) -> None:
        """Enter and leave stages, and say how much arrays may have to spare.

        What the next batch may bring counts as far as it is more than a batch may bring above the cap.
        """
        expected = self.total + max((max(lately) for lately in self._brought.values()), default=0.0)
        held = max(self.total, expected - BATCH * self.bytes)
        share = held / self.bytes if self.is_set else 0.0
        self.growth.spare = max(0.0, SPARE * self.bytes - expected) if self.is_set else math.inf
        self._told_over = self._told_over and share >= 1.0
        self._stages.decide(share, self.total, self.bytes)
