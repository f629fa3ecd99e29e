"""Keeps the commit log: an atomic record of each batch, with its partials, from which a restart goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import numpy as np
import pyarrow as pa

from penstock.errors import StateError
from penstock.share.partial_schema import AFTER, BEFORE, OF_COMMIT
from penstock.store.arrow_files import (
    arrow_file,
    read_arrow_file,
    read_record_within,
    shape_of,
    size_without_record,
    with_record,
)
from penstock.store.compaction import FAN, Weighed, worth_merging
from penstock.store.files import (
    checksum,
    damaged,
    make_folder,
    read_record,
    write_in_place,
    write_record,
    write_whole,
)
from penstock.store.invalid import Invalid
from penstock.store.manifest import (
    KeptCommits,
    Manifest,
    check_files,
    first_record,
    last_record,
    later_records,
    read_list,
    record_name,
    sweep,
    write_list,
)

FORMAT: Final = 3
LISTS_DUE: Final = 3  # the format from which on a query may have windows due from several batches
READABLE: Final = (1, 2, 3)  # a commit of format 1 lacks fields that have defaults

IN_ORDER: Final = "in order "  # what the shape of partials of sessions begins with
TOLD_APART: Final = [OF_COMMIT, BEFORE, AFTER]  # columns of such partials once they are put together

Kind = Literal["batch", "heartbeat", "backfill", "change", "flush"]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows came, and what became of them: every term is counted on its own, and they add up to ingested."""

    ingested: int = 0
    on_time: int = 0
    corrected: int = field(default=0, kw_only=True)  # late, and applied to a final window
    late: int = 0  # and not corrected
    invalid: int = 0
    duplicate: int = field(default=0, kw_only=True)

    def __add__(self, other: Counts) -> Counts:
        """Add two batches' counts."""
        return Counts(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Counts)})

    @property
    def whole(self) -> bool:
        """Tell whether every row became exactly one thing."""
        return self.ingested == self.on_time + self.corrected + self.late + self.invalid + self.duplicate


Needed = Callable[[pa.Table], pa.Table]  # what is kept of partials that are put together
PauseKind = Literal["by hand", "for memory", "by an error", "by the engine"]
BY_HAND: Final = "paused by hand"
FOR_MEMORY: Final = "paused for memory"
BY_A_DEFECT: Final = "a defect of Penstock"


@dataclass(frozen=True, slots=True)
class Paused:
    """Why a query answers no more, and from which window on it may answer again."""

    until_us: int  # windows that end by then hold no failing row and are still answered
    resume_end_us: int  # end of the first window after the failure
    ts_us: int  # of the failing row, or the end of the failing window
    reason: str

    @property
    def kind(self) -> PauseKind:
        """Say who paused the query; records hold the reason alone, which begins with that."""
        if self.reason.startswith(BY_HAND):
            return "by hand"
        if self.reason.startswith(FOR_MEMORY):
            return "for memory"
        return "by the engine" if self.reason.startswith(BY_A_DEFECT) else "by an error"


