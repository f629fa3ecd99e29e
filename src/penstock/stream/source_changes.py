"""Lets streams and tables go on with other columns, paths, options and lateness; what they stored stays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.catalog.evolution import differences
from penstock.catalog.records import same
from penstock.errors import SourceError, Unsupported
from penstock.model.schema import Column, Stream, Table
from penstock.stream.declared_sources import DeclaredSources
from penstock.stream.registry import StreamRegistry
from penstock.stream.runner import StreamRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """Replaces the definitions of streams and tables between two batches."""

    catalog: Catalog
    sources: DeclaredSources
    streams: StreamRegistry

    def replace(self, source: Stream | Table) -> list[str]:
        """Put a definition in the place of the one of its name, or enter it; return what differs in a few words."""
        known = self._known(source)
        if known is None:
            self.sources.enter(source)
            return []
        if source.columns:
            self.catalog.check_source(replace(source, name=known.name))
        whole = self.sources.whole(source) if source.columns else self._with_found(source, known)
        return self._taken_over(known, whole)

    def _with_found(self, source: Stream | Table, known: Stream | Table) -> Stream | Table:
        """Add the columns of the files to those known before, which stay; there may be no files at present."""
        try:
            whole = self.sources.whole(source)
        except SourceError:
            return self.sources.whole(replace(source, columns=known.columns))
        return replace(whole, columns=_grown(known.columns, whole.columns))

    def replace_frame(self, stream: Stream, frame: DataFrame) -> None:
        """Let a stream go on with another streaming DataFrame of the program."""
        known = self.catalog.stream(stream.name)
        if known is None or same(known, stream):
            self.sources.enter_frame(stream, frame)
            return
        self.catalog.check_source(stream)
        self.sources.keep_frame(stream, frame)
        self._taken_over(known, stream)

    def replace_table(self, name: str, source: DataFrame | pa.Table) -> None:
        """Let a table go on with another DataFrame or Arrow table of the program."""
        known, table = self.catalog.table(name), self.sources.described(name, source)
        if known is not None:
            self.catalog.check_source(table)
        self.sources.register(name, source)
        self.catalog.create_table(table) if known is None else self.catalog.replace_source(table)

    def _known(self, source: Stream | Table) -> Stream | Table | None:
        """Find what has the name of a source."""
        return self.catalog.stream(source.name) if isinstance(source, Stream) else self.catalog.table(source.name)

    def _taken_over(self, known: Stream | Table, new: Stream | Table) -> list[str]:
        """Check a definition, then let it hold."""
        new = replace(new, name=known.name)
        if same(known, new):
            return []
        self.catalog.check_source(new)
        if isinstance(new, Table):
            self.catalog.replace_source(new)
        else:
            self._reopened(new)
        return differences(known, new)

    def _reopened(self, stream: Stream) -> None:
        """Stop a stream and what it feeds, change it, and let it go on."""
        self.streams.with_past([stream.name])

        def change(runner: StreamRunner | None) -> None:
            seen_us = None if runner is None else runner.pipeline.progress.clock.seen_until_us
            if seen_us is not None and self.streams.settings.folder is None:
                what = f'stream "{stream.name}" has had rows, and the engine has no state folder to go on from'
                raise Unsupported(what, hint="Open the engine with state=…, or begin anew.")
            self.catalog.replace_source(stream, seen_us)

        self.streams.reopen(stream.name, change)


def _grown(known: tuple[Column, ...], found: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns of files: those known before, and new ones behind."""
    names = {column.name for column in known}
    kinds = {column.name: column for column in found}
    return (*(kinds.get(c.name, c) for c in known), *(c for c in found if c.name not in names))
