"""The command line as others run it: one process a command, its exit code and all that it printed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.always.extremes.fields import QUICK

PENSTOCK = (sys.executable, "-m", "penstock.cli")


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended."""

    arguments: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def plain(self) -> bool:
        """Tell whether it printed neither a stack trace nor a defect of our own."""
        said = self.out + self.err
        return "Traceback" not in said and "error[Internal]" not in said and "\tat " not in said

    def __str__(self) -> str:
        return f"penstock {' '.join(self.arguments)} → {self.code}\n{self.out[-700:]}\n{self.err[-1_000:]}"


def penstock(folder: Path, *arguments: str, timeout: float = 300.0) -> Ran:
    """Run a command in a folder."""
    environment = os.environ | QUICK
    done = subprocess.run(
        [*PENSTOCK, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout
    )
    return Ran(arguments, done.returncode, done.stdout, done.stderr)


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a command in a process group of its own."""
    return subprocess.Popen(
        [*PENSTOCK, *arguments],
        cwd=folder,
        env=os.environ | QUICK,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
