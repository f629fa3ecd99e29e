"""Writes the answers of all queries with equal columns to one Parquet file: the layout ``columns``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.sinks.parquet_encodings import encoded
from penstock.sinks.rolling import Draft, RollingWriter, columns_of, without_dictionaries
from penstock.sinks.unrecorded import reach_file, remove_of_queries, remove_together


class TogetherWriter(RollingWriter):
    """Writes ``<folder>/<stream>-<state>-<commit>-<columns>.parquet``."""

    def _collected(self) -> list[Draft]:
        """Write a file for each list of columns."""
        return [draft for columns, tables in self._waiting.items() for draft in self._draft(columns, tables)]

    def _streamed(self, tables: Iterable[pa.Table]) -> list[Draft]:
        """Write tables one after the other, those with equal columns to one hidden file."""
        writers: dict[Path, pq.ParquetWriter] = {}
        with ExitStack() as opened:
            for table in map(without_dictionaries, tables):
                draft = self.folder / f".{self.stem}{self._first:012d}-{columns_of(table.schema)}.parquet.draft"
                if draft not in writers:
                    writers[draft] = opened.enter_context(pq.ParquetWriter(draft, table.schema, **encoded(table)))
                writers[draft].write_table(table)
        return [_of(draft) for draft in writers]

    def _draft(self, columns: str, tables: Sequence[pa.Table]) -> list[Draft]:
        """Write answers with equal columns to hidden files."""
        table = pa.concat_tables(tables)
        name = f"{self.stem}{self._first:012d}-{columns}"
        if self.sink.write_large is not None and table.num_rows >= self.sink.large_rows:
            return [_of(part) for part in self.sink.write_large(table, self.folder, name)]
        draft = self.folder / f".{name}.parquet.draft"
        pq.write_table(table, draft, **encoded(table))
        return [_of(draft)]

    def _remove_unrecorded(self) -> None:
        """Remove files that a crash left behind before they were recorded: their answers come again."""
        remove_together(self.folder, self.stem, self._delivered)
        if reach_file(self.folder, self.own_stem).exists():  # it had another layout before
            remove_of_queries(self.folder, self.own_stem, self._delivered)

    def _remember(self, delivered: int) -> None:
        """Record how far the sink came; a record without a layout is one of this layout."""
        self.memory.write({"delivered": delivered})


def _of(draft: Path) -> Draft:
    """Give a hidden file its visible name."""
    return Draft(draft, draft.with_name(draft.name.removeprefix(".").removesuffix(".draft")))
