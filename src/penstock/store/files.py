"""Bytes in, durable files out: a file becomes visible whole, by rename, or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from penstock.errors import StateError


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file beside its place, make it durable, and rename it into place."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        with draft.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise StateError(
            f"cannot write {path}: {error.strerror}",
            hint="Free space or mend permissions, then start again: nothing that was committed is lost.",
        ) from error


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a JSON record with its checksum."""
    sealed = seal(record)
    write_whole(path, lambda file: file.write(sealed))


def read_record(path: Path) -> dict[str, Any]:
    """Read a JSON record, or say that it is damaged."""
    try:
        return unseal(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StateError(
            f"state file {path} is missing or damaged: {error}",
            hint="Restore the state folder from a copy, or start with an empty one.",
        ) from error


def seal(record: dict[str, Any]) -> bytes:
    """Write a record as one line: checksum, space, JSON."""
    body = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(body).hexdigest()[:16].encode() + b" " + body + b"\n"


def unseal(line: bytes) -> dict[str, Any]:
    """Read a line that :func:`seal` wrote; raise ValueError if it is not whole."""
    checksum, _, body = line.rstrip(b"\n").partition(b" ")
    if hashlib.sha256(body).hexdigest()[:16].encode() != checksum:
        raise ValueError("its checksum does not match")
    record: dict[str, Any] = json.loads(body)
    return record
