"""Keeps the answer log: answers are appended under the next number, and read by query or by sinks."""

from __future__ import annotations

import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from penstock.errors import StateError
from penstock.store.answer_files import (
    AnswerFile,
    AnswerPart,
    AnswersTogether,
    EncodedAnswers,
    LargeTables,
    PassingAnswers,
    Span,
    Written,
    file_name,
    hold_in_memory,
    read_index,
    write_answers,
    write_parts,
)
from penstock.store.answer_parts import (
    COMMIT,
    DEFINITION,
    alike_together,
    by_commit,
    in_small_parts,
    of_queries,
    with_commit,
)
from penstock.store.compaction import FAN, Weighed, worth_merging
from penstock.store.files import damaged, make_folder, names_in, read_record, remove, write_record

__all__ = ["COMMIT", "DEFINITION", "AnswerLog", "DiskAnswerLog", "Made", "MemoryAnswerLog", "answers_of"]

LIST: Final = "list.json"
MOST_BYTES: Final = 32 << 20  # of a file made of others: answers may stay for months, and are better in few files
MOST_DEAD: Final = 4  # a file is written anew once a fourth of its answers is expired


@dataclass(frozen=True, slots=True)
class Made:
    """After which commit answers were made, and what they cover of what was due then."""

    commit: int
    covered: Mapping[int, int] = field(default_factory=dict)  # definition → its last window end that is answered
    corrected: bool = False  # what the commit's late rows changed is among them
    past: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # of a backfill: the first and last end answered


def answers_of(log: AnswerLog, definitions: Iterable[int]) -> list[pa.Table]:
    """Collect the answers of some definitions, oldest batch first."""
    return log.of(definitions)


