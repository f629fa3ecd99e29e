"""Defines what CREATE and ALTER return: a query, and the first window that it will answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from penstock.evaluate.typed import Definition
from penstock.model.instants import format_instant, python_instant
from penstock.model.query import Query
from penstock.printable import shown


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