@dataclass(frozen=True, slots=True)
class AskedPast:
    """Since when a query is to answer windows of the past whose rows are not read yet."""

    since_us: int | None  # None: from the first row
    entering: bool = False  # it came with its past, and is paused if that cannot be had
    accept: bool = False  # files that have changed since they were read
    holds: bool = False  # its windows wait for those of the past, as they are said in order


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
    due: Mapping[str, Sequence[Sequence[Any]]] = field(
        default_factory=dict
    )  # final and not answered: definition → first end, windows, until, empty ones before, and runs if of old batches
    starts: Mapping[str, int] = field(default_factory=dict)  # definition → from when its partials are whole
    next_ends: Mapping[str, int | None] = field(
        default_factory=dict
    )  # definition → next window end; None: not yet known
    paused: Mapping[str, Paused] = field(default_factory=dict)
    attempts: tuple[int, ...] = ()  # definitions whose expressions were evaluated apart
    edges: Mapping[str, Sequence[int]] = field(default_factory=dict)  # searched tree → edges its labels index
    ended: bool = False
    highest: int | None = None  # slice among the partials
    kind: Kind = "batch"
    judged_us: int | None = None  # the watermark that the batch's rows were judged by; None: no row was late
    first_ends: Mapping[str, int] = field(default_factory=dict)  # definition → first window end it answers
    resumed_ends: Mapping[str, int] = field(default_factory=dict)  # definition → first window end after its last pause
    failed: Mapping[str, int] = field(default_factory=dict)  # definition → time after the last row it failed on
    backfilled: tuple[int, ...] = ()  # definitions whose partials this commit rebuilt
    answered: int | None = None  # number of the last answers that were made before this commit
    checkpoint: str | None = None  # id of Spark's checkpoint; None: the batch came another way
    partials_sum: str | None = None  # checksum of the partials' file; None: there is none
    trees: Mapping[str, str] = field(default_factory=dict)  # definition → tree, where trees are woven
    feeding: Mapping[str, Any] = field(default_factory=dict)  # which groupings its partials hold for others
    silences: Mapping[str, Sequence[int]] = field(
        default_factory=dict
    )  # definition → empty windows in a row so far, and how many were ever skipped
    departed: Mapping[str, int] = field(
        default_factory=dict
    )  # name of a query that is gone → the windows that begin before it were answered
    invalid: Invalid = field(default_factory=Invalid)  # rows of all batches so far, by reason
    too_late: Mapping[str, int] = field(default_factory=dict)  # definition → rows that came too late for it
    skipped: Mapping[str, int] = field(default_factory=dict)  # definition → windows that later ones superseded
    sampling: int = 0  # the level of the rows that queries which shed load took: one of 2^level
    asked_sampling: int = 0  # the level that users have asked for
    twins: Sequence[float] = ()  # what batches have told of rows that agree in every column
    shed: Mapping[str, int] = field(default_factory=dict)  # definition → valid rows that it did not look at
    asked: Mapping[str, AskedPast] = field(default_factory=dict)  # definition → the past that is to be read for it
    past: Mapping[str, Sequence[Sequence[Any]]] = field(
        default_factory=dict
    )  # windows of the past that are not answered: as in due, with runs
    taken: int = 0  # rows that continuous queries took of the batch
    past_taken: tuple[int, ...] = ()  # continuous queries that asked for the past, which is among their rows
    operated: Mapping[str, int] = field(
        default_factory=dict
    )  # definition → the last commit whose queued rows have gone through its operators, and are answered
    before_us: int | None = None  # the watermark before it
    in_order: bool = False  # its partials are of sessions too, so those of several commits are told apart
    covers: int | None = None  # the first of the commits whose partials were put together with this one's

    def to_record(self) -> dict[str, Any]:
        """Write the commit as JSON values."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        paused = {number: asdict(pause) for number, pause in self.paused.items()}
        asked = {number: asdict(one) for number, one in self.asked.items()}
        told = {"counts": asdict(self.counts), "paused": paused, "invalid": asdict(self.invalid), "asked": asked}
        return {"format": FORMAT, **plain, **told}

    @staticmethod
    def from_record(record: dict[str, Any]) -> Commit:
        """Read a commit back; a newer format is refused."""
        if record.get("format") not in READABLE:
            raise StateError("the state folder was written by another version of Penstock", hint="Use that version.")
        known = {f.name: record[f.name] for f in fields(Commit) if f.name in record}
        known["counts"] = Counts(**record["counts"])
        each = {k: v if record["format"] >= LISTS_DUE else [v] for k, v in record["due"].items()}
        known["due"] = {k: tuple(tuple(one) for one in v) for k, v in each.items()}
        known["paused"] = {k: Paused(**v) for k, v in record["paused"].items()}
        known["invalid"] = Invalid(**record.get("invalid", {}))
        known["asked"] = {k: AskedPast(**v) for k, v in record.get("asked", {}).items()}
        known["attempts"] = tuple(record["attempts"])
        known["backfilled"] = tuple(record.get("backfilled", ()))
        known["past_taken"] = tuple(record.get("past_taken", ()))
        known["twins"] = tuple(record.get("twins", ()))
        return Commit(**known)


def read_commit(path: Path) -> tuple[Commit, str | None]:
    """Read a commit and the shape of its partials from its record, alone or within the file of its partials."""
    record = read_record(path) if path.suffix == ".json" else read_record_within(path)
    try:
        commit = Commit.from_record(record)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise damaged(path, "it is not a commit") from error
    if path.name != record_name(commit.number, within=path.suffix != ".json"):
        raise damaged(path, "it is another commit's content")
    return commit, record.get("shape")


def last_commit(folder: Path) -> Commit | None:
    """Read the last commit of a stream whose engine may be running; nothing is changed."""
    path = last_record(folder)
    return None if path is None else read_commit(path)[0]


def by_commit(commit: Commit, partials: pa.Table) -> Iterator[tuple[int | None, int | None, pa.Table]]:
    """Part partials by the commits that brought them; return the watermark before and after each, too."""
    if OF_COMMIT not in partials.column_names:
        yield commit.before_us, commit.watermark_us, partials
        return
    numbers = partials[OF_COMMIT].to_numpy()
    bounds = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
    for first, end in pairwise(bounds):
        part = partials.slice(first, end - first)
        before, after = (part[name][0].as_py() for name in (BEFORE, AFTER))
        yield before, after, part.drop_columns(TOLD_APART)


class CommitLog(Protocol):
    """Where a stream's commits and partials are kept."""

    def append(self, commit: Commit, partials: pa.Table, about: bytes | None = None) -> None:
        """Make a batch durable; ``about`` tells readers of the partials what their columns are."""

    def last(self) -> Commit | None:
        """Return the last committed batch."""

    def replay(self) -> Iterator[tuple[Commit, pa.Table | None]]:
        """Read back the batches whose partials are still needed, oldest first, always ending with the last one."""

    def first_version(self) -> int | None:
        """Return the version of the catalog that the oldest commit that a restart reads was made with."""

    def bytes_kept(self) -> int:
        """Return how many bytes the files of partials take."""

    def expire(self, before_us: int) -> None:
        """Forget partials all of whose labels are before the time."""

    def compact(self, needed: Needed = lambda partials: partials) -> None:
        """Put the partials of small batches together, now and then."""

    def compacting(self, needed: Needed = lambda partials: partials) -> Iterator[None]:
        """Do so step by step; commits may come between two of them."""


