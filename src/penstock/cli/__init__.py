"""Implements the ``penstock`` command line, one command in each file."""

from __future__ import annotations

from penstock.cli.exits import EXIT_CODES
from penstock.cli.group import cli
from penstock.cli.guard import main

__all__ = ["EXIT_CODES", "cli", "main"]
