"""Answers in, plain lines that can be compared out: what the engine shows, what sinks hold, and what is meant."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.always.combinations.expressions import in_order
from tests.always.combinations.queries import Entry, Query, Standing, Values

Line = tuple[Any, ...]
Lines = Counter[Line]
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)

NEAR_ZERO = 1e-12  # where numbers of usual size cancel out, what is left is rounding


def plain(value: Any) -> Any:
    """Write a value so that equal ones are equal: doubles to ten digits, times in microseconds."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else f"{value + 0.0 if abs(value) > NEAR_ZERO else 0.0:.9e}"
        case Decimal():
            return format(value, "f")
        case datetime():
            return (value - _UNIX) // timedelta(microseconds=1)
        case list() | tuple():
            return tuple(map(plain, value))
        case dict():
            return tuple((name, plain(each)) for name, each in value.items())
    return value


def agree(found: Lines, wanted: Lines, where: str) -> None:
    """Compare lines, and show the first that differ."""
    if found != wanted:
        extra, missing = (sorted((a - b).elements(), key=repr)[:4] for a, b in ((found, wanted), (wanted, found)))
        raise AssertionError(f"{where}\n  only found: {extra}\n  only wanted: {missing}")


def shown(table: pa.Table, names: Sequence[str]) -> Lines:
    """Read a table of answers as (window_start, window_end, columns …); they come ordered by window."""
    assert tuple(table.column_names) == ("window_start", "window_end", *names), table.column_names
    lines = [tuple(map(plain, row.values())) for row in table.to_pylist()]
    assert [line[1] for line in lines] == sorted(line[1] for line in lines), "not ordered by window"
    return Counter(lines)


def ordered(table: pa.Table, keys: Sequence[str]) -> bool:
    """Tell whether answers come ordered by window, then by the keys that are shown."""
    places = [(row["window_end"], *(in_order(row[key]) for key in keys)) for row in table.to_pylist()]
    return places == sorted(places)


def arranged(table: pa.Table, query: Query) -> bool:
    """Tell whether the answers of each window come in the order that their query asks for."""
    by_window: dict[Any, list[Values]] = {}
    for row in table.to_pylist():
        values = tuple(row[name] for name in query.columns)
        by_window.setdefault(row["window_end"], []).append(values)
    return all(repr(query.rows.sorted(rows, rows)) == repr(rows) for rows in by_window.values())


def once_lines(start: int, end: int, answers: Iterable[Values]) -> Lines:
    """Write the answers of one window."""
    return Counter((start, end, *map(plain, values)) for values in answers)


def current_lines(standing: Standing) -> Lines:
    """Write what stands of a query's answers."""
    return Counter((e.start, e.end, *map(plain, e.values)) for e in standing.current())


def log_lines(standing: Standing) -> Lines:
    """Write all that a query ever said."""
    return Counter((e.start, e.end, e.revision, e.op, *map(plain, e.values)) for e in standing.log)


# -- sinks -----------------------------------------------------------------------------------------------------------


def said(standings: Iterable[Standing]) -> Lines:
    """Write every answer that a sink should hold, of all definitions that ever were."""
    return Counter(_fields(standing, entry) for standing in standings for entry in standing.log)


def _fields(standing: Standing, entry: Entry) -> Line:
    query = standing.query
    fields: dict[str, Any] = {"query_name": standing.name, "query_version": standing.version}
    fields |= {"window_start": entry.start, "window_end": entry.end}
    if query.revise_for is not None:
        fields |= {"revision": entry.revision, "op": entry.op}
    return _sorted(fields | dict(zip(query.columns, entry.values, strict=True)))


def _sorted(fields: dict[str, Any]) -> Line:
    return tuple(sorted((name, plain(value)) for name, value in fields.items()))


def in_lines(folder: Path) -> Lines:
    """Read what a sink of JSON lines holds."""
    texts = (text for path in sorted(folder.glob("*.jsonl")) for text in path.read_text().splitlines())
    return Counter(_sorted(_with_times(json.loads(text))) for text in texts)


def _with_times(fields: dict[str, Any]) -> dict[str, Any]:
    """Read the times of windows."""
    timed: dict[str, Any] = {name: datetime.fromisoformat(fields[name]) for name in ("window_start", "window_end")}
    if isinstance(fields.get("w"), dict):
        timed["w"] = {name: datetime.fromisoformat(text) for name, text in fields["w"].items()}
    return fields | timed


def in_tables(folder: Path) -> Lines:
    """Read what a Parquet sink shows."""
    found: Lines = Counter()
    for path in sorted(folder.rglob("*.parquet")):
        found += Counter(_sorted(row) for row in pq.read_table(path, partitioning=None).to_pylist())
    return found


def seen_of(standings: Sequence[Standing]) -> dict[str, int]:
    """Count what queries said, so that a run tells what it has seen."""
    speaking = [standing for standing in standings if standing.log]
    return {
        "queries": len(standings),
        "queries that answer": len(speaking),
        "answers": sum(len(s.log) for s in standings),
        "revisions": sum(e.op != "answer" for s in standings for e in s.log),
        "windows of rows that answer": sum(s.query.window.of_rows for s in speaking),
        "readers that answer": sum(s.query.stream != "s" for s in speaking),
        "paused by an error": sum(s.pause is not None and not s.pause.by_hand for s in standings),
    }