class MemoryCommitLog:
    """Keeps the last commit only: a restart starts anew."""

    def __init__(self) -> None:
        """Start empty."""
        self._last: Commit | None = None

    def append(self, commit: Commit, partials: pa.Table, about: bytes | None = None) -> None:
        """Remember the commit."""
        self._last = commit

    def last(self) -> Commit | None:
        """Return the last committed batch."""
        return self._last

    def replay(self) -> Iterator[tuple[Commit, pa.Table | None]]:
        """Give nothing: what was in memory is gone."""
        return iter(())

    def first_version(self) -> int | None:
        """Return the version of the one commit there is."""
        return None if self._last is None else self._last.catalog_version

    def bytes_kept(self) -> int:
        """Say that there are no files."""
        return 0

    def expire(self, before_us: int) -> None:
        """Do nothing: no partials are kept here."""

    def compact(self, needed: Needed = lambda partials: partials) -> None:
        """Do nothing: no partials are kept here."""

    def compacting(self, needed: Needed = lambda partials: partials) -> Iterator[None]:
        """Do nothing."""
        return iter(())


class DiskCommitLog:
    """A folder with ``<number>.arrow`` (partials, and within it the commit's record), written with one sync.

    A commit without partials is its record, ``<number>.json``. ``list.json`` says which commits are kept up to a
    number: it is what expiry and compaction change, in one write.
    """

    def __init__(self, folder: Path) -> None:
        """Open the folder, making it if need be, and remove what a crash left."""
        self.folder = folder
        make_folder(folder)
        self._through, self._kept, self._last = found_commits(folder)
        self._named = -1  # the last commit whose name is durable, ahead of it
        sweep(folder, self._kept)

    def append(self, commit: Commit, partials: pa.Table, about: bytes | None = None) -> None:
        """Write partials and the commit point; the same batch again overwrites what never was committed."""
        if commit.checkpoint is None and self._last is not None and self._last.batch == commit.batch:
            commit = replace(commit, checkpoint=self._last.checkpoint)  # heartbeats and the like read nothing new
        if partials.num_rows:
            content = arrow_file(partials, about)
            commit, shape = replace(commit, partials_sum=checksum(content)), _shape(commit, partials)
            kept = _kept(commit, shape, within=True)
            pieces = with_record(content, {**commit.to_record(), "shape": shape})
            path, ahead = self.folder / kept.record, self._names_ahead(commit.number)
            write_in_place(path, lambda file: file.writelines(pieces), "commit", ahead)
            self._named = max(self._named, commit.number + len(ahead) - 1)
        else:
            kept = _kept(commit, None)
            write_record(self.folder / kept.record, {**commit.to_record(), "shape": None}, "commit")
        self._last = commit
        self._kept.append(kept)

    def _names_ahead(self, number: int) -> list[Path]:
        """List the names to be made for a commit and those after it; none if its own is there already."""
        if number <= self._named:
            return []
        return [self.folder / record_name(one, within=True) for one in range(number, number + FAN)]

    def last(self) -> Commit | None:
        """Return the last committed batch."""
        return self._last

    def replay(self) -> Iterator[tuple[Commit, pa.Table | None]]:
        """Read back what is still needed, oldest first."""
        for kept in list(self._kept):
            commit, _ = read_commit(self.folder / kept.record)
            if kept.first != kept.number:
                commit = replace(commit, covers=kept.first, highest=kept.highest, partials_sum=kept.sum)
            yield commit, self._table(kept) if kept.weight else None

    def first_version(self) -> int | None:
        """Return the version of the oldest commit on disk: what is expired may come back with a crash."""
        if self._last is None:
            return None
        return read_commit(first_record(self.folder, read_list(self.folder)))[0].catalog_version

    def bytes_kept(self) -> int:
        """Return how many bytes the files of partials take; any thread may ask while some are put together."""
        found = 0
        for kept in list(self._kept):
            with suppress(FileNotFoundError):
                found += self._size(kept)
        return found

    def expire(self, before_us: int) -> None:
        """Forget partials that no window will ask for; the next compaction removes their files."""
        if not self._kept:
            return
        *earlier, last = self._kept
        needed = [k for k in earlier if k.weight and k.highest is not None and k.highest >= before_us]
        self._kept = [*needed, last]

    def compact(self, needed: Needed = lambda partials: partials) -> None:
        """Every few commits, put the partials of small batches together and remove what is not needed."""
        for _ in self.compacting(needed):
            pass

    def compacting(self, needed: Needed = lambda partials: partials) -> Iterator[None]:
        """Do so step by step; commits that come between two of them stay as they are."""
        if self._last is None or self._last.number - self._through <= FAN:
            return
        earlier, last = [k for k in self._kept[:-1] if k.weight], self._kept[-1]
        files = [Weighed(k.weight, k.shape, self._size(k)) for k in earlier]
        for stretch in reversed(list(worth_merging(files))):
            merged = yield from self._merging(earlier[stretch.start : stretch.stop], needed)
            earlier[stretch.start : stretch.stop] = [merged]
            yield
        write_list(self.folder, Manifest(last.number - 1, tuple(earlier)))
        recent = [kept for kept in self._kept if kept.number > last.number]
        self._through, self._kept = last.number - 1, [*earlier, last, *recent]
        assert self._last is not None
        sweep(self.folder, self._kept, range(self._last.number + 1, self._named + 1))

    def _merging(self, files: Sequence[KeptCommits], needed: Needed) -> Generator[None, None, KeptCommits]:
        """Write the partials of neighbours as one file, under a name of its own, step by step."""
        tables = list[pa.Table]()
        for one in files:
            tables.append(self._told_apart(one))
            yield
        content = arrow_file(needed(pa.concat_tables(tables).combine_chunks()))
        yield
        highest = max(k.highest for k in files if k.highest is not None)
        weight = sum(k.weight for k in files)
        merged = KeptCommits(files[-1].number, files[0].first, weight, highest, checksum(content), files[0].shape)
        assert merged.partials is not None
        write_whole(self.folder / merged.partials, lambda file: file.write(content), "compaction.partials")
        if files[-1].within:
            record = read_record_within(self.folder / files[-1].record)
            write_record(self.folder / merged.record, record, "compaction.record")
        return merged

    def _told_apart(self, kept: KeptCommits) -> pa.Table:
        """Read the partials of a commit; where their order matters, each says of which commit it is."""
        table = self._table(kept)
        if kept.first != kept.number or not (kept.shape or "").startswith(IN_ORDER):
            return table
        commit, _ = read_commit(self.folder / kept.record)
        for name, value in zip(TOLD_APART, (commit.number, commit.before_us, commit.watermark_us), strict=True):
            table = table.append_column(name, pa.array([value] * table.num_rows, pa.int64()))
        return table

    def _table(self, kept: KeptCommits) -> pa.Table:
        """Read the partials of a commit."""
        assert kept.partials is not None
        return read_arrow_file(self.folder / kept.partials, kept.sum)

    def _size(self, kept: KeptCommits) -> int:
        """Return how many bytes the partials of a commit take."""
        if not kept.partials:
            return 0
        path = self.folder / kept.partials
        return size_without_record(path) if kept.within else path.stat().st_size


