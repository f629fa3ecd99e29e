"""Adds answers to small Parquet files, and takes those off again that are behind what was recorded.

A file grows by being written anew, under its name. It says in its metadata how many rows it had up to which number,
so that it can be cut back to any number that was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.sinks.parquet_encodings import encoded
from penstock.store.files import sync_together

SMALL_BYTES: Final = 256 << 10  # of a file that may grow
TINY_BYTES: Final = 8 << 10  # of rows that are neither worth a dictionary nor a compressor
MOST_STEPS: Final = 1_000  # by which a file grows
STEPS: Final = b"penstock.steps"


@dataclass(frozen=True, slots=True)
class GrownRows:
    """What a file holds, and by which steps it grew: up to which number it had how many rows."""

    rows: pa.Table
    steps: Sequence[tuple[int, int]]

    def with_more(self, rows: pa.Table, number: int) -> GrownRows:
        """Add rows, which go up to a number."""
        every = pa.concat_tables([self.rows.cast(rows.schema), rows])
        return GrownRows(every, [*self.steps, (number, every.num_rows)])

    def upto(self, number: int) -> GrownRows:
        """Take off the rows behind a number."""
        kept = [step for step in self.steps if step[0] <= number]
        return GrownRows(self.rows.slice(0, kept[-1][1] if kept else 0), kept)

    def write(self, draft: Path) -> None:
        """Write a hidden file at once: Parquet's own writer asks the file system many times."""
        noted = self.rows.replace_schema_metadata({STEPS: json.dumps(list(self.steps))})
        how = {"compression": "none", "use_dictionary": False} if noted.nbytes < TINY_BYTES else encoded(noted)
        content = pa.BufferOutputStream()
        pq.write_table(noted, content, **how)
        draft.write_bytes(content.getvalue())


def grown_rows(rows: pa.Table, number: int) -> GrownRows:
    """Begin a file with rows that go up to a number."""
    return GrownRows(rows.replace_schema_metadata(None), [(number, rows.num_rows)])


def small_file(path: Path) -> GrownRows | None:
    """Read a file to which answers may be added; None: it is not there, large, or not to be read."""
    try:
        if path.stat().st_size >= SMALL_BYTES:
            return None
    except OSError:
        return None
    found = _read(path)
    return found if found is not None and 0 < len(found.steps) < MOST_STEPS else None


def cut_back(path: Path, number: int, draft: Path) -> None:
    """Take off a file the rows behind a number; one that did not grow is as it was recorded."""
    found = _read(path)
    if found is None or not found.steps or found.steps[-1][0] <= number:
        return
    found.upto(number).write(draft)
    sync_together([draft])
    draft.replace(path)


def _read(path: Path) -> GrownRows | None:
    """Read a file and its steps; None: it cannot be read."""
    try:
        with pq.ParquetFile(pa.BufferReader(path.read_bytes()), pre_buffer=False) as file:
            table = file.read(use_threads=False)
    except (OSError, pa.ArrowException):
        return None
    steps = json.loads((table.schema.metadata or {}).get(STEPS, b"[]"))
    return GrownRows(table.replace_schema_metadata(None), [(upto, rows) for upto, rows in steps])
