"""Parts of answers in, one checked file of them out, and back: Arrow streams one behind the other, then an index.

The file ends with its index (one sealed line of JSON), the index's length in 8 bytes, least first, and a mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from penstock.store.answer_parts import Holds, look_at
from penstock.store.arrow_files import arrow_stream
from penstock.store.files import checksum, damaged, seal, unseal, write_whole

MARK: Final = b"PENSTOCK"
TAIL: Final = 16  # bytes behind the index: its length and the mark


@dataclass(frozen=True, slots=True)
class Part:
    """One table in a file of answers."""

    offset: int
    length: int
    sum: str
    holds: Holds


class AnswersTogether(Protocol):
    """Answers of one or more commits that are kept together."""

    @property
    def first(self) -> int:
        """Return the first commit in it."""

    @property
    def last(self) -> int:
        """Return the last commit in it."""

    @property
    def after(self) -> int:
        """Return the last commit with answers before these; −1: none."""

    @property
    def weight(self) -> int:
        """Return how many batches are in it."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return its tables."""

    @property
    def size(self) -> int:
        """Return how many bytes its answers take."""

    def read(self, part: Part) -> pa.Table:
        """Read one table."""


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """A file of answers, known by its index."""

    path: Path
    first: int  # commit in it
    last: int
    after: int  # the last commit with answers before these; −1: none
    weight: int  # batches in it
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Return how many bytes its answers take."""
        return sum(part.length for part in self.parts)

    def read(self, part: Part) -> pa.Table:
        """Read one part; a file that is gone raises FileNotFoundError: compaction may have replaced it."""
        try:
            with self.path.open("rb") as file:
                file.seek(part.offset)
                content = file.read(part.length)
            return _table(content, part.sum)
        except FileNotFoundError:
            raise
        except (OSError, ValueError, pa.ArrowException) as error:
            raise damaged(self.path, error) from error


@dataclass(frozen=True, slots=True)
class PassingAnswers:
    """Answers in memory."""

    first: int
    last: int
    after: int
    weight: int
    parts: tuple[Part, ...]
    tables: tuple[pa.Table, ...]

    @property
    def size(self) -> int:
        """Return how many bytes its answers take."""
        return sum(part.length for part in self.parts)

    def read(self, part: Part) -> pa.Table:
        """Return one table."""
        return self.tables[part.offset]


def hold_in_memory(about: tuple[int, int, int, int], tables: Sequence[pa.Table]) -> PassingAnswers:
    """Hold tables; a part's offset is its number."""
    parts = [Part(number, table.nbytes, "", look_at(table)) for number, table in enumerate(tables)]
    return PassingAnswers(*about, tuple(parts), tuple(tables))


def file_name(first: int, last: int) -> str:
    """Name a file by the commits in it."""
    return f"{last:012d}.answers" if first == last else f"{first:012d}-{last:012d}.answers"


def write_answers(about: AnswerFile, tables: Sequence[pa.Table], point: str) -> AnswerFile:
    """Write tables as a file; ``about`` says in which folder, and which commits they are of."""
    streams = [arrow_stream(table) for table in tables]
    offset, parts = 0, []
    for stream, table in zip(streams, tables, strict=True):
        parts.append(Part(offset, len(stream), checksum(stream), look_at(table)))
        offset += len(stream)
    made = replace(about, path=about.path / file_name(about.first, about.last), parts=tuple(parts))
    index = seal(_record(made))
    content: list[bytes | memoryview] = [*streams, index, len(index).to_bytes(8, "little"), MARK]
    write_whole(made.path, lambda file: file.writelines(content), point)
    return made


def read_index(path: Path) -> AnswerFile:
    """Read what a file of answers holds, without its answers."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL))
            tail = file.read(TAIL)
            length = int.from_bytes(tail[:8], "little")
            if len(tail) < TAIL or tail[8:] != MARK or length > size - TAIL:
                raise ValueError("it has no index")
            file.seek(size - TAIL - length)
            return _about(path, unseal(file.read(length)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(path, error) from error


def read_format_1(path: Path) -> list[pa.Table]:
    """Read a file of the first format: Arrow streams alone."""
    try:
        source = pa.OSFile(str(path))
        tables = []
        while source.tell() < source.size():
            tables.append(pa.ipc.open_stream(source).read_all())
        return tables
    except (OSError, pa.ArrowException) as error:
        raise damaged(path, error) from error


def _table(content: bytes, told: str) -> pa.Table:
    """Read a part from its bytes."""
    if checksum(content) != told:
        raise ValueError("its checksum does not match")
    return pa.ipc.open_stream(pa.py_buffer(content)).read_all()


def _record(file: AnswerFile) -> dict[str, Any]:
    """Write an index as JSON values."""
    parts = [
        {
            "offset": part.offset,
            "length": part.length,
            "sum": part.sum,
            "rows": part.holds.rows,
            "definitions": part.holds.definitions,
            "first_end_us": part.holds.low_us,
            "last_end_us": part.holds.high_us,
        }
        for part in file.parts
    ]
    return {"first": file.first, "last": file.last, "after": file.after, "weight": file.weight, "parts": parts}


def _about(path: Path, record: dict[str, Any]) -> AnswerFile:
    """Read an index from JSON values."""
    parts = []
    for one in record["parts"]:
        runs = tuple((first, last) for first, last in one["definitions"])
        holds = Holds(one["rows"], runs, one["first_end_us"], one["last_end_us"])
        parts.append(Part(one["offset"], one["length"], one["sum"], holds))
    numbers = record["first"], record["last"], record["after"], record["weight"]
    if path.name != file_name(*numbers[:2]):
        raise ValueError("it is another file's content")
    return AnswerFile(path, *numbers, tuple(parts))
