"""Catalog changes in, a durable list of them out: one sealed line each, synced before it is acknowledged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.errors import StateError
from penstock.store.files import seal, sync_folder, unseal


class Journal:
    """An append-only file of sealed records; without a path it remembers nothing beyond the process."""

    def __init__(self, path: Path | None) -> None:
        """Open the journal, dropping a last line that a crash cut short."""
        self.path = path
        if path is not None and path.exists():
            self._mend(path)

    def append(self, *records: dict[str, Any]) -> None:
        """Add records and make them durable together."""
        if self.path is None or not records:
            return
        created = not self.path.exists()
        try:
            with self.path.open("ab") as file:
                file.write(b"".join(seal(record) for record in records))
                file.flush()
                os.fsync(file.fileno())
            if created:
                sync_folder(self.path.parent)
        except OSError as error:
            raise StateError(
                f"cannot write {self.path}: {error.strerror}", hint="Free space or mend permissions, then try again."
            ) from error

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Read the records from the first on."""
        if self.path is None or not self.path.exists():
            return
        for number, line in enumerate(self.path.read_bytes().splitlines(keepends=True), 1):
            try:
                yield unseal(line)
            except ValueError as error:
                raise StateError(
                    f"line {number} of {self.path} is damaged: {error}",
                    hint="Restore the state folder from a copy, or start with an empty one.",
                ) from error

    @staticmethod
    def _mend(path: Path) -> None:
        """Cut off a last line that has no end: it was never acknowledged."""
        content = path.read_bytes()
        if content and not content.endswith(b"\n"):
            with path.open("r+b") as file:
                file.truncate(content.rfind(b"\n") + 1)
