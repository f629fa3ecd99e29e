"""Lists which commits of a folder are kept, finds files that are missing, and removes those no longer needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from penstock.store.files import damaged, names_in, read_record, remove, write_record

LIST: Final = "list.json"


@dataclass(frozen=True, slots=True)
class KeptCommits:
    """A commit whose record, and partials if any, are there; it may stand for earlier ones too."""

    number: int
    first: int  # of the commits whose partials are in its file
    weight: int  # batches in its file; 0: it has none
    highest: int | None  # slice in its file
    sum: str | None  # of its file
    shape: str | None  # files of equal shape can be put together

    @property
    def record(self) -> str:
        """Name the commit's record."""
        return f"{self.number:012d}.json"

    @property
    def partials(self) -> str | None:
        """Name the file of its partials; None: there is none."""
        if not self.weight:
            return None
        own = f"{self.number:012d}"
        return f"{own}.arrow" if self.first == self.number else f"{self.first:012d}-{own}.arrow"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The commits kept up to a number; after it, every commit has its record."""

    through: int
    kept: tuple[KeptCommits, ...]


def read_list(folder: Path) -> Manifest:
    """Read the list; a folder that was never compacted has none."""
    path = folder / LIST
    if not path.exists():
        return Manifest(-1, ())
    record = read_record(path)
    try:
        return Manifest(record["through"], tuple(KeptCommits(**one) for one in record["kept"]))
    except (TypeError, KeyError) as error:
        raise damaged(path, "it is not a list of commits") from error


def write_list(folder: Path, listing: Manifest, point: str = "compaction.list") -> None:
    """Replace the list: from here on it holds."""
    kept = [asdict(one) for one in listing.kept]
    write_record(folder / LIST, {"through": listing.through, "kept": kept}, point)


def later_numbers(folder: Path, listing: Manifest) -> list[int]:
    """Return the commits after the list, each with its record; a gap is damage."""
    stems = [name.removesuffix(".json") for name in names_in(folder) if name.endswith(".json")]
    found = {int(stem) for stem in stems if stem.isdigit()}
    later = sorted(number for number in found if number > listing.through)
    listed = (folder / LIST).exists()
    if later and later[0] > 0 and not listed:
        raise damaged(folder / LIST, "it does not exist, but commits do")
    begin = listing.through + 1  # a list is only written once a commit has followed what it tells
    expected = range(begin, later[-1] + 1 if later else begin + listed)
    if len(later) != len(expected):
        missing = min(set(expected) - found)
        raise damaged(folder / f"{missing:012d}.json", "it does not exist, but other commits do")
    return later


def check_files(folder: Path, kept: Iterable[KeptCommits]) -> None:
    """Say which file of the kept commits is missing, if one is."""
    for one in kept:
        for name in (one.record, one.partials):
            if name is not None and not (folder / name).exists():
                raise damaged(folder / name, "it is not there")


def sweep(folder: Path, kept: Iterable[KeptCommits]) -> None:
    """Remove what is not kept: replaced or expired files, and what a crash left."""
    wanted = {LIST, *(name for one in kept for name in (one.record, one.partials) if name is not None)}
    for name in names_in(folder):
        if name.endswith((".json", ".arrow", ".draft")) and name not in wanted:
            remove(folder / name)
