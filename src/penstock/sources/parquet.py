"""Describes Parquet files, whose own schema tells their columns."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.sources.description import Options
from penstock.sources.files import file_format


def _names(file: Path, options: Options) -> list[str]:
    """Read the names in a file's schema."""
    import pyarrow.parquet as pq

    return list(pq.read_schema(file).names)


PARQUET: Final = file_format(
    "parquet",
    "penstock.spark.sources.parquet_files:ParquetFiles",
    "datetimeRebaseMode int96RebaseMode mergeSchema",
    _names,
)
