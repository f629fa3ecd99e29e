"""One bad row harms its own queries only; guards keep their meaning; a paused query can be resumed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
SCHEMA = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("a", pa.int32()), ("b", pa.int32()), ("s", pa.string())])


def batch(engine: Engine, *rows: tuple[int, int | None, int | None, str | None]) -> Any:
    table = pa.Table.from_pylist(
        [{"ts": START + timedelta(seconds=t), "a": a, "b": b, "s": s} for t, a, b, s in rows], SCHEMA
    )
    return engine.session.createDataFrame(table)


def engine_with(spark: SparkSession, **queries: str) -> Engine:
    engine = Engine(spark=spark)
    engine.create_stream("r", engine.session.createDataFrame(SCHEMA.empty_table()), time="ts")
    for name, text in queries.items():
        engine.create_query(name, text)
    return engine


def ends(engine: Engine, name: str) -> list[int]:
    return [int((e - START).total_seconds()) for e in engine.results(name)["window_end"].to_pylist()]


def test_a_division_by_zero_pauses_its_query_and_no_other(spark: SparkSession) -> None:
    with engine_with(
        spark,
        ratio="SELECT sum(a / b) AS x FROM r [RANGE 10 s SLIDE 10 s]",
        plain="SELECT sum(a) AS x FROM r [RANGE 10 s SLIDE 10 s]",
    ) as engine:
        stream = engine.stream("r")
        stream.process(batch(engine, (1, 6, 3, ""), (11, 8, 2, "")), 0)
        stream.process(batch(engine, (15, 1, 0, ""), (21, 4, 2, "")), 1)
        stream.process(batch(engine, (31, 4, 2, "")), 2)
        stream.flush()
        assert ends(engine, "ratio") == [10]
        assert ends(engine, "plain") == [10, 20, 30, 40]
        (report,) = stream.pipeline.reports
        assert 'query "ratio" is paused' in report
        assert "DIVIDE_BY_ZERO" in report
        assert "2026-01-05T12:00:15" in report


def test_a_guard_inside_where_protects_the_rest_of_the_query(spark: SparkSession) -> None:
    with engine_with(
        spark,
        guarded="SELECT sum(a / b) AS x FROM r [RANGE 10 s SLIDE 10 s] WHERE b <> 0 AND a / b > 0",
        every="SELECT count(*) AS n FROM r [RANGE 10 s SLIDE 10 s]",
        other="SELECT sum(a DIV b) AS x FROM r [RANGE 10 s SLIDE 10 s] WHERE b > 1",
    ) as engine:
        stream = engine.stream("r")
        stream.process(batch(engine, (1, 6, 3, ""), (2, 5, 0, ""), (3, 9, None, "")), 0)
        stream.flush()
        assert stream.pipeline.reports == []
        assert engine.results("guarded")["x"].to_pylist() == [2.0]
        assert engine.results("other")["x"].to_pylist() == [2]
        assert engine.results("every")["n"].to_pylist() == [3]


def test_a_failing_key_cast_and_predicate_each_pause_their_own_query(spark: SparkSession) -> None:
    with engine_with(
        spark,
        key="SELECT CAST(s AS INT) AS k, count(*) AS n FROM r [RANGE 10 s SLIDE 10 s] GROUP BY CAST(s AS INT)",
        cond="SELECT count(*) AS n FROM r [RANGE 10 s SLIDE 10 s] WHERE CAST(s AS INT) > 1",
        over="SELECT sum(a * b) AS n FROM r [RANGE 10 s SLIDE 10 s]",
        fine="SELECT max(s) AS n FROM r [RANGE 10 s SLIDE 10 s]",
    ) as engine:
        stream = engine.stream("r")
        stream.process(batch(engine, (1, 1, 1, "7"), (12, 1, 1, "x"), (25, 2**31 - 1, 2, "3"), (41, 1, 1, "5")), 0)
        stream.flush()
        assert ends(engine, "key") == [10]
        assert ends(engine, "cond") == [10]
        assert ends(engine, "over") == [10, 20]
        assert ends(engine, "fine") == [10, 20, 30, 40, 50]


def test_a_resumed_query_starts_at_the_first_window_after_the_failure(spark: SparkSession) -> None:
    with engine_with(spark, q="SELECT sum(a / b) AS x FROM r [RANGE 20 s SLIDE 10 s]") as engine:
        stream = engine.stream("r")
        stream.process(batch(engine, (1, 1, 1, ""), (15, 1, 0, ""), (22, 2, 1, "")), 0)
        assert ends(engine, "q") == [10]
        engine.resume_query("q")
        stream.process(batch(engine, (35, 3, 1, ""), (62, 4, 1, "")), 1)
        # windows (15 s holds the failing row):  |0---10---20---30---40---50---60
        #                                             [20   40) is the first without it
        assert ends(engine, "q") == [10, 40, 50, 60]
        assert engine.results("q")["x"].to_pylist() == [1.0, 5.0, 3.0, None]


def test_a_sum_that_does_not_fit_pauses_the_query_at_that_window(spark: SparkSession) -> None:
    with engine_with(
        spark,
        big="SELECT sum(CAST(a AS BIGINT) * 4294967296 * b) AS x FROM r [RANGE 10 s SLIDE 10 s]",
        ratio="SELECT sum(a) / (count(*) - 2) AS x FROM r [RANGE 10 s SLIDE 10 s]",
    ) as engine:
        stream = engine.stream("r")
        top = 2**30
        rows = [(1, top, 1, ""), (2, -top, 1, ""), (3, top, 1, ""), (11, top, 1, ""), (12, top, 1, ""), (21, 1, 1, "")]
        stream.process(batch(engine, *rows), 0)
        stream.flush()
        # 2^62 − 2^62 + 2^62 fits; 2^62 + 2^62 does not
        assert ends(engine, "big") == [10]
        assert engine.results("big")["x"].to_pylist() == [2**62]
        assert ends(engine, "ratio") == [10]


def test_who_shares_an_expression_with_a_failed_query_is_watched_too(spark: SparkSession) -> None:
    with engine_with(
        spark,
        low="SELECT sum(a / b) AS x FROM r [RANGE 10 s SLIDE 10 s] WHERE a < 10",
        high="SELECT sum(a / b) AS x FROM r [RANGE 10 s SLIDE 10 s] WHERE a >= 10",
        plain="SELECT count(*) AS x FROM r [RANGE 10 s SLIDE 10 s]",
    ) as engine:
        stream = engine.stream("r")
        stream.process(batch(engine, (1, 1, 0, ""), (2, 20, 2, ""), (11, 1, 1, "")), 0)
        stream.process(batch(engine, (15, 20, 0, ""), (21, 1, 1, "")), 1)
        stream.flush()
        assert ends(engine, "low") == []
        assert ends(engine, "high") == [10]  # it failed at 15 s, on an expression that was attempted for low
        assert ends(engine, "plain") == [10, 20, 30]


def test_a_failing_join_key_pauses_its_query_also_after_another_one_failed(spark: SparkSession) -> None:
    with engine_with(spark, bad="SELECT sum(a / b) AS x FROM r [RANGE 10 s SLIDE 10 s]") as engine:
        engine.create_table("t", pa.table({"id": pa.array([1, 2, 2], pa.int32()), "w": [10, 20, 0]}))
        engine.create_query(
            "joined", "SELECT count(*) AS n FROM r [RANGE 10 s SLIDE 10 s] JOIN t ON CAST(r.s AS INT) = t.id"
        )
        stream = engine.stream("r")
        stream.process(batch(engine, (1, 1, 0, "1"), (2, 1, 1, "2")), 0)
        stream.process(batch(engine, (11, 1, 1, "x"), (21, 1, 1, "1")), 1)
        stream.flush()
        assert ends(engine, "bad") == []
        assert engine.results("joined")["n"].to_pylist() == [3]
        assert len(stream.pipeline.reports) == 2
