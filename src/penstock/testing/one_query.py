"""Answers one query over given rows, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import QueryFailed, SourceError, UnknownStream, nearest
from penstock.model.schema import Stream, Table
from penstock.spark.sources.rows import columns_in
from penstock.testing.bed import Columns, TestBed
from penstock.testing.clock import EPOCH, Instant, ManualClock
from penstock.testing.values import Rows, inferred_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Cuts = Sequence[int] | Mapping[str, Sequence[int]]


def run_rows(
    query: str,
    rows: Mapping[str, Rows],
    *,
    streams: Sequence[Stream] = (),
    tables: Mapping[str, Table | Rows] | None = None,
    table_schemas: Mapping[str, Columns] | None = None,
    cuts: Cuts | None = None,
    flush: bool = True,
    clock: ManualClock | None = None,
    epoch: Instant = EPOCH,
    name: str = "query",
    spark: SparkSession | None = None,
) -> pa.Table:
    """Answer one query over rows given by stream; a query that an error paused raises QueryFailed.

    A stream that is not declared has the types of its rows and the event time ``ts``. A table is given by its rows
    (typed by ``table_schemas``, or as found) or as a :class:`Table` whose files are read. ``cuts`` says how many rows
    each batch takes, by stream if there are several; without it each stream is one batch.
    """
    with TestBed(spark, clock=clock, epoch=epoch) as bed:
        _declare(bed, streams, rows)
        for table, given in (tables or {}).items():
            _declare_table(bed, table, given, (table_schemas or {}).get(table))
        bed.query(name, query)
        for stream, batches in _cuts(rows, cuts).items():
            bed.feed_in_cuts(stream, rows[stream], batches)
        if flush:
            bed.flush()
        if (reason := bed.paused(name)) is not None:
            raise QueryFailed(f'query "{name}" is paused: {reason}')
        return bed.results(name)


def _declare(bed: TestBed, streams: Sequence[Stream], rows: Mapping[str, Rows]) -> None:
    """Declare the streams; where none is declared, by their rows."""
    for stream in streams:
        bed.declare(stream)
    known = {stream.name.lower() for stream in streams}
    for name, given in rows.items():
        if name.lower() in known:
            continue
        if streams:
            names = [stream.name for stream in streams]
            raise UnknownStream(f'there is no stream "{name}" to give rows to', hint=nearest(name, names))
        schema = inferred_schema(given, f'stream "{name}"', time="ts")
        bed.declare(Stream(name, columns_in(bed.engine.session, schema), "ts"))


def _declare_table(bed: TestBed, name: str, given: Table | Rows, schema: Columns | None) -> None:
    """Declare a table by its rows or by its files."""
    if isinstance(given, Table):
        bed.engine.catalog.create_table(given)
    else:
        bed.table(name, given, schema=schema)


def _cuts(rows: Mapping[str, Rows], cuts: Cuts | None) -> dict[str, Sequence[int]]:
    """Say for each stream how many rows its batches take."""
    whole: dict[str, Sequence[int]] = {stream: [len(given)] for stream, given in rows.items()}
    if cuts is None:
        return whole
    if isinstance(cuts, Mapping):
        for stream in cuts.keys() - rows.keys():
            raise SourceError(f'there are cuts for "{stream}", but no rows', hint=nearest(stream, rows))
        return whole | dict(cuts)
    if len(rows) != 1:
        hint = "Write them by stream: {'trades': [2, 3]}."
        raise SourceError(f"cuts for {len(rows)} streams are given as one list", hint=hint)
    return dict.fromkeys(rows, cuts)
