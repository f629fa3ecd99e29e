"""A large answer table in, Parquet parts written by the executors out."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession


def executor_writer(session: SparkSession) -> Callable[[pa.Table, Path, str], list[Path]]:
    """Return a function by which a session's executors write a table's parts to hidden files of a shared folder."""

    def write(table: pa.Table, folder: Path, name: str) -> list[Path]:
        plain = table.cast(pa.schema([_plain(f) for f in table.schema]))
        target = str(folder.absolute())
        frame = session.createDataFrame(plain).repartition(session.sparkContext.defaultParallelism)

        def write_part(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = pa.Table.from_batches(batches) if (batches := list(batches)) else None  # type: ignore[assignment]
            if rows is None:
                return
            path = os.path.join(target, f".{name}.{uuid.uuid4().hex[:8]}.part")
            pq.write_table(rows, path, compression="zstd")
            with open(path, "rb") as file:
                os.fsync(file.fileno())
            yield pa.RecordBatch.from_pydict({"path": [path]})

        parts = sorted(row["path"] for row in frame.mapInArrow(write_part, "path string").toArrow().to_pylist())
        return [_numbered(Path(part), name, number) for number, part in enumerate(parts)]

    return write


def _numbered(part: Path, name: str, number: int) -> Path:
    """Give a part the hidden name that its visible one is made of."""
    draft = part.with_name(f".{name}-{number:03d}.parquet.draft")
    part.replace(draft)
    return draft


def _plain(field: pa.Field) -> pa.Field:
    """Take the dictionary off a column: Spark's frames have none."""
    return pa.field(field.name, field.type.value_type) if pa.types.is_dictionary(field.type) else field
