"""Reads from Spark's checkpoint which files its source read in each batch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.errors import StateError
from penstock.model.schema import Stream


def offset_of(stream: Stream, source: str) -> Mapping[str, Any]:
    """Read the source's offset: the third line of an offsets file; the first two are the version and the time."""
    if not source:
        return {}
    try:
        offset = json.loads(source.splitlines()[2])
        return offset if isinstance(offset, dict) else {}
    except (ValueError, IndexError) as error:
        raise StateError(
            f'the position of stream "{stream.name}" cannot be read: {error}',
            hint="Restore the state folder from a copy.",
        ) from error


def entries_between(stream: Stream, checkpoint: Path, first: int, last: int) -> list[Mapping[str, Any]]:
    """Read the log's entries from one offset to another, both included, or say which one is missing."""
    folder = checkpoint / "sources" / "0"
    known: set[int] = set()
    found = []
    for number in _log_files(folder, first, last):
        compacted = folder / f"{number}.compact"
        covered = range(first, min(number, last) + 1) if compacted.exists() else (number,)
        known.update(covered)
        path = compacted if compacted.exists() else folder / str(number)
        found += [entry for entry in _lines(stream, path) if int(entry["batchId"]) in covered]
    missing = set(range(first, last + 1)) - known
    if missing:
        raise StateError(
            f'Spark\'s log of the files of stream "{stream.name}" lacks its entry {min(missing)}',
            detail=f"in {folder}",
            hint="Restore the state folder from a copy; without the log nobody knows which files were read.",
        )
    return sorted(found, key=lambda entry: int(entry["batchId"]))


def _log_files(folder: Path, first: int, last: int) -> list[int]:
    """Choose the log files to read: single ones, from the newest that holds all before it on if one is needed."""
    single = [n for n in range(first, last + 1) if (folder / str(n)).exists()]
    if len(single) == last - first + 1:
        return single
    compacted = sorted(int(p.stem) for p in folder.glob("*.compact") if p.stem.isdecimal())
    start = compacted[-1] if compacted else -1
    return [*compacted[-1:], *(n for n in single if n > start)]


def _lines(stream: Stream, path: Path) -> Iterator[Mapping[str, Any]]:
    """Read one log file: its version, then one JSON object a line."""
    try:
        version, *lines = path.read_text().splitlines()
        if version != "v1":
            raise ValueError(f"its version is {version}")
        yield from [json.loads(line) for line in lines if line]
    except (OSError, ValueError) as error:
        raise StateError(
            f'cannot read Spark\'s log of the files of stream "{stream.name}": {error}',
            detail=f"in {path}",
            hint="Restore the state folder from a copy; without the log nobody knows which files were read.",
        ) from error
