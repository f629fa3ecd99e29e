"""Gives sinks the rows that a stream's continuous queries took, and lets them expire."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from penstock.catalog import Catalog
from penstock.language.options import KEPT_US
from penstock.sinks.outlet import Tables
from penstock.spark.kept_rows.taken_rows import TakenRows
from penstock.store.taken_plan import TakenCommit
from penstock.stream.continuous.row_answers import HeldTables, SinkTables
from penstock.stream.progress import Progress

FEW_ROWS: Final = 200_000  # of a commit: up to so many are held for sinks; more are read when they are written


class StoredRows:
    """The rows of one stream, as far as they are committed."""

    def __init__(self, folder: Path, catalog: Catalog, progress: Progress) -> None:
        """Open a folder; a catalog tells the names of queries."""
        self.taken, self.catalog, self.progress = TakenRows(folder), catalog, progress

    def for_sinks(self, after: int) -> Iterator[tuple[int, Callable[[], Tables], int]]:
        """Give the commits after a number that have rows, as sinks get them."""
        for commit in self.taken.commits(after):
            if commit.number <= self.progress.clock.number:
                yield commit.number, partial(self._tables, commit), commit.rows

    def _tables(self, commit: TakenCommit) -> Tables:
        """Write the rows of a commit as sinks get them; many are read when they are written."""
        definitions = [query.definition for query in self.taken.plan(commit.plan)[0].queries]
        names = {number: self.catalog.name_of(number) for number in definitions}
        versions = {number: self.catalog.version_of(number) for number in definitions}
        tables = SinkTables(self.taken, commit, names, versions)
        return HeldTables(tables) if commit.rows <= FEW_ROWS else tables

    def expire(
        self, upto: int, watermark_us: int, keeping: Mapping[int, int], plans: Collection[int | None] = ()
    ) -> None:
        """Delete the commits up to one whose rows no query keeps any more, and plans that none is of but those named.

        ``keeping`` tells how long a query keeps its rows.
        """
        longest: dict[int, int] = {}
        gone = []
        for commit in self.taken.commits():
            if commit.number > upto:
                continue
            if commit.plan not in longest:
                queries = self.taken.plan(commit.plan)[0].queries
                longest[commit.plan] = max((keeping.get(query.definition, KEPT_US) for query in queries), default=0)
            if commit.last_us < watermark_us - longest[commit.plan]:
                gone.append(commit.number)
        self.taken.expire(gone)
        self.taken.expire_plans(plans)
