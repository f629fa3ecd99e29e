"""Reads a project file as UTF-8 text, or reports why it is not text."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.errors import ProjectError
from penstock.project.problems import Problem

MOST_BYTES: Final = 1_000_000
_BYTE_ORDERS: Final = (b"\xff\xfe", b"\xfe\xff")


def read_text(path: Path, shown: str) -> str | Problem:
    """Read UTF-8 text of a sensible length; a byte order mark and Windows line ends are taken out."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        return Problem(ProjectError(f"cannot read {shown}: {error.strerror}"), shown)
    if len(content) > MOST_BYTES:
        return Problem(ProjectError(f"{shown} is longer than {MOST_BYTES:,} bytes"), shown)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _not_text(content, error.start, shown)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _not_text(content: bytes, at: int, shown: str) -> Problem:
    """Say where the first byte is that is not UTF-8."""
    line = content.count(b"\n", 0, at) + 1
    kind = "UTF-16" if content.startswith(_BYTE_ORDERS) else "binary, or in another encoding"
    return Problem(
        ProjectError(
            f"{shown} is not UTF-8 text", detail=f"line {line}: the file seems to be {kind}", hint="Save it as UTF-8."
        ),
        shown,
    )
