"""Reads the columns of Spark frames as the catalog knows them, and checks those of streams."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from penstock.errors import CatalogError, SourceError, UnknownColumn, WrongType, nearest
from penstock.language.stream_options import computed_name, computed_time
from penstock.model.schema import Column, Stream
from penstock.spark.job.literals import quoted
from penstock.spark.sources.stateful import refuse_stateful

FILE: Final = "__file"  # of a row that is kept aside
RECORD: Final = "__record"  # its text, where that does not parse


def columns_of(frame: DataFrame) -> tuple[Column, ...]:
    """Describe a frame's columns as the catalog does."""
    for field in frame.schema.fields:
        if "${" in field.name:  # Spark replaces it in SQL text, wherever it stands
            raise SourceError(f'column "{field.name}" cannot be named in SQL', hint="Rename it.")
    return tuple(Column(f.name, written_type(f.dataType)) for f in frame.schema.fields)


def written_type(type_: DataType) -> str:
    """Write a type as DDL that Spark reads back, names of fields in quotes where they need them."""
    match type_:
        case ArrayType():
            return f"array<{written_type(type_.elementType)}>"
        case MapType():
            return f"map<{written_type(type_.keyType)},{written_type(type_.valueType)}>"
        case StructType():
            fields = (f"{_field_name(f.name)}:{written_type(f.dataType)}" for f in type_.fields)
            return f"struct<{','.join(fields)}>"
    return type_.simpleString()


def _field_name(name: str) -> str:
    """Write the name of a struct's field."""
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else quoted(name)


def columns_of_stream(name: str, frame: DataFrame) -> tuple[Column, ...]:
    """Describe the columns of a program's own streaming DataFrame, having made sure that it is one."""
    if not isinstance(frame, DataFrame):
        raise SourceError(
            f'stream "{name}" needs a streaming DataFrame, not {type(frame).__name__}',
            hint="Read one with spark.readStream, or declare the stream with CREATE STREAM.",
        )
    if not frame.isStreaming:
        raise SourceError(
            f'the DataFrame of stream "{name}" is not a streaming one',
            detail="It was made with spark.read or from rows, which end.",
            hint=f'Read it with spark.readStream, or take it as a table: create_table("{name}", …).',
        )
    refuse_stateful(name, frame)
    seen: set[str] = set()
    for column in frame.columns:
        if column.lower() in seen:
            raise CatalogError(f'stream "{name}" has two columns "{column}"', hint="Select or rename them before.")
        seen.add(column.lower())
    return columns_of(frame)


def given_frame(frames: Mapping[str, DataFrame], stream: Stream) -> DataFrame:
    """Return the frame that the program gave for a stream, or ask for it again after a restart."""
    if stream.name not in frames:
        raise SourceError(
            f'stream "{stream.name}" was made from a DataFrame, which a restart cannot bring back',
            hint=f'Call create_stream("{stream.name}", …) again before processing.',
        )
    return frames[stream.name]


def check_columns(stream: Stream) -> None:
    """Refuse a time column that is no timestamp, and names that Penstock keeps for itself."""
    found = {c.name: c.type.lower() for c in stream.columns}
    if stream.time not in found:
        raise UnknownColumn(
            f'stream "{stream.name}" has no column "{stream.time}" to take the time from',
            detail=f"existing columns: {', '.join(found)}",
            hint=nearest(stream.time, found),
        )
    if found[stream.time] not in ("timestamp", "timestamp_ntz", "timestamp_ltz"):
        computed = computed_time(Column(stream.time, found[stream.time]))
        raise WrongType(
            f'time column "{stream.time}" of stream "{stream.name}" is {found[stream.time]}, not a timestamp',
            hint=f"Compute one: {computed_name(found)} TIMESTAMP GENERATED ALWAYS AS ({computed}).",
        )
    kept = [name for name in found if name.startswith("__")]
    if kept:
        raise CatalogError(
            f'stream "{stream.name}": column names must not begin with "__": {kept[0]}', hint="Rename it."
        )


def ddl_of(columns: Iterable[Column]) -> str:
    """Write columns as Spark's DDL."""
    return ", ".join(f"{quoted(c.name)} {c.type}" for c in columns)


def ddl_brought(columns: Iterable[Column]) -> str:
    """Write the columns that a source brings as DDL: all but the computed ones."""
    return ddl_of(c for c in columns if c.expression is None)
