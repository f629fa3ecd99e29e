"""What sinks should hold, by the model, and what they hold: every answer counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.always.chained import flat
from tests.always.model import Entry, Model, Standing

Delivered = Counter[tuple[tuple[str, Any], ...]]


def delivered(model: Model) -> Delivered:
    """Count every answer that a sink should hold, of all definitions that ever were."""
    return counted(_fields(standing, entry) for standing in model.ever for entry in standing.log)


def _fields(standing: Standing, entry: Entry) -> dict[str, Any]:
    question = standing.question
    fields: dict[str, Any] = {"query_name": standing.name, "query_version": standing.version}
    fields["window_start"] = entry.end - question.range_us
    fields["window_end"] = entry.end
    if question.revise_for_us is not None:
        fields |= {"revision": entry.revision, "op": entry.op}
    return fields | dict(zip(question.names, (*entry.group, *entry.values), strict=True))


def counted(lines: Iterable[dict[str, Any]]) -> Delivered:
    return Counter(tuple(sorted(fields.items())) for fields in lines)


def lines_in(folder: Path) -> Delivered:
    """Read what a sink of JSON lines holds."""
    read = (json.loads(text) for path in sorted(folder.glob("*.jsonl")) for text in path.read_text().splitlines())
    rows = ({k: micros(v) if k.startswith("window_") else v for k, v in fields.items()} for fields in read)
    return counted(one for fields in rows for one in flat(fields))


def micros(text: str) -> int:
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def tables_in(folder: Path) -> Delivered:
    """Read what a Parquet sink shows."""
    found: Delivered = Counter()
    for path in sorted(folder.rglob("*.parquet")):
        table = pq.read_table(path, partitioning=None)
        for name in {"window_start", "window_end"} & set(table.column_names):
            table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.int64()))
        found += counted(one for fields in table.to_pylist() for one in flat(fields))
    return found
