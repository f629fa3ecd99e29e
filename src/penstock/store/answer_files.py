"""Writes and reads checked files of answers: Arrow streams one after the other, then an index.

The file ends with its index (one sealed line of JSON), the index's length in 8 bytes, least first, and a mark.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, overload

import pyarrow as pa

from penstock.store.answer_parts import AnswerContents, in_parts, look_at
from penstock.store.arrow_files import arrow_stream
from penstock.store.files import checksum, damaged, seal, unseal, write_whole

MARK: Final = b"PENSTOCK"
TAIL: Final = 16  # bytes behind the index: its length and the mark


@dataclass(frozen=True, slots=True)
class Span:
    """Which answers are together, by their numbers, and which windows they cover of those due at their last commit.

    A group of windows is answered together, under the next number; several groups may follow one commit.
    """

    first: int  # number of the first answers in it
    last: int
    after: int  # the number of the answers before these; −1: none
    weight: int = 1  # groups of windows in it
    commit: int = -1  # the stream's last commit when the last of them were made
    covered: Mapping[int, int] = field(default_factory=dict)  # definition → the last window end answered
    corrected: bool = False  # what that commit's late rows changed is among them
    older: bool = False  # of format 2, which covers all that was due at its commit
    complete: bool = False  # of format 2: and no query failed
    past: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # of a backfill: the first and last end answered

    def to_record(self) -> dict[str, Any]:
        """Write as JSON values."""
        numbers = {"first": self.first, "last": self.last, "after": self.after, "weight": self.weight}
        if self.older:
            return numbers | {"complete": self.complete}
        covered = {str(number): end for number, end in self.covered.items()}
        told = numbers | {"commit": self.commit, "covered": covered, "corrected": self.corrected}
        return told | ({"past": {str(number): ends for number, ends in self.past.items()}} if self.past else {})

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Span:
        """Read back what was written; answers of format 2 have the number of their commit."""
        numbers = record["first"], record["last"], record["after"], record["weight"]
        if "commit" not in record:
            return Span(*numbers, commit=numbers[1], older=True, complete=bool(record.get("complete", False)))
        covered = {int(number): int(end) for number, end in record["covered"].items()}
        past = {int(number): (int(ends[0]), int(ends[1])) for number, ends in record.get("past", {}).items()}
        corrected = bool(record["corrected"])
        return Span(*numbers, commit=record["commit"], covered=covered, past=past, corrected=corrected)

    @staticmethod
    def joined(spans: Sequence[Span]) -> Span:
        """Describe neighbours that are put together; what they cover is told by later commits."""
        weight = sum(span.weight for span in spans)
        return replace(spans[-1], first=spans[0].first, after=spans[0].after, weight=weight, covered={}, past={})


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """One table in a file of answers."""

    offset: int
    length: int
    sum: str
    holds: AnswerContents
    file: str = ""  # of its own, beside the one with the index; none: in that one

    def to_record(self) -> dict[str, Any]:
        """Write as JSON values."""
        held = self.holds
        told = {"offset": self.offset, "length": self.length, "sum": self.sum, "rows": held.rows}
        told |= {"definitions": held.definitions, "first_end_us": held.low_us, "last_end_us": held.high_us}
        return told | ({"file": self.file} if self.file else {})

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> AnswerPart:
        """Read back what was written."""
        runs = tuple((first, last) for first, last in record["definitions"])
        holds = AnswerContents(record["rows"], runs, record["first_end_us"], record["last_end_us"])
        return AnswerPart(record["offset"], record["length"], record["sum"], holds, record.get("file", ""))


class AnswersTogether(Protocol):
    """Answers that are kept together."""

    @property
    def span(self) -> Span:
        """Tell which they are."""

    @property
    def parts(self) -> tuple[AnswerPart, ...]:
        """Return its tables."""

    @property
    def size(self) -> int:
        """Return how many bytes its answers take."""

    def read(self, part: AnswerPart) -> pa.Table:
        """Read one table."""


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """A file of answers, known by its index."""

    path: Path
    span: Span
    parts: tuple[AnswerPart, ...]

    @property
    def size(self) -> int:
        """Return how many bytes its answers take."""
        return sum(part.length for part in self.parts)

    def read(self, part: AnswerPart) -> pa.Table:
        """Read one part; a file that is gone raises FileNotFoundError: compaction may have replaced it."""
        path = self.path.with_name(part.file) if part.file else self.path
        try:
            with path.open("rb") as file:
                file.seek(part.offset)
                content = file.read(part.length)
            return _table(content, part.sum)
        except FileNotFoundError:
            raise
        except (OSError, ValueError, pa.ArrowException) as error:
            raise damaged(path, error) from error


@dataclass(frozen=True, slots=True)
class LargeTables(Sequence[pa.Table]):
    """The tables of a file that executors have written for the most part, read one at a time."""

    file: AnswersTogether

    def __len__(self) -> int:
        """Count the tables."""
        return len(self.file.parts)

    @overload
    def __getitem__(self, place: int) -> pa.Table: ...

    @overload
    def __getitem__(self, place: slice) -> list[pa.Table]: ...

    def __getitem__(self, place: int | slice) -> pa.Table | list[pa.Table]:
        """Read a table."""
        parts = self.file.parts[place]
        return [self.file.read(part) for part in parts] if isinstance(parts, tuple) else self.file.read(parts)


@dataclass(frozen=True, slots=True)
class EncodedAnswers:
    """A table of answers as a file holds it."""

    stream: memoryview
    sum: str
    holds: AnswerContents

    @staticmethod
    def of(table: pa.Table) -> EncodedAnswers:
        """Encode a table."""
        stream = arrow_stream(table, compressed=True)
        return EncodedAnswers(stream, checksum(stream), look_at(table))


Written: TypeAlias = pa.Table | EncodedAnswers  # what becomes a part of a file


@dataclass(frozen=True, slots=True)
class PassingAnswers:
    """Answers in memory."""

    span: Span
    parts: tuple[AnswerPart, ...]
    tables: tuple[pa.Table, ...]

    @property
    def size(self) -> int:
        """Return how many bytes its answers take."""
        return sum(part.length for part in self.parts)

    def read(self, part: AnswerPart) -> pa.Table:
        """Return one table."""
        return self.tables[part.offset]


def hold_in_memory(span: Span, tables: Sequence[pa.Table]) -> PassingAnswers:
    """Hold tables; a part's offset is its number."""
    parts = [AnswerPart(number, table.nbytes, "", look_at(table)) for number, table in enumerate(tables)]
    return PassingAnswers(span, tuple(parts), tuple(tables))


