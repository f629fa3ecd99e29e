"""Lists which commits of a folder are kept, finds files that are missing, and removes those no longer needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from penstock.store.arrow_files import is_whole, size_without_record
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
    within: bool = False  # its record lies in the file of its own partials

    @property
    def record(self) -> str:
        """Name the file with the commit's record."""
        return record_name(self.number, within=self.within)

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


def first_record(folder: Path, listing: Manifest) -> Path:
    """Find the record of the first commit that is listed, or else of the first one after the list."""
    if listing.kept:
        return folder / listing.kept[0].record
    own = folder / record_name(listing.through + 1, within=False)
    return own if own.exists() else folder / record_name(listing.through + 1, within=True)


def record_name(number: int, *, within: bool) -> str:
    """Name the file with a commit's record: that of its partials, or one of its own."""
    return f"{number:012d}.arrow" if within else f"{number:012d}.json"


def last_record(folder: Path) -> Path | None:
    """Find the record of the last commit in a folder whose engine may be running; None: there is none."""
    for number, own in sorted(_numbers(folder).items(), reverse=True):
        if own or is_whole(folder / record_name(number, within=True)):
            return folder / record_name(number, within=not own)
    return None


def later_records(folder: Path, listing: Manifest) -> list[str]:
    """Name the records of the commits after the list; a gap is damage.

    A last file that was not written to its end is no commit: the process died, or failed, while it wrote it.
    """
    later = {number: own for number, own in _numbers(folder).items() if number > listing.through}
    found = {n for n, own in later.items() if own or size_without_record(folder / record_name(n, within=True))}
    if found and not later[last := max(found)] and not is_whole(folder / record_name(last, within=True)):
        found.remove(last)
    numbers, listed = sorted(found), (folder / LIST).exists()
    if numbers and numbers[0] > 0 and not listed:
        raise damaged(folder / LIST, "it does not exist, but commits do")
    begin = listing.through + 1  # a list is only written once a commit has followed what it tells
    expected = range(begin, numbers[-1] + 1 if numbers else begin + listed)
    if len(numbers) != len(expected):
        missing = min(set(expected) - found)
        why = "it does not exist, but other commits do" if missing not in later else "it holds no whole commit"
        raise damaged(folder / record_name(missing, within=missing in later), why)
    return [record_name(number, within=not later[number]) for number in numbers]


def _numbers(folder: Path) -> dict[int, bool]:
    """List the numbers that files of a folder have, and whether there is a record of its own for each."""
    stems = [name.rpartition(".") for name in names_in(folder)]
    return {int(stem): kind == "json" for stem, _, kind in stems if stem.isdigit() and kind in ("arrow", "json")}


def check_files(folder: Path, kept: Iterable[KeptCommits]) -> None:
    """Say which file of the kept commits is missing, if one is."""
    for one in kept:
        for name in (one.record, one.partials):
            if name is not None and not (folder / name).exists():
                raise damaged(folder / name, "it is not there")


def sweep(folder: Path, kept: Iterable[KeptCommits], ahead: Iterable[int] = ()) -> None:
    """Remove what is not kept: replaced or expired files, and what a crash left; commits ``ahead`` keep their names."""
    wanted = {LIST, *(record_name(number, within=True) for number in ahead)}
    wanted |= {*(name for one in kept for name in (one.record, one.partials) if name is not None)}
    for name in names_in(folder):
        if name.endswith((".json", ".arrow", ".draft")) and name not in wanted:
            remove(folder / name)
