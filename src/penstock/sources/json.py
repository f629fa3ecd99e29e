"""Describes files of JSON, an object a line, which name their columns together."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Final

from penstock.sources.description import Options
from penstock.sources.files import ANY_TEXT, LONGEST_LINE, file_format, opened

_LINES: Final = 1_000  # each of which may bring names
_OWN: Final = """allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros
    allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames dropFieldIfAllNull prefersDecimal
    primitivesAsString"""


def _names(file: Path, options: Options) -> list[str]:
    """Collect the names of the first objects."""
    names: dict[str, None] = {}
    with opened(file, options) as lines:
        for line in islice(iter(lambda: lines.readline(LONGEST_LINE), ""), _LINES):
            row = json.loads(line) if line.strip() else {}
            if not isinstance(row, dict):
                raise ValueError("a line is not an object")
            names |= dict.fromkeys(row)
    return list(names)


JSON: Final = file_format("json", "penstock.spark.sources.text_files:TextFiles", f"{ANY_TEXT} {_OWN}", _names)
