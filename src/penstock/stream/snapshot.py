"""Defines the catalog as one batch sees it, fixed before the batch is processed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.catalog import Control
from penstock.evaluate.typed import Definition
from penstock.model.schema import Table
from penstock.share.plan import Plan


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version of the catalog: a stream's queries, all tables, and what was paused or resumed since the last one."""

    version: int
    definitions: tuple[Definition, ...]
    tables: Mapping[str, Table]
    controls: tuple[Control, ...] = ()
    numbered: frozenset[int] = frozenset()  # queries with windows of rows, which wait for the stream's rows

    def is_of(self, plan: Plan) -> bool:
        """Tell whether a plan is of this version; queries with windows of rows may begin between two."""
        return plan.version == self.version and len(plan.definitions) == len(self.definitions)
