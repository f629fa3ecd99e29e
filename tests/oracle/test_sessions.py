"""Sessions answer what plain Spark's session_window answers over the same rows, however these are cut into batches."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.engine import Engine
from penstock.model.duration import HOUR
from penstock.model.schema import Stream
from penstock.spark.sources.frames import columns_of
from tests.cases import sweep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NINE = datetime(2026, 1, 5, 9, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("symbol", pa.string()),
        ("price", pa.float64()),
        ("volume", pa.int64()),
        ("cost", pa.decimal128(12, 2)),
    ]
)
LISTING = pa.table({"symbol": ["A", "B", "B", None], "sector": ["x", "x", "y", "z"]})
AGGREGATES = (
    "count(*)",
    "count(price)",
    "sum(volume)",
    "sum(cost)",
    "avg(volume)",
    "min(symbol)",
    "max(price)",
    "median(volume)",
    "percentile(volume, 0.3)",
    "count(DISTINCT symbol)",
    "sum(DISTINCT volume)",
    "max_by(volume, price)",
    "mode(volume)",
    "approx_count_distinct(volume)",
    "count(*) FILTER (WHERE volume > 50)",
)
GAPS = ("1 second", "10 seconds", "30 seconds", "2 minutes", "10 minutes")
WHERES = ("", "WHERE volume > 20", "WHERE price < 60 AND symbol = 'A'", "WHERE symbol IS NULL OR volume < 70")
KEYS = ("", "symbol", "symbol, volume % 3", "volume > 50")
HAVINGS = ("", "HAVING count(*) > 1", "HAVING sum(volume) BETWEEN 20 AND 300")


def drawn_rows(draw: random.Random) -> pa.Table:
    """Draw trades in bursts, in disorder, some exactly a gap apart."""
    seconds, second = list[float](), 0.0
    for _ in range(draw.randint(20, 150)):
        second += draw.choice([0, 0.25, 1, 1.000001, 3, 10, 10, 30, 30.5, 120, 120, 700])
        seconds.append(second)
    draw.shuffle(seconds)
    rows = [
        {
            "ts": NINE + timedelta(microseconds=round(second * 1_000_000)),
            "symbol": draw.choice(["A", "B", "C", None]),
            "price": draw.choice([None, draw.randrange(1, 400) / 4]),
            "volume": draw.choice([None, draw.randrange(100), draw.randrange(100)]),
            "cost": None if draw.random() < 0.1 else draw.randrange(100_000) / 100,
        }
        for second in seconds
    ]
    return pa.Table.from_pydict({n: [r[n] for r in rows] for n in SCHEMA.names}).cast(SCHEMA, safe=False)


def drawn_query(draw: random.Random) -> str:
    chosen = draw.sample(AGGREGATES, draw.randint(1, 3))
    gap, key, where, having = draw.choice(GAPS), draw.choice(KEYS), draw.choice(WHERES), draw.choice(HAVINGS)
    listed = [f"{text} AS a{i}" for i, text in enumerate(chosen)] + ([f"{key.split(',')[0]} AS k"] if key else [])
    listed += [draw.choice(["session_window", "session_window.start AS s, session_window.end AS e"])]
    source, joined = "trades", draw.random() < 0.2
    if joined:
        key, where, having = "sector", "", ""
        source = "trades JOIN listing ON trades.symbol = listing.symbol"
        listed = ["count(*) AS n", "sum(volume) AS v", "session_window", "sector"]
    by = ", ".join([f"session_window({'trades.' * joined}ts, '{gap}')", *([key] if key else [])])
    return f"SELECT {', '.join(listed)} FROM {source} {where} GROUP BY {by} {having}"


def answered(engine: Engine, queries: dict[str, str], batches: list[pa.Table]) -> None:
    """Answer all queries over batches of rows, none of which is late."""
    columns = columns_of(engine.session.createDataFrame(SCHEMA.empty_table()))
    engine.catalog.create_stream(Stream("trades", columns, "ts", lateness_us=24 * HOUR))
    engine.create_table("listing", LISTING)
    for name, text in queries.items():
        engine.create_query(name, text)
    for number, batch in enumerate(batches):
        engine.stream("trades").process(engine.session.createDataFrame(batch.combine_chunks()), number)
    engine.stream("trades").flush()


@pytest.mark.parametrize("seed", sweep(range(200), 4))
def test_sessions_are_those_of_plain_spark(spark: SparkSession, seed: int) -> None:
    draw = random.Random(seed)
    rows, queries = drawn_rows(draw), {f"q{n}": drawn_query(draw) for n in range(draw.randint(2, 8))}
    cuts = sorted(draw.sample(range(1, rows.num_rows), draw.randint(0, 4)))
    batches = [rows.slice(lo, hi - lo) for lo, hi in zip([0, *cuts], [*cuts, rows.num_rows], strict=True)]
    with Engine(spark=spark, aggregation=draw.choice(["auto", "executors", "driver"])) as engine:
        answered(engine, queries, batches)
        engine.session.createDataFrame(rows).createOrReplaceTempView("trades")
        engine.session.createDataFrame(LISTING).createOrReplaceTempView("listing")
        for name, text in queries.items():
            told = text.replace("mode(volume)", "mode(volume, true)")  # the least of several, as ours
            expected, found = engine.session.sql(told).toArrow(), engine.results(name)
            plain = found.drop_columns(["window_start", "window_end"])
            assert plain.schema.names == expected.schema.names
            types = [str(t).replace(" not null", "") for t in expected.schema.types]
            assert [str(t) for t in plain.schema.types] == types, text
            assert sorted(map(repr, plain.to_pylist())) == sorted(map(repr, expected.to_pylist())), text
