"""The generator: rows depend on the seed alone, and look like a market."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from penstock.model.duration import SECOND
from penstock.spark.market import Format, Market, stream_trades, symbols_table, trades, write_trades

SMALL = Market(seed=7, rows=20_000, symbols=100, late_fraction=0.05, late_by_us=3 * SECOND, null_fraction=0.01)


def micros(frame: DataFrame) -> list[int]:
    return [row.us for row in frame.select(F.unix_micros("ts").alias("us")).collect()]


def test_the_same_seed_gives_the_same_rows_whatever_the_partitions(spark: SparkSession) -> None:
    assert trades(spark, SMALL, partitions=1).collect() == trades(spark, SMALL, partitions=7).collect()


def test_another_seed_gives_other_rows(spark: SparkSession) -> None:
    other = replace(SMALL, seed=8)
    ours, theirs = trades(spark, SMALL).collect(), trades(spark, other).collect()
    assert sum(a == b for a, b in zip(ours, theirs, strict=True)) == 0


def test_symbols_follow_zipfs_law(spark: SparkSession) -> None:
    market = replace(SMALL, zipf=1.0)
    counts = {row.symbol: row["count"] for row in trades(spark, market).groupBy("symbol").count().collect()}
    share = market.rows / sum(1 / (rank + 1) for rank in range(market.symbols))
    for symbol, expected in (("A", share), ("B", share / 2), ("J", share / 10)):
        assert counts[symbol] == pytest.approx(expected, rel=0.15)
    assert len(counts) == market.symbols


def test_exponent_zero_makes_all_symbols_alike(spark: SparkSession) -> None:
    counts = trades(spark, replace(SMALL, zipf=0.0)).groupBy("symbol").count().collect()
    assert max(row["count"] for row in counts) < 2 * min(row["count"] for row in counts)


def test_lateness_is_bounded_and_as_frequent_as_asked(spark: SparkSession) -> None:
    arrivals = micros(trades(spark, replace(SMALL, late_fraction=0.0)))
    delays = [a - t for a, t in zip(arrivals, micros(trades(spark, SMALL)), strict=True)]
    assert arrivals == sorted(arrivals)
    assert min(delays) == 0
    assert 0.9 * SMALL.late_by_us < max(delays) <= SMALL.late_by_us
    assert sum(delay > 0 for delay in delays) / SMALL.rows == pytest.approx(SMALL.late_fraction, rel=0.15)


def test_half_of_a_periods_rows_come_in_its_first_fifth(spark: SparkSession) -> None:
    market = Market(rows=60_000, symbols=10, rate=1_000.0, burst_rows=0.5, burst_time=0.2)
    second = [(us - market.start_us) // SECOND for us in micros(trades(spark, market))]
    assert sum(s < 12 for s in second) == pytest.approx(30_000, abs=2)
    assert max(second) == 59


def test_values_are_plausible(spark: SparkSession) -> None:
    rows = trades(spark, replace(SMALL, null_fraction=0.0)).collect()
    assert all(1 <= row.volume <= 1_000_000 and row.side in "BS" for row in rows)
    assert all(4 < row.price < 530 and round(row.price, 2) == row.price for row in rows)
    assert 150 < sorted(row.volume for row in rows)[len(rows) // 2] < 350
    assert 0.48 < sum(row.side == "B" for row in rows) / len(rows) < 0.52


def test_nulls_and_missing_times_are_as_frequent_as_asked(spark: SparkSession) -> None:
    market = replace(SMALL, null_fraction=0.1, invalid_fraction=0.05)
    rows = trades(spark, market).collect()
    for column, expected in (("price", 0.1), ("volume", 0.1), ("exchange", 0.1), ("ts", 0.05)):
        assert sum(row[column] is None for row in rows) / len(rows) == pytest.approx(expected, rel=0.15)


def test_files_are_cut_and_named_in_arrival_order(spark: SparkSession, tmp_path: Path) -> None:
    files = write_trades(spark, SMALL, tmp_path, files=5)
    assert sorted(tmp_path.iterdir()) == files
    assert [f.stat().st_mtime_ns for f in files] == sorted({f.stat().st_mtime_ns for f in files})
    written = [row for file in files for row in pq.read_table(file).column("volume").to_pylist()]
    assert written == [row.volume for row in trades(spark, SMALL).collect()]


def test_sparks_file_source_reads_the_files_in_arrival_order(spark: SparkSession, tmp_path: Path) -> None:
    write_trades(spark, SMALL, tmp_path / "in", files=3)
    batches: list[list[Row]] = []
    source = spark.readStream.schema(trades(spark, SMALL).schema).option("maxFilesPerTrigger", 1)
    writer = source.parquet(str(tmp_path / "in")).writeStream.foreachBatch(lambda df, _: batches.append(df.collect()))
    query = writer.option("checkpointLocation", str(tmp_path / "mark")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert [row for batch in batches for row in batch] == trades(spark, SMALL, partitions=3).collect()


@pytest.mark.parametrize("format", ["csv", "json"])
def test_text_files_hold_the_same_rows(format: Format, spark: SparkSession, tmp_path: Path) -> None:
    market = replace(SMALL, rows=500)
    write_trades(spark, market, tmp_path, files=1, format=format)
    read = spark.read.schema(trades(spark, market).schema).option("header", "true").format(format).load(str(tmp_path))
    assert read.collect() == trades(spark, market).collect()


def test_the_stream_gives_the_rows_of_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    market, batches = replace(SMALL, rows=600), list[list[Row]]()
    writer = stream_trades(spark, market, rows_per_batch=200).writeStream.foreachBatch(
        lambda df, _: batches.append(df.collect())
    )
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    while len(batches) < 3 and query.isActive:
        query.awaitTermination(1)
    query.stop()
    streamed = {tuple(row) for batch in batches[:3] for row in batch}
    assert streamed == {tuple(row) for row in trades(spark, market).collect()}


def test_every_symbol_has_one_row_in_the_table(spark: SparkSession) -> None:
    rows = symbols_table(spark, SMALL).collect()
    assert {row.symbol for row in rows} == {row.symbol for row in trades(spark, SMALL).collect()}
    assert len({row.symbol for row in rows}) == len(rows) == SMALL.symbols
    assert all(row.r3000 == (row.r1000 or row.r2000) and not (row.r1000 and row.r2000) for row in rows)
    assert (sum(row.r1000 for row in rows), sum(row.r2000 for row in rows)) == (33, 65)


@pytest.mark.parametrize("wrong", [{"symbols": 0}, {"rate": 0.0}, {"late_fraction": 1.5}, {"burst_time": 0.0}])
def test_a_market_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"market|share|burst"):
        replace(SMALL, **wrong)  # type: ignore[arg-type]
