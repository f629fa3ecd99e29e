"""What a sink is: answers of a commit in, kept exactly once out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from penstock.errors import SinkError


class SinkWriter(Protocol):
    """Writes one stream's answers to a sink."""

    @property
    def delivered(self) -> int:
        """Return the last commit whose answers the sink holds for good."""

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Take the answers of a commit; their columns are query_name, window_start, window_end and the query's own."""

    def roll(self) -> None:
        """Make everything delivered so far visible and durable."""


class Sink(Protocol):
    """A place where answers go; it opens a writer for each stream."""

    def open(self, stream: str, memory: Progressing) -> SinkWriter:
        """Open the writer of one stream; ``memory`` holds how far it came."""


class Progressing(Protocol):
    """Where a sink remembers how far it came."""

    @property
    def owner(self) -> str:
        """Name the state that the answers come from, so that two engines can share a folder."""

    def read(self) -> dict[str, object]:
        """Return what was last written; empty at first."""

    def write(self, progress: dict[str, object]) -> None:
        """Remember, durably if the engine's state is."""


def cannot_write(path: Path, error: OSError) -> SinkError:
    """Word a sink's failure to write."""
    return SinkError(
        f"cannot write answers to {path}: {error.strerror}",
        hint="Free space or mend permissions, then start again: answers that were not written are written then.",
    )
