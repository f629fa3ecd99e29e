"""Reads the catalog of a format 1 state folder, a log with one sealed line for each change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.store.files import damaged, unseal


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Read the changes of a log; a last line that a crash cut short was never acknowledged."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise damaged(path, error) from error
    changes = []
    for number, line in enumerate(lines, 1):
        try:
            changes.append(_today(unseal(line)))
        except (ValueError, KeyError) as error:
            raise damaged(path, f"line {number}: {error}") from error
    return changes


def _today(record: dict[str, Any]) -> dict[str, Any]:
    """Write a record of format 1 as a change; when it was made is not known."""
    op, _, kind = record.pop("op").partition(" ")
    about = {"version": record.pop("version"), "at_us": 0, "op": op, "kind": kind}
    name = record.pop("name", None) or record[kind]["name"]
    return {**about, "name": name, "definition": record.pop("id", None), **record}
