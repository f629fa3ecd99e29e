"""Opens the streams and tables of the catalog as Spark frames."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from penstock.errors import CatalogError, SourceError, UnknownColumn, WrongType, nearest
from penstock.model.schema import Column, Stream, Table
from penstock.spark.job.literals import quoted
from penstock.spark.market import Market, stream_trades, trades
from penstock.spark.messages import message_of
from penstock.spark.session.own_session import schema_in
from penstock.spark.session.temporary_settings import cloned
from penstock.spark.sources.computed_columns import with_computed
from penstock.spark.sources.file_options import check_options
from penstock.spark.sources.nanoseconds import (
    AS_NUMBERS,
    by_rounding,
    nanoseconds_in,
    nanoseconds_refused,
    read_rounded,
    said_of,
)
from penstock.spark.sources.stateful import refuse_stateful
from penstock.spark.sources.unreadable import path_of

FILE_FORMATS: Final = ("parquet", "csv", "json")
FORMATS: Final = (*FILE_FORMATS, "trades")
Columns = tuple[Column, ...]
FILE: Final = "__file"  # of a row that is kept aside
RECORD: Final = "__record"  # its text, where that does not parse
_OWN_FILE: Final = (  # of a row, as people write it: see path_of in spark/sources/unreadable.py
    "regexp_replace(url_decode(replace(_metadata.file_path, '+', '%2B')), '^file:/+', '/')"
)
_PATTERN_SIGN: Final = re.compile(r"[{}\[\]*?\\]")


def read_stream(session: SparkSession, stream: Stream) -> DataFrame:
    """Open a stream's source with its declared columns; computed columns are added."""
    if stream.format == "trades":
        return with_computed(_declared(_generated(session, stream), stream), stream.columns)
    path = _path(stream)
    columns = schema_in(session, _read_columns(stream.columns))
    reader = session.readStream.schema(columns).options(**_read_options(stream))
    return with_computed(reader.format(stream.format or "").load(path), stream.columns)


def read_batch(session: SparkSession, table: Table, tell: Callable[[str], None]) -> DataFrame:
    """Read a table's files with its declared columns; ``tell`` users what they should know."""
    path = _path(table)
    if is_pattern(path):  # nobody but Spark knows which folders below it name columns
        return _read_files(session, table, [path], None, tell)
    return _read_files(session, table, [path], {"basePath": path} if Path(path).is_dir() else {}, tell)


def read_again(session: SparkSession, stream: Stream, paths: Sequence[str]) -> DataFrame:
    """Read files of a stream's source once more, by the paths in Spark's log of it."""
    folder = stream.options["path"]
    below = {} if is_pattern(folder) else {"basePath": folder}  # folders named column=value are columns
    return _read_files(session, stream, [_literally(path) for path in paths], below)


def read_whole(session: SparkSession, stream: Stream, paths: Sequence[str]) -> DataFrame:
    """Read files once more with all their columns; each row tells its file, and its text if that does not parse."""
    folder, options = stream.options["path"], _read_options(stream)
    columns, beside = _read_columns(stream.columns), [F.expr(_OWN_FILE).alias(FILE)]
    named = {name.lower(): value.lower() for name, value in options.items()}
    told = "columnnameofcorruptrecord" in named or named.get("mode", "permissive") != "permissive"
    if stream.format in ("csv", "json") and not told:
        columns, options = f"{columns}, {RECORD} string", {**options, "columnNameOfCorruptRecord": RECORD}
        beside.append(F.col(RECORD))
    if not is_pattern(folder):
        options["basePath"] = folder
    reader = session.read.schema(schema_in(session, columns)).options(**options).format(stream.format or "")
    return with_computed(reader.load([_literally(path) for path in paths]), stream.columns, beside)


def is_pattern(path: str) -> bool:
    """Tell whether Spark takes a path as a pattern."""
    return _PATTERN_SIGN.search(path) is not None


def _literally(path: str) -> str:
    """Write a path so that Spark takes no sign of it as one of patterns."""
    return _PATTERN_SIGN.sub(r"\\\g<0>", path)


