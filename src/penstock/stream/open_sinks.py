"""Opens the sinks of a stream: for answers to windows, and for rows of continuous queries once there are some."""

from __future__ import annotations

from penstock.model.derived import rows_name
from penstock.sinks.delivery import Delivery
from penstock.sinks.protocol import ByExecutors
from penstock.sinks.row_delivery import RowDelivery, RowLog
from penstock.sinks.stream_delivery import StreamDelivery
from penstock.spark.answers.large_answers import executor_writer
from penstock.store.answers import AnswerLog
from penstock.stream.settings import StreamSettings


def stream_delivery(stream: str, answers: AnswerLog, settings: StreamSettings) -> StreamDelivery:
    """Open the sinks of a stream for all that it answers."""
    return StreamDelivery(delivery_of(stream, answers, settings), lambda log: row_delivery_of(stream, log, settings))


def delivery_of(stream: str, answers: AnswerLog, settings: StreamSettings) -> Delivery:
    """Open the sinks of a stream, and give them what they lack."""
    for sink in settings.sinks:
        if isinstance(sink, ByExecutors) and sink.write_large is None:
            sink.write_large = executor_writer(settings.session)
    called = settings.catalog.name_of, settings.catalog.version_of
    return Delivery(stream, settings.sinks, answers, settings.folder, *called, most_backlog=settings.sink_backlog)


def row_delivery_of(stream: str, log: RowLog, settings: StreamSettings) -> RowDelivery:
    """Open the sinks of a stream for rows of continuous queries, and give them what they lack."""
    told = rows_name(stream), settings.sinks, log, settings.folder
    return RowDelivery(*told, most_backlog=settings.sink_backlog)
