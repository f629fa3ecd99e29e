"""Stands before a sink and notes when it has taken answers, and when it has taken all answers of a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.sinks.memory import MemorySink
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.protocol import Progressing, SinkWriter
from penstock.stream.answered_groups import AnsweredGroup, ProcessedBatch, Work
from penstock.stream.pipeline import Pipeline

Note = Callable[[int, Sequence[pa.Table]], None]


class BatchTimes:
    """Notes when a sink has taken all answers of each batch: they may come in several groups, each with its number.

    For streams that answer a batch before the next one; :meth:`note` is the sink's, :meth:`watch` begins with a stream.
    """

    def __init__(self) -> None:
        """Begin with no batch."""
        self._taken: dict[int, float] = {}  # number of a group → when the sink had it
        self._batches: list[tuple[float, list[int]]] = []  # when each was committed, and the groups of its answers
        self._pipeline: Pipeline | None = None

    def watch(self, pipeline: Pipeline) -> None:
        """Note the batches of a stream from now on."""
        self._pipeline = pipeline
        pipeline.observing.observers = (*pipeline.observing.observers, self)

    def note(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Note that the sink has a group of answers."""
        self._taken[number] = time.perf_counter()

    def observe(self, work: Work) -> None:
        """Note a batch, or which answers are its; what the end of the stream says is of no batch."""
        if isinstance(work, ProcessedBatch):
            self._batches.append((work.committed_s, []))
        elif isinstance(work, AnsweredGroup) and work.number is not None and self._batches and not self._has_ended:
            self._batches[-1][1].append(work.number)

    @property
    def _has_ended(self) -> bool:
        """Tell whether the stream has come to its end."""
        return self._pipeline is not None and self._pipeline.progress.clock.ended

    def ends(self) -> list[float]:
        """Return when the sink had all answers of each batch; of one without answers, when it was committed."""
        return [max([committed, *(self._taken[n] for n in numbers)]) for committed, numbers in self._batches]


class NotingSink(ParquetSink):
    """A Parquet sink that tells of every group of answers that it has taken."""

    def __init__(self, folder: Path, note: Note) -> None:
        """Write into a folder."""
        super().__init__(folder)
        self._note = note

    def open(self, stream: str, memory: Progressing) -> SinkWriter:  # type: ignore[override]
        """Open the writer of one stream."""
        return _NotingWriter(super().open(stream, memory), self._note)


class NotingMemory(MemorySink):
    """A sink in memory that tells of every group of answers that it has taken."""

    def __init__(self, note: Note) -> None:
        """Start empty."""
        super().__init__()
        self._note = note

    def open(self, stream: str, memory: Progressing) -> SinkWriter:  # type: ignore[override]
        """Open the writer of one stream."""
        return _NotingWriter(super().open(stream, memory), self._note)


class _NotingWriter:
    """Writes through another writer."""

    def __init__(self, writer: SinkWriter, note: Note) -> None:
        """Stand before a writer."""
        self._writer, self._note = writer, note

    @property
    def delivered(self) -> int:
        """Return the last answers that the sink holds for good."""
        return self._writer.delivered

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Give a group of answers on, and tell of it."""
        self._writer.deliver(number, tables)
        self._note(number, tables)

    def roll(self) -> None:
        """Make everything visible."""
        self._writer.roll()
