"""GROUP BY window(…) answers what plain Spark answers to the same text over the same rows."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.engine import Engine
from penstock.model.duration import HOUR
from penstock.model.schema import Stream
from penstock.spark.sources.frames import columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NINE = datetime(2026, 1, 5, 9, tzinfo=UTC)
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("symbol", pa.string()), ("price", pa.float64()), ("volume", pa.int64())]
)


LISTING = pa.table({"symbol": ["A", "B", "B", None], "sector": ["x", "x", "y", "z"]})


def make_rows(count: int = 120) -> pa.Table:
    """Trades over two hours in disorder, with a silence of forty minutes in the middle."""
    chance = random.Random(7)
    minutes = [chance.choice([chance.uniform(0, 40), chance.uniform(80, 120)]) for _ in range(count)]
    rows = [
        {
            "ts": NINE + timedelta(microseconds=round(minute * 60_000_000)),
            "symbol": chance.choice(["A", "B", None]),
            "price": chance.randrange(1, 400) / 4,
            "volume": chance.randrange(100),
        }
        for minute in [*minutes, 0.0, 5.0, 10.0]
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


QUERIES = {
    "whole": "SELECT window, count(*) AS n FROM trades GROUP BY window(ts, '10 minutes', '5 minutes')",
    "tumbling": "SELECT window.start, window.end, sum(volume) AS v FROM trades GROUP BY window(ts, '7 minutes')",
    "uneven": "SELECT window, symbol, sum(volume) AS v FROM trades "
    "GROUP BY window(ts, '12 minutes', '5 minutes'), symbol",
    "started": "SELECT window.start AS s, avg(price) AS p FROM trades "
    "GROUP BY window(ts, '12 minutes', '5 minutes', '1 minute')",
    "before": "SELECT window.end AS e, max(price) AS p FROM trades "
    "GROUP BY window(ts, '12 minutes', '5 minutes', '-90 seconds')",
    "having": "SELECT symbol, window.end AS e, min(price) AS p FROM trades WHERE volume > 20 "
    "GROUP BY window(ts, '15 minutes', '10 minutes'), symbol "
    "HAVING window.end > TIMESTAMP '2026-01-05 09:30:00Z' AND count(*) > 1",
    "over": "SELECT date_format(window.start, 'HH:mm') || '-' || date_format(window.end, 'HH:mm') AS span, "
    "unix_seconds(window.end) % 7 + count(*) AS x, struct(window.start, symbol, window) AS y FROM trades "
    "GROUP BY symbol, window(ts, '20 minutes', '10 minutes')",
    "called": "SELECT window(ts, '30 minutes') AS w, count(*) AS n FROM trades GROUP BY window(ts, '30 minutes')",
    "joined": "SELECT l.sector, window.start AS s, count(*) AS n FROM trades t JOIN listing l ON t.symbol = l.symbol "
    "GROUP BY window(t.ts, '12 minutes', '5 minutes'), l.sector HAVING n > 1",
    "alone": "SELECT window FROM trades GROUP BY window(ts, '10 minutes')",
}


def answer(engine: Engine, names: Iterable[str], batches: Iterable[pa.Table]) -> None:
    """Answer some of the queries over batches of rows."""
    columns = columns_of(engine.session.createDataFrame(SCHEMA.empty_table()))
    engine.catalog.create_stream(Stream("trades", columns, "ts", lateness_us=3 * HOUR))
    engine.create_table("listing", LISTING)
    for name in names:
        engine.create_query(name, QUERIES[name])
    for number, batch in enumerate(batches):
        engine.stream("trades").process(engine.session.createDataFrame(batch.combine_chunks()), number)
    engine.stream("trades").flush()


@pytest.fixture(scope="module")
def answered(spark: SparkSession) -> Iterator[tuple[Engine, pa.Table]]:
    """Answer all queries over the rows in three batches."""
    rows = make_rows()
    with Engine(spark=spark) as engine:
        answer(engine, QUERIES, (rows.slice(start, 41) for start in (0, 41, 82)))
        yield engine, rows


@pytest.mark.parametrize("name", QUERIES)
def test_the_answers_are_those_of_plain_spark(answered: tuple[Engine, pa.Table], name: str) -> None:
    engine, rows = answered
    engine.session.createDataFrame(rows.combine_chunks()).createOrReplaceTempView("trades")
    engine.session.createDataFrame(LISTING).createOrReplaceTempView("listing")
    expected = engine.session.sql(QUERIES[name]).toArrow()
    found = engine.results(name)
    plain = found.drop_columns(["window_start", "window_end"])
    assert plain.schema.names == expected.schema.names
    assert [str(t) for t in plain.schema.types] == [str(t).replace(" not null", "") for t in expected.schema.types]
    assert sorted(map(repr, plain.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    assert found.num_rows > 0


def test_an_empty_window_gives_no_row(answered: tuple[Engine, pa.Table]) -> None:
    engine, rows = answered
    held = {(int((ts - NINE).total_seconds()) // 60) // 7 for ts in rows["ts"].to_pylist()}
    starts = engine.results("tumbling")["window_start"].to_pylist()
    assert len(starts) == len(set(starts)) <= len(held) + 1
    assert any(later - earlier > timedelta(minutes=30) for earlier, later in pairwise(starts))


def test_the_struct_is_the_window_of_the_answer(answered: tuple[Engine, pa.Table]) -> None:
    engine, _ = answered
    for row in engine.results("whole").to_pylist():
        assert row["window"] == {"start": row["window_start"], "end": row["window_end"]}


def test_every_strategy_and_kernel_gives_the_same(answered: tuple[Engine, pa.Table]) -> None:
    engine, rows = answered
    names = ["whole", "uneven", "started"]
    with Engine(spark=engine.session, strategy="unshared paned", kernel="scan") as other:
        answer(other, names, [rows])
        for name in names:
            assert other.results(name).to_pylist() == engine.results(name).to_pylist()
