"""Writes and reads files of rows by bucket of their keys, each bucket with a checksum."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Int64Array
from penstock.store.arrow_files import arrow_stream
from penstock.store.files import checksum, damaged

GroupingName = tuple[str, tuple[str, ...]]  # tree, keys


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Where the rows of one bucket are in a file: one Arrow stream."""

    bucket: int
    offset: int
    length: int
    sum: str
    rows: int


@dataclass(frozen=True, slots=True)
class BucketFile:
    """A file of rows by bucket, known by its stretches; it holds once something durable names it."""

    name: str
    stretches: tuple[ByteRange, ...]
    groupings: tuple[GroupingName, ...]  # whose partials its rows are

    @property
    def rows(self) -> int:
        """Count the rows of all buckets."""
        return sum(stretch.rows for stretch in self.stretches)

    @property
    def size(self) -> int:
        """Return the bytes of all buckets."""
        return sum(stretch.length for stretch in self.stretches)

    def to_record(self) -> dict[str, Any]:
        """Write as JSON values."""
        return asdict(self)

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> BucketFile:
        """Read back what was written."""
        groupings = tuple((tree, tuple(keys)) for tree, keys in record["groupings"])
        return BucketFile(record["name"], tuple(ByteRange(**one) for one in record["stretches"]), groupings)


def write_buckets(
    folder: Path, name: str, table: pa.Table, buckets: Int64Array, groupings: Iterable[GroupingName]
) -> BucketFile:
    """Write rows bucket by bucket; the name is new, so that nobody reads the file before it is whole."""
    order = np.argsort(buckets, kind="stable")
    table, buckets = table.take(pa.array(order)).combine_chunks(), buckets[order]
    present, first = np.unique(buckets, return_index=True)
    offset, stretches = 0, []
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("wb") as file:
        for bucket, start, end in zip(present, first, [*first[1:], len(buckets)], strict=True):
            content = arrow_stream(table.slice(int(start), int(end - start)))
            file.write(content)
            stretches.append(ByteRange(int(bucket), offset, len(content), checksum(content), int(end - start)))
            offset += len(content)
        file.flush()
        os.fsync(file.fileno())
    return BucketFile(name, tuple(stretches), tuple(sorted(groupings)))


def read_bucket(folder: Path, file: BucketFile, bucket: int) -> pa.Table | None:
    """Read the rows of one bucket; None: the file has none."""
    stretch = next((one for one in file.stretches if one.bucket == bucket), None)
    if stretch is None:
        return None
    path = folder / file.name
    try:
        with path.open("rb") as opened:
            opened.seek(stretch.offset)
            content = opened.read(stretch.length)
        if checksum(content) != stretch.sum:
            raise ValueError("its checksum does not match")
        return pa.ipc.open_stream(pa.py_buffer(content)).read_all()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise damaged(path, error) from error
