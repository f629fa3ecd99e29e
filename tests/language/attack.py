"""One hostile text as a value, and the frames that attacks are put into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.errors import (
    MalformedSQL,
    PenstockError,
    Unsupported,
)

W = "[RANGE 10 s SLIDE 1 s]"
Kinds = type[PenstockError] | tuple[type[PenstockError], ...]
NOT_PARSED = (MalformedSQL, Unsupported)


@dataclass(frozen=True, slots=True)
class Attack:
    """One hostile text: its family, the errors it may end in, or the canonical text of the harmless query it is."""

    family: str
    text: str
    refused: Kinds | None
    harmless: str | None = None


def where(condition: str) -> str:
    return f"SELECT count(*) AS n FROM trades {W} WHERE {condition}"


def largest(expression: str) -> str:
    return f"SELECT max({expression}) AS m FROM trades {W}"


def refused(family: str, kinds: Kinds, texts: Iterable[str]) -> Iterator[Attack]:
    return (Attack(family, text, kinds) for text in texts)


def harmless(family: str, pairs: Iterable[tuple[str, str]]) -> Iterator[Attack]:
    return (Attack(family, text, None, canonical) for text, canonical in pairs)
