"""Says what is known of a format of sources without Spark: its options, its columns, and who reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from penstock.errors import SourceError, nearest
from penstock.model.schema import Column, Stream, Table
from penstock.printable import visible

Options: TypeAlias = Mapping[str, str]
UNKNOWN_TYPE: Final = ""  # of a column whose name is found without Spark, which finds the type


def columns_unknown(item: Stream | Table, why: str) -> SourceError:
    """Ask for columns to be declared."""
    return SourceError(
        f'the columns of "{item.name}" are not declared and cannot be found',
        detail=why,
        hint="Declare them under columns.",
    )


def no_option(owner: str, holder: str, option: str, known: tuple[str, ...]) -> SourceError:
    """Say that there is no such option, and which ones there are."""
    verb = "have" if holder.endswith("files") else "has"
    return SourceError(
        f'"{owner}": {holder} {verb} no option "{visible(option)}"',
        detail=f"options: {', '.join(known)}",
        hint=nearest(option, known),
    )


def must_be_declared(item: Stream | Table) -> tuple[Column, ...]:
    """Find no columns: the source does not tell them."""
    raise columns_unknown(item, f"{item.format} does not tell its columns")


@dataclass(frozen=True, slots=True)
class SourceFormat:
    """A format of sources.

    ``checking`` gets the name of a stream or table for its errors, and its options: it judges names and values. Without
    it, only names are. ``columns`` finds the columns of one that declares none, or raises :func:`columns_unknown`.
    """

    name: str
    reader: str | type  # a SourceReader: "module:Class" of spark/, imported when Spark runs, or the class itself
    origin: str  # in a sentence: a stream is …
    options: tuple[str, ...] = ()  # that it has
    needs: tuple[str, ...] = ()  # those of them that cannot be left out
    paths: tuple[str, ...] = ()  # those of them that are relative to the project in penstock.yml
    tables: bool = False  # whether a table can be read from it
    streams: bool = True  # whether a stream can
    checking: Callable[[str, Options], None] | None = None
    columns: Callable[[Stream | Table], tuple[Column, ...]] = must_be_declared

    def check(self, owner: str, options: Options) -> None:
        """Refuse options that the format does not have, and values that they cannot have."""
        if self.checking is not None:
            self.checking(owner, options)
            return
        known = {option.lower() for option in self.options}
        for option in options:
            if option.lower() not in known:
                raise no_option(owner, self.name, option, self.options)
