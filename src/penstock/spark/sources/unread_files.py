"""Counts the files of a stream's source that no commit has taken yet: how far the source is ahead.

It looks at names alone and needs no Spark. What it cannot list (other machines' folders, braces in a pattern) is told
as unknown, never as nothing.
"""

from __future__ import annotations

import glob
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from penstock.errors import StateError
from penstock.model.schema import Stream
from penstock.spark.sources.file_log import entries_between, offset_of

FORMATS: Final = ("parquet", "csv", "json")
HIDDEN: Final = ("_", ".")  # what names begin with that Spark passes over


@dataclass(frozen=True, slots=True)
class UnreadSource:
    """What a source holds that no commit has taken."""

    files: int
    bytes: int
    oldest_us: int | None  # when the oldest of them was written
    read: int  # files that commits have taken


class UnreadFiles:
    """Looks at the source of one stream; what was read is remembered from one look to the next."""

    def __init__(self, stream: Stream, checkpoint: Path) -> None:
        """Look into Spark's log of the source in a checkpoint."""
        self.stream, self.checkpoint = stream, checkpoint
        self._read: set[str] = set()
        self._upto = -1
        self._looking = threading.Lock()

    def look(self, source: str) -> UnreadSource | None:
        """Count what the source holds beyond the position of the last commit; None: nobody can tell."""
        path = self.stream.options.get("path", "")
        if self.stream.format not in FORMATS or "://" in path or "{" in path or not path:
            return None
        with self._looking:
            try:
                self._read_on(source)
            except (OSError, StateError):
                return None
            files, size, oldest = 0, 0, None
            for name in self._listed(path):
                with suppress(OSError):  # it has gone meanwhile
                    if name not in self._read:
                        about = os.stat(name)
                        files, size = files + 1, size + about.st_size
                        written_us = about.st_mtime_ns // 1000
                        oldest = written_us if oldest is None else min(oldest, written_us)
            return UnreadSource(files, size, oldest, len(self._read))

    def _read_on(self, source: str) -> None:
        """Remember the files up to the position of the last commit."""
        last = int(offset_of(self.stream, source).get("logOffset", -1))
        if last < self._upto:
            self._read, self._upto = set(), -1
        if last > self._upto:
            entries = entries_between(self.stream, self.checkpoint, self._upto + 1, last)
            self._read |= {_path_of(str(entry["path"])) for entry in entries}
            self._upto = last

    def _listed(self, path: str) -> Iterator[str]:
        """List the files that Spark would read, by their whole paths."""
        options = {name.lower(): value for name, value in self.stream.options.items()}
        wanted = options.get("pathglobfilter", "*")
        for place in [path] if os.path.isdir(path) else sorted(glob.glob(path)):
            for folder, below, names in os.walk(os.path.abspath(place)):
                below[:] = [name for name in below if not name.startswith(HIDDEN)]
                yield from (
                    os.path.join(folder, n) for n in names if not n.startswith(HIDDEN) and fnmatchcase(n, wanted)
                )
            if os.path.isfile(place):
                yield os.path.abspath(place)


def _path_of(uri: str) -> str:
    """Turn a URI as Spark writes it into a path."""
    return unquote(urlsplit(uri).path)
