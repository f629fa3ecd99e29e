"""Finds the columns of streams and tables in the state folder, where files do not tell them any more."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.model.schema import Column, Stream
from penstock.sources.description import UNKNOWN_TYPE

if TYPE_CHECKING:
    from penstock.catalog import Catalog


@dataclass(frozen=True)
class StateColumns:
    """What the state folder of a project knows, read when it is asked for."""

    state: Path | None

    def names_of(self, kind: str, name: str) -> tuple[Column, ...]:
        """Return the columns of a stream or table as names, as files tell them; none if it is not known."""
        if self._catalog is None:
            return ()
        known = self._catalog.stream(name) if kind == "stream" else self._catalog.table(name)
        if known is None or (isinstance(known, Stream) and any(column.expression for column in known.columns)):
            return ()  # what is computed was declared
        return tuple(Column(column.name, UNKNOWN_TYPE) for column in known.columns)

    @cached_property
    def _catalog(self) -> Catalog | None:
        """Read the catalog; one that cannot be read is told by whoever opens the folder."""
        if self.state is None or not self.state.is_dir():
            return None
        from penstock.control.reading import read_catalog  # takes a while to import

        try:
            return read_catalog(self.state)
        except (PenstockError, OSError):
            return None
