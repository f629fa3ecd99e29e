"""Runs a module in a process of its own, and exchanges JSON with it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def run_apart(module: str, *arguments: str, asked: object = None) -> dict[str, Any]:
    """Run a module where no earlier run has made room or left settings; its last line says what it found."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parents[1],
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join((module, *arguments[:1]))} failed:\n{done.stderr[-4_000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
