"""Shows mistakes in project files to users and programs, with file, line and column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.errors import PenstockError
from penstock.printable import shown


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake; ``file`` is named as the user would name it."""

    error: PenstockError
    file: str | None = None

    @property
    def position(self) -> tuple[int, int] | None:
        """Return line and column from 1, if the error has a place."""
        text, place = self.error.text, self.error.place
        if text is None or place is None:
            return None
        start = min(place[0], len(text))
        return text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)

    @property
    def where(self) -> str | None:
        """Write file, line and column as editors read them."""
        if self.file is None or self.position is None:
            return self.file
        return f"{self.file}:{self.position[0]}:{self.position[1]}"

    def __str__(self) -> str:
        """Print the error, with its file after the first line."""
        first, _, rest = str(self.error).partition("\n")
        where = f"  in {shown(self.where)}" if self.where else None
        return "\n".join(line for line in (first, where, rest) if line)

    def to_dict(self) -> dict[str, Any]:
        """Give programs the parts."""
        line, column = self.position or (None, None)
        error = self.error
        return {
            "code": error.code,
            "what": error.what,
            "file": self.file,
            "line": line,
            "column": column,
            "detail": error.detail,
            "hint": error.hint,
        }


def in_file(error: PenstockError, file: str, text: str) -> Problem:
    """Let an error about a part of a file's text point into the whole file."""
    place = error.place
    if place is None or error.text is None or error.text == text:
        return Problem(error, file)
    by = max(0, text.find(error.text))
    moved = (place[0] + by, place[1] + by)
    return Problem(type(error)(error.what, text=text, place=moved, detail=error.detail, hint=error.hint), file)


def write_problems(problems: Iterable[Problem]) -> str:
    """Print problems one under the other."""
    return "\n\n".join(str(problem) for problem in problems)