def found_commits(folder: Path) -> tuple[int, list[KeptCommits], Commit | None]:
    """Read how far the list goes, which commits are kept, and the last one; nothing is changed."""
    listing = read_list(folder)
    kept, last = list(listing.kept), None
    for name in later_records(folder, listing):
        last, shape = read_commit(folder / name)
        kept.append(_kept(last, shape, within=not name.endswith(".json")))
    check_files(folder, kept)
    return listing.through, kept, last


def _kept(commit: Commit, shape: str | None, *, within: bool = False) -> KeptCommits:
    """Tell of a commit what deciding on its files takes."""
    number, weight = commit.number, int(commit.partials_sum is not None)
    return KeptCommits(number, number, weight, commit.highest, commit.partials_sum, shape, within)


def _shape(commit: Commit, partials: pa.Table) -> str | None:
    """Name what partials must have in common to be put together; None: these stay alone."""
    if commit.kind not in ("batch", "heartbeat") or commit.edges or commit.highest is None:
        return None
    fed = f" {json.dumps(commit.feeding, sort_keys=True)}" if commit.feeding else ""
    woven = checksum(" ".join(f"{d}:{t}" for d, t in sorted(commit.trees.items())).encode()) if commit.trees else ""
    ordered = IN_ORDER if commit.in_order else ""
    return f"{ordered}{commit.catalog_version}{woven} {','.join(map(str, commit.attempts))} {shape_of(partials)}{fed}"
