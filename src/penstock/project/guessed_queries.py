"""Proposes five queries over a data set by the types and values of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.language.binding.query_text import write_name
from penstock.model.duration import DAY, HOUR, MINUTE, SECOND, format_duration
from penstock.project.guessed_data import DataSet
from penstock.project.guessed_time import GuessedTime, is_time

QUERIES: Final = 5
WINDOWS: Final = 40  # about so many in the data
RANGES: Final = (
    10 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY,
)  # fmt: skip
MOST_GROUPS: Final = 1_000
_NO_NUMBER: Final = (
    "id",
    "code",
    "key",
    "year",
    "month",
    "day",
    "zip",
    "lat",
    "lon",
    "latitude",
    "longitude",
    "port",
    "terminal",
)


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
    asked = _LookedAt(data, columns_of(data, time), range_of(time))
    found = [_pace(asked)]
    if asked.columns.key is not None:
        found += [_by_group(asked, asked.columns.key), _top(asked, asked.columns.key)]
    if asked.columns.number is not None:
        found += [_spread(asked, asked.columns.number), _large(asked, asked.columns.number)]
    return [*found, _gaps(asked), _rolling(asked), _last(asked), _quiet(asked)][:QUERIES]


def columns_of(data: DataSet, time: GuessedTime) -> Columns:
    """Choose a column to group by and a number to add up."""
    others = [name for name in data.rows.column_names if name not in (time.column, time.name)]
    names = [name for name in others if not is_time(data, name)] or others
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


@dataclass(frozen=True, slots=True)
class _LookedAt:
    """What queries are written about."""

    data: DataSet
    columns: Columns
    range_us: int

    @property
    def each(self) -> str:
        """Write the stream with windows that follow each other."""
        length = format_duration(self.range_us)
        return f"{self.data.name} [RANGE {length} SLIDE {length}]"

    @property
    def rolling(self) -> str:
        """Write the stream with longer windows that are looked at as often."""
        return f"{self.data.name} [RANGE {format_duration(4 * self.range_us)} SLIDE {format_duration(self.range_us)}]"

    def query(self, name: str, about: str, select: str, source: str, rest: str = "") -> ProposedQuery:
        """Put a query together."""
        text = "\n".join(part for part in (f"SELECT {select}", f"FROM {source}", rest) if part)
        return ProposedQuery(f"{self.data.name}_{name}", about, text)


def _pace(asked: _LookedAt) -> ProposedQuery:
    """Count rows."""
    about = f"How many rows come in {format_duration(asked.range_us)}."
    return asked.query("pace", about, "count(*) AS n", asked.each)


def _by_group(asked: _LookedAt, key: str) -> ProposedQuery:
    """Count and add up by a key."""
    number = asked.columns.number
    summed = f", sum({number}) AS total, avg({number}) AS mean" if number else ""
    about = f"The same for each {_bare(key)}."
    return asked.query("by_group", about, f"{key}, count(*) AS n{summed}", asked.each, "GROUP BY ALL")


def _top(asked: _LookedAt, key: str) -> ProposedQuery:
    """List what comes most often."""
    about = f"Which {_bare(key)} come most often, looked at anew after each {format_duration(asked.range_us)}."
    return asked.query("top", about, f"top(5, {key}) AS most_frequent", asked.rolling)


def _spread(asked: _LookedAt, number: str) -> ProposedQuery:
    """Tell the least, middle and greatest values."""
    select = f"min({number}) AS least, percentile({number}, array(0.5, 0.95)) AS percentiles, max({number}) AS most"
    return asked.query("spread", f"How {_bare(number)} is spread.", select, asked.each)


def _large(asked: _LookedAt, number: str) -> ProposedQuery:
    """Count the rows with a large value."""
    about = f"Rows of which {_bare(number)} is among the highest of the sample."
    where = f"WHERE {number} > {_bound(asked.data.rows.column(_bare(number)))}\nHAVING count(*) > 0"
    return asked.query("large", about, f"count(*) AS n, max({number}) AS most", asked.each, where)


def _gaps(asked: _LookedAt) -> ProposedQuery:
    """Count what is missing."""
    other = asked.columns.other
    select = f"count_if({other} IS NULL) AS missing, count(*) AS n"
    return asked.query("gaps", f"How often {_bare(other)} is missing.", select, asked.each)


def _rolling(asked: _LookedAt) -> ProposedQuery:
    """Count rows over a longer time."""
    return asked.query("rolling", "The pace over a longer time, looked at as often.", "count(*) AS n", asked.rolling)


def _last(asked: _LookedAt) -> ProposedQuery:
    """Show the last row and the first."""
    other = asked.columns.other
    select = f"last({other}) AS latest, first({other}) AS earliest"
    return asked.query("last", "The last row of each window, and the first.", select, asked.each)


def _quiet(asked: _LookedAt) -> ProposedQuery:
    """Find windows with few rows."""
    return asked.query("quiet", "Windows with few rows.", "count(*) AS n", asked.each, "HAVING count(*) < 2")


def _bare(name: str) -> str:
    """Return a name without its backquotes."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _bound(column: pa.ChunkedArray) -> str:
    """Return a number that few values exceed."""
    most = pc.quantile(column.cast(pa.float64(), safe=False), 0.95)[0].as_py()
    return f"{most:.6g}" if abs(most) < 1e6 else f"{most:.0f}"
