"""A path in, the places of a state folder out; one engine at a time."""

from __future__ import annotations

import fcntl
import os
import uuid
from pathlib import Path

from penstock.errors import StateError
from penstock.store.files import read_record, write_record

FORMAT = 1


class StateFolder:
    """Everything an engine keeps: catalog, commits and partials, answers, sinks' progress, Spark's checkpoints."""

    def __init__(self, path: Path) -> None:
        """Make or open the folder and hold it for this engine."""
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR)
        except OSError as error:
            raise StateError(f"cannot use {path} as a state folder: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StateError(
                f"another engine uses the state folder {path}", hint="Stop it first, or choose another folder."
            ) from None
        self._check_format()

    @property
    def journal(self) -> Path:
        """Return the catalog's journal."""
        return self.path / "catalog.log"

    def commits(self, stream: str) -> Path:
        """Return where a stream's commits and partials are."""
        return self.path / "commits" / stream

    def answers(self, stream: str) -> Path:
        """Return where a stream's answers are."""
        return self.path / "answers" / stream

    def checkpoint(self, stream: str) -> Path:
        """Return where Spark keeps a stream's position."""
        return (self.path / "checkpoint" / stream).absolute()

    def invalid(self, stream: str) -> Path:
        """Return where a stream's invalid rows are kept."""
        return self.path / "invalid" / stream

    @property
    def sinks(self) -> Path:
        """Return where sinks remember how far they came."""
        return self.path / "sinks"

    def release(self) -> None:
        """Let another engine use the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _check_format(self) -> None:
        """Refuse a folder that another version wrote; mark a new one."""
        marker = self.path / "format"
        if not marker.exists():
            write_record(marker, {"format": FORMAT, "id": uuid.uuid4().hex[:8]})
        record = read_record(marker)
        self.id, found = str(record.get("id")), record.get("format")
        if found != FORMAT:
            self.release()
            raise StateError(
                f"the state folder {self.path} has format {found}, not {FORMAT}", hint="Use the version that wrote it."
            )
