"""Describes formats of files: the options that say how files are read, and where the first rows are.

Options reach Spark as they are, so they are those that say how files are read. Options that move or delete files
(``cleanSource``) or that read other ones than ``path`` says are not among them.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias, cast

from penstock.errors import SourceError, nearest_name
from penstock.model.schema import Column, Stream, Table
from penstock.sources.description import UNKNOWN_TYPE, Options, SourceFormat, columns_unknown, no_option

NamesIn: TypeAlias = Callable[[Path, Options], list[str]]  # a file and its options, by names in small letters
MAX_OPTION: Final = 4_096  # characters of a value; a path in Linux has no more
LONGEST_LINE: Final = 1 << 20

ANY_FILE: Final = """path fileNameOnly ignoreCorruptFiles ignoreMissingFiles latestFirst maxBytesPerTrigger maxFileAge
    maxFilesPerTrigger pathGlobFilter recursiveFileLookup"""
ANY_TEXT: Final = """columnNameOfCorruptRecord compression dateFormat enableDateTimeParsingFallback encoding
    inferSchema lineSep locale mode multiLine samplingRatio timeZone timestampFormat timestampNTZFormat"""


def file_format(name: str, reader: str | type, options: str, names_in: NamesIn) -> SourceFormat:
    """Describe a format of files: its own options beside those of all files, and how a file tells its columns."""
    known = tuple(sorted(f"{ANY_FILE} {options}".split()))
    return SourceFormat(
        name,
        reader,
        "read from files",
        known,
        needs=("path",),
        paths=("path",),
        tables=True,
        checking=lambda owner, given: check_options(owner, name, known, given),
        columns=lambda item: _columns(item, names_in),
    )


def check_options(owner: str, format_: str, known: tuple[str, ...], options: Options) -> None:
    """Refuse options that a format of files does not have, and values that no option has."""
    named = {option.lower(): option for option in known}
    for option, value in options.items():
        if option.lower() not in named:
            raise no_option(owner, f"{format_} files", option, known)
        if len(value) > MAX_OPTION:
            raise SourceError(f'"{owner}": option {named[option.lower()]} has more than {MAX_OPTION:,} characters')
        if "\0" in value or (option.lower() == "path" and not value.isprintable()):
            raise SourceError(f'"{owner}": option {named[option.lower()]} holds a character that does not show')


def missing_path(name: str, path: str) -> SourceError:
    """Say that nothing is at a path, and which neighbour may be meant."""
    near = _neighbour(Path(path))
    hint = "Make the folder, or correct the path." if near is None else f'Did you mean "{near}"?'
    return SourceError(f'"{name}": {path} does not exist', hint=hint)


def _neighbour(path: Path) -> Path | None:
    """Return a path that is there and differs in one name that is alike."""
    above = next((one for one in path.parents if one.is_dir()), None)
    if above is None or not os.access(above, os.R_OK | os.X_OK):
        return None
    wrong, *rest = path.relative_to(above).parts
    near = nearest_name(wrong, (one.name for one in above.iterdir() if not one.name.startswith(".")))
    meant = above.joinpath(near or "", *rest)
    return meant if near is not None and meant.exists() else None


def opened(file: Path, options: Options) -> IO[str]:
    """Open text with one row a line, compressed or not."""
    if options.get("multiline", "").lower() == "true":
        raise ValueError("a row may take several lines")
    opener = gzip.open if file.suffix == ".gz" else open
    mode: Literal["rt"] = "rt"
    return cast("IO[str]", opener(file, mode, encoding="utf-8-sig", newline=""))


def _columns(item: Stream | Table, names_in: NamesIn) -> tuple[Column, ...]:
    """Read names from a file, and from the folders above it, or say why that cannot be."""
    file = _first_file(item)
    try:
        names = names_in(file, {key.lower(): value for key, value in item.options.items()})
    except (OSError, ValueError, csv.Error, EOFError) as error:
        raise columns_unknown(item, f"{file.name}: {str(error).splitlines()[0] if str(error) else 'damaged'}") from None
    partitions = [part.partition("=")[0] for part in file.parts[:-1] if "=" in part]
    kept = [name for name in partitions if name not in names and file.is_relative_to(item.options.get("path", ""))]
    return tuple(Column(name, UNKNOWN_TYPE) for name in [*names, *kept])


def _first_file(item: Stream | Table) -> Path:
    """Find a file with rows under an item's path."""
    path = item.options.get("path", "")
    if "://" in path:
        raise columns_unknown(item, f"{path} is not looked into")
    if "*" not in path and not Path(path).exists():
        raise missing_path(item.name, path)
    for file in _files(path):
        if file.stat().st_size > 0:
            return file
    raise columns_unknown(item, f"there are no rows in {path}")


def _files(path: str) -> Iterator[Path]:
    """List the files that Spark would read, in order."""
    if "*" in path:
        root = Path(path.split("*")[0]).parent
        found = sorted(root.glob(str(Path(path).relative_to(root)))) if root.is_dir() else []
    else:
        found = [Path(path)]
    for one in found:
        inside = sorted(one.rglob("*")) if one.is_dir() else [one]
        yield from (file for file in inside if file.is_file() and not file.name.startswith((".", "_")))
