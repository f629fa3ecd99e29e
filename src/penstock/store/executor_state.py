"""Keeps the files of partials of groupings that are too large for the driver.

``<stream>/<n>.json`` names the files of commit n, which the executors wrote by bucket of the keys, and what they were
made by; ``groupings.json`` names the groupings whose partials are here and nowhere else. A crash may leave files that
no record names, and records of commits that never were: a restart removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from penstock.share.layout import Layout
from penstock.store.buckets import BucketFile, GroupingName
from penstock.store.files import damaged, make_folder, names_in, read_record, remove, write_record

GROUPINGS: Final = "groupings.json"
BUCKETS: Final = 32  # that keys are told apart by; fixed for a folder once something is in it


@dataclass(frozen=True, slots=True)
class ExecutorFiles:
    """The partials that one commit brought, and what they were made by."""

    number: int
    catalog_version: int
    files: tuple[BucketFile, ...]
    high: int | None = None  # the last slice among the partials; None: no valid row
    attempts: tuple[int, ...] = ()
    edges: Mapping[str, Sequence[int]] = field(default_factory=dict)
    feeding: Mapping[str, Any] = field(default_factory=dict)
    trees: Mapping[str, str] = field(default_factory=dict)  # definition → tree, where trees were woven
    layout: Layout | None = field(default=None, compare=False)  # None: read back, and not yet laid out

    def to_record(self) -> dict[str, Any]:
        """Write as JSON values."""
        told = {name: getattr(self, name) for name in ("number", "catalog_version", "high", "attempts")}
        edges = {tree: list(times) for tree, times in self.edges.items()}
        files = [file.to_record() for file in self.files]
        woven = {"trees": dict(self.trees)} if self.trees else {}
        return {**told, "edges": edges, "feeding": dict(self.feeding), **woven, "files": files}

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> ExecutorFiles:
        """Read back what was written."""
        files = tuple(BucketFile.from_record(file) for file in record["files"])
        return ExecutorFiles(**{**record, "files": files, "attempts": tuple(record["attempts"])})


class ExecutorStateFolder:
    """The partials of one stream that the executors keep."""

    def __init__(self, folder: Path) -> None:
        """Read what is there; nothing is made before something is spread."""
        self.folder = folder.absolute()
        self.groupings: frozenset[GroupingName] = frozenset()
        self.entries: list[ExecutorFiles] = []
        self.buckets = BUCKETS
        if (self.folder / GROUPINGS).exists():
            self._read()

    def _read(self) -> None:
        """Read the records."""
        try:
            record = read_record(self.folder / GROUPINGS)
            self.buckets = int(record["buckets"])
            self.groupings = frozenset((tree, tuple(keys)) for tree, keys in record["groupings"])
            names = [name for name in names_in(self.folder) if name[:12].isdigit() and name[12:] == ".json"]
            self.entries = [ExecutorFiles.from_record(read_record(self.folder / name)) for name in names]
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(self.folder / GROUPINGS, "it is not a record of the executors' partials") from error

    def forget_after(self, number: int) -> None:
        """Remove what a crash left: entries of commits that never were, and files that no entry names."""
        self.entries = [entry for entry in self.entries if entry.number <= number]
        self._sweep()

    def begin(self, grouping: GroupingName, entries: Iterable[ExecutorFiles]) -> None:
        """Let a grouping's partials be here from now on; ``entries`` hold what was stored of it before."""
        make_folder(self.folder)
        for entry in entries:
            self.add(entry)
        self._settle(self.groupings | {grouping})

    def add(self, entry: ExecutorFiles) -> None:
        """Name the files of a commit, before the commit itself is durable; the same number again adds to it."""
        known = next((one for one in self.entries if one.number == entry.number), None)
        if known is not None:
            entry = replace(entry, files=(*known.files, *entry.files))
            self.entries.remove(known)
        write_record(self.folder / f"{entry.number:012d}.json", entry.to_record())
        self.entries.append(entry)
        self.entries.sort(key=lambda one: one.number)

    def expire(self, before_us: int) -> None:
        """Remove entries that no window will ask for."""
        kept = [entry for entry in self.entries if entry.high is not None and entry.high >= before_us]
        if len(kept) < len(self.entries):
            self.entries = kept
            self._sweep()

    def _settle(self, groupings: frozenset[GroupingName]) -> None:
        """Make it hold which groupings are here."""
        listed = sorted([tree, list(keys)] for tree, keys in groupings)
        write_record(self.folder / GROUPINGS, {"buckets": self.buckets, "groupings": listed})
        self.groupings = groupings

    def _sweep(self) -> None:
        """Remove what no entry names."""
        if not self.folder.exists():
            return
        wanted = {GROUPINGS, *(f"{entry.number:012d}.json" for entry in self.entries)}
        wanted |= {file.name for entry in self.entries for file in entry.files}
        for name in names_in(self.folder):
            if name not in wanted:
                remove(self.folder / name)
