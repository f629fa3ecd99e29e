"""Checks the options of a file source.

Options are handed to Spark unchanged, so only those that say how files are read are allowed: none that moves or deletes
files (``cleanSource``), and none that reads other files than ``path`` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.errors import SourceError, nearest
from penstock.printable import visible

MAX_OPTION: Final = 4_096  # characters of a value; a path in Linux has no more

_ANY_FILE: Final = """path fileNameOnly ignoreCorruptFiles ignoreMissingFiles latestFirst maxBytesPerTrigger maxFileAge
    maxFilesPerTrigger pathGlobFilter recursiveFileLookup"""
_ANY_TEXT: Final = """columnNameOfCorruptRecord compression dateFormat enableDateTimeParsingFallback encoding
    inferSchema lineSep locale mode multiLine samplingRatio timeZone timestampFormat timestampNTZFormat"""
_CSV: Final = """charToEscapeQuoteEscaping charset comment delimiter emptyValue enforceSchema escape header
    ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace maxCharsPerColumn maxColumns nanValue negativeInf nullValue
    positiveInf preferDate quote sep unescapedQuoteHandling"""
_JSON: Final = """allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros
    allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames dropFieldIfAllNull prefersDecimal
    primitivesAsString"""
_PARQUET: Final = "datetimeRebaseMode int96RebaseMode mergeSchema"

FILE_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "csv": tuple(sorted(f"{_ANY_FILE} {_ANY_TEXT} {_CSV}".split())),
    "json": tuple(sorted(f"{_ANY_FILE} {_ANY_TEXT} {_JSON}".split())),
    "parquet": tuple(sorted(f"{_ANY_FILE} {_PARQUET}".split())),
}


def check_options(name: str, format_: str, options: Mapping[str, str]) -> None:
    """Refuse options that a format of files does not have, and values that no option has."""
    known = {option.lower(): option for option in FILE_OPTIONS[format_]}
    for option, value in options.items():
        if option.lower() not in known:
            raise SourceError(
                f'"{name}": {format_} files have no option "{visible(option)}"',
                detail=f"options: {', '.join(FILE_OPTIONS[format_])}",
                hint=nearest(option, FILE_OPTIONS[format_]),
            )
        if len(value) > MAX_OPTION:
            raise SourceError(f'"{name}": option {known[option.lower()]} has more than {MAX_OPTION:,} characters')
        if "\0" in value or (option.lower() == "path" and not value.isprintable()):
            raise SourceError(f'"{name}": option {known[option.lower()]} holds a character that does not show')
