"""Reads files as streams and tables declare them; what a format does in its own way is in a class of its own."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import SourceError
from penstock.model.schema import Column, Stream, Table
from penstock.sources.files import missing_path
from penstock.spark.messages import message_of
from penstock.spark.session.own_session import schema_in
from penstock.spark.sources.arriving_files import ArrivingFiles, files_of
from penstock.spark.sources.computed_columns import with_computed
from penstock.spark.sources.file_history import check_files
from penstock.spark.sources.frames import FILE, columns_of, ddl_brought
from penstock.spark.sources.path_patterns import as_pattern, is_pattern, literally
from penstock.spark.sources.readers import BatchInspector, Position, SourceReader, Tell, Unit
from penstock.spark.sources.unreadable import path_of

_OWN_FILE: Final = (  # of a row, as people write it: see path_of in spark/sources/unreadable.py
    "regexp_replace(url_decode(replace(_metadata.file_path, '+', '%2B')), '^file:/+', '/')"
)


class FileReader(SourceReader):
    """Reads files that Spark knows by a format's name."""

    in_units = True
    looking: type[ArrivingFiles] = ArrivingFiles  # who looks at files as they come

    def check(self, item: Stream | Table) -> None:
        """Refuse a path where nothing is."""
        path = item.options["path"]
        if "://" not in path and not Path(path.split("*")[0]).exists() and "*" not in path:
            raise missing_path(item.name, path)

    def open_stream(self, session: SparkSession, stream: Stream) -> DataFrame:
        """Let Spark watch the folder."""
        columns = schema_in(session, ddl_brought(stream.columns))
        reader = session.readStream.schema(columns).options(**read_options(stream))
        path = stream.options["path"]
        lone = "://" not in path and Path(path).is_file()  # Spark takes what is no pattern for a folder
        return reader.format(stream.format or "").load(as_pattern(path) if stream.moved or lone else path)

    def read_table(self, session: SparkSession, table: Table, tell: Tell) -> DataFrame:
        """Read all files."""
        path = table.options["path"]
        if is_pattern(path):  # nobody but Spark knows which folders below it name columns
            return self.read_files(session, table, [path], None, tell)
        return self.read_files(session, table, [path], {"basePath": path} if Path(path).is_dir() else {}, tell)

    def columns(self, session: SparkSession, item: Stream | Table) -> tuple[Column, ...]:
        """Let Spark find the columns of files that are there already."""
        options = {k: v for k, v in item.options.items() if k != "path"}
        try:
            return self.inferred(session, item, options)
        except SourceError:
            raise
        except Exception as error:
            what = f'cannot find the columns of "{item.name}": {message_of(error)}'
            raise SourceError(what, hint="Declare its columns.") from None

    def inferred(self, session: SparkSession, item: Stream | Table, options: dict[str, str]) -> tuple[Column, ...]:
        """Infer columns, read with options."""
        return columns_of(session.read.format(item.format or "").options(**options).load(item.options["path"]))

    def version(self, table: Table) -> str:
        """Name a table's version by the names, sizes and times of its files."""
        path = table.options["path"]
        files = _files_of(path)
        if not files:
            what = "holds no files" if Path(path).is_dir() else "does not exist"
            hint = "Put its files back and start again (an empty table is a file without rows), or drop its queries."
            raise SourceError(f'table "{table.name}": {path} {what}', hint=hint)
        seen = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in files]
        return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]

    def history(
        self, session: SparkSession, stream: Stream, position: Position, *, accept_changed: bool
    ) -> DataFrame | None:
        """Read the files once more that Spark's log of the source names."""
        entries = check_files(session, stream, position.checkpoint, position.text, accept_changed=accept_changed)
        paths = list(dict.fromkeys(path_of(str(e["path"])) for e in entries))
        return self.read_again(session, stream, paths) if paths else None

    def history_units(
        self, session: SparkSession, stream: Stream, after: Position, upto: Position, *, accept_changed: bool
    ) -> list[Unit]:
        """List the paths of the files that Spark's log of the source names."""
        place = upto.checkpoint, upto.text
        entries = check_files(session, stream, *place, accept_changed=accept_changed, after=after.text)
        return list(dict.fromkeys(path_of(str(e["path"])) for e in entries))

    def read_units(self, session: SparkSession, stream: Stream, units: Sequence[Unit]) -> DataFrame:
        """Read some files once more."""
        return self.read_again(session, stream, units)

    def check_history(self, session: SparkSession, stream: Stream, position: Position, *, accept_changed: bool) -> None:
        """Make sure that the files are those that were read."""
        check_files(session, stream, position.checkpoint, position.text, accept_changed=accept_changed)

    def inspector(self, stream: Stream, checkpoint: Path, tell: Tell) -> BatchInspector:
        """Look at files as they come."""

        def again(session: SparkSession, paths: Sequence[str]) -> DataFrame:
            return with_computed(self.read_again(session, stream, paths), stream.columns)

        return self.looking(stream, checkpoint, tell, again)

    def read_again(self, session: SparkSession, stream: Stream, paths: Sequence[str]) -> DataFrame:
        """Read files of a stream's source once more, by the paths in Spark's log of it."""
        frames = [
            self.read_files(session, stream, [literally(path) for path in below], base)
            for base, below in by_base(stream.options["path"], paths)
        ]
        return reduce(DataFrame.unionByName, frames)

    def read_files(
        self,
        session: SparkSession,
        item: Stream | Table,
        paths: Sequence[str],
        below: Mapping[str, str] | None,
        tell: Tell | None = None,
    ) -> DataFrame:
        """Read files as an item declares them.

        ``below`` are the options to read single files of them with; None: they cannot be read one by one.
        """
        return read_plainly(session, item, item.columns, paths, (below or {}) if isinstance(item, Stream) else {})

    def read_whole(self, session: SparkSession, stream: Stream, position: Position, batch_id: int) -> DataFrame | None:
        """Read a batch's files once more with all their columns."""
        return self.read_aside(session, stream, files_of(stream, position.checkpoint, batch_id, position.text))

    def read_aside(self, session: SparkSession, stream: Stream, paths: Sequence[str]) -> DataFrame | None:
        """Read files once more; each row tells its file."""
        return self.read_telling(session, stream, paths, {}, ddl_brought(stream.columns), [])

    def read_telling(
        self,
        session: SparkSession,
        stream: Stream,
        paths: Sequence[str],
        more: Mapping[str, str],
        columns: str,
        beside: Sequence[SparkColumn],
    ) -> DataFrame:
        """Read files with more options and columns; each row tells its file, and what else is to stand beside it."""
        frames = []
        for base, below in by_base(stream.options["path"], paths):
            options = {**read_options(stream), **more, **base}
            reader = session.read.schema(schema_in(session, columns)).options(**options).format(stream.format or "")
            frames.append(reader.load([literally(path) for path in below]))
        told = [F.expr(_OWN_FILE).alias(FILE), *beside]
        return reduce(DataFrame.unionByName, (with_computed(frame, stream.columns, told) for frame in frames))


