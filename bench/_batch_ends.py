"""Notes when a sink had all answers of a batch, however many groups they came in."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.engine import Engine
from penstock.stream.answered_groups import AnsweredGroup, ProcessedBatch, Work


class BatchEnds:
    """Observes a stream, and is told by a sink what it has taken."""

    def __init__(self, after_group: Callable[[], None] | None = None) -> None:
        """Begin before the first batch; ``after_group`` is called when the sink has taken a group of answers."""
        self._after_group = after_group
        self._committed: list[float] = []  # when the partials of each batch were
        self._batch_of: dict[int, int] = {}  # number of answers → place of the batch that made them final
        self._taken: dict[int, float] = {}  # number of answers → when the sink had taken them
        self._is_over: Callable[[], bool] = lambda: False

    def watch(self, engine: Engine, stream: str) -> None:
        """Observe a stream whose answers do not lag behind, from its next batch on; the end of it is no batch."""
        pipeline = engine.stream(stream).pipeline
        pipeline.observing.observers = [*pipeline.observing.observers, self]
        self._is_over = lambda: pipeline.progress.clock.ended

    def observe(self, work: Work) -> None:
        """Note to which batch answers belong."""
        if isinstance(work, ProcessedBatch):
            self._committed.append(work.committed_s)
        elif isinstance(work, AnsweredGroup) and work.number is not None and self._committed and not self._is_over():
            self._batch_of[work.number] = len(self._committed) - 1

    def note(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Note that the sink has taken a group of answers."""
        self._taken[number] = time.perf_counter()
        if self._after_group is not None:
            self._after_group()

    def ends(self) -> list[float]:
        """Return when each batch was done, as far as the sink has taken its answers; without any, when committed."""
        found, taken = list(self._committed), dict(self._taken)
        for number, batch in list(self._batch_of.items()):
            if batch < len(found):
                found[batch] = max(found[batch], taken.get(number, 0.0))
        return found
