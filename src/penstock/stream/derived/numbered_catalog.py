"""Shows the catalog to streams of numbered rows: their queries are placed on the line of row numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.catalog import Catalog
from penstock.evaluate.typed import Definition
from penstock.store.commits import Commit
from penstock.stream.derived.row_times import on_the_line
from penstock.stream.snapshot import CommittedCatalog, Snapshot


class NumberedCatalog(CommittedCatalog):
    """The catalog as committed batches of numbered rows saw it."""

    def __init__(self, catalog: Catalog, stream: str, time: str) -> None:
        """Read the versions of a catalog; ``time`` is the event time of the stream whose rows are numbered."""
        super().__init__(catalog, stream)
        self.time = time

    def at(self, commit: Commit) -> Snapshot:
        """Return the catalog as a committed batch saw it: the queries that had begun."""
        whole = super().at(commit)
        begun = [d for d in whole.definitions if str(d.id) in commit.next_ends]
        return placed(whole, begun, {d.id: commit.starts.get(str(d.id), 0) for d in begun}, self.time)


def placed(whole: Snapshot, begun: Sequence[Definition], origins: Mapping[int, int], time: str) -> Snapshot:
    """Place queries on the line, each from its first row on, with their rulers behind them."""
    pairs = [on_the_line(d, origins[d.id], time) for d in begun]
    return replace(whole, definitions=(*(d for d, _ in pairs), *(ruler for _, ruler in pairs)))
