"""Opens a stream that others feed, each kind by its class."""

from __future__ import annotations

from penstock.catalog import Catalog
from penstock.model.derived import EACH_ROW, ROWS, is_apart
from penstock.model.schema import Stream
from penstock.stream.answer_targets import AnswerTargets
from penstock.stream.derived.derived_stream import DerivedStream
from penstock.stream.derived.joined_stream import JoinedStream
from penstock.stream.derived.partitioned_rows import PartitionedRowStream
from penstock.stream.derived.query_answers import QueryStream
from penstock.stream.derived.query_rows_stream import RowStream
from penstock.stream.derived.row_windows import RowWindowStream
from penstock.stream.derived.shared_join import SharedJoin
from penstock.stream.pipeline import Pipeline
from penstock.stream.runner import StreamRunner


def derived_stream(
    stream: Stream, catalog: Catalog, pipeline: Pipeline, targets: AnswerTargets, leader: StreamRunner | SharedJoin
) -> DerivedStream:
    """Open a stream that another one feeds, or the join of two."""
    if isinstance(leader, SharedJoin):
        return JoinedStream(stream, catalog, pipeline, targets, leader)
    return derived_kind(stream)(stream, catalog, pipeline, targets, leader)


def derived_kind(stream: Stream) -> type[QueryStream | RowWindowStream | RowStream]:
    """Return the class of a stream of answers, of rows that a query takes, or of numbered rows, by partition or not."""
    if stream.format == EACH_ROW:
        return RowStream
    if stream.format != ROWS:
        return QueryStream
    return PartitionedRowStream if is_apart(stream.name) else RowWindowStream