class AnswerLog(ABC):
    """Where a stream's answers are kept; a batch's answers are added once, whole.

    The answers to one group of windows are together at first, and are put together with others in time; each remains
    known by its number. Any thread may read while one adds.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._files: tuple[AnswersTogether, ...] = ()  # in order; replaced, never changed
        self._last = -1
        self._new = 0  # files since the last look
        self._keep: dict[int, int] = {}
        self._changing = threading.Lock()

    def append(
        self, number: int, tables: Sequence[pa.Table], written: Sequence[AnswerPart] = (), made: Made | None = None
    ) -> None:
        """Make the answers to a group of windows durable; no answers leave nothing behind.

        Parts that executors have ``written`` to files of their own hold from now on, together with the tables.
        ``made`` tells a restart which windows need not be answered again.
        """
        if not tables and not written:
            return
        made = made or Made(number)
        with self._changing:
            span = Span(number, number, self._last, 1, made.commit, made.covered, made.corrected, past=made.past)
            self._files = (*self._files, self._write(span, tables, "answers", written))
            self._last, self._new = number, self._new + 1

    @abstractmethod
    def spill(self, batch: int, tables: Sequence[pa.Table]) -> list[AnswerPart] | None:
        """Write answers to a file that :meth:`append` is to name; None: memory is all there is."""

    def last(self) -> int | None:
        """Return the number of the last answers here."""
        return None if self._last < 0 else self._last

    def last_commit(self) -> int | None:
        """Return the commit after which the last answers here were made."""
        return self._files[-1].span.commit if self._files else None

    def made_after(self, commit: int) -> list[Span]:
        """Tell what was answered after a commit, which is the last one."""
        return [file.span for file in self._files if file.span.commit == commit]

    def batches(self, after: int) -> Iterator[tuple[int, Sequence[pa.Table]]]:
        """Read the answers of batches after a number, in order."""
        while (together := self._tables_after(after)) is not None:
            file, tables = together
            if isinstance(tables, LargeTables):
                yield file.span.last, tables
                after = file.span.last
                continue
            found: dict[int, list[pa.Table]] = {}
            for table in tables:
                for number, one in by_commit(table, file.span.last, after):
                    found.setdefault(number, []).append(one)
            yield from sorted(found.items())
            after = file.span.last

    def of(self, definitions: Iterable[int]) -> list[pa.Table]:
        """Read the answers of some definitions that are still kept, oldest batch first."""
        wanted = frozenset(definitions)
        while True:
            files = self._files
            try:
                parts = [(file, part) for file in files for part in file.parts if part.holds.any_of(wanted)]
                found = [of_queries(file.read(part), wanted, self._keep) for file, part in parts]
                return [table for table in found if table.num_rows]
            except (FileNotFoundError, StateError) as error:
                self._raise_unless_changed(files, error)

    def definitions(self) -> set[int]:
        """Return the definitions that have answers here, expired ones too until they are removed."""
        runs = {run for file in self._files for part in file.parts for run in part.holds.definitions}
        return {one for first, last in runs for one in range(first, last + 1)}

    def sizes(self) -> list[tuple[int, tuple[tuple[int, int], ...]]]:
        """List the bytes of every part that is kept, with the runs of definitions in it."""
        return [(part.length, part.holds.definitions) for file in self._files for part in file.parts]

    def expire(self, keep: Mapping[int, int]) -> None:
        """Let go of answers that end before a time: definition → the first window end that it keeps."""
        self._keep = dict(keep)

    def compact(self, upto: int | None = None) -> None:
        """Every few batches, put small files together and remove what is expired and every sink has (``upto``)."""
        for _ in self.compacting(upto):
            pass

    def compacting(self, upto: int | None = None) -> Iterator[None]:
        """Do so step by step: answers may come between two of them, and are not put together with others yet."""
        if self._new < FAN:
            return
        before, newest = self._files, self.last_commit()
        taken = self._last if upto is None else upto
        old = len(before) - sum(file.span.commit == newest for file in before)  # a restart asks what the newest cover
        place = 0
        for file in before[:old]:
            with self._changing:  # whoever reads a file that is written anew waits until it is known
                kept = self._without_dead(file, taken)
                if written := kept != [file]:
                    self._files = (*self._files[:place], *kept, *self._files[place + 1 :])
            place += len(kept)
            if written:
                yield
        files = list(self._files[:place])
        weighed = [Weighed(file.span.weight, "", file.size) for file in files]
        for stretch in reversed(list(worth_merging(weighed, MOST_BYTES))):
            files[stretch.start : stretch.stop] = yield from self._merging(files[stretch.start : stretch.stop], taken)
            yield
        with self._changing:
            recent = self._files[place:]
            self._settle([*files, *recent])
            self._new = self._new if len(files) == old else len(recent)
            self._files = (*files, *recent)
            self._tidy(self._files)

    # -- inside --------------------------------------------------------------------------------------------------

    @abstractmethod
    def _write(
        self,
        span: Span,
        tables: Sequence[Written],
        point: str,
        written: Sequence[AnswerPart] = (),
    ) -> AnswersTogether:
        """Keep tables together."""

    def _prepared(self, table: pa.Table) -> Written:
        """Do for a table what can be done before those that it is kept with are there."""
        return table

    @abstractmethod
    def _settle(self, files: Sequence[AnswersTogether]) -> None:
        """Make it hold that these are all files."""

    @abstractmethod
    def _tidy(self, files: Sequence[AnswersTogether]) -> None:
        """Remove what is none of these."""

    def large(self, number: int) -> LargeTables | None:
        """Return the last answers, to be read part by part, if executors wrote some of them."""
        file = self._files[-1] if self._files else None
        if file is None or file.span.last != number or not any(part.file for part in file.parts):
            return None
        return LargeTables(file)

    def _tables_after(self, after: int) -> tuple[AnswersTogether, Sequence[pa.Table]] | None:
        """Read the first file that goes beyond a number."""
        while True:
            files = self._files
            file = next((file for file in files if file.span.last > after), None)
            if file is None:
                return None
            if any(part.file for part in file.parts):
                return file, LargeTables(file)
            try:
                return file, [file.read(part) for part in file.parts]
            except (FileNotFoundError, StateError) as error:
                self._raise_unless_changed(files, error)

    def _raise_unless_changed(self, files: tuple[AnswersTogether, ...], error: Exception) -> None:
        """Raise what reading a file raised, unless compaction has replaced the files meanwhile."""
        with self._changing:
            if self._files is not files:
                return
        if isinstance(error, FileNotFoundError):
            raise damaged(Path(str(error.filename)), error) from error
        raise error

    def _without_dead(self, file: AnswersTogether, taken: int) -> list[AnswersTogether]:
        """Write a file anew without what is expired, once that is much; nothing is left of one that is all expired."""
        if file.span.last > taken or not self._keep:
            return [file]
        if file.size > MOST_BYTES and not all(part.holds.expired(self._keep) for part in file.parts):
            return [file]  # too much to be written anew here: it goes as a whole
        alive = [part for part in file.parts if not part.holds.expired(self._keep)]
        rows = sum(part.holds.rows for part in file.parts)
        if not alive:
            return []
        if MOST_DEAD * (rows - sum(part.holds.rows for part in alive)) < rows or len(alive) == len(file.parts):
            return [file]
        return [self._write(file.span, [file.read(part) for part in alive], "compaction.answers")]

    def _merging(self, files: Sequence[AnswersTogether], taken: int) -> Generator[None, None, list[AnswersTogether]]:
        """Put the answers of neighbours together, step by step: columns alike together, in parts by query."""
        keep = self._keep if files[-1].span.last <= taken else {}
        tables, parts = list[pa.Table](), list[Written]()
        for file in files:
            tables += [one for part in file.parts for one in with_commit(file.read(part), file.span.last, keep)]
            yield
        for table in alike_together(tables):
            for part in in_small_parts(table, keep):
                parts.append(self._prepared(part))
                yield
        span = Span.joined([file.span for file in files])
        return [self._write(span, parts, "compaction.answers")] if parts else []


class MemoryAnswerLog(AnswerLog):
    """Keeps answers in memory."""

    def spill(self, batch: int, tables: Sequence[pa.Table]) -> None:
        """Do nothing: there is no folder."""

    def _write(
        self,
        span: Span,
        tables: Sequence[Written],
        point: str,
        written: Sequence[AnswerPart] = (),
    ) -> PassingAnswers:
        """Hold tables; without a folder, executors write nothing."""
        return hold_in_memory(span, [table for table in tables if isinstance(table, pa.Table)])

    def _settle(self, files: Sequence[AnswersTogether]) -> None:
        """Do nothing: memory holds what it holds."""

    def _tidy(self, files: Sequence[AnswersTogether]) -> None:
        """Do nothing: what nobody holds is gone."""


class DiskAnswerLog(AnswerLog):
    """A folder with ``<number>.answers`` for a batch, ``<first>-<last>.answers`` for several, and their list.

    ``list.json`` names the files there were when it was written; each one after it names the one before it.
    """

    def __init__(self, folder: Path) -> None:
        """Open the folder, making it if need be, and remove what a crash left."""
        super().__init__()
        self.folder = folder
        make_folder(folder)
        self._files, self._last, self._new = found_files(folder)
        self._tidy(self._files)

    def spill(self, batch: int, tables: Sequence[pa.Table]) -> list[AnswerPart]:
        """Write answers to a file of their own."""
        return write_parts(self.folder, f"{batch:012d}-{uuid.uuid4().hex[:12]}.spread", tables)

    def _write(
        self,
        span: Span,
        tables: Sequence[Written],
        point: str,
        written: Sequence[AnswerPart] = (),
    ) -> AnswerFile:
        """Write tables to one file."""
        return write_answers(self.folder, span, tables, point, written)

    def _prepared(self, table: pa.Table) -> Written:
        """Encode a table: that takes most of the time."""
        return EncodedAnswers.of(table)

    def _settle(self, files: Sequence[AnswersTogether]) -> None:
        """Write the list of files."""
        names = [file_name(file.span) for file in files]
        write_record(self.folder / LIST, {"last": self._last, "files": names}, "compaction.list")

    def _tidy(self, files: Sequence[AnswersTogether]) -> None:
        """Remove files that were replaced, and what a crash left."""
        wanted = {file_name(file.span) for file in files}
        wanted |= {part.file for file in files for part in file.parts}
        for name in names_in(self.folder):
            if name.endswith((".answers", ".spread", ".draft")) and name not in wanted:
                remove(self.folder / name)


def found_files(folder: Path) -> tuple[tuple[AnswerFile, ...], int, int]:
    """Read the indexes of all files, the number of the last answers, and how many files came after the list."""
    listed = (folder / LIST).exists()
    record: dict[str, Any] = read_record(folder / LIST) if listed else {"last": -1, "files": []}
    try:
        last, names = int(record["last"]), [str(name) for name in record["files"]]
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(folder / LIST, "it is not a list of answers") from error
    files = [read_index(folder / name) for name in names]
    alone = [name for name in names_in(folder) if name[:12].isdigit() and name[12:] == ".answers"]
    later = [name for name in alone if int(name[:12]) > last]  # files of several commits hold once they are listed
    for name in later:
        file = read_index(folder / name)
        if (after := file.span.after) != last:
            lost = folder / (file_name(Span(after, after, -1)) if listed or last >= 0 else LIST)
            raise damaged(lost, "it does not exist, but later answers do")
        last = file.span.last
        files.append(file)
    return tuple(files), last, len(later)
