"""Defines every error that Penstock raises; each says what is wrong, where, what exists and what to do.

::

    PenstockError
    ├── LanguageError              the text of a statement
    │   ├── MalformedSQL           does not parse
    │   ├── Unsupported            parses, and Penstock does not (yet) do it
    │   ├── UnknownColumn / UnknownStream / UnknownTable / UnknownFunction / UnknownQuery
    │   ├── AmbiguousColumn        two tables have it
    │   ├── WrongType              an expression has the wrong type
    │   ├── InvalidWindow          a range, slide or offset that cannot be
    │   └── BrokenLaw              a user's aggregate that depends on the order of merging
    ├── ProjectError               a mistake in penstock.yml, or in the folder around it
    ├── CatalogError               a name that exists already, or is still in use
    ├── SourceError                a source or table that cannot be read
    ├── SinkError                  answers that cannot be written
    ├── StateError                 a state folder that cannot be used
    ├── NotStored                  a question that what is stored cannot answer
    ├── NotRunning                 no engine runs on a state folder
    ├── RequestFailed              a running engine did not carry out what it was asked for
    ├── EnvironmentProblem         Java, Spark or Python are not as needed
    ├── StreamEnded                rows after the end of a stream
    └── QueryFailed                an expression failed on a row; the query is paused
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from penstock.printable import LONGEST, columns, visible

WIDEST: Final = 100  # columns of the user's text that an error shows


class PenstockError(Exception):
    """Base of all: ``what`` in lower case, optionally the text with a place underlined, detail and hint."""

    def __init__(
        self,
        what: str,
        *,
        text: str | None = None,
        place: tuple[int, int] | None = None,
        detail: str | None = None,
        hint: str | None = None,
        about: str | None = None,
    ) -> None:
        """Keep the parts; ``place`` is a half-open range of characters in ``text``.

        ``about`` is the expression that is wrong, in canonical form, for those who can find its place.
        """
        super().__init__(what)
        self.what = what
        self.text = text
        self.place = place
        self.detail = detail
        self.hint = hint
        self.about = about

    @property
    def code(self) -> str:
        """Name the kind of error as users see it."""
        return type(self).__name__

    def __str__(self) -> str:
        """Print the error as the terminal shows it."""
        lines = [f"error[{self.code}]: {visible(self.what)}"]
        if self.text is not None and self.place is not None:
            lines += underline(self.text, self.place)
        if self.detail:
            lines.append("detail: " + "\n".join(map(visible, self.detail[: 3 * LONGEST].splitlines())))
        if self.hint:
            lines.append(f"hint: {visible(self.hint)}")
        return "\n".join(lines)


class LanguageError(PenstockError):
    """The text of a statement is wrong."""


class MalformedSQL(LanguageError):
    """The text does not parse."""


class Unsupported(LanguageError):
    """The text parses, but Penstock does not do this."""


class UnknownColumn(LanguageError):
    """No such column."""


class UnknownStream(LanguageError):
    """No such stream."""


class UnknownTable(LanguageError):
    """No such table."""


class UnknownFunction(LanguageError):
    """No such function, or not an allowed one."""


class UnknownQuery(LanguageError):
    """No such query."""


class AmbiguousColumn(LanguageError):
    """More than one table has the column."""


class WrongType(LanguageError):
    """An expression's type does not fit."""


class InvalidWindow(LanguageError):
    """A window that cannot be."""


class BrokenLaw(LanguageError):
    """A user's aggregate gives other answers when its states are merged in another order."""


class ProjectError(PenstockError):
    """A mistake in penstock.yml, or in the folder around it."""


class CatalogError(PenstockError):
    """A name is taken, or still in use."""


class SourceError(PenstockError):
    """A source or table cannot be read."""


class SinkError(PenstockError):
    """Answers cannot be written; the sink may ask not to be tried again for some seconds."""

    def __init__(self, what: str, *, detail: str | None = None, hint: str | None = None, wait_s: float = 0.0) -> None:
        """Keep the parts."""
        super().__init__(what, detail=detail, hint=hint)
        self.wait_s = wait_s


class StateError(PenstockError):
    """A state folder cannot be used."""


class NotStored(PenstockError):
    """What is stored cannot answer a one-time query; the detail says what is missing."""


class NotRunning(PenstockError):
    """No engine runs on a state folder."""


class RequestFailed(PenstockError):
    """A running engine did not carry out what it was asked for."""


class EnvironmentProblem(PenstockError):
    """Java, Spark or Python are not as needed."""


class StreamEnded(PenstockError):
    """The stream was ended; no rows can follow."""


class QueryFailed(PenstockError):
    """An expression of a query failed on a row."""


def underline(text: str, place: tuple[int, int]) -> list[str]:
    """Show the line that holds the place, with carets under it, at most 100 columns wide."""
    start, end = place
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line = text[line_start : len(text) if line_end < 0 else line_end]
    left, width = start - line_start, max(1, min(end, line_start + len(line)) - start)
    if len(line) > WIDEST:
        cut = max(0, left - 40)
        line, left = line[cut : cut + WIDEST], left - cut
        width = min(width, len(line) - left)
    shown = "".join(c if c.isprintable() else " " for c in line)
    before, under = columns(shown[:left]) + max(0, left - len(shown)), columns(shown[left : left + width])
    return [f"  {shown}", f"  {' ' * before}{'^' * max(1, under)}"]


def _likeness(one: str, other: str) -> float:
    """Tell how alike two names are, from 0 to 1."""
    return difflib.SequenceMatcher(None, other, one).ratio()


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return a hint naming the most similar known name, if one is close."""
    found = nearest_name(name, known)
    return None if found is None else f'Did you mean "{found}"?'


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar known name, if one is close."""
    wanted, whole = name.lower()[:WIDEST], {one.lower(): one for one in known}
    candidates = {one.split(" ")[0]: found for one, found in reversed(whole.items())} | whole  # or by a first word
    found = difflib.get_close_matches(wanted, candidates, n=3, cutoff=0.6)
    found.sort(key=lambda one: (one[:1] != wanted[:1], -_likeness(wanted, one), one not in whole))
    return candidates[found[0]] if found else None
