"""Prepares the folder for the demo's files, and never touches what is not the demo's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from penstock.errors import SinkError
from penstock.sinks.protocol import cannot_write

MARK: Final = "penstock-demo.json"  # tells a folder of the demo, and holds its figures
ANSWERS: Final = "answers"
SAMPLE: Final = "sample.jsonl"
QUERIES: Final = "queries.sql"
REPORT: Final = "report.html"
OURS: Final = (ANSWERS, SAMPLE, QUERIES, REPORT)


class DemoFolder:
    """Where the demo leaves its answers, figures and page."""

    def __init__(self, path: Path) -> None:
        """Make the folder, or empty one that an earlier demo left; refuse any other."""
        self.path = path
        try:
            self._take()
        except OSError as error:
            raise cannot_write(path, error) from error

    @property
    def answers(self) -> Path:
        """Return where the Parquet files go."""
        return self.path / ANSWERS

    @property
    def report(self) -> Path:
        """Return where the page goes."""
        return self.path / REPORT

    def write(self, name: str, text: str) -> Path:
        """Write one of the demo's text files."""
        path = self.path / name
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise cannot_write(path, error) from error
        return path

    def mark(self, figures: Mapping[str, Any]) -> None:
        """Write the figures; the file also says whose folder this is."""
        self.write(MARK, json.dumps({"made_by": "penstock demo", **figures}, indent=2) + "\n")

    def _take(self) -> None:
        """Make the folder ours."""
        if self.path.exists() and not self.path.is_dir():
            raise _not_ours(f"{self.path} is a file")
        if self.path.is_dir() and any(self.path.iterdir()):
            if not (self.path / MARK).is_file():
                raise _not_ours(f"{self.path} holds files that the demo did not write")
            for name in OURS:
                _remove(self.path / name)
        self.path.mkdir(parents=True, exist_ok=True)
        self.mark({"finished": False})


def _not_ours(what: str) -> SinkError:
    """Word the refusal."""
    return SinkError(what, hint="Name another folder: penstock demo --out FOLDER.")


def _remove(path: Path) -> None:
    """Remove a file, a link or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
