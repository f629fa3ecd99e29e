"""Generates seeded trades with rates, bursts and disorder, as a DataFrame, as files or as a stream.

Every value is a function of (seed, row number), so rows do not depend on partitions, batches or the time of day.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.model.duration import HOUR
from penstock.sources.trades import Market as Market
from penstock.spark.job.literals import position_in

Format = Literal["parquet", "csv", "json"]

EXCHANGES: Final = ("ARCA", "BATS", "EDGX", "NASDAQ", "NYSE")
SECTORS: Final = ("Energy", "Finance", "Health", "Industry", "Materials", "Media", "Retail", "Technology", "Utilities")

# A double holds 53 bits exactly; a volume takes three numbers of 21 bits from one hash.
_UNIFORM_BITS: Final = 53
_VOLUME_BITS: Final = 21
_PARQUET_OPTIONS: Final = {"parquet.block.size": str(1 << 20)}  # row groups small enough that one file feeds all cores
_TEXT_OPTIONS: Final = {"header": "true", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


def trades(spark: SparkSession, market: Market, *, partitions: int | None = None, first: int = 0) -> DataFrame:
    """Return all trades of the market from the first on, in order of arrival within and across partitions."""
    return _trades_of(spark.range(first, market.rows, 1, partitions), market, F.col("id"))


def stream_trades(spark: SparkSession, market: Market, rows_per_batch: int) -> DataFrame:
    """Return the same trades as an endless stream, so many each micro-batch; the trigger sets the pace."""
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows_per_batch)
    return _trades_of(
        reader.option("numPartitions", spark.sparkContext.defaultParallelism).load(), market, F.col("value")
    )


def write_trades(
    spark: SparkSession, market: Market, folder: str | Path, files: int = 8, format: Format = "parquet"
) -> list[Path]:
    """Write the trades as files cut in arrival order; names and times increase, so Spark's file source keeps it."""
    if not 1 <= files <= market.rows:
        raise ValueError(f"{market.rows} rows cannot be cut into {files} files")
    folder = Path(folder)
    scratch = folder / "_writing"  # Spark does not look into folders that start with an underscore
    options = _PARQUET_OPTIONS if format == "parquet" else _TEXT_OPTIONS
    trades(spark, market, partitions=files).write.mode("overwrite").options(**options).format(format).save(str(scratch))
    written = _publish(sorted(scratch.glob("part-*")), folder, format)
    shutil.rmtree(scratch)
    return written


def symbols_table(spark: SparkSession, market: Market) -> DataFrame:
    """Return one row per symbol: names, sector, index memberships by rank, and the closing price before the start."""
    rank, large, listed = F.col("id"), market.symbols // 3, market.symbols - market.symbols // 50
    symbol = _pick(_tickers(market.symbols), rank)
    return spark.range(0, market.symbols, 1, 1).select(
        symbol.alias("symbol"),
        F.concat(symbol, F.lit(" Corporation")).alias("name"),
        _pick(SECTORS, _below(len(SECTORS), _uniform(market, rank, "sector"))).alias("sector"),
        (rank < large).alias("r1000"),
        rank.between(large, listed - 1).alias("r2000"),
        (rank < listed).alias("r3000"),
        _cents(_opening_price(market, rank)).alias("close"),
    )


def _trades_of(numbered: DataFrame, market: Market, row: Column) -> DataFrame:
    """Turn row numbers into trades; the rank of the symbol and the arrival are computed once."""
    drawn = numbered.select(
        row.alias("row"),
        _rank(market, row).alias("rank"),
        _arrival_us(market, row).alias("arrival_us"),
    )
    return drawn.select(
        _event_time(market).alias("ts"),
        _pick(_tickers(market.symbols), F.col("rank")).alias("symbol"),
        _or_null(market, "price", _price(market)),
        _or_null(market, "volume", _volume(market)),
        F.when(_uniform(market, F.col("row"), "side") < 0.5, "B").otherwise("S").alias("side"),
        _or_null(
            market, "exchange", _pick(EXCHANGES, _below(len(EXCHANGES), _uniform(market, F.col("row"), "exchange")))
        ),
    )


def _hash(market: Market, number: Column, purpose: str) -> Column:
    """Return 64 bits that depend on the seed, the number and the purpose only."""
    return F.xxhash64(F.lit(market.seed).cast("long"), number, F.lit(purpose))


def _uniform(market: Market, number: Column, purpose: str) -> Column:
    """Return a double in [0, 1)."""
    bits = F.shiftrightunsigned(_hash(market, number, purpose), 64 - _UNIFORM_BITS)
    return bits.cast("double") * F.lit(2.0**-_UNIFORM_BITS)


def _below(bound: int, uniform: Column) -> Column:
    """Turn a uniform number into an integer from 0 to below the bound."""
    return F.floor(uniform * F.lit(float(bound)))


def _pick(names: Sequence[str], index: Column) -> Column:
    """Return the name at the index of a constant list."""
    return F.element_at(F.expr(f"split('{','.join(names)}', ',')"), index.cast("int") + 1)


