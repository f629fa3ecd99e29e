"""Reads the trades of a seeded market, which are made as they are asked for, and made again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import SourceError
from penstock.model.schema import Column, Stream, Table
from penstock.sources.trades import market_of
from penstock.spark.job.literals import quoted
from penstock.spark.market import stream_trades, trades
from penstock.spark.sources.file_log import offset_of
from penstock.spark.sources.frames import columns_of
from penstock.spark.sources.readers import Position, SourceReader, Unit

UNIT_ROWS: Final = 200_000  # trades that are made again at a time


class GeneratedTrades(SourceReader):
    """Makes trades."""

    in_units = True

    def open_stream(self, session: SparkSession, stream: Stream) -> DataFrame:
        """Make trades without end."""
        return _declared(stream_trades(session, *market_of(stream.name, stream.options)), stream)

    def columns(self, session: SparkSession, item: Stream | Table) -> tuple[Column, ...]:
        """Tell what trades look like."""
        return columns_of(stream_trades(session, *market_of(item.name, item.options)))

    def history(self, session: SparkSession, stream: Stream, position: Position, *, accept_changed: bool) -> DataFrame:
        """Make the first trades again."""
        market, _ = market_of(stream.name, stream.options)
        rows = int(offset_of(stream, position.text).get("offset", 0))
        return _declared(trades(session, replace(market, rows=rows)), stream)

    def history_units(
        self, session: SparkSession, stream: Stream, after: Position, upto: Position, *, accept_changed: bool
    ) -> list[Unit]:
        """Cut the numbers of trades into stretches."""
        first, last = (int(offset_of(stream, at.text).get("offset", 0)) for at in (after, upto))
        return [(start, min(start + UNIT_ROWS, last)) for start in range(first, last, UNIT_ROWS)]

    def read_units(self, session: SparkSession, stream: Stream, units: Sequence[Unit]) -> DataFrame:
        """Make the trades of some stretches again: neighbours, as they are listed."""
        market, _ = market_of(stream.name, stream.options)
        made = trades(session, replace(market, rows=units[-1][1]), first=units[0][0])
        return _declared(made, stream)

    def check_history(self, session: SparkSession, stream: Stream, position: Position, *, accept_changed: bool) -> None:
        """Refuse nothing: trades do not change."""


def _declared(frame: DataFrame, stream: Stream) -> DataFrame:
    """Take the declared columns from those that a source makes itself."""
    declared = [c for c in stream.columns if c.expression is None]
    made = {f.name: f.dataType.simpleString() for f in frame.schema.fields}
    for column in declared:
        if made.get(column.name) != column.type:
            raise SourceError(
                f'"{stream.name}": the generator makes no column {column.name} {column.type}',
                detail=f"it makes {', '.join(f'{n} {t}' for n, t in made.items())}",
                hint="Leave the columns out, or name some of these.",
            )
    return frame.select(*(F.col(quoted(c.name)) for c in declared))
