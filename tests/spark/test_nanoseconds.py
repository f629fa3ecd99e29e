"""Parquet files with times in nanoseconds are read, rounded down to microseconds, in streams, histories and tables."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock import Engine
from penstock.errors import SourceError
from penstock.model.schema import Column, Table
from penstock.spark.session.temporary_settings import set_for_now
from penstock.spark.sources.reading import read_batch
from penstock.spark.sources.unreadable import worded

SECOND = 10**9
START = 1_767_603_600 * SECOND  # 2026-01-05 09:00:00
LAST = START + 60 * SECOND + 999_999_999  # a nanosecond before 09:01:01
SUM = "SELECT max(ts) AS last, count(*) AS n FROM s [RANGE 10 min SLIDE 10 min]"


@pytest.fixture
def engine(spark: SparkSession, tmp_path: Path) -> Iterator[Engine]:
    (tmp_path / "in").mkdir()
    with Engine(tmp_path / "state", spark=spark) as made:
        yield made


def write(path: Path, unit: str, zone: str | None, nanos: Sequence[int | None], **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    times = pa.array(nanos, pa.int64()).cast(pa.timestamp("ns", tz=zone)).cast(pa.timestamp(unit, tz=zone), safe=False)
    pq.write_table(pa.table({"ts": times, **columns}), path)


def declare(engine: Engine, folder: Path, columns: str = "(ts TIMESTAMP)") -> None:
    engine.execute(f"CREATE STREAM s {columns} USING parquet OPTIONS (path = '{folder}') WATERMARK FOR ts")


def last_of(engine: Engine, query: str = "q") -> tuple[datetime, int]:
    [row] = engine.results(query, "rows")
    return row["last"], row["n"]


@pytest.mark.parametrize(("zone", "columns"), [("UTC", ""), (None, "(ts TIMESTAMP)")])
def test_a_stream_reads_nanoseconds_beside_microseconds(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture, zone: str | None, columns: str
) -> None:
    """Files of both kinds come in any order, and again for a query that asks for the past; users are told once."""
    write(tmp_path / "in" / "a.parquet", "ns", zone, [START, None])
    declare(engine, tmp_path / "in", columns)
    engine.create_query("q", SUM)
    engine.process_available()
    write(tmp_path / "in" / "b [1].parquet", "us", zone, [START + 30 * SECOND])  # in the middle of the stream
    write(tmp_path / "in" / "c.parquet", "ns", zone, [LAST, START + 1])
    with caplog.at_level(logging.WARNING, "penstock"):
        engine.process_available()
        engine.create_query("again", f"{SUM} WITH (from = 'beginning')")
        engine.process_available(flush=True)
    found, n = last_of(engine)
    assert (found.replace(tzinfo=UTC), n) == (datetime(2026, 1, 5, 9, 1, 0, 999_999, UTC), 4)
    assert last_of(engine, "again") == (found, n)
    pipeline = engine.stream("s").pipeline
    assert (pipeline.progress.clock.counts.ingested, pipeline.progress.clock.counts.invalid) == (5, 1)
    assert [r for r in pipeline.reports if "nanoseconds are rounded down to microseconds" in r] == pipeline.reports
    assert len(pipeline.reports) == 1
    assert "a.parquet" in pipeline.reports[0]


@pytest.mark.parametrize(("zone", "kind"), [("UTC", "timestamp"), (None, "timestamp"), (None, "timestamp_ntz")])
def test_times_are_rounded_down_before_1970_too(
    spark: SparkSession, tmp_path: Path, zone: str | None, kind: str
) -> None:
    """As far as nanoseconds reach, and whatever the zone of the session."""
    nanos = [-(2**63) + 1, -1_001, -1_000, -1, 0, 999, 1_000, 2**63 - 1]
    write(tmp_path / "a.parquet", "ns", zone, nanos)
    table = Table("t", (Column("ts", kind),), "parquet", {"path": str(tmp_path / "a.parquet")})
    with set_for_now(spark, {"spark.sql.session.timeZone": "Asia/Tokyo"}):
        found = read_batch(spark, table, lambda text: None).toArrow()
    assert found["ts"].cast(pa.int64()).to_pylist() == [n // 1_000 for n in nanos]


def test_a_table_reads_nanoseconds_in_folders_that_are_columns(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "in" / "a.parquet", "us", "UTC", [START], k=["x"])
    write(tmp_path / "t" / "day=1" / "a.parquet", "ns", None, [LAST], k=["x"])
    write(tmp_path / "t" / "day=2" / "b.parquet", "us", None, [LAST], k=["y"])
    declare(engine, tmp_path / "in", "(ts TIMESTAMP, k STRING)")
    engine.execute(
        f"CREATE TABLE t (ts TIMESTAMP_NTZ, k STRING, day INT) USING parquet OPTIONS (path = '{tmp_path}/t')"
    )
    text = "SELECT max(t.ts) AS last, max(day) AS n FROM s [RANGE 10 min SLIDE 10 min] JOIN t USING (k)"
    engine.create_query("q", text)
    with caplog.at_level(logging.WARNING, "penstock"):
        engine.process_available(flush=True)
    assert last_of(engine) == (datetime(2026, 1, 5, 9, 1, 0, 999_999), 1)
    assert ["times in nanoseconds are rounded" in r.getMessage() for r in caplog.records] == [True]


def test_nanoseconds_that_cannot_be_rounded_are_named(engine: Engine, tmp_path: Path) -> None:
    """Inside of a struct, or as a time of no zone, they are refused, and say what to do."""
    write(tmp_path / "in" / "a.parquet", "ns", "UTC", [START])
    declare(engine, tmp_path / "in", "(ts TIMESTAMP_NTZ)")
    engine.create_query("q", SUM)
    with pytest.raises(SourceError) as error:
        engine.process_available()
    assert 'its column "ts" holds times in nanoseconds' in error.value.what
    assert "coerce_timestamps='us'" in str(error.value.hint)
    times = pa.array([START], pa.int64()).cast(pa.timestamp("ns", tz="UTC"))
    (tmp_path / "nested").mkdir()
    pq.write_table(pa.table({"p": pa.StructArray.from_arrays([times], ["a"])}), tmp_path / "nested" / "a.parquet")
    with pytest.raises(SourceError, match="nanoseconds") as error:
        engine.execute(f"CREATE TABLE n USING parquet OPTIONS (path = '{tmp_path}/nested')")
    assert "p.a is inside of another column" in str(error.value.detail)


def test_whole_numbers_are_not_taken_for_nanoseconds(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": pa.array([START])}), tmp_path / "a.parquet")
    table = Table("t", (Column("ts", "timestamp"),), "parquet", {"path": str(tmp_path)})
    with pytest.raises(Exception, match="Parquet") as raised:
        read_batch(spark, table, lambda text: None).collect()
    assert 'its column "ts" is INT64, not a timestamp' in worded("", raised.value).what
