"""Proposes five queries over a data set by the types and values of its columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.language.binding.query_text import write_name
from penstock.model.duration import DAY, HOUR, MINUTE, SECOND, format_duration
from penstock.project.guessed_data import DataSet
from penstock.project.guessed_time import GuessedTime

QUERIES: Final = 5
WINDOWS: Final = 40  # about so many in the data
RANGES: Final = (
    10 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY,
)  # fmt: skip
MOST_GROUPS: Final = 1_000
_NO_NUMBER: Final = ("id", "code", "key", "year", "month", "day", "zip", "lat", "lon", "latitude", "longitude")


@dataclass(frozen=True, slots=True)
class ProposedQuery:
    """A query: its name, what it says of itself, and its text."""

    name: str
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a data set that queries are about, as SQL writes them."""

    key: str | None  # few values, many rows of each
    number: str | None
    other: str  # any column but the time


def range_of(time: GuessedTime) -> int:
    """Choose how long windows are."""
    span_us = int((time.last - time.first).total_seconds() * SECOND)
    least = DAY if time.kind == "date" else RANGES[0]
    wanted = max(least, time.lateness_us // 4, span_us // WINDOWS)
    return next((one for one in RANGES if one >= wanted), RANGES[-1])


def propose_queries(data: DataSet, time: GuessedTime) -> list[ProposedQuery]:
    """Propose five queries that can be told apart, about what there is."""
    columns, range_us = columns_of(data, time), range_of(time)
    found = {query.name: query for query in (*_first(data, columns, range_us), *_others(data, columns, range_us))}
    return list(found.values())[:QUERIES]


def columns_of(data: DataSet, time: GuessedTime) -> Columns:
    """Choose a column to group by and a number to add up."""
    names = [name for name in data.rows.column_names if name not in (time.column, time.name)]
    keys = [name for name in names if _is_key(data.rows.column(name))]
    numbers = [name for name in names if _is_number(name, data.rows.column(name))]
    numbers.sort(key=lambda name: not pa.types.is_floating(data.rows.column(name).type))
    key, number = (write_name(some[0]) if some else None for some in (keys, numbers))
    return Columns(key, number, write_name(names[0]) if names else write_name(time.name))


def _is_key(column: pa.ChunkedArray) -> bool:
    """Tell a column whose values come again and again."""
    if not (pa.types.is_string(column.type) or pa.types.is_dictionary(column.type)):
        return False
    values = column.cast(pa.string())
    return 2 <= len(pc.unique(values)) <= min(MOST_GROUPS, len(values) // 2)


def _is_number(name: str, column: pa.ChunkedArray) -> bool:
    """Tell a column that can be added up from one that names something."""
    parts = name.lower().split("_")
    measured = not any(part in _NO_NUMBER for part in parts) and not parts[-1].endswith("id")
    whole = pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)
    return measured and whole and column.null_count < len(column)


def _first(data: DataSet, columns: Columns, range_us: int) -> Iterator[ProposedQuery]:
    """Propose what most people want to see."""
    window = _window(range_us)
    yield ProposedQuery(
        f"{data.name}_pace",
        f"How many rows come in {format_duration(range_us)}.",
        f"SELECT count(*) AS n\nFROM {data.name} {window}",
    )
    if columns.key is not None:
        summed = f", sum({columns.number}) AS total, avg({columns.number}) AS mean" if columns.number else ""
        yield ProposedQuery(
            f"{data.name}_by_group",
            f"The same for each {columns.key.strip('`')}.",
            f"SELECT {columns.key}, count(*) AS n{summed}\nFROM {data.name} {window}\nGROUP BY ALL",
        )
    if columns.number is not None:
        number = columns.number
        yield ProposedQuery(
            f"{data.name}_spread",
            f"How {number.strip('`')} is spread.",
            f"SELECT min({number}) AS least, percentile({number}, array(0.5, 0.95)) AS percentiles, "
            f"max({number}) AS most\nFROM {data.name} {window}",
        )
    if columns.key is not None:
        yield ProposedQuery(
            f"{data.name}_top",
            f"Which {columns.key.strip('`')} come most often, looked at anew after each {format_duration(range_us)}.",
            f"SELECT top(5, {columns.key}) AS most_frequent\nFROM {data.name} {_window(4 * range_us, range_us)}",
        )
    if columns.number is not None:
        bound, number = _bound(data.rows.column(columns.number.strip("`"))), columns.number
        yield ProposedQuery(
            f"{data.name}_large",
            f"Rows of which {number.strip('`')} is among the highest of the sample.",
            f"SELECT count(*) AS n, max({number}) AS most\nFROM {data.name} {window}\nWHERE {number} > {bound}\n"
            "HAVING count(*) > 0",
        )


def _others(data: DataSet, columns: Columns, range_us: int) -> Iterator[ProposedQuery]:
    """Propose what can be asked of any columns."""
    name, other = data.name, columns.other
    window, rolling = _window(range_us), _window(4 * range_us, range_us)
    yield ProposedQuery(
        f"{name}_gaps",
        f"How often {other.strip('`')} is missing.",
        f"SELECT count_if({other} IS NULL) AS missing, count(*) AS n\nFROM {name} {window}",
    )
    yield ProposedQuery(
        f"{name}_rolling",
        "The pace over a longer time, looked at as often.",
        f"SELECT count(*) AS n\nFROM {name} {rolling}",
    )
    yield ProposedQuery(
        f"{name}_last",
        "The last row of each window.",
        f"SELECT last({other}) AS latest, first({other}) AS earliest\nFROM {name} {window}",
    )
    yield ProposedQuery(
        f"{name}_quiet",
        "Windows with few rows.",
        f"SELECT count(*) AS n\nFROM {name} {window}\nHAVING count(*) < 2",
    )


def _window(range_us: int, slide_us: int | None = None) -> str:
    """Write a window."""
    return f"[RANGE {format_duration(range_us)} SLIDE {format_duration(slide_us or range_us)}]"


def _bound(column: pa.ChunkedArray) -> str:
    """Return a number that few values exceed."""
    most = pc.quantile(column.cast(pa.float64(), safe=False), 0.95)[0].as_py()
    return f"{most:.6g}" if abs(most) < 1e6 else f"{most:.0f}"