def _read_files(
    session: SparkSession,
    item: Stream | Table,
    paths: Sequence[str],
    below: Mapping[str, str] | None,
    tell: Callable[[str], None] | None = None,
) -> DataFrame:
    """Read files as an item declares them, times in nanoseconds rounded; computed columns are added.

    ``below`` are the options to read single files of them with; None: they cannot be read one by one.
    """

    def read(columns: Sequence[Column], paths: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        schema = schema_in(session, _read_columns(columns))
        reader = session.read.schema(schema).options(**_read_options(item), **options)
        return reader.format(item.format or "").load(list(paths))

    frame = read(item.columns, paths, (below or {}) if isinstance(item, Stream) else {})
    if item.format == "parquet" and below is not None:
        parts = by_rounding(item.columns, dict.fromkeys(map(path_of, frame.inputFiles())))
        for nanos, files in parts.items():
            if nanos and tell is not None:
                tell(said_of(f'table "{item.name}"', nanos, files[0]))
        if any(parts):
            frame = read_rounded(item.columns, parts, lambda own, files: read(own, list(map(_literally, files)), below))
    return with_computed(frame, item.columns)


def made_again(session: SparkSession, stream: Stream, rows: int) -> DataFrame:
    """Make the first rows of the generator again, as a batch."""
    market, _ = _market(stream)
    return with_computed(_declared(trades(session, replace(market, rows=rows)), stream), stream.columns)


def _read_columns(columns: Iterable[Column]) -> str:
    """Write the columns that a source brings as DDL."""
    return ddl_of(c for c in columns if c.expression is None)


def _read_options(item: Stream | Table) -> dict[str, str]:
    """Return the options that say how files are read."""
    return {k: v for k, v in item.options.items() if k.lower() != "path"}


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


def with_columns(session: SparkSession, source: Stream | Table) -> Stream | Table:
    """Check a stream or table of files, and give it the columns its files have if none are named."""
    check_source(source)
    whole = replace(source, columns=source.columns or inferred_columns(session, source))
    if isinstance(whole, Stream):
        check_columns(whole)
    return whole


def inferred_columns(session: SparkSession, item: Stream | Table) -> Columns:
    """Let Spark find the columns of files that are there already."""
    if item.format == "trades":
        return columns_of(_generated(session, item))
    options = {k: v for k, v in item.options.items() if k != "path"}
    if item.format in ("csv", "json"):
        options.setdefault("inferSchema", "true")
    try:
        return columns_of(session.read.format(item.format or "").options(**options).load(_path(item)))
    except SourceError:
        raise
    except Exception as error:
        if "(NANOS" in str(error):
            return _columns_with_nanoseconds(cloned(session, AS_NUMBERS), item, options)
        raise SourceError(
            f'cannot find the columns of "{item.name}": {message_of(error)}', hint="Declare its columns."
        ) from None


def _columns_with_nanoseconds(session: SparkSession, item: Stream | Table, options: Mapping[str, str]) -> Columns:
    """Find the columns of files some of whose times are in nanoseconds; these are times, as files say, no numbers."""
    before = f'cannot find the columns of "{item.name}": '
    try:
        frame = session.read.format("parquet").options(**options).load(_path(item))
        columns, files = columns_of(frame), list(map(path_of, frame.inputFiles()))
    except Exception as error:
        raise nanoseconds_refused(before, message_of(error)) from None
    found = {one.path.lower(): one for file in files for one in nanoseconds_in(file)}
    if not found or (isinstance(item, Table) and is_pattern(item.options["path"])):
        raise nanoseconds_refused(before, "Only files that are named one by one and are on this machine are rounded.")
    if inside := [one.path for one in found.values() if one.nested]:
        raise nanoseconds_refused(before, f"{inside[0]} is inside of another column, and only whole ones are rounded.")
    times = {name: one.type for name, one in found.items()}
    return tuple(replace(c, type=times.get(c.name.lower(), c.type)) if c.type == "bigint" else c for c in columns)


def check_source(item: Stream | Table) -> None:
    """Refuse an unknown format, a missing path and wrong options before anything is entered."""
    if item.format == "trades":
        _market(item)
    else:
        _path(item)


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
        raise WrongType(
            f'time column "{stream.time}" of stream "{stream.name}" is {found[stream.time]}, not a timestamp',
            hint="Compute one: ts TIMESTAMP GENERATED ALWAYS AS (timestamp_millis(ts_ms)).",
        )
    kept = [name for name in found if name.startswith("__")]
    if kept:
        raise CatalogError(
            f'stream "{stream.name}": column names must not begin with "__": {kept[0]}', hint="Rename it."
        )


def _declared(frame: DataFrame, stream: Stream) -> DataFrame:
    """Take the declared columns from those that a source makes itself."""
    declared = [c for c in stream.columns if c.expression is None]
    made = {f.name: f.dataType.simpleString() for f in frame.schema.fields}
    for column in declared:
        if made.get(column.name) != column.type:
            raise SourceError(
                f'"{stream.name}": the generator makes no column {column.name} {column.type}',
                detail=f"it makes {', '.join(f'{n} {t}' for n, t in made.items())}",
                hint="Leave the columns out, or name some of these.",
            )
    return frame.select(*(F.col(quoted(c.name)) for c in declared))


def _path(item: Stream | Table) -> str:
    """Return where an item's files are, or say what is missing."""
    if item.format not in FILE_FORMATS:
        raise SourceError(f'"{item.name}": unknown format "{item.format}"', hint=f"Formats: {', '.join(FORMATS)}.")
    check_options(item.name, item.format, item.options)
    path = item.options.get("path")
    if not path:
        raise SourceError(f'"{item.name}" has no path', hint="Add OPTIONS (path = '…').")
    if "://" not in path and not Path(path.split("*")[0]).exists() and "*" not in path:
        raise SourceError(f'"{item.name}": {path} does not exist', hint="Make the folder, or correct the path.")
    return path


def _generated(session: SparkSession, item: Stream | Table) -> DataFrame:
    """Open the generator as a stream."""
    return stream_trades(session, *_market(item))


def _market(item: Stream | Table) -> tuple[Market, int]:
    """Read the generator's options: its market, and the rows of a batch."""
    options = dict(item.options)
    try:
        rows_per_batch = int(options.pop("rows_per_batch", "10000"))
        return Market.from_options(options), rows_per_batch
    except (TypeError, ValueError) as error:
        raise SourceError(f'"{item.name}": {error}') from None


def ddl_of(columns: Iterable[Column]) -> str:
    """Write columns as Spark's DDL."""
    return ", ".join(f"{quoted(c.name)} {c.type}" for c in columns)
