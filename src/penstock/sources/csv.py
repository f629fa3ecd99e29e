"""Describes CSV files, whose first line may name their columns."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

from penstock.sources.description import Options
from penstock.sources.files import ANY_TEXT, LONGEST_LINE, file_format, opened

_OWN: Final = """charToEscapeQuoteEscaping charset comment delimiter emptyValue enforceSchema escape header
    ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace maxCharsPerColumn maxColumns nanValue negativeInf nullValue
    positiveInf preferDate quote sep unescapedQuoteHandling"""


def _names(file: Path, options: Options) -> list[str]:
    """Read the header; without one, columns are numbered as Spark does."""
    with opened(file, options) as lines:
        separator = options.get("sep") or options.get("delimiter") or ","
        first = next(csv.reader([lines.readline(LONGEST_LINE)], delimiter=separator[:1]), [])
    if options.get("header", "").lower() == "true":
        return first
    return [f"_c{number}" for number in range(len(first))]


CSV: Final = file_format("csv", "penstock.spark.sources.text_files:TextFiles", f"{ANY_TEXT} {_OWN}", _names)
