"""Lets queries that shed load take fewer rows while too much comes, and more again after it, a level a batch.

Each change is a commit of its own, and the batches after it are recorded with their level: one that comes again after a
crash keeps the same rows. The level that users have asked for is the least.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock.model.sampling import share_of
from penstock.stream.overload.stages import HOLD, SAMPLE
from penstock.stream.step import Step

if TYPE_CHECKING:
    from penstock.stream.runner import StreamRunner

LOG: Final = logging.getLogger("penstock")
MOST_RAISED: Final = 4  # levels: bounds of fewer rows than one of sixteen tell little


class SamplingLevel:
    """Changes the level of one stream, between two batches."""

    def __init__(self, runner: StreamRunner) -> None:
        """Begin with the level of the last commit."""
        self.pipeline, self.name = runner.pipeline, runner.stream.name
        settings = runner.pipeline.given.settings
        self.cap, self.queue = settings.cap, settings.cap.queues.of(runner.stream.name)
        self._batches = 0  # after which it was looked at

    def look(self) -> None:
        """After a batch, go a level up while a stage says so, and one down when nothing has to wait any more."""
        clock, layout, batches = self.pipeline.progress.clock, self.pipeline.layout, self.pipeline.metrics.batches
        if layout is None or self.pipeline.half_done or clock.ended or batches == self._batches:
            return  # one that had been committed before a restart came again
        self._batches = batches
        active = self.cap.active | self.queue.stages.active
        if SAMPLE in active and layout.samples and clock.sampling < max(clock.asked_sampling, MOST_RAISED):
            self.cap.sampled += 1
            self._change(clock.sampling + 1, "as too much comes")
        elif not active & {SAMPLE, HOLD} and clock.sampling > clock.asked_sampling:
            self._change(clock.sampling - 1, "as less comes")

    def _change(self, level: int, why: str) -> None:
        """Fix a level for the batches to come, durably."""
        pipeline = self.pipeline
        assert pipeline.layout is not None
        with pipeline.changing():
            pipeline.progress.clock.sampling = level
            step = Step("change", (), pipeline.clock())
            pipeline.committer.commit(step, pipeline.failures.watched(pipeline.layout))
        about = {"event": "sampling changed", "stream": self.name, "level": level}
        LOG.warning(f"queries that shed load take {share_of(level)} of the rows, {why}", extra=about)