def file_name(span: Span) -> str:
    """Name a file by the numbers of the answers in it."""
    return f"{span.last:012d}.answers" if span.first == span.last else f"{span.first:012d}-{span.last:012d}.answers"


def write_answers(
    folder: Path, span: Span, tables: Sequence[Written], point: str, written: Sequence[AnswerPart] = ()
) -> AnswerFile:
    """Write tables as a file.

    Parts that are ``written`` already, to files of their own, are named with them: they hold from then on.
    """
    encoded = [one if isinstance(one, EncodedAnswers) else EncodedAnswers.of(one) for one in tables]
    offset, parts = 0, []
    for one in encoded:
        parts.append(AnswerPart(offset, len(one.stream), one.sum, one.holds))
        offset += len(one.stream)
    made = AnswerFile(folder / file_name(span), span, (*parts, *written))
    index = seal(_record(made))
    ending = index, len(index).to_bytes(8, "little"), MARK
    content: list[bytes | memoryview] = [*(one.stream for one in encoded), *ending]
    write_whole(made.path, lambda file: file.writelines(content), point)
    return made


def write_parts(folder: Path, name: str, tables: Sequence[pa.Table]) -> list[AnswerPart]:
    """Write tables to a file that nobody reads before an index names it; a part holds answers of few queries."""
    each = [part for table in tables for part in in_parts(table)]
    if not each:
        return []
    offset, parts = 0, []
    with (folder / name).open("wb") as file:
        for table in each:
            stream = arrow_stream(table, compressed=True)
            file.write(stream)
            parts.append(AnswerPart(offset, len(stream), checksum(stream), look_at(table), name))
            offset += len(stream)
        file.flush()
        os.fsync(file.fileno())
    return parts


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
    return {**file.span.to_record(), "parts": [part.to_record() for part in file.parts]}


def _about(path: Path, record: dict[str, Any]) -> AnswerFile:
    """Read an index from JSON values."""
    parts, span = [AnswerPart.from_record(one) for one in record["parts"]], Span.from_record(record)
    if path.name != file_name(span):
        raise ValueError("it is another file's content")
    return AnswerFile(path, span, tuple(parts))
