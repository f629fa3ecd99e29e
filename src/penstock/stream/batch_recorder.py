"""Makes rows of batches for the trace: what each brought and cost, and who is charged with it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.store.batch_trace import RecordedBatch
from penstock.stream.answered_groups import ProcessedBatch
from penstock.stream.figures.job_shares import JobShares

SHARED_EVERY: Final = 64  # batches of a stream, after which shares are written again: they change little


@dataclass(frozen=True, slots=True)
class Machine:
    """What tells how much an engine uses: processor seconds of Spark, its cores, and bytes by kind."""

    spark_s: Callable[[], float | None] = lambda: None
    cores: int = os.cpu_count() or 1
    memory: Callable[[], Mapping[str, float]] = dict


@dataclass(frozen=True, slots=True)
class NotedBatch:
    """A batch, and the processor seconds that were spent until it was committed."""

    batch: ProcessedBatch
    driver_s: float
    spark_s: float | None


class BatchRecorder:
    """Writes the batches of an engine's streams as rows; the counters are read in the thread of the batch."""

    def __init__(self, run: int, machine: Machine) -> None:
        """Begin without a batch."""
        self.run, self.machine = run, machine
        self._shares: dict[str, tuple[object, JobShares, int]] = {}  # by stream: layout, its shares, batches since

    def note(self, batch: ProcessedBatch) -> NotedBatch:
        """Read the counters at the end of a batch."""
        return NotedBatch(batch, time.process_time(), self.machine.spark_s())

    def row(self, noted: NotedBatch, memory: Mapping[str, float]) -> RecordedBatch:
        """Make a row of a batch."""
        batch, shares = noted.batch, self._charged(noted.batch)
        return RecordedBatch(
            run=self.run,
            stream=batch.stream,
            number=batch.number,
            began_us=batch.offered_us,
            ended_us=batch.committed_us,
            watermark_us=batch.watermark_us,
            rows=batch.rows,
            rows_sent=batch.rows_sent,
            partials=tuple(map(int, batch.partials)),
            job_s=batch.job_s,
            ingest_s=batch.ingest_s,
            commit_s=batch.commit_s,
            driver_s=noted.driver_s,
            spark_s=noted.spark_s,
            cores=self.machine.cores,
            memory_bytes=round(sum(memory.values())),
            partials_bytes=round(memory.get("partials", 0)),
            groups_bytes=round(memory.get("groups", 0)),
            queries=tuple(shares),
            shares=tuple(shares.values()),
        )

    def _charged(self, batch: ProcessedBatch) -> dict[int, float]:
        """Divide a batch among its queries, now and then."""
        layout, known, since = self._shares.get(batch.stream, (None, None, 0))
        if known is None or layout is not batch.layout:
            known, since = JobShares.of(batch.layout), 0
        self._shares[batch.stream] = batch.layout, known, (since + 1) % SHARED_EVERY
        if since or not known.definitions:
            return {}
        return dict(zip(known.definitions, known.of_batch(batch.partials).tolist(), strict=True))
