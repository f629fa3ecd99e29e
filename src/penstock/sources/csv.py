"""Describes CSV files, whose first line may name their columns."""

from __future__ import annotations

import bz2
import csv
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from penstock.sources.description import Options
from penstock.sources.files import ANY_TEXT, LONGEST_LINE, file_format, opened

_OWN: Final = """charToEscapeQuoteEscaping charset comment delimiter emptyValue enforceSchema escape header
    ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace maxCharsPerColumn maxColumns nanValue negativeInf nullValue
    positiveInf preferDate quote sep unescapedQuoteHandling"""


_OPENERS: Final[dict[str, Callable[..., Any]]] = {".gz": gzip.open, ".bz2": bz2.open}
_OTHER_CODECS: Final = (".deflate", ".lz4", ".snappy", ".xz", ".zst")


def compares_headers(options: Options) -> bool:
    """Tell whether headers are held against declared columns: unless enforceSchema is set to pass over them."""
    given = {name.lower(): value.lower() for name, value in options.items()}
    return given.get("header") == "true" and given.get("enforceschema") != "true"


def misplaced(header: Sequence[str], declared: Sequence[str]) -> int | None:
    """Return the place, from 0, of the first declared column that a header has elsewhere or not; None: there is none.

    Values are read by position. A file may lack the last columns, and may have more behind them.
    """
    found = _as_named([cell.strip().lower() for cell in header])
    pairs = enumerate(zip(found, declared, strict=False))
    return next((n for n, (names, name) in pairs if name.strip().lower() not in names), None)


def _as_named(header: Sequence[str]) -> list[tuple[str, ...]]:
    """List the names of each column of a header: Spark numbers those that are empty or that stand there twice."""
    return [
        (f"_c{n}",) if not cell else (cell, f"{cell}{n}") if header.count(cell) > 1 else (cell,)
        for n, cell in enumerate(header)
    ]


def header_of(file: Path, options: Options) -> list[str]:
    """Read the first line that is none of blanks or a comment; nothing if there is none, or none can be read here."""
    given = {name.lower(): value for name, value in options.items()}
    if file.suffix in _OTHER_CODECS:
        return []
    encoding = given.get("encoding") or given.get("charset") or "utf-8-sig"
    encoding = "utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding
    with _OPENERS.get(file.suffix, open)(file, "rt", encoding=encoding, errors="replace", newline="") as lines:
        comment, ends = given.get("comment", ""), given.get("linesep")
        while line := lines.readline(LONGEST_LINE):
            line = line.partition(ends)[0] if ends else line.rstrip("\r\n")
            if line.strip() and not (comment and line.startswith(comment)):
                return _cells(line, given)
    return []


def _cells(line: str, given: Options) -> list[str]:
    """Part a line by its separator, which may have several characters."""
    separator = given.get("sep") or given.get("delimiter") or ","
    separator, quote = {"\\t": "\t"}.get(separator, separator), given.get("quote", '"')
    if len(separator) > 1 or len(quote) != 1:
        return [cell.strip().strip(quote) for cell in line.split(separator)]
    return next(csv.reader([line], delimiter=separator, quotechar=quote), [])


def _names(file: Path, options: Options) -> list[str]:
    """Read the header; without one, columns are numbered as Spark does."""
    with opened(file, options) as lines:
        separator = options.get("sep") or options.get("delimiter") or ","
        first = next(csv.reader([lines.readline(LONGEST_LINE)], delimiter=separator[:1]), [])
    if options.get("header", "").lower() == "true":
        return first
    return [f"_c{number}" for number in range(len(first))]


CSV: Final = file_format("csv", "penstock.spark.sources.csv_files:CsvFiles", f"{ANY_TEXT} {_OWN}", _names)
