"""Writes answers to Parquet files: a folder for each query, rolled by size or time, visible by rename."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

from penstock.errors import SinkError
from penstock.sinks.parquet_by_query import QueryFolderWriter
from penstock.sinks.parquet_together import TogetherWriter
from penstock.sinks.protocol import Progressing, SinkWriter, WriteLarge
from penstock.sinks.query_folders import folder_name
from penstock.sinks.settings import FolderForm, TextForm, WholeForm

BY_QUERY: Final = "query"
BY_DAY: Final = "query/day"
TOGETHER: Final = "columns"
LAYOUTS: Final = (BY_QUERY, BY_DAY, TOGETHER)


def _wrong_layout(text: str) -> str | None:
    """Say what a layout must be."""
    return None if text in LAYOUTS else f'must be one of {", ".join(LAYOUTS)}, not "{text}"'


class ParquetSink:
    """Writes ``<folder>/<query>/….parquet``, which Spark, DuckDB and pandas read with a line; see docs/answers.md.

    ``layout`` is ``query``, ``query/day`` (``<folder>/<query>/day=2026-01-05/….parquet``) or ``columns``: files in the
    folder itself, which queries with equal columns share. A folder that was begun goes on with its own.
    """

    kind = "parquet"

    def __init__(
        self,
        folder: Annotated[str | os.PathLike[str], FolderForm("where the files go")],
        *,
        layout: Annotated[str | None, TextForm("query, query/day or columns", _wrong_layout)] = None,
        roll_bytes: Annotated[int, WholeForm("bytes of answers that are worth a file")] = 128 << 20,
        roll_seconds: Annotated[float, WholeForm("how long answers wait for others")] = 60.0,
        large_rows: Annotated[int, WholeForm("answers with more rows are written by the executors")] = 4_000_000,
    ) -> None:
        """Write into a folder, made if need be; from ``large_rows`` answers on, executors write."""
        if layout is not None and (wrong := _wrong_layout(layout)) is not None:
            raise SinkError(f"the layout of the parquet sink {wrong}")
        self.folder, self.layout = Path(folder), layout
        self.roll_bytes, self.roll_seconds, self.large_rows = roll_bytes, roll_seconds, large_rows
        self.write_large: WriteLarge | None = None  # set by an engine that has executors

    def open(self, stream: str, memory: Progressing) -> SinkWriter:
        """Open the writer of one stream."""
        layout = self.layout or _begun(self.folder, memory.read())
        if layout == TOGETHER:
            return TogetherWriter(self, stream, memory)
        return QueryFolderWriter(self, stream, memory, layout, by_day=layout == BY_DAY)

    def folder_of(self, query: str) -> Path:
        """Return where a query's answers are, of the layouts that have a folder for each."""
        return self.folder / folder_name(query)


def _begun(folder: Path, known: dict[str, object]) -> str:
    """Return the layout that a sink was begun with; versions before this one had one layout, and did not name it."""
    if "delivered" in known:
        return str(known.get("layout", TOGETHER))
    return TOGETHER if any(folder.glob("*.parquet")) else BY_QUERY
