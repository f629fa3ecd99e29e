"""Finds the column names of a stream or table in its files, without Spark."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Final, Literal, cast

from penstock.errors import SourceError
from penstock.model.schema import Column, Stream, Table

FORMATS: Final = ("parquet", "csv", "json", "trades")
GENERATED: Final = (  # what the format "trades" makes
    Column("ts", "timestamp"),
    Column("symbol", "string"),
    Column("price", "double"),
    Column("volume", "int"),
    Column("side", "string"),
    Column("exchange", "string"),
)
UNKNOWN_TYPE: Final = ""  # Spark finds the types when it reads the files
_LINES: Final = 1_000  # of JSON, each of which may bring names
_LONGEST_LINE: Final = 1 << 20


def found_columns(item: Stream | Table) -> tuple[Column, ...]:
    """Read names from a Parquet schema, a CSV header or lines of JSON, or say why that cannot be."""
    if item.format == "trades":
        return GENERATED
    file = _first_file(item)
    try:
        names = _names(item, file)
    except (OSError, ValueError, csv.Error, EOFError) as error:
        raise _unknown(item, f"{file.name}: {str(error).splitlines()[0] if str(error) else 'damaged'}") from None
    partitions = [part.partition("=")[0] for part in file.parts[:-1] if "=" in part]
    kept = [name for name in partitions if name not in names and file.is_relative_to(item.options.get("path", ""))]
    return tuple(Column(name, UNKNOWN_TYPE) for name in [*names, *kept])


def _first_file(item: Stream | Table) -> Path:
    """Find a file with rows under an item's path."""
    path = item.options.get("path", "")
    if "://" in path:
        raise _unknown(item, f"{path} is not on this machine, so its files are not read here")
    for file in _files(path):
        if file.stat().st_size > 0:
            return file
    raise _unknown(item, f"there are no rows in {path}")


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


def _names(item: Stream | Table, file: Path) -> list[str]:
    """Read names as a format keeps them."""
    if item.format == "parquet":
        import pyarrow.parquet as pq

        return list(pq.read_schema(file).names)
    options = {key.lower(): value for key, value in item.options.items()}
    if options.get("multiline", "").lower() == "true":
        raise ValueError("a row may take several lines")
    with _opened(file) as lines:
        if item.format == "json":
            return _json_names(lines)
        separator = options.get("sep") or options.get("delimiter") or ","
        first = next(csv.reader([lines.readline(_LONGEST_LINE)], delimiter=separator[:1]), [])
    if options.get("header", "").lower() == "true":
        return first
    return [f"_c{number}" for number in range(len(first))]


def _opened(file: Path) -> IO[str]:
    """Open text, compressed or not."""
    opener = gzip.open if file.suffix == ".gz" else open
    mode: Literal["rt"] = "rt"
    return cast("IO[str]", opener(file, mode, encoding="utf-8-sig", newline=""))


def _json_names(lines: IO[str]) -> list[str]:
    """Collect the names of the first objects."""
    names: dict[str, None] = {}
    for line in islice(iter(lambda: lines.readline(_LONGEST_LINE), ""), _LINES):
        row = json.loads(line) if line.strip() else {}
        if not isinstance(row, dict):
            raise ValueError("a line is not an object")
        names |= dict.fromkeys(row)
    return list(names)


def _unknown(item: Stream | Table, why: str) -> SourceError:
    """Ask for columns to be declared."""
    return SourceError(
        f'the columns of "{item.name}" are not declared and cannot be found',
        detail=why,
        hint="Declare them under columns.",
    )
