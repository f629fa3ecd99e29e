"""Commands as a shell would run them, in this process: they find the Spark session that runs already."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from penstock.cli import main, progress

PATIENCE_S: Final = 400.0  # for what another process or thread does: a busy machine is slow, not wrong


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str


Penstock = Callable[..., Done]


@pytest.fixture
def penstock(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Penstock:
    """Run a command and return what it printed and how it ended; how long it takes, a busy machine decides."""
    monkeypatch.setattr(progress, "LINE_EVERY_S", PATIENCE_S)

    def run(*arguments: str | Path) -> Done:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["penstock", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Write a file of statements."""

    def write(text: str) -> Path:
        path = tmp_path / "script.sql"
        path.write_text(text, encoding="utf-8")
        return path

    return write
