"""Writes durable files: a file becomes visible whole, by rename, or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from penstock.errors import StateError
from penstock.store.faults import reached, tear

RESTORE: Final = "Run `penstock state verify`, then restore the state folder from a backup, or start with an empty one."

SYNCED_AT_ONCE: Final = 16  # a file system writes its journal once for all that wait for it

MEND: Final = "Free space or fix permissions, then start again: nothing that was committed is lost."


def write_whole(path: Path, write: Callable[[BinaryIO], object], point: str = "record") -> None:
    """Write a file beside its place, make it durable, and rename it into place; ``point`` names it for tests."""
    with _told(path, point):
        draft = path.with_name(f".{path.name}.draft")
        _write_synced(draft, write, point)
        draft.replace(path)
        sync_folder(path.parent)


def write_in_place(path: Path, write: Callable[[BinaryIO], object], point: str, named: Iterable[Path] = ()) -> None:
    """Write a file that tells by itself whether it is whole, under a name that is durable already: one sync.

    Names that are to be durable from now on are made first, and then the folder is synced too.
    """
    with _told(path, point):
        names = list(named)
        for name in names:
            name.touch()
        _write_synced(path, write, point)
        if names:
            sync_folder(path.parent)


@contextmanager
def _told(path: Path, point: str) -> Iterator[None]:
    """Tell tests of a write, and users if it fails."""
    try:
        reached(f"{point}.before")
        yield
        reached(f"{point}.after")
    except OSError as error:
        raise StateError(f"cannot write {path}: {error.strerror or error}", hint=MEND) from error


def _write_synced(path: Path, write: Callable[[BinaryIO], object], point: str) -> None:
    """Write a file and make its content durable."""
    with path.open("w+b") as file:
        write(file)
        tear(point, file)
        file.flush()
        os.fsync(file.fileno())


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, if they are not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"cannot make {folder}: {error.strerror}", hint=MEND) from error


def names_in(folder: Path) -> list[str]:
    """List the names in a folder that must be readable."""
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise damaged(folder, error) from error


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_together(paths: Iterable[Path]) -> None:
    """Make contents of files, and renames in folders, durable at the same time: one by one takes far longer."""
    every = list(paths)
    if len(every) == 1:
        sync_folder(every[0])
    elif every:
        with ThreadPoolExecutor(min(SYNCED_AT_ONCE, len(every)), "penstock-sync") as pool:
            list(pool.map(sync_folder, every))


def write_record(path: Path, record: dict[str, Any], point: str = "record") -> None:
    """Write a JSON record with its checksum."""
    sealed = seal(record)
    write_whole(path, lambda file: file.write(sealed), point)


def read_record(path: Path) -> dict[str, Any]:
    """Read a JSON record, or say that it is damaged."""
    try:
        return unseal(path.read_bytes())
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error


def damaged(path: Path, why: object) -> StateError:
    """Word the error for a file that is not there or not as it was written."""
    if isinstance(why, OSError):
        why = why.strerror or why
    return StateError(f"state file {path} is missing or damaged: {why}", hint=RESTORE)


def remove(path: Path) -> None:
    """Remove a file that nobody needs; where that fails, the next one who tidies up tries again."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def checksum(*content: bytes | memoryview) -> str:
    """Return the checksum that state files are known by, of pieces that follow each other."""
    found = hashlib.sha256()
    for piece in content:
        found.update(piece)
    return found.hexdigest()[:16]


def seal(record: dict[str, Any]) -> bytes:
    """Write a record as one line: checksum, space, JSON."""
    body = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    return checksum(body).encode() + b" " + body + b"\n"


def unseal(line: bytes) -> dict[str, Any]:
    """Read a line that :func:`seal` wrote; raise ValueError if it is not whole."""
    told, _, body = line.removesuffix(b"\n").partition(b" ")
    if checksum(body).encode() != told:
        raise ValueError("its checksum does not match")
    record: dict[str, Any] = json.loads(body)
    return record
