"""Reads CSV files by position, and refuses those whose header tells another order of columns than the declared one."""

from __future__ import annotations

import csv
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import SourceError
from penstock.model.schema import Stream, Table
from penstock.printable import visible
from penstock.sources.csv import compares_headers, header_of, misplaced
from penstock.spark.sources.arriving_files import ArrivingFiles
from penstock.spark.sources.readers import Tell
from penstock.spark.sources.text_files import TextFiles
from penstock.spark.sources.unreadable import path_of

_LISTED: Final = 40  # names in an error
_HINT: Final = (
    "Declare the columns in the order of the file, new ones last, or replace the file, and start again: nothing of it "
    "was taken, and nothing that was committed is lost. With enforceSchema = true headers are passed over."
)


class ArrivingCsv(ArrivingFiles):
    """Looks at the CSV files of each batch before its rows are taken."""

    def _looked_into(self, path: str, needed: Sequence[str]) -> bool:
        """Refuse a file that is gone, or whose header has the declared columns in other places."""
        found = super()._looked_into(path, needed)
        check_header(self.stream, path)
        return found


class CsvFiles(TextFiles):
    """Reads CSV files."""

    looking = ArrivingCsv

    def read_files(
        self,
        session: SparkSession,
        item: Stream | Table,
        paths: Sequence[str],
        below: Mapping[str, str] | None,
        tell: Tell | None = None,
    ) -> DataFrame:
        """Read files as an item declares them, after a look at their headers."""
        frame = super().read_files(session, item, paths, below, tell)
        if compares_headers(item.options):
            for path in dict.fromkeys(map(path_of, frame.inputFiles())):
                if path.startswith("/"):  # on a filesystem of this machine
                    check_header(item, path)
        return frame


def check_header(item: Stream | Table, path: str) -> None:
    """Refuse a file whose header has the declared columns in other places."""
    if not compares_headers(item.options):
        return
    try:
        header = header_of(Path(path), item.options)
    except (OSError, EOFError, LookupError, ValueError, csv.Error, zlib.error):
        return  # Spark says what is wrong with it, or passes over it
    declared = _in_files(item, path)
    place = misplaced(header, declared)
    if place is None:
        return
    stopped = f'stream "{item.name}" stopped' if isinstance(item, Stream) else f'table "{item.name}"'
    here, name = visible(header[place]), declared[place]
    what = f'{stopped}: cannot read {path}: its column {place + 1} is "{here}", declared is "{name}"'
    detail = f"CSV is read by position. Its header is {_listed(header)}; declared are {_listed(declared)}."
    raise SourceError(what, detail=detail, hint=_HINT)


def _in_files(item: Stream | Table, path: str) -> list[str]:
    """List the declared columns that stand in a file itself: none that is computed, or named by a folder."""
    given = {name.lower(): value for name, value in item.options.items()}
    beside = given.get("columnnameofcorruptrecord", "_corrupt_record").lower()
    root = os.path.abspath(item.options["path"])
    inside = path == root or path.startswith(f"{root}/")
    folders = f"{os.path.dirname(path.removeprefix(root) if inside else path).lower()}/"
    names = [column.name for column in item.columns if column.expression is None]
    return [name for name in names if name.lower() != beside and f"/{name.lower()}=" not in folders]


def _listed(names: Sequence[str]) -> str:
    """Write names one after the other, the first ones of many."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(map(visible, names[:_LISTED]))}{more}"
