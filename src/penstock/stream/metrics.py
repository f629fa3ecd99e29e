"""What a pipeline has done: seconds by step, batches and answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Metrics:
    """Seconds by step, and what they were spent on."""

    plan: float = 0.0
    job: float = 0.0
    ingest: float = 0.0
    commit: float = 0.0
    answer: float = 0.0
    batches: int = 0
    answers: int = 0

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the seconds of a step."""
        began = time.perf_counter()
        yield
        setattr(self, step, getattr(self, step) + time.perf_counter() - began)
