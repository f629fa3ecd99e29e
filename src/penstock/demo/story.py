"""Keeps the steps of the demo and what is known so far, which a view shows as it happens."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from penstock.demo.asked import DemoQuery
from penstock.demo.watching import Watching


@dataclass(slots=True)
class StoryStep:
    """One step: what it is called, what it does or did, and how long it took."""

    name: str
    text: str
    began: float = field(default_factory=time.perf_counter)
    seconds: float | None = None  # None: it goes on

    @property
    def elapsed(self) -> float:
        """Return the seconds so far."""
        return time.perf_counter() - self.began if self.seconds is None else self.seconds


class View(Protocol):
    """Tells the story while it goes on."""

    def __enter__(self) -> View:
        """Begin to tell."""

    def __exit__(self, *failure: object) -> None:
        """Leave the terminal as it was."""

    def ended(self, step: StoryStep) -> None:
        """Tell that a step is done."""

    def noticed(self) -> None:
        """Tell that a batch is done."""


@dataclass(slots=True)
class Story:
    """All that is known so far."""

    asked: Sequence[DemoQuery]
    rows: int
    seed: int
    watching: Watching
    steps: list[StoryStep] = field(default_factory=list)
    view: View | None = None

    @property
    def shown(self) -> list[DemoQuery]:
        """List the queries whose answers are shown."""
        return [q for q in self.asked if q.name in self.watching.chosen]

    @contextmanager
    def step(self, name: str, text: str) -> Iterator[StoryStep]:
        """Go through one step; what it says at its end is kept."""
        step = StoryStep(name, text)
        self.steps.append(step)
        yield step
        step.seconds = step.elapsed
        if self.view is not None:
            self.view.ended(step)