def _rank(market: Market, row: Column) -> Column:
    """Draw a symbol by Zipf's law: search the table of cumulative weights for a uniform number."""
    weights = [(rank + 1) ** -market.zipf for rank in range(market.symbols)]
    total = sum(weights)
    # The last one is exactly 1, above every draw, whatever the sums round to.
    table = [*(min(1.0, weight / total) for weight in accumulate(weights[:-1])), 1.0]
    text = ",".join(map(repr, table))
    found = position_in(F.expr(f"cast(split('{text}', ',') as array<double>)"), _uniform(market, row, "symbol"))
    return F.when(found < 0, -found - 1).otherwise(found + 1)


def _arrival_us(market: Market, row: Column) -> Column:
    """Place a row in time: rows are even within a burst and within the calm that follows it, with jitter."""
    period_rows = F.lit(market.period_rows).cast("long")
    in_period = row % period_rows
    place = (in_period.cast("double") + _uniform(market, row, "arrival")) / F.lit(float(market.period_rows))
    burst = place * F.lit(market.burst_time / market.burst_rows)
    calm_slope = (1 - market.burst_time) / (1 - market.burst_rows)
    calm = F.lit(market.burst_time) + (place - F.lit(market.burst_rows)) * F.lit(calm_slope)
    within_us = F.floor(F.when(place < market.burst_rows, burst).otherwise(calm) * F.lit(float(market.period_us)))
    period = ((row - in_period) / period_rows).cast("long")
    return F.lit(market.start_us) + period * F.lit(market.period_us) + within_us


def _event_time(market: Market) -> Column:
    """Set some rows' event time before their arrival, and some to NULL."""
    row = F.col("row")
    delay_us = F.when(
        _uniform(market, row, "late") < market.late_fraction,
        _below(market.late_by_us, _uniform(market, row, "delay")) + 1,
    ).otherwise(F.lit(0).cast("long"))
    ts = F.timestamp_micros(F.col("arrival_us") - delay_us if market.late_fraction else F.col("arrival_us"))
    return F.when(_uniform(market, row, "invalid") >= market.invalid_fraction, ts) if market.invalid_fraction else ts


def _or_null(market: Market, name: str, value: Column) -> Column:
    """Leave out the asked share of a column's values."""
    kept = F.when(_uniform(market, F.col("row"), f"null {name}") >= market.null_fraction, value)
    return (kept if market.null_fraction else value).alias(name)


def _opening_price(market: Market, rank: Column) -> Column:
    """Return a symbol's price before the start, between 5 and 500, evenly spread by magnitude."""
    return F.lit(5.0) * F.pow(F.lit(100.0), _uniform(market, rank, "opening"))


def _price(market: Market) -> Column:
    """Let a symbol's price swing slowly around its opening price, with a little noise in every trade."""
    rank, hours = F.col("rank"), (F.col("arrival_us") - F.lit(market.start_us)) / F.lit(float(HOUR))
    # A triangle, not a sine: plain arithmetic gives the same digits on every machine.
    turn = hours + _uniform(market, rank, "phase")
    swing = F.abs((turn - F.floor(turn)) - 0.5) * 4.0 - 1.0
    noise = _uniform(market, F.col("row"), "noise") - 0.5
    return _cents(_opening_price(market, rank) * (F.lit(1.0) + swing * 0.05 + noise * 0.002))


def _cents(price: Column) -> Column:
    """Round to whole cents, by far faster than decimal rounding."""
    return F.floor(price * 100.0 + 0.5).cast("double") / 100.0


def _volume(market: Market) -> Column:
    """Draw a volume whose logarithm is nearly normal: median 245, one in 70 above 50,000, never above a million."""
    bits, mask = _hash(market, F.col("row"), "volume"), F.lit((1 << _VOLUME_BITS) - 1)
    parts = [F.shiftright(bits, _VOLUME_BITS * i).bitwiseAND(mask).cast("double") for i in range(3)]
    # Three uniforms have variance 3/12: twice their distance from the mean is a standard normal, cut at ±3.
    normal = ((parts[0] + parts[1] + parts[2]) * F.lit(2.0**-_VOLUME_BITS) - 1.5) * 2.0
    shares = F.floor(F.exp(normal * 2.5 + 5.5))
    return F.least(F.greatest(shares, F.lit(1)), F.lit(1_000_000)).cast("int")


def _tickers(count: int) -> list[str]:
    """Name the symbols A … Z, AA, AB …, the busiest first."""
    return [_ticker(number) for number in range(1, count + 1)]


def _ticker(number: int) -> str:
    """Write a positive number in letters, as spreadsheets name their columns."""
    letters = ""
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


def _publish(parts: list[Path], folder: Path, format: Format) -> list[Path]:
    """Give finished files their names, one second apart, the last one now."""
    now = time.time()
    names = [folder / f"trades-{index:05d}.{format}" for index in range(len(parts))]
    for index, (part, name) in enumerate(zip(parts, names, strict=True)):
        modified = now - (len(parts) - 1 - index)
        os.utime(part, (modified, modified))
        part.replace(name)
    return names
