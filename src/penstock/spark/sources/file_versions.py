"""Finds the files of a source that have changed since they were first read.

Spark's log of a source tells the time of each file (``file_log.py``). Beside it, ``files.log`` in the checkpoint tells
the size too, and a checksum of files that are small: one line for each batch. A line that is lost costs no more than
that, so lines are not synced, and unreadable ones are passed over.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.model.instants import format_instant
from penstock.spark.sources.unreadable import path_of
from penstock.store.files import seal, unseal

LOG: Final = "files.log"
SUMMED: Final = 16 << 20  # bytes of a batch, in files that are read once more for a checksum


@dataclass(frozen=True, slots=True)
class Look:
    """How a file looks: its time in milliseconds since 1970, as Spark has it, its size and its checksum."""

    time_ms: int
    size: int | None = None  # None: nobody noted it
    sum: str | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """A file that does not look as it did when it was first read."""

    path: str
    now: Look | None  # None: it is gone
    then: Look

    def __str__(self) -> str:
        """Say what is different."""
        if self.now is None:
            return f"{self.path} is gone"
        then, now = (format_instant(look.time_ms * 1_000) for look in (self.then, self.now))
        told = [] if then == now else [f"it was written at {then} when it was read, and at {now} since"]
        if self.then.size is not None and self.then.size != self.now.size:
            told.append(f"it had {self.then.size:,} bytes, and has {self.now.size:,}")
        return f"{self.path}: {'; '.join(told)}"


def note(checkpoint: Path, batch: int, paths: Iterable[str]) -> None:
    """Note how the files of a batch look; those that are not on a filesystem of this machine have their time noted."""
    looks, left = dict[str, dict[str, Any]](), SUMMED
    for path in paths:
        look = local_look(path)
        if look is not None and look.size is not None:
            summed = look.size <= left
            left -= look.size if summed else 0
            looks[path] = asdict(replace(look, sum=_sum_of(path)) if summed else look)
    if not looks:
        return
    with contextlib.suppress(OSError), (checkpoint / LOG).open("ab") as file:
        # A line that a crash cut short ends here, and is passed over.
        file.write((b"" if file.tell() == 0 else b"\n") + seal({"batch": batch, "files": looks}))


def noted(checkpoint: Path) -> dict[int, dict[str, Look]]:
    """Read how files looked, batch by batch; a batch that was tried again counts as it was tried last."""
    found: dict[int, dict[str, Look]] = {}
    try:
        lines = (checkpoint / LOG).read_bytes().split(b"\n")
    except OSError:
        return found
    for line in filter(None, lines):
        with contextlib.suppress(ValueError, TypeError, KeyError):
            record = unseal(line)
            found[int(record["batch"])] = {path: Look(**look) for path, look in record["files"].items()}
    return found


def changed_files(session: SparkSession, checkpoint: Path, entries: Sequence[Mapping[str, Any]]) -> list[Changed]:
    """Compare the files that Spark's log names with how they look now."""
    then: dict[str, list[Look]] = {}
    for looks in noted(checkpoint).values():
        for path, look in looks.items():
            then.setdefault(path, []).append(look)
    found: dict[str, Changed] = {}
    for entry in entries:
        path = path_of(str(entry["path"]))
        now = local_look(path) if path.startswith("/") else remote_look(session, str(entry["path"]))
        for look in then.get(path) or [Look(int(entry["timestamp"]))]:
            if now is None or not _same(path, look, now):
                found.setdefault(path, Changed(path, now, look))
    return list(found.values())


def local_look(path: str) -> Look | None:
    """Look at a file of this machine; None: it is not there, or on another one."""
    if not path.startswith("/"):
        return None
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return Look(seen.st_mtime_ns // 1_000_000, seen.st_size)


def _same(path: str, then: Look, now: Look) -> bool:
    """Tell whether a file is as it was: by time and size, or, if it was put back at another time, by its content."""
    if then.size is not None and then.size != now.size:
        return False
    if then.time_ms == now.time_ms:
        return True
    return then.sum is not None and then.sum == _sum_of(path)


def _sum_of(path: str) -> str | None:
    """Return the checksum of a file's content; None: it cannot be read."""
    try:
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=12).hexdigest()
    except OSError:
        return None


def remote_look(session: SparkSession, uri: str) -> Look | None:
    """Ask the filesystem that Spark reads from how a file looks; None: it is not there."""
    jvm, context = cast(Any, session)._jvm, cast(Any, session.sparkContext)
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(uri))
    try:
        status = path.getFileSystem(context._jsc.hadoopConfiguration()).getFileStatus(path)
    except Py4JJavaError as error:
        if "FileNotFoundException" in str(error.java_exception.getClass().getName()):
            return None
        raise
    return Look(int(status.getModificationTime()), int(status.getLen()))
