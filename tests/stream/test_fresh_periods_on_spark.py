"""Fresh queries at shorter periods, end to end on Spark: answers, restarts, what users are shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.cli.status_text import queries_text
from penstock.engine import Engine
from penstock.model.schema import Stream
from penstock.spark.sources.frames import columns_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NINE = datetime(2026, 1, 5, 9, tzinfo=UTC)
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
ASKED = "SELECT approx_count_distinct(v) AS n FROM s [RANGE {} s SLIDE {} s]"
FRESH = " WITH (emit = 'fresh')"


def open_engine(spark: SparkSession, state: Path, technique: str) -> Engine:
    engine = Engine(state, spark=spark, synchronize=technique)
    if not engine.catalog.has("stream", "s"):
        frame = engine.session.createDataFrame(SCHEMA.empty_table())
        engine.catalog.create_stream(Stream("s", columns_of(frame), "ts"))
    return engine


def feed(engine: Engine, number: int, seconds: Sequence[int]) -> None:
    """Bring a row at each second, all of other values."""
    rows = [{"ts": NINE + timedelta(seconds=second), "v": second} for second in seconds]
    engine.stream("s").process(engine.session.createDataFrame(pa.Table.from_pylist(rows, SCHEMA)), number)


def answers(engine: Engine, name: str) -> list[tuple[int, int]]:
    """List the seconds after nine at which windows end, with their counts."""
    table = engine.results(name)
    ends = [int((end - NINE).total_seconds()) for end in table["window_end"].to_pylist()]
    return list(zip(ends, table["n"].to_pylist(), strict=True))


def expected(ends: Sequence[int], length: int) -> list[tuple[int, int]]:
    return [(end, min(end, length)) for end in ends]  # a row a second, from the first one on


def test_a_fresh_query_is_answered_with_its_partner_also_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    #   a asks for every 6 seconds and b for every 4; c is exact.  AS until 12, then CS: windows that begin after 12
    with open_engine(spark, tmp_path, "AS") as engine:
        engine.create_queries(
            {"a": ASKED.format(8, 6) + FRESH, "b": ASKED.format(4, 4) + FRESH, "c": ASKED.format(8, 6)}
        )
        feed(engine, 0, range(5))
        feed(engine, 1, range(5, 9))
        assert answers(engine, "a") == expected([4, 8], 8)
        assert answers(engine, "b") == expected([4, 8], 4)
        assert answers(engine, "c") == expected([6], 8)
        told = str(engine.explain())
        assert "a [RANGE 8 s SLIDE 4 s] (asks for [RANGE 8 s SLIDE 6 s])" in told
        assert "periods by AS: 2 fresh queries over one synopsis: every 4 s those that ask for 4 s, 6 s: b, a" in told
        assert "answered every 4 s, together with others" in queries_text(engine.status())
        version = engine.catalog.version
        engine.alter_query("a", ASKED.format(8, 6) + FRESH)  # the same text, as a file has it
        assert engine.catalog.version == version
    with open_engine(spark, tmp_path, "AS") as engine:
        assert engine.catalog.version == version
        feed(engine, 2, range(9, 13))
        assert answers(engine, "a") == expected([4, 8, 12], 8)
        engine.set_synchronization("CS")
        feed(engine, 3, [13])
        assert "it answers the windows that began before its period changed" in queries_text(engine.status())
        for number, first in enumerate(range(14, 31, 4), 4):  # up to 17, 21, 25, 29 and 33
            feed(engine, number, range(first, first + 4))
        assert answers(engine, "a") == expected([4, 8, 12, 16, 20, 24, 30], 8)
        assert answers(engine, "b") == expected(range(4, 33, 4), 4)
        assert answers(engine, "c") == expected(range(6, 31, 6), 8)
        assert "asks for" not in str(engine.explain())
        assert {q["query"]: q["period_us"] for q in engine.status()["queries"]} == dict.fromkeys("abc")
