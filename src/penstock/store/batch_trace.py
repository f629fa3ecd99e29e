"""Writes and reads what batches brought and cost: files beside the trace, for ``penstock capacity``.

As the trace, it may be lost: nothing is synced, and a file that ends in the middle is read as far as it is whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from penstock.errors import StateError
from penstock.store.folder import TRACE
from penstock.store.trace_files import TraceForm, rows_in, trace_files
from penstock.store.trace_schema import RUN, TraceColumn

BATCH_COLUMNS: Final = (
    TraceColumn("stream", pa.string(), "the stream"),
    TraceColumn("number", pa.int64(), "of the commit"),
    TraceColumn("began_us", pa.int64(), "when the stream was given the batch"),
    TraceColumn("ended_us", pa.int64(), "when it was committed"),
    TraceColumn("watermark_us", pa.int64(), "after it; NULL: none yet"),
    TraceColumn("rows", pa.int64(), "that it brought"),
    TraceColumn("rows_sent", pa.int64(), "that the driver aggregated, not Spark"),
    TraceColumn("partials", pa.list_(pa.int64()), "that its job made, by grouping"),
    TraceColumn("job_s", pa.float64(), "seconds of Spark's job"),
    TraceColumn("ingest_s", pa.float64(), "seconds of filing its partials"),
    TraceColumn("commit_s", pa.float64(), "seconds of committing"),
    TraceColumn("driver_s", pa.float64(), "processor seconds of the engine's process since its start"),
    TraceColumn("spark_s", pa.float64(), "processor seconds of Spark's Java process; NULL: it is not on this machine"),
    TraceColumn("cores", pa.int32(), "that Spark runs on"),
    TraceColumn("memory_bytes", pa.int64(), "held by all streams, about a second later"),
    TraceColumn("partials_bytes", pa.int64(), "of these, partials"),
    TraceColumn("groups_bytes", pa.int64(), "of these, keys of groups"),
    TraceColumn("queries", pa.list_(pa.int64()), "definitions (see `catalog.db`) of its plan; empty: as before"),
    TraceColumn("shares", pa.list_(pa.float64()), "part of the batch that each of them is charged with"),
)
BATCH_SCHEMA: Final = pa.schema([(column.name, column.type) for column in BATCH_COLUMNS])
BATCHES: Final = TraceForm(BATCH_SCHEMA, ".batches.arrows")
MAY_BE_NULL: Final = ("watermark_us", "spark_s")


@dataclass(frozen=True, slots=True)
class RecordedBatch:
    """One batch; the columns of the file say what each field is."""

    run: int
    stream: str
    number: int
    began_us: int
    ended_us: int
    watermark_us: int | None
    rows: int
    rows_sent: int
    partials: tuple[int, ...]
    job_s: float
    ingest_s: float
    commit_s: float
    driver_s: float
    spark_s: float | None
    cores: int
    memory_bytes: int
    partials_bytes: int
    groups_bytes: int
    queries: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()

    @property
    def seconds(self) -> float:
        """Return how long its steps took."""
        return self.job_s + self.ingest_s + self.commit_s


def batch_row(one: RecordedBatch) -> tuple[Any, ...]:
    """Write a batch as a row."""
    return tuple(getattr(one, column.name) for column in BATCH_COLUMNS)


def read_batches(state: Path, since_us: int | None = None) -> list[RecordedBatch]:
    """Read the batches that the trace of a state folder tells of, in the order in which they were committed."""
    found: list[RecordedBatch] = []
    for path in trace_files(state / TRACE, BATCHES):
        found += [one for one in _batches(path) if since_us is None or one.ended_us >= since_us]
    if not found:
        hint = "An engine with this state folder records its batches as it runs, unless trace_bytes is 0."
        raise StateError(f"the state folder {state} has no trace of batches", hint=hint)
    return sorted(found, key=lambda one: (one.run, one.ended_us, one.number))


def _batches(path: Path) -> Iterator[RecordedBatch]:
    """Read the batches of a file, as far as it is whole and holds what an engine writes."""
    names = {field.name for field in fields(RecordedBatch)}
    try:
        for about, row in rows_in(path, BATCHES):
            if any(row[name] is None for name in names - {"run", *MAY_BE_NULL}):
                return
            lists = {name: tuple(row[name]) for name in ("partials", "queries", "shares")}
            yield RecordedBatch(run=int(about[RUN]), **{**row, **lists})
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return


def known_shares(batches: Sequence[RecordedBatch]) -> Iterator[tuple[RecordedBatch, dict[int, float]]]:
    """Give each batch with the parts of it that queries are charged with: those that its stream's last record had."""
    known: dict[tuple[int, str], dict[int, float]] = {}
    for one in batches:
        if one.queries:
            known[one.run, one.stream] = dict(zip(one.queries, one.shares, strict=True))
        yield one, known.get((one.run, one.stream), {})
