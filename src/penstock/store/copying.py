"""Copies a state folder to a verified backup, and restores one.

The order makes a copy whole even while Spark, between two batches, notes what it has done: its marks of finished
batches come first, then everything of ours, then what Spark knew before each batch.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.errors import StateError
from penstock.model.instants import wall_clock_us
from penstock.store.changes import copy_changes
from penstock.store.faults import reached
from penstock.store.files import MEND, damaged, read_record, sync_folder, write_record
from penstock.store.folder import TRACE
from penstock.store.verifying import Verified, check_format, verify_state

SEAL: Final = "backup.json"  # in a backup: every file with its length and checksum
LEFT_OUT: Final = (
    "lock",
    SEAL,
    "requests.db",
    "requests.db-wal",
    "requests.db-shm",
    "catalog.db-wal",
    "catalog.db-shm",
)
BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Copied:
    """A backup of a state folder that was read again after it was written: where, and how large it is."""

    folder: Path
    files: int
    size: int  # bytes


def copy_state(source: Path, target: Path) -> Copied:
    """Copy a state folder that nobody changes meanwhile to a new one, and verify the copy.

    The caller holds the folder, or is the engine that uses it, between two batches.
    """
    check_format(source)
    _check_new(target)
    draft = target.with_name(f".{target.name}.draft")
    try:
        reached("backup.before")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        each = ((name, _copied(source, draft, name)) for name in _in_order(source))
        sums = {name: found for name, found in each if found is not None}
        write_record(draft / SEAL, {"at_us": wall_clock_us(), "files": sums}, "backup")
        _check_sound(verify_state(draft), "the copy")
        for folder in (draft, *(path for path in draft.rglob("*") if path.is_dir())):
            sync_folder(folder)
        draft.replace(target)
        sync_folder(target.parent)
        reached("backup.after")
    except OSError as error:
        raise StateError(f"cannot copy {source} to {target}: {error.strerror or error}", hint=MEND) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Copied(target, len(sums), sum(size for size, _ in sums.values()))


def restore_state(backup: Path, target: Path, *, force: bool = False) -> tuple[Copied, Path | None]:
    """Copy a verified backup to a new or empty folder; ``force`` moves what is there aside and returns where."""
    _check_seal(backup)
    if target.is_dir() and not any(target.iterdir()):
        target.rmdir()
    aside = None
    if target.exists():
        if not force:
            hint = "Choose another folder, or let --force move it aside."
            raise StateError(f"{target} exists and is not empty", hint=hint)
        aside = target.with_name(f"{target.name}.replaced-{time.strftime('%Y%m%d-%H%M%S')}")
    fresh = target.with_name(f".{target.name}.restored")
    shutil.rmtree(fresh, ignore_errors=True)
    copied = copy_state(backup, fresh)
    (fresh / SEAL).unlink()
    try:
        if aside is not None:
            target.replace(aside)
        fresh.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise StateError(f"cannot move {fresh} to {target}: {error.strerror}", hint="Move it by hand.") from error
    return Copied(target, copied.files, copied.size), aside


def _check_seal(backup: Path) -> None:
    """Check every file of a backup against the list that was written with it."""
    if not (backup / SEAL).exists():
        hint = "Name a folder that `penstock state backup` made."
        raise StateError(f"{backup} is not a backup: it has no {SEAL}", hint=hint)
    told: dict[str, Any] = read_record(backup / SEAL)["files"]
    for name, (size, seal) in told.items():
        try:
            if [size, seal] != list(_sum_of(backup / name)):
                raise damaged(backup / name, "it is not as it was copied")
        except OSError as error:
            raise damaged(backup / name, error) from error


def _check_sound(verified: Verified, what: str) -> None:
    """Raise the first problem of a folder."""
    if verified.problems:
        first = verified.problems[0]
        more = f" (and {len(verified.problems) - 1} more)" if len(verified.problems) > 1 else ""
        raise StateError(f"{what} is damaged: {first.what}{more}", detail=first.detail, hint=first.hint)


def _check_new(target: Path) -> None:
    """Refuse to write over something."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StateError(f"{target} exists and is not empty", hint="Choose a new folder.")
    if target.exists():
        target.rmdir()


def _in_order(source: Path) -> Iterator[str]:
    """List the files to copy: Spark's marks of finished batches, ours, then the rest of Spark's.

    The trace is left out: no engine goes on from it, and its files come and go while one runs.
    """
    names = sorted(p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file())
    ours = [n for n in names if n not in LEFT_OUT and not n.startswith(f"{TRACE}/")]
    wanted = [n for n in ours if not n.endswith((".draft", ".tmp", ".tmp.crc"))]

    def turn(name: str) -> int:
        """Tell when a file is copied."""
        if not name.startswith("checkpoint/"):
            return 1
        return 0 if "/commits/" in name else 3 if "/sources/" in name else 2

    yield from sorted(wanted, key=lambda name: (turn(name), name))


def _copied(source: Path, target: Path, name: str) -> tuple[int, str] | None:
    """Copy one file, durably; return its length and checksum, or None for one that Spark has just tidied away."""
    path = target / name
    if name.startswith("checkpoint/") and not (source / name).exists():
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    if name == "catalog.db":
        copy_changes(source / name, path)
    else:
        shutil.copyfile(source / name, path)
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return _sum_of(path)


def _sum_of(path: Path) -> tuple[int, str]:
    """Return a file's length and checksum."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
        return file.tell(), found.hexdigest()[:16]
