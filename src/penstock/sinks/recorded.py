"""Holds what writers of sinks have in common: how far they came, and the files of a stream in a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from penstock.sinks.protocol import Progressing, cannot_write


class RecordedWriter:
    """A writer that goes on behind the last number of its record."""

    def __init__(self, memory: Progressing) -> None:
        """Go on where the last record stands."""
        self.memory, self.known = memory, memory.read()
        self._delivered = int(str(self.known.get("delivered", -1)))

    @property
    def delivered(self) -> int:
        """Return the number of the last answers that the sink holds for good."""
        return self._delivered


class FolderWriter(RecordedWriter, ABC):
    """A writer of files of one stream; what an earlier one wrote and did not record is taken away first."""

    def __init__(self, folder: Path, stream: str, memory: Progressing) -> None:
        """Make the folder, and begin behind what is recorded."""
        super().__init__(memory)
        self.folder, self.stem = folder, f"{stream}-{memory.owner}-"  # the names of this stream's and state's files
        self._go_on()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._remove_unrecorded()
        except OSError as error:
            raise cannot_write(folder, error) from error

    @abstractmethod
    def _go_on(self) -> None:
        """Read where the last record stands."""

    @abstractmethod
    def _remove_unrecorded(self) -> None:
        """Take away what was written and not recorded: it comes again."""
