"""The command line: words of a shell come in; what the project room and the engine do about them goes out."""

from __future__ import annotations

from penstock.cli.exits import EXIT_CODES
from penstock.cli.group import cli
from penstock.cli.guard import main

__all__ = ["EXIT_CODES", "cli", "main"]
