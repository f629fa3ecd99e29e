"""Holds the cap of an engine's memory, what its streams hold, and the stages that are active; any thread may ask."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from penstock.errors import ProjectError
from penstock.model.byte_sizes import format_bytes, parse_bytes
from penstock.stream.overload.stages import BACKGROUND, PREEMPT, STAGES, active_at

LOG: Final = logging.getLogger("penstock")


@dataclass(slots=True)
class _Passed:
    """How often a stage was entered, for how long, and since when it is active."""

    times: int = 0
    seconds: float = 0.0
    since: float | None = None


@dataclass(frozen=True, slots=True)
class StageFigures:
    """What one stage has done since the engine's start."""

    stage: str
    active: bool
    times: int  # entered
    seconds: float  # for which it was active


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


NO_CAP: Final = OverloadFigures(0, 0, 0, ())


@dataclass(slots=True)
class MemoryCap:
    """The cap of one engine; without one, nothing is looked at."""

    bytes: int = 0
    clock: Callable[[], float] = time.monotonic
    active: frozenset[str] = frozenset()
    skipped: int = 0
    held_s: float = 0.0
    preempted: int = 0
    resumed: int = 0
    over: int = 0
    _held: dict[str, float] = field(default_factory=dict)  # by stream
    _peak: float = 0.0
    _passed: dict[str, _Passed] = field(default_factory=dict)
    _told_over: bool = False
    _changing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_set(self) -> bool:
        """Tell whether there is a cap."""
        return self.bytes > 0

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

    def note(self, stream: str, held: float) -> None:
        """Note what a stream holds now, and enter or leave stages by it."""
        with self._changing:
            self._held[stream] = held
            self._peak = max(self._peak, self.total)
            self._decide()

    def forget(self, stream: str) -> None:
        """Forget a stream that is not at work any more."""
        with self._changing:
            self._held.pop(stream, None)

    def has_room_for(self, more: float) -> bool:
        """Tell whether so many bytes more would not be too much: a query may go on that was paused."""
        [stage] = [one for one in STAGES if one.name == PREEMPT]
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
            stages = tuple(self._figures(one.name) for one in STAGES)
            done = self.skipped, round(self.held_s, 3), self.preempted, self.resumed, self.over
            return OverloadFigures(self.bytes, round(self.total), round(self._peak), stages, *done)

    def _figures(self, name: str) -> StageFigures:
        """Tell what one stage has done."""
        passed = self._passed.get(name, _Passed())
        lasting = 0.0 if passed.since is None else self.clock() - passed.since
        return StageFigures(name, name in self.active, passed.times, round(passed.seconds + lasting, 3))

    def _decide(self) -> None:
        """Enter and leave stages."""
        share = self.total / self.bytes if self.is_set else 0.0
        before, self.active = self.active, active_at(share, self.active)
        self._told_over = self._told_over and share >= 1.0
        for one in STAGES:
            if (one.name in before) != (one.name in self.active):
                self._pass(one.name, one.meaning, entered=one.name in self.active)

    def _pass(self, name: str, meaning: str, *, entered: bool) -> None:
        """Count and log that a stage is entered or left."""
        passed, now = self._passed.setdefault(name, _Passed()), self.clock()
        if entered:
            passed.times, passed.since = passed.times + 1, now
        elif passed.since is not None:
            passed.seconds, passed.since = passed.seconds + now - passed.since, None
        of = f" of {format_bytes(self.bytes)}" if self.is_set else ""
        text = f"overload: stage {name} {'begins' if entered else 'ends'} at {format_bytes(self.total)}{of}: {meaning}"
        about = {"event": "overload", "stage": name, "active": entered, "held_bytes": round(self.total)}
        (LOG.warning if entered else LOG.info)(text, extra=about)


def size_of(memory: str | int | None) -> int:
    """Read the setting of a cap; 0: none."""
    if memory is None:
        return 0
    try:
        return parse_bytes(memory)
    except ValueError as error:
        raise ProjectError(f"memory: {error}", hint="Leave it out for no cap.") from None
