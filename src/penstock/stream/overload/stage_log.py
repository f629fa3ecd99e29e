"""Enters and leaves stages by the share of one cap, and logs, counts and times them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.model.byte_sizes import format_bytes
from penstock.stream.overload.stages import DegradationStage, Measure, active_at, stages_of

LOG: Final = logging.getLogger("penstock")


@dataclass(frozen=True, slots=True)
class StageFigures:
    """What one stage has done since the engine's start."""

    stage: str
    active: bool
    times: int  # entered
    seconds: float  # for which it was active


@dataclass(slots=True)
class _Passed:
    """How often a stage was entered, for how long, and since when it is active."""

    times: int = 0
    seconds: float = 0.0
    since: float | None = None


@dataclass(slots=True)
class StageLog:
    """The stages of one cap: which are active, and what each has done; its owner locks."""

    measure: Measure
    clock: Callable[[], float] = time.monotonic
    about: Mapping[str, Any] = field(default_factory=dict)  # that every line of the log has
    active: frozenset[str] = frozenset()
    _passed: dict[str, _Passed] = field(default_factory=dict)

    def decide(self, share: float, held: float, cap: int) -> None:
        """Enter and leave stages at a share of the cap; ``held`` bytes are told."""
        before, self.active = self.active, active_at(share, self.active, self.measure)
        for one in stages_of(self.measure):
            if (one.name in before) != (one.name in self.active):
                self._pass(one, held, cap, entered=one.name in self.active)

    def figures(self) -> tuple[StageFigures, ...]:
        """Tell what the stages have done."""
        return tuple(self._figures(one.name) for one in stages_of(self.measure))

    def _figures(self, name: str) -> StageFigures:
        """Tell what one stage has done."""
        passed = self._passed.get(name, _Passed())
        lasting = 0.0 if passed.since is None else self.clock() - passed.since
        return StageFigures(name, name in self.active, passed.times, round(passed.seconds + lasting, 3))

    def _pass(self, one: DegradationStage, held: float, cap: int, *, entered: bool) -> None:
        """Count and log that a stage is entered or left."""
        passed, now = self._passed.setdefault(one.name, _Passed()), self.clock()
        if entered:
            passed.times, passed.since = passed.times + 1, now
        elif passed.since is not None:
            passed.seconds, passed.since = passed.seconds + now - passed.since, None
        where = f'queues of stream "{self.about["stream"]}": ' if "stream" in self.about else ""
        of = f" of {format_bytes(cap)}" if cap else ""
        did = "begins" if entered else "ends"
        text = f"overload: {where}stage {one.name} {did} at {format_bytes(held)}{of}: {one.meaning}"
        about = {"event": "overload", "stage": one.name, "active": entered, "held_bytes": round(held), **self.about}
        (LOG.warning if entered else LOG.info)(text, extra=about)
