"""Runs mixed loads in Penstock, and measures every batch and where its time goes; and bare micro-batches beside."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Final, Protocol

import psutil
from pyspark.sql import DataFrame, SparkSession

from bench._batch_ends import BatchEnds
from bench._frame import scratch_folder
from bench._groupings.running import sums_of
from bench._mixed.spark_steps import SparkSteps
from bench._mixed.workloads import Load
from bench._noting import NotingSink
from penstock.engine import Engine
from penstock.model.aggregation import Aggregation
from penstock.model.strategy import DEFAULT_STRATEGY, Strategy
from penstock.stream.answered_groups import ProcessedBatch, Work

STEADY: Final = 4  # batches before which Spark compiles and queries begin


class Runnable(Protocol):
    """Queries over a stream in files, one a batch."""

    @property
    def files(self) -> int:
        """Return how many batches there are."""

    @property
    def stream(self) -> str:
        """Name the stream."""

    def script(self, names: Sequence[str] | None = None) -> str:
        """Write everything as one script; with names, only some of the queries."""


@dataclass(slots=True)
class Ran:
    """What a run took and did."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    answers: int = 0
    state_bytes: int = 0
    steady_cpu_seconds: float = 0.0  # of the batches after the first ones
    creating_seconds: float = 0.0
    batches: list[float] = field(default_factory=list)  # seconds of each
    steps: dict[str, float] = field(default_factory=dict)
    spark_steps: dict[str, float] = field(default_factory=dict)
    transferred_bytes: int = 0  # of rows that Spark's tasks sent to Python
    partials: int = 0
    sent_bytes: int = 0
    sums: dict[str, tuple[int, float]] = field(default_factory=dict)  # by query: answers, and all their numbers summed

    @property
    def steady(self) -> float:
        """Return the median of the batches after the first ones."""
        return statistics.median(self.batches[STEADY:] or self.batches)

    def record(self) -> dict[str, Any]:
        """Write down what is compared from run to run."""
        found = {name: value for name, value in asdict(self).items() if name != "sums"}
        return {**found, "steady_seconds": self.steady}


def run(
    session: SparkSession,
    load: Runnable,
    names: Sequence[str] | None = None,
    *,
    strategy: Strategy = DEFAULT_STRATEGY,
    aggregation: Aggregation = "auto",
) -> Ran:
    """Process all files with a fresh state folder; timed until the Parquet sink holds every answer."""
    ran = Ran()
    with scratch_folder() as scratch:
        folder, state = scratch / "answers", scratch / "state"
        ends = BatchEnds()
        sink = NotingSink(folder, ends.note, load.stream)
        with Engine(state, spark=session, strategy=strategy, sinks=[sink], aggregation=aggregation) as engine:
            began = time.perf_counter()
            engine.execute(load.script(names))
            pipeline = engine.stream(load.stream).pipeline
            ran.creating_seconds = time.perf_counter() - began
            ends.watch(engine, load.stream)
            between = SteadyProcessorTime(load.files)
            pipeline.observing.observers = [*pipeline.observing.observers, between]
            cpu, began = cpu_seconds(), time.perf_counter()
            with SparkSteps(pipeline.session) as spark_steps:
                engine.process_available(flush=True)
                ran.seconds, ran.cpu_seconds = time.perf_counter() - began, cpu_seconds() - cpu
            ran.spark_steps, ran.transferred_bytes = spark_steps.seconds, spark_steps.bytes
            metrics = asdict(pipeline.metrics)
            ran.steps = {name: round(value, 3) for name, value in metrics.items() if isinstance(value, float)}
            ran.partials, ran.sent_bytes = metrics["partials"], metrics["bytes"]
            ran.steady_cpu_seconds = between.seconds
        ran.batches = [round(b - a, 4) for a, b in pairwise([began, *ends.ends()])]
        ran.state_bytes = sum(path.stat().st_size for path in state.rglob("*") if path.is_file())
        ran.sums = sums_of(folder)
        ran.answers = sum(count for count, _ in ran.sums.values())
    return ran


class SteadyProcessorTime:
    """Observes a stream, and takes the processor time from the commit of one of its first batches to that of its last.

    Of as few batches, all but the first one count.
    """

    def __init__(self, batches: int) -> None:
        """Foresee so many batches."""
        self._from, self._to = (STEADY if batches > STEADY else 1), batches
        self._batches = 0
        self._began = self.seconds = 0.0

    def observe(self, work: Work) -> None:
        """Count batches."""
        if isinstance(work, ProcessedBatch):
            self._batches += 1
            if self._batches == self._from:
                self._began = cpu_seconds()
            elif self._batches == self._to:
                self.seconds = cpu_seconds() - self._began


def cpu_seconds() -> float:
    """Return the processor time of this process and of all that it started: the JVM, and workers of Python."""
    own = psutil.Process()
    spent = own.cpu_times().user + own.cpu_times().system
    for child in own.children(recursive=True):
        try:
            spent += child.cpu_times().user + child.cpu_times().system
        except psutil.Error:
            continue  # it ended meanwhile
    return spent


def bare_batches(session: SparkSession, load: Load, do: Callable[[DataFrame], object]) -> list[float]:
    """Time micro-batches of plain Spark over the same files, in which each batch is given to a function alone."""
    ends: list[float] = []

    def take(batch: DataFrame, batch_id: int) -> None:
        do(batch)
        ends.append(time.perf_counter())

    with scratch_folder() as scratch:
        stream = session.readStream.schema(load.columns).option("maxFilesPerTrigger", 1).parquet(str(load.folder))
        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(scratch))
        ends.append(time.perf_counter())
        writer.trigger(availableNow=True).start().awaitTermination()
    return [b - a for a, b in pairwise(ends)]
