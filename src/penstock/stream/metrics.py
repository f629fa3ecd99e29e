"""Measures what a pipeline has done: seconds by step, batches and answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.kernel.signing import Sent


@dataclass(slots=True)
class Metrics:
    """Seconds by step, and what they were spent on."""

    plan: float = 0.0
    job: float = 0.0
    ingest: float = 0.0
    commit: float = 0.0
    answer: float = 0.0
    log: float = 0.0  # of which answers were written to the log
    sink: float = 0.0  # of which answers were handed to the sinks
    batches: int = 0
    answers: int = 0
    evaluations: int = 0  # windows computed, equal ones of several queries once
    shared: int = 0  # windows answered by another query's evaluation
    partials: int = 0  # that jobs sent to the driver
    cells: int = 0  # distinct ones among them, batch by batch
    signatures: int = 0
    bytes: int = 0
    rows_sent: int = 0  # rows that the driver aggregated, not Spark
    waiting: int = 0  # rows that the watermark has not passed, and windows of rows wait for
    waiting_bytes: int = 0  # of the files that hold them
    spread: int = 0  # partials that executors wrote to files of their own

    def add(self, sent: Sent) -> None:
        """Add what a batch's job sent."""
        self.partials, self.bytes = self.partials + sent.partials, self.bytes + sent.bytes
        self.cells, self.signatures = self.cells + sent.cells, self.signatures + sent.signatures
        self.rows_sent += sent.rows

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the seconds of a step."""
        began = time.perf_counter()
        yield
        setattr(self, step, getattr(self, step) + time.perf_counter() - began)
