"""Defines what CREATE and ALTER return: a query, and the first window that it will answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from penstock.evaluate.typed import Definition
from penstock.language.options import since_of
from penstock.model.instants import format_instant, python_instant
from penstock.model.query import Query
from penstock.printable import shown

FROM_NOW: Final = "from the next batch on"
FROM_PAST: Final = "with those of the past that it asks for"


@dataclass(frozen=True, slots=True)
class Admitted:
    """What CREATE and ALTER say of a query: its definition, and the end of the first window that it will answer."""

    definition: Definition
    first_end_us: int | None  # None: no row has come yet
    why: str

    @property
    def id(self) -> int:
        """Return the number of the definition."""
        return self.definition.id

    @property
    def name(self) -> str:
        """Return the query's name."""
        return self.definition.name

    @property
    def query(self) -> Query:
        """Return the bound query."""
        return self.definition.query

    @property
    def first_window(self) -> tuple[datetime | str, datetime | str] | None:
        """Return start and end of the first window, once that is known; as text outside of the years 1 to 9999."""
        if self.first_end_us is None:
            return None
        start = self.first_end_us - self.query.window.length
        return python_instant(start), python_instant(self.first_end_us)

    @property
    def asks_for_past(self) -> bool:
        """Tell whether the query wants rows of the past that were not kept for it."""
        return since_of(self.query) is not None

    def __str__(self) -> str:
        """Say from when on the query answers."""
        if self.query.is_continuous:
            return shown(f'query "{self.name}" answers each row that it takes: {self.why}')
        if self.first_end_us is None:
            return shown(f'query "{self.name}" answers from the first window on: {self.why}')
        start, end = self.first_end_us - self.query.window.length, self.first_end_us
        window = f"{format_instant(start)} to {format_instant(end)}"
        return shown(f'query "{self.name}" answers from the window {window} on: {self.why}')

    def _repr_html_(self) -> str:
        """Show the query in a notebook."""
        return self.definition._repr_html_()


def admitted_rows(continuous: Iterable[Definition]) -> list[Admitted]:
    """Say from when on queries without a window answer rows."""
    return [Admitted(d, None, FROM_NOW if since_of(d.query) is None else FROM_PAST) for d in continuous]
