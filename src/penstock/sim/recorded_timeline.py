"""Puts a trace into the order in which work came: steps of streams, and the windows that each step made final.

A step has a stream's memory for itself, so that nothing of the stream is answered meanwhile but what the step itself
answers: windows that its late rows would change, before it goes on; and all that it makes final, where answers do not
lag behind.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.schedule.recorded import RecordedStep, RecordedWindows, Recording
from penstock.sim.recorded_costs import by_group


@dataclass(slots=True)
class PlacedStep:
    """A step, and which windows it concerns, by their places in the recording."""

    step: RecordedStep
    forced: list[int] = field(default_factory=list)  # final before, and answered before it went on
    released: list[int] = field(default_factory=list)  # that it made final
    answered: tuple[int, int] | None = None  # when it began and ended to answer these itself; None: they lag behind
    forced_us: int = 0  # that answering those took

    @property
    def hold_us(self) -> int:
        """Return how long it works before what it makes final can be answered."""
        until = self.step.ended_us if self.answered is None else self.answered[0]
        return max(0, until - self.step.began_us - self.forced_us)

    @property
    def tail_us(self) -> int:
        """Return how long it works after it has answered what it made final."""
        return 0 if self.answered is None else max(0, self.step.ended_us - self.answered[1])

    def before_end_us(self, final_us: int) -> int:
        """Return how long before the end of its work windows became final."""
        until = self.step.ended_us if self.answered is None else self.answered[0]
        return min(self.hold_us, max(0, until - final_us))


@dataclass(frozen=True, slots=True)
class RecordedTimeline:
    """The steps of all streams by the time from which they waited, and windows that no step made final."""

    steps: Sequence[PlacedStep]
    loose: Sequence[int]

    @staticmethod
    def of(recording: Recording) -> RecordedTimeline:
        """Find the step of every window and of every group."""
        placed = [PlacedStep(step) for step in sorted(recording.steps, key=lambda step: step.began_us)]
        of_stream: dict[tuple[int, str], _Steps] = {}
        for one in placed:
            of_stream.setdefault((one.step.run, one.step.stream), _Steps()).add(one)
        nothing = _Steps()
        loose: list[int] = []
        for place, windows in enumerate(recording.windows):
            made_by = of_stream.get((windows.run, windows.stream), nothing).at(windows.final_us, windows.final_us)
            if made_by is None:
                loose.append(place)
            else:
                made_by.released.append(place)
        for places in by_group(recording.windows):
            _place_group(recording.windows, places, of_stream.get(_stream_of(recording.windows[places[0]]), nothing))
        placed.sort(key=lambda one: one.step.wanted_us)
        return RecordedTimeline(placed, loose)


class _Steps:
    """The steps of one stream, which do not overlap."""

    def __init__(self) -> None:
        """Begin with none."""
        self.placed: list[PlacedStep] = []
        self._began: list[int] = []

    def add(self, one: PlacedStep) -> None:
        """Take the next step."""
        self.placed.append(one)
        self._began.append(one.step.began_us)

    def at(self, since_us: int, until_us: int) -> PlacedStep | None:
        """Find the step in which a time lies."""
        place = bisect_right(self._began, since_us) - 1
        if place < 0 or until_us > self.placed[place].step.ended_us:
            return None
        return self.placed[place]


def _stream_of(one: RecordedWindows) -> tuple[int, str]:
    """Name a stream in one life of an engine."""
    return one.run, one.stream


def _place_group(windows: Sequence[RecordedWindows], places: Sequence[int], steps: _Steps) -> None:
    """Note a group that a step has answered itself."""
    began_us, ended_us = windows[places[0]].began_us, windows[places[0]].ended_us
    step = steps.at(began_us, ended_us)
    if step is None:
        return
    if any(windows[place].final_us >= step.step.began_us for place in places):
        first, last = step.answered or (began_us, ended_us)
        step.answered = min(first, began_us), max(last, ended_us)
    else:
        step.forced += places
        step.forced_us += ended_us - began_us
