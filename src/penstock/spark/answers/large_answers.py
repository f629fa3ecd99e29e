"""Lets executors write a large table of answers as Parquet files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.spark.session.own_session import made_in


def executor_writer(session: SparkSession) -> Callable[[pa.Table, Path, str], list[Path]]:
    """Return a function by which a session's executors write a table's parts into a folder they share."""

    def write(table: pa.Table, folder: Path, name: str) -> list[Path]:
        plain = table.combine_chunks().cast(pa.schema([_plain(f) for f in table.schema]))
        aside = folder.absolute() / f".{name}.parts"
        frame = made_in(session, plain).repartition(session.sparkContext.defaultParallelism)
        frame.write.mode("overwrite").option("compression", "zstd").parquet(str(aside))
        parts = [_numbered(p, folder, name, i) for i, p in enumerate(sorted(aside.glob("part-*.parquet")))]
        shutil.rmtree(aside)
        return parts

    return write


def _numbered(part: Path, folder: Path, name: str, number: int) -> Path:
    """Give a part the hidden name that its visible one is made of."""
    draft = folder / f".{name}-{number:03d}.parquet.draft"
    part.replace(draft)
    return draft


def _plain(field: pa.Field) -> pa.Field:
    """Take the dictionary off a column: Spark's frames have none."""
    return pa.field(field.name, field.type.value_type) if pa.types.is_dictionary(field.type) else field
