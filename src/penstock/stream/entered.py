"""A query that was entered, and from which window on it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from penstock.evaluate.typed import Definition
from penstock.model.query import Query

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entered:
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
    def first_window(self) -> tuple[datetime, datetime] | None:
        """Return start and end of the first window, once that is known."""
        if self.first_end_us is None:
            return None
        end = _EPOCH + timedelta(microseconds=self.first_end_us)
        return end - timedelta(microseconds=self.query.window.range_us), end

    def __str__(self) -> str:
        """Say from when on the query answers."""
        window = self.first_window
        if window is None:
            return f'query "{self.name}" answers from the first window on: {self.why}'
        start, end = (f"{time:%Y-%m-%d %H:%M:%S.%f}".removesuffix(".000000") for time in window)
        return f'query "{self.name}" answers from the window {start} to {end} UTC on: {self.why}'

    def _repr_html_(self) -> str:
        """Show the query in a notebook."""
        return self.definition._repr_html_()