def by_base(folder: str, paths: Sequence[str]) -> list[tuple[dict[str, str], list[str]]]:
    """Part files by the folder below which a folder named column=value is a column, with the option that says so.

    A stream that has had another path before reads files of that one, too: there, such names begin below the folder.
    A stream of one file has no such folders.
    """
    if is_pattern(folder):
        return [({}, list(paths))]
    found: dict[str, list[str]] = {}
    for path in paths:
        within = "://" in folder or path.startswith(f"{folder.rstrip('/')}/")
        base = str(Path(path).parent) if path == folder else folder if within else _unnamed(path)
        found.setdefault(base, []).append(path)
    return [({"basePath": base}, below) for base, below in found.items()]


def _unnamed(path: str) -> str:
    """Return the folder of a file, or the one above all that are named column=value."""
    names = Path(path).parent.parts
    first = next((place for place, name in enumerate(names) if "=" in name), len(names))
    return str(Path(*names[:first]))


def read_options(item: Stream | Table) -> dict[str, str]:
    """Return the options that say how files are read."""
    return {k: v for k, v in item.options.items() if k.lower() != "path"}


def read_plainly(
    session: SparkSession,
    item: Stream | Table,
    columns: Sequence[Column],
    paths: Sequence[str],
    options: Mapping[str, str],
) -> DataFrame:
    """Read files as Spark does, with columns and options beside those of the item."""
    schema = schema_in(session, ddl_brought(columns))
    reader = session.read.schema(schema).options(**read_options(item), **options)
    return reader.format(item.format or "").load(list(paths))


def _files_of(path: str) -> list[Path]:
    """List a table's files, without those that Spark does not read either."""
    root = Path(path)
    if root.is_dir():
        found = [p for p in root.rglob("*") if p.is_file()]
        return sorted(p for p in found if not any(map(_is_hidden, p.relative_to(root).parts)))
    if is_pattern(path) and not root.exists():
        return sorted(Path(p) for p in glob.glob(path, recursive=True))
    return [root] if root.exists() else []


def _is_hidden(name: str) -> bool:
    """Tell whether Spark passes over a file or folder."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
