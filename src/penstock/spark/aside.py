"""A batch with invalid rows in, those rows kept in Parquet files out: counted, and not lost."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.spark.literals import quoted
from penstock.spark.writer import FLOOR


def keep_aside(batch: DataFrame, time: str, ahead_us: int, folder: Path) -> None:
    """Write the rows whose time is NULL or too far ahead of the clock; the same batch again replaces its files."""
    micros = F.unix_micros(F.col(quoted(time)).cast("timestamp"))
    invalid = batch.where(micros.isNull() | (micros >= ahead_us) | (micros <= FLOOR))
    invalid.coalesce(1).write.mode("overwrite").parquet(str(folder.absolute()))
