"""Chooses the class of a stream that another one feeds."""

from __future__ import annotations

from penstock.model.derived import EACH_ROW, ROWS, is_apart
from penstock.model.schema import Stream
from penstock.stream.derived.partitioned_rows import PartitionedRowStream
from penstock.stream.derived.query_answers import QueryStream
from penstock.stream.derived.query_rows_stream import RowStream
from penstock.stream.derived.row_windows import RowWindowStream


def derived_kind(stream: Stream) -> type[QueryStream | RowWindowStream | RowStream]:
    """Return the class of a stream of answers, of rows that a query takes, or of numbered rows, by partition or not."""
    if stream.format == EACH_ROW:
        return RowStream
    if stream.format != ROWS:
        return QueryStream
    return PartitionedRowStream if is_apart(stream.name) else RowWindowStream
