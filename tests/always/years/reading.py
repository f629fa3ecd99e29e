"""Reads what sinks hold as people do: the folder of a query with DuckDB, all columns by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import duckdb

from tests.always.delivered import Delivered, counted, micros

HEADS: Final = ("query_name", "query_version", "window_start", "window_end", "revision", "op")
Columns = Mapping[tuple[str, int], tuple[str, ...]]  # of each definition, by name and version
SELECT: Final = (
    "SELECT * REPLACE (epoch_us(window_start) AS window_start, epoch_us(window_end) AS window_end) "
    "FROM read_parquet({files}, union_by_name = true, hive_partitioning = false)"
)


def lines(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Read all answers in folders of sinks."""
    found: list[dict[str, Any]] = []
    for folder in folders:
        found += _json_lines(folder)
        for files in _read_together(folder):
            found += _rows(files)
    return found


def shown(found: Iterable[Mapping[str, Any]], columns: Columns) -> Delivered:
    """Count answers as the model does."""
    return counted(_fields(line, columns) for line in found)


def _json_lines(folder: Path) -> list[dict[str, Any]]:
    """Read lines; what follows the last end of a line is half of one, which somebody died over."""
    whole = [path.read_text().rpartition("\n")[0].splitlines() for path in sorted(folder.glob("*.jsonl"))]
    found = [json.loads(line) for some in whole for line in some]
    return [{k: micros(v) if k.startswith("window_") else v for k, v in fields.items()} for fields in found]


def _read_together(folder: Path) -> list[list[str]]:
    """List the files of each folder of a query; each file of the sink's own folder, where queries share them."""
    shared = [[str(path)] for path in sorted(folder.glob("*.parquet"))]
    by_query = [[str(p) for p in sorted(q.rglob("*.parquet"))] for q in sorted(folder.glob("[!.]*")) if q.is_dir()]
    return [*shared, *(files for files in by_query if files)]


def _rows(files: list[str]) -> list[dict[str, Any]]:
    with duckdb.connect() as db:
        found = db.sql(SELECT.format(files=json.dumps(files).replace('"', "'")))
        return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def _fields(line: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Take the columns of a line's own definition; those of other definitions are NULL in it."""
    own = columns[line["query_name"], line["query_version"]]
    others = {name: value for name, value in line.items() if name not in own and name not in HEADS}
    assert not any(value is not None for value in others.values()), line
    revised = line.get("revision") is not None
    heads = [name for name in HEADS if name in line and (revised or name not in ("revision", "op"))]
    return {name: line[name] for name in (*heads, *own)}
