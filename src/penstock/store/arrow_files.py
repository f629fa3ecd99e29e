"""Writes and reads tables as Arrow files and streams with checksums."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

from penstock.store.files import checksum, damaged

MUCH: Final = 1 << 16  # bytes: tables of so many are compressed; most of one with many groupings is NULL, and
# answers repeat their windows and keys
COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")
ABOUT: Final = b"penstock"  # in the metadata of a partials' file: what its columns are, as JSON


def arrow_file(table: pa.Table, about: bytes | None = None) -> memoryview:
    """Write a table as an Arrow file; ``about`` goes into its schema's metadata."""
    if about is not None:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), ABOUT: about})
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, table.schema, options=COMPRESSED if table.nbytes >= MUCH else None) as writer:
        writer.write_table(table)
    return memoryview(out.getvalue())


def arrow_stream(table: pa.Table, *, compressed: bool = False) -> memoryview:
    """Write a table as an Arrow stream; one of many bytes may be ``compressed``."""
    out = pa.BufferOutputStream()
    options = COMPRESSED if compressed and table.nbytes >= MUCH else None
    with pa.ipc.new_stream(out, table.schema, options=options) as writer:
        writer.write_table(table)
    return memoryview(out.getvalue())


def read_arrow_file(path: Path, told: str | None) -> pa.Table:
    """Read a table whose file has a checksum; None: it was written before there was one."""
    try:
        content = path.read_bytes()
        if told is not None and checksum(content) != told:
            raise ValueError("its checksum does not match")
        with pa.ipc.open_file(pa.py_buffer(content)) as reader:
            return reader.read_all()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise damaged(path, error) from error


def shape_of(table: pa.Table) -> str:
    """Name the columns of a table and what is said about them; equal ones can be put one behind the other."""
    return checksum(table.schema.serialize())
