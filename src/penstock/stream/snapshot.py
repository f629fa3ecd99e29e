"""Defines the catalog as one batch sees it, fixed before the batch is processed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.catalog import Catalog, Control
from penstock.errors import StateError
from penstock.evaluate.typed import Definition
from penstock.model.schema import Table
from penstock.model.stream_join import JoinNeeds
from penstock.share.plan import Plan
from penstock.store.commits import Commit


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version of the catalog: a stream's queries, all tables, and what was paused or resumed since the last one."""

    version: int
    definitions: tuple[Definition, ...]
    tables: Mapping[str, Table]
    controls: tuple[Control, ...] = ()
    paused: frozenset[int] = frozenset()  # definitions that users paused
    numbered: frozenset[int] = frozenset()  # queries with windows of rows, which wait for the stream's rows
    joined: JoinNeeds | None = None  # what joins of two streams need of its rows; None: none reads it
    continuous: tuple[Definition, ...] = ()  # queries without a window; all others are among the definitions

    @property
    def every(self) -> tuple[Definition, ...]:
        """List the queries with windows of time and those without a window."""
        return (*self.definitions, *self.continuous)

    def is_of(self, plan: Plan) -> bool:
        """Tell whether a plan is of this version; queries with windows of rows may begin between two."""
        return plan.version == self.version and len(plan.definitions) == len(self.definitions)


def windowed(definitions: Iterable[Definition]) -> tuple[Definition, ...]:
    """List the queries that have a window."""
    return tuple(d for d in definitions if not d.query.is_continuous)


def continuous(definitions: Iterable[Definition]) -> tuple[Definition, ...]:
    """List the queries that have none."""
    return tuple(d for d in definitions if d.query.is_continuous)


class CommittedCatalog:
    """The catalog as the committed steps of a stream saw it; their records say who was paused."""

    def __init__(self, catalog: Catalog, stream: str) -> None:
        """Read the versions of a catalog."""
        self.catalog, self.stream = catalog, stream

    def at(self, commit: Commit) -> Snapshot:
        """Return the catalog as a committed step saw it."""
        version = commit.catalog_version
        if version > self.catalog.version:
            raise StateError(
                f'a commit of stream "{self.stream}" was made under catalog version {version}, '
                f"but the catalog ends at {self.catalog.version}",
                hint="catalog.db is older than the commits: restore the whole state folder from one copy.",
            )
        definitions = self.catalog.snapshot(self.stream, version)[1]
        return Snapshot(version, windowed(definitions), self.catalog.tables(), continuous=continuous(definitions))
