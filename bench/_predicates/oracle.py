"""Computes the right answers with DuckDB over the same Parquet files, without Penstock and Spark."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from bench._predicates.market import Exchange
from bench._predicates.queries import Question
from bench._predicates.running import Answers

SECOND_US = 1_000_000


def oracle(exchange: Exchange, questions: Sequence[Question]) -> list[Answers]:
    """Answer the queries, one after the other."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        folders = {"trades": exchange.trades, "close": exchange.close, "indexes": exchange.index}
        for name, folder in folders.items():
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{folder}/*.parquet')")
        connection.execute(
            "CREATE TABLE joined AS SELECT *, epoch_us(time) // 1000000 AS second "
            "FROM trades JOIN close USING (symbol) JOIN indexes USING (symbol)"
        )
        return [_answers(connection, question) for question in questions]


def _answers(connection: duckdb.DuckDBPyConnection, question: Question) -> Answers:
    """Sum by second, then the seconds of each window: all windows are of whole seconds."""
    length, slide = question.window.range_s, question.window.slide_s
    found = connection.execute(
        f"""
        WITH span AS (SELECT min(epoch_us(time)) // 1000000 AS low, max(epoch_us(time)) // 1000000 AS high FROM trades),
        ends AS (
            SELECT unnest(range(low - low % {slide} + {slide}, high + {length} + 1, {slide})) AS finish FROM span
        ),
        seconds AS (
            SELECT second, sum(price * vol) AS value, count(*) AS n
            FROM joined WHERE {question.predicate or "true"} GROUP BY second
        )
        SELECT finish, sum(value), coalesce(sum(n), 0)
        FROM ends LEFT JOIN seconds ON second >= finish - {length} AND second < finish
        GROUP BY finish
        """
    ).fetchall()
    return {finish * SECOND_US: (value, int(n)) for finish, value, n in found}
