"""Remembers which commit each sink has reached, also when sinks are added or change places."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from penstock.sinks.protocol import Progressing
from penstock.store.files import make_folder, read_record, write_record
from penstock.store.folder import StateFolder

UNUSED: Final = "unused"  # in a record: the last engine had other sinks
_SINK: Final = "sink"  # in a record: whose it is


class PassingProgress:
    """Remembers for as long as the engine lives."""

    def __init__(self) -> None:
        """Start empty."""
        self.owner = uuid.uuid4().hex[:8]
        self._progress: dict[str, object] = {}

    def read(self) -> dict[str, object]:
        """Return what was last written; empty at first."""
        return self._progress

    def write(self, progress: dict[str, object]) -> None:
        """Remember."""
        self._progress = progress


class RecordedProgress:
    """Remembers in a file of the state folder."""

    def __init__(self, path: Path, owner: str, sink: str) -> None:
        """Use a file."""
        self.path, self.owner, self.sink = path, owner, sink

    def read(self) -> dict[str, object]:
        """Return what was last written; empty at first."""
        return read_record(self.path) if self.path.exists() else {}

    def write(self, progress: dict[str, object]) -> None:
        """Remember durably."""
        write_record(self.path, {**progress, _SINK: self.sink}, "sink.progress")


def progress_of(stream: str, names: Sequence[str], state: StateFolder | None) -> list[Progressing]:
    """Find where each sink remembers: its own record, one that its former folder left in its place, or a new one."""
    if state is None:
        return [PassingProgress() for _ in names]
    make_folder(state.sinks)
    owners = _recorded(stream, state.sinks)
    numbers = {owner: number for number, owner in owners.items() if owner in names}
    free = iter(sorted(set(range(len(names) + len(owners))) - owners.keys()))
    for place, name in enumerate(names):
        if name not in numbers:
            former = owners.get(place)
            numbers[name] = place if former is not None and _moved(former, name, names) else next(free)
    if names:  # a command that opens the folder by itself has none
        _mark(stream, state.sinks, owners, {numbers[name]: name for name in names})
    return [RecordedProgress(state.sinks / f"{stream}-{numbers[name]}.json", state.id, name) for name in names]


def _mark(stream: str, folder: Path, owners: Mapping[int, str], used: Mapping[int, str]) -> None:
    """Write down which sinks are used from now on, where a record does not say so."""
    for number in sorted({*owners, *used}):
        path = folder / f"{stream}-{number}.json"
        before = read_record(path) if number in owners else {}
        known = {name: value for name, value in before.items() if name != UNUSED}
        now = known | ({_SINK: used[number]} if number in used else {UNUSED: True})
        if now != before:
            write_record(path, now, "sink.progress")


def _recorded(stream: str, folder: Path) -> dict[int, str]:
    """List the records of a stream: their numbers, and whose they are; empty for one that does not say."""
    found = {}
    for path in folder.glob("*.json"):
        if (match := re.fullmatch(re.escape(stream) + r"-(\d+)", path.stem)) is not None:
            found[int(match[1])] = str(read_record(path).get(_SINK, ""))
    return found


def _moved(owner: str, name: str, names: Sequence[str]) -> bool:
    """Tell whether a record may be of the sink in its place, which writes to another folder now."""
    return not owner or (owner not in names and owner.partition(" ")[0] == name.partition(" ")[0])
