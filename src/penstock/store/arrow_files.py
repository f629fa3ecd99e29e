"""Writes and reads tables as Arrow files and streams with checksums, and records that lie within such files.

A record lies before the footer of its file, where readers of Arrow look at nothing: the file is a plain Arrow file to
them. Behind the record, filled up to a multiple of 8 bytes, come its length in 8 bytes, least first, and a mark.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa

from penstock.errors import StateError
from penstock.store.files import checksum, damaged, seal, unseal

MUCH: Final = 1 << 16  # bytes: tables of so many are compressed; most of one with many groupings is NULL, and
# answers repeat their windows and keys
COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")
ABOUT: Final = b"penstock"  # in the metadata of a partials' file: what its columns are, as JSON
MARK: Final = b"PENSTOCK"  # behind a record within a file
TAIL: Final = 16  # bytes behind such a record: its length and the mark
ARROW_TAIL: Final = 10  # bytes behind the footer of an Arrow file: its length and the magic number
ALIGNED: Final = 8  # bytes of whose multiples the parts of an Arrow file begin


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


def with_record(content: memoryview, record: dict[str, Any]) -> list[bytes | memoryview]:
    """Put a record into an Arrow file; return the file in pieces."""
    footer, sealed = _footer(content), seal(record)
    filled = sealed + bytes(-len(sealed) % ALIGNED)
    return [content[:footer], filled, len(sealed).to_bytes(8, "little"), MARK, content[footer:]]


def read_record_within(path: Path) -> dict[str, Any]:
    """Read the record within an Arrow file without the rest of it; a file without one raises StateError."""
    try:
        with path.open("rb") as file:
            ends, length = _record_place(file)
            return unseal(_at(file, ends - _room(length), length))
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error


def size_without_record(path: Path) -> int:
    """Return how many bytes a table takes in a file that has its record within; 0: there is no such file."""
    try:
        with path.open("rb") as file:
            return file.seek(0, os.SEEK_END) - _room(_record_place(file)[1])
    except (OSError, ValueError):
        return 0


def is_whole(path: Path) -> bool:
    """Tell whether a file that has its record within was written to its end."""
    try:
        told = read_record_within(path).get("partials_sum")
        return isinstance(told, str) and _sum_without_record(memoryview(path.read_bytes())) == told
    except (OSError, ValueError, StateError):
        return False


def read_arrow_file(path: Path, told: str | None) -> pa.Table:
    """Read a table whose file has a checksum; None: it was written before there was one."""
    try:
        content = path.read_bytes()
        if told is not None and _sum_without_record(memoryview(content)) != told:
            raise ValueError("its checksum does not match")
        with pa.ipc.open_file(pa.py_buffer(content)) as reader:
            return reader.read_all()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise damaged(path, error) from error


def _sum_without_record(content: memoryview) -> str:
    """Return the checksum of an Arrow file as it was before a record was put into it, if there is one in it."""
    footer = _footer(content)
    if bytes(content[footer - len(MARK) : footer]) != MARK:
        return checksum(content)
    return checksum(content[: footer - _room(_record_length(content[footer - TAIL : footer]))], content[footer:])


def _footer(content: memoryview) -> int:
    """Return where the footer of an Arrow file begins."""
    begins = len(content) - ARROW_TAIL - _footer_length(content[-ARROW_TAIL:])
    if begins < TAIL:
        raise ValueError("it has no footer")
    return begins


def _footer_length(tail: bytes | memoryview) -> int:
    """Read how long the footer is from what is behind it."""
    return int.from_bytes(tail[:4], "little")


def _record_place(file: BinaryIO) -> tuple[int, int]:
    """Return where a record ends with all that belongs to it, and its length."""
    size = file.seek(0, os.SEEK_END)
    ends = size - ARROW_TAIL - _footer_length(_at(file, size - ARROW_TAIL, ARROW_TAIL))
    return ends, _record_length(_at(file, ends - TAIL, TAIL))


def _record_length(tail: bytes | memoryview) -> int:
    """Read how long a record is from what is behind it."""
    if bytes(tail[-len(MARK) :]) != MARK:
        raise ValueError("it holds no record")
    return int.from_bytes(tail[:8], "little")


def _room(length: int) -> int:
    """Return how many bytes a record takes with all that belongs to it."""
    return length + -length % ALIGNED + TAIL


def _at(file: BinaryIO, place: int, length: int) -> bytes:
    """Read bytes at a place of a file that must have them."""
    if place < 0:
        raise ValueError("it is cut")
    file.seek(place)
    return file.read(length)


def shape_of(table: pa.Table) -> str:
    """Name the columns of a table and what is said about them; equal ones can be put one behind the other."""
    return checksum(table.schema.serialize())
