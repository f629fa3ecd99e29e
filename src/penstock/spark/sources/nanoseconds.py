"""Reads Parquet files whose times are in nanoseconds, which Spark cannot, rounded down to microseconds.

Only a file's own schema tells nanoseconds from other whole numbers, so files are looked at one by one, those on a
filesystem of this machine. Columns inside of structs and lists are left to Spark, which refuses them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.errors import SourceError
from penstock.model.schema import Column
from penstock.spark.job.literals import quoted

_MICROS: Final = "{0} DIV 1000 - IF({0} < 0 AND {0} % 1000 <> 0, 1, 0)"  # earlier, also before 1970
_WRITTEN_AS: Final = {
    "timestamp": "timestamp_micros({})",
    "timestamp_ltz": "timestamp_micros({})",
    "timestamp_ntz": "TIMESTAMP_NTZ '1970-01-01 00:00:00' + INTERVAL '0.000001' SECOND * ({})",  # in any session's zone
}
AS_NUMBERS: Final = {"spark.sql.legacy.parquet.nanosAsLong": "true"}
HINT: Final = (
    "Write it with microseconds (pyarrow and pandas: coerce_timestamps='us', allow_truncated_timestamps=True), or "
    "declare the column BIGINT and compute the time: ts TIMESTAMP GENERATED ALWAYS AS (timestamp_micros(ns DIV 1000))."
)


@dataclass(frozen=True, slots=True)
class Nanoseconds:
    """A column of a Parquet file that holds times in nanoseconds."""

    path: str  # the names of the fields that lead to it, with dots
    in_utc: bool  # False: date and time of no zone
    nested: bool

    @property
    def type(self) -> str:
        """Return the type that Spark would give such a column of microseconds."""
        return "timestamp" if self.in_utc else "timestamp_ntz"


def nanoseconds_of(file: pq.FileMetaData) -> list[Nanoseconds]:
    """List the columns of a Parquet file that hold times in nanoseconds; INT96, which Spark reads, is none."""
    schema, found = file.schema, []
    for number in range(len(schema)):
        column = schema.column(number)
        if column.physical_type == "INT64" and column.logical_type.type == "TIMESTAMP":
            told = json.loads(column.logical_type.to_json())
            if told["timeUnit"] == "nanoseconds":
                nested = column.max_repetition_level > 0 or column.path != column.name
                found.append(Nanoseconds(column.path, bool(told["isAdjustedToUTC"]), nested))
    return found


def nanoseconds_in(path: str) -> list[Nanoseconds]:
    """Look into a local file; one that cannot be read has none that we know of."""
    if not path.startswith("/"):
        return []
    try:
        return nanoseconds_of(pq.read_metadata(path))
    except (OSError, pa.ArrowException):
        return []


def rounded_columns(columns: Iterable[Column], found: Iterable[Nanoseconds]) -> frozenset[str]:
    """Name the declared columns that a file holds in nanoseconds; an instant is not read as a time of no zone."""
    in_utc = {one.path.lower(): one.in_utc for one in found if not one.nested}
    return frozenset(
        c.name
        for c in columns
        if c.expression is None
        and c.type.lower() in _WRITTEN_AS
        and c.name.lower() in in_utc
        and not (in_utc[c.name.lower()] and c.type.lower() == "timestamp_ntz")
    )


def by_rounding(columns: Sequence[Column], paths: Iterable[str]) -> Mapping[frozenset[str], list[str]]:
    """Part files by the declared columns that they hold in nanoseconds."""
    parts: dict[frozenset[str], list[str]] = {}
    for path in paths:
        parts.setdefault(rounded_columns(columns, nanoseconds_in(path)), []).append(path)
    return parts


def read_rounded(
    columns: Sequence[Column],
    parts: Mapping[frozenset[str], list[str]],
    read: Callable[[Sequence[Column], list[str]], DataFrame],
) -> DataFrame:
    """Read each part with its own columns, times of nanoseconds as whole numbers, and put all together."""
    frames = []
    for nanos, paths in parts.items():
        own = [replace(c, type="bigint") if c.name in nanos else c for c in columns]
        frame = read(own, paths)
        if nanos:
            frame = frame.select(*(_rounded(c, nanos) for c in columns if c.expression is None))
        frames.append(frame)
    return reduce(DataFrame.union, frames)


def _rounded(column: Column, nanos: frozenset[str]) -> SparkColumn:
    """Write a column as it is declared."""
    if column.name not in nanos:
        return F.col(quoted(column.name))
    micros = _MICROS.format(quoted(column.name))
    return F.expr(_WRITTEN_AS[column.type.lower()].format(micros)).alias(column.name)


def nanoseconds_refused(before: str, why: str) -> SourceError:
    """Word that times in nanoseconds cannot be read; ``before`` says what that stops."""
    return SourceError(f"{before}it holds times in nanoseconds, which Spark does not read", detail=why, hint=HINT)


def said_of(owner: str, nanos: Iterable[str], path: str) -> str:
    """Say that times are rounded."""
    names = ", ".join(f'"{name}"' for name in sorted(nanos))
    return f"{owner}: times in nanoseconds are rounded down to microseconds, column {names} of {path} first"
