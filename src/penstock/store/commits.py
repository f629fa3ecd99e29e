"""Batches in, one atomic record each out, with the partials it brought: what a restart goes on from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from penstock.errors import StateError
from penstock.store.files import read_record, write_record, write_whole

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows came, and what became of them; each is counted on its own."""

    ingested: int = 0
    on_time: int = 0
    late: int = 0
    invalid: int = 0

    def __add__(self, other: Counts) -> Counts:
        """Add two batches' counts."""
        return Counts(*(getattr(self, n) + getattr(other, n) for n in ("ingested", "on_time", "late", "invalid")))


@dataclass(frozen=True, slots=True)
class Paused:
    """Why a query answers no more, and from which window on it may answer again."""

    until_us: int  # windows that end by then hold no failing row and are still answered
    resume_end_us: int  # end of the first window after the failure
    ts_us: int  # of the failing row, or the end of the failing window
    reason: str


@dataclass(frozen=True, slots=True)
class Commit:
    """Everything a batch fixed: with the partials beside it, the batch never has to be read again."""

    number: int  # of the commit, in this stream
    batch: int  # Spark's number of the last batch that is in
    catalog_version: int
    watermark_us: int | None  # after the batch; None while no valid row was seen
    last_us: int | None  # greatest valid ts
    first_us: int | None  # smallest valid ts
    clock_us: int
    counts: Counts  # of all batches so far
    source: str  # the source's position, as Spark's checkpoint words it
    tables: Mapping[str, str] = field(default_factory=dict)  # join → version of its table
    due: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # definition → first window end, windows
    starts: Mapping[str, int] = field(default_factory=dict)  # definition → from when its partials are whole
    next_ends: Mapping[str, int | None] = field(
        default_factory=dict
    )  # definition → next window end; None: not yet known
    paused: Mapping[str, Paused] = field(default_factory=dict)
    attempts: tuple[int, ...] = ()  # definitions whose expressions were evaluated apart
    edges: Mapping[str, Sequence[int]] = field(default_factory=dict)  # searched tree → edges its labels index
    ended: bool = False
    highest: int | None = None  # slice among the partials

    def to_record(self) -> dict[str, Any]:
        """Write the commit as JSON values."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        paused = {number: asdict(pause) for number, pause in self.paused.items()}
        return {"format": FORMAT, **plain, "counts": asdict(self.counts), "paused": paused}

    @staticmethod
    def from_record(record: dict[str, Any]) -> Commit:
        """Read a commit back; a newer format is refused."""
        if record.pop("format", None) != FORMAT:
            raise StateError("the state folder was written by another version of Penstock", hint="Use that version.")
        record["counts"] = Counts(**record["counts"])
        record["due"] = {k: tuple(v) for k, v in record["due"].items()}
        record["paused"] = {k: Paused(**v) for k, v in record["paused"].items()}
        record["attempts"] = tuple(record["attempts"])
        return Commit(**record)


class CommitLog(Protocol):
    """Where a stream's commits and partials are kept."""

    def append(self, commit: Commit, partials: pa.Table) -> None:
        """Make a batch durable."""

    def last(self) -> Commit | None:
        """Return the last committed batch."""

    def replay(self) -> Iterator[tuple[Commit, pa.Table | None]]:
        """Read back the batches whose partials are still needed, oldest first, always ending with the last one."""

    def expire(self, before_us: int) -> None:
        """Forget partials all of whose labels are before the time."""


class MemoryCommitLog:
    """Keeps the last commit only: a restart starts anew."""

    def __init__(self) -> None:
        """Start empty."""
        self._last: Commit | None = None

    def append(self, commit: Commit, partials: pa.Table) -> None:
        """Remember the commit."""
        self._last = commit

    def last(self) -> Commit | None:
        """Return the last committed batch."""
        return self._last

    def replay(self) -> Iterator[tuple[Commit, pa.Table | None]]:
        """Give nothing: what was in memory is gone."""
        return iter(())

    def expire(self, before_us: int) -> None:
        """Do nothing: no partials are kept here."""


class DiskCommitLog:
    """A folder with ``<number>.arrow`` (partials, written first) and ``<number>.json`` (the commit point)."""

    def __init__(self, folder: Path) -> None:
        """Open the folder, making it if need be."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        numbers = sorted(int(p.stem) for p in folder.glob("*.json"))
        self._spans: dict[int, int] = {}  # commit → highest slice of its partials
        self._last = self._read(numbers[-1]) if numbers else None
        for number in numbers:
            highest = self._read(number).highest
            if highest is not None and (folder / _arrow(number)).exists():
                self._spans[number] = highest
        self._numbers = numbers

    def append(self, commit: Commit, partials: pa.Table) -> None:
        """Write partials, then the commit point; the same batch again overwrites what never was committed."""
        if partials.num_rows:
            write_whole(self.folder / _arrow(commit.number), lambda file: _write_table(file, partials))
            self._spans[commit.number] = commit.highest if commit.highest is not None else -(1 << 63)
        write_record(self.folder / _json(commit.number), commit.to_record())
        self._last = commit
        self._numbers.append(commit.number)

    def last(self) -> Commit | None:
        """Return the last committed batch."""
        return self._last

    def replay(self) -> Iterator[tuple[Commit, pa.Table | None]]:
        """Read back what is still needed, oldest first."""
        for number in list(self._numbers):
            path = self.folder / _arrow(number)
            yield self._read(number), _read_table(path) if number in self._spans else None

    def expire(self, before_us: int) -> None:
        """Delete partials that no window will ask for, and commits before the last that have none."""
        assert self._last is not None
        kept = []
        for number in self._numbers:
            if number in self._spans and self._spans[number] < before_us:
                (self.folder / _arrow(number)).unlink(missing_ok=True)
                del self._spans[number]
            if number not in self._spans and number != self._last.number:
                (self.folder / _json(number)).unlink(missing_ok=True)
            else:
                kept.append(number)
        self._numbers = kept

    def _read(self, number: int) -> Commit:
        """Read one commit."""
        return Commit.from_record(read_record(self.folder / _json(number)))


def _arrow(number: int) -> str:
    """Name a batch's partials."""
    return f"{number:012d}.arrow"


def _json(number: int) -> str:
    """Name a batch's commit."""
    return f"{number:012d}.json"


def _write_table(file: Any, table: pa.Table) -> None:
    """Write a table as an Arrow file."""
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _read_table(path: Path) -> pa.Table:
    """Read a table from an Arrow file."""
    try:
        with pa.ipc.open_file(path) as reader:
            return reader.read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise StateError(
            f"state file {path} is missing or damaged: {error}",
            hint="Restore the state folder from a copy, or start with an empty one.",
        ) from error
