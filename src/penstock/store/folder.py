"""Lays out the state folder, and locks it for one engine at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.errors import StateError
from penstock.model.instants import wall_clock_us
from penstock.store.files import damaged, read_record, write_record
from penstock.store.migration import migrate

FORMAT: Final = 4
TRACE: Final = "trace"  # the folder in which it is recorded what ran
PATIENCE: Final = 5  # times that a held lock is tried again: one who only looks who owns it lets go at once
MADE_LATER: Final = ("catalog.db", "catalog.log", "commits", "answers", "sinks")  # than the format marker


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that uses a state folder."""

    pid: int | None  # None: it has only just begun
    since_us: int | None

    def __str__(self) -> str:
        """Name the process."""
        return "another process" if self.pid is None else f"process {self.pid}"


class StateFolder:
    """Everything an engine keeps: catalog, commits and partials, answers, sinks' progress, Spark's checkpoints."""

    def __init__(self, path: Path) -> None:
        """Make or open the folder and hold it for this engine."""
        self.path = path
        self._lock = take_lock(path)
        try:
            self.id = self._check_format()
        except BaseException:
            self.release()
            raise

    @staticmethod
    def owner(path: Path) -> Owner | None:
        """Return who uses a state folder, without opening it; None: nobody does."""
        try:
            lock = os.open(path / "lock", os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _told_owner(os.read(lock, 1_000))
        finally:
            os.close(lock)
        return None

    @property
    def journal(self) -> Path:
        """Return the catalog's journal, as folders of format 1 have it."""
        return self.path / "catalog.log"

    @property
    def catalog(self) -> Path:
        """Return the catalog's database."""
        return self.path / "catalog.db"

    @property
    def requests(self) -> Path:
        """Return the box of requests to the engine that runs."""
        return self.path / "requests.db"

    def commits(self, stream: str) -> Path:
        """Return where a stream's commits and partials are."""
        return self.path / "commits" / stream

    def answers(self, stream: str) -> Path:
        """Return where a stream's answers are."""
        return self.path / "answers" / stream

    def spread(self, stream: str) -> Path:
        """Return where the partials of a stream are that executors keep."""
        return self.path / "spread" / stream

    def checkpoint(self, stream: str) -> Path:
        """Return where Spark keeps a stream's position."""
        return (self.path / "checkpoint" / stream).absolute()

    def invalid(self, stream: str) -> Path:
        """Return where a stream's invalid rows are kept."""
        return self.path / "invalid" / stream

    def rows(self, stream: str) -> Path:
        """Return where a stream's retained rows are."""
        return self.path / "rows" / stream

    def waiting(self, stream: str) -> Path:
        """Return where a stream's rows wait for the watermark."""
        return self.path / "waiting" / stream

    def joining(self, stream: str) -> Path:
        """Return where a stream's rows are that joins wait with."""
        return self.path / "joining" / stream

    def taken(self, stream: str) -> Path:
        """Return where the rows are that a stream's continuous queries took."""
        return self.path / "taken" / stream

    def keys(self, stream: str) -> Path:
        """Return where the keys are by which a stream knows duplicates."""
        return self.path / "keys" / stream

    @property
    def trace(self) -> Path:
        """Return where it is recorded what ran."""
        return self.path / TRACE

    @property
    def sinks(self) -> Path:
        """Return where sinks remember how far they came."""
        return self.path / "sinks"

    def release(self) -> None:
        """Let another engine use the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _check_format(self) -> str:
        """Refuse a folder that a newer version wrote, migrate an older one, mark a new one; return the folder's id."""
        marker = self.path / "format"
        if not marker.exists():
            if any((self.path / name).exists() for name in MADE_LATER):
                raise damaged(marker, "it does not exist, but other files of the state do")
            write_record(marker, {"format": FORMAT, "id": uuid.uuid4().hex[:8]}, "format")
        record = read_record(marker)
        found, name = record.get("format"), record.get("id")
        if not isinstance(found, int) or not isinstance(name, str):
            raise damaged(marker, "it holds no format and id")
        if found > FORMAT:
            hint = "Use the version of Penstock that wrote it, or a newer one."
            raise StateError(f"the state folder {self.path} has format {found}, newer than {FORMAT}", hint=hint)
        if found < FORMAT:
            migrate(self.path, found)
            write_record(marker, {**record, "format": FORMAT}, "format")
        self._check_catalog()
        return name

    def _check_catalog(self) -> None:
        """Miss a catalog that is gone: without it, the commits of its queries would be taken for those of others."""
        streams = self.path / "commits"
        if streams.is_dir() and any(streams.iterdir()) and not (self.catalog.exists() and self.catalog.stat().st_size):
            raise damaged(self.catalog, "it does not exist, but commits do")


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep engines out of a folder for a while, whatever its format."""
    lock = take_lock(path)
    try:
        yield
    finally:
        os.close(lock)


def take_lock(path: Path) -> int:
    """Make a folder if need be, lock it, and say in the lock file who has it; return the lock, to be closed."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        hint = "Choose a folder that this user may write to, or fix its permissions."
        raise StateError(f"cannot use {path} as a state folder: {error.strerror}", hint=hint) from error
    for attempt in range(PATIENCE + 1):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            if attempt < PATIENCE:
                time.sleep(0.02)
                continue
            owner = _told_owner(os.pread(lock, 1_000, 0))
            os.close(lock)
            raise _in_use(path, owner) from None
    _sign(lock)
    return lock


def _sign(lock: int) -> None:
    """Say in a lock file who has it."""
    about = {"pid": os.getpid(), "since_us": wall_clock_us()}
    with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps(about).encode(), 0)


def _in_use(path: Path, owner: Owner) -> StateError:
    """Word the error for a folder that another engine uses."""
    detail = None if owner.pid is None else f"{owner} has it"
    hint = "Stop it first, or choose another folder."
    return StateError(f"another engine uses the state folder {path}", detail=detail, hint=hint)


def _told_owner(content: bytes) -> Owner:
    """Read who a lock file says has it."""
    try:
        record = json.loads(content)
        return Owner(int(record["pid"]), int(record["since_us"]))
    except (ValueError, KeyError, TypeError):
        return Owner(None, None)
