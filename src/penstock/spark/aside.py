"""A batch with invalid rows in, those rows kept in Parquet files out: counted, and not lost."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.errors import StateError
from penstock.spark.commit_folders import make_durable
from penstock.spark.literals import longs, quoted
from penstock.spark.writer import FLOOR
from penstock.store.faults import reached
from penstock.store.files import MEND


def micros_of(time: str) -> str:
    """Write a row's time in microseconds since the epoch."""
    return f"unix_micros(cast({quoted(time)} as timestamp))"


def is_valid(micros: str, ahead_us: int) -> str:
    """Write whether a time in microseconds is one that counts; never NULL.

    The bound changes with every batch: read by a position that depends on the row, it stays out of the generated code.
    """
    bound = f"element_at({longs([ahead_us, FLOOR])}, IF({micros} IS NULL, 2, 1))"
    return f"coalesce({micros} < {bound} AND {micros} > {FLOOR}L, false)"


def keep_aside(batch: DataFrame, time: str, ahead_us: int, folder: Path) -> None:
    """Write the rows whose time is NULL or too far ahead of the clock; the same batch again replaces its files."""
    invalid = batch.where(~F.expr(is_valid(micros_of(time), ahead_us)))
    reached("invalid.before")
    invalid.coalesce(1).write.mode("overwrite").parquet(str(folder.absolute()))
    try:
        make_durable(folder, "invalid")
    except OSError as error:
        raise StateError(f"cannot write {folder}: {error.strerror}", hint=MEND) from error
    reached("invalid.after")
