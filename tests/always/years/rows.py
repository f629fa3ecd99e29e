"""Rows of a year: files that come every thirty days, some rows late, and the table that they are joined with."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.always.questions import Row

DAY: Final = 86_400_000_000
BEGIN: Final = 20_089 * DAY  # 2025-01-01
STEP: Final = 30 * DAY  # of event time from file to file
MORE: Final = ("w0", "w1", "w2")  # columns that the stream may gain and lose; all files have them
KEYS: Final = (None, "a", "b", "c", "d")
PUNCTUAL: Final = "z"  # the key of rows that are never late
SCHEMA: Final = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("k", pa.string()),
        ("j", pa.int32()),
        ("v", pa.int64()),
        *((name, pa.int64()) for name in MORE),
    ]
)


def rows_of(draw: random.Random, number: int) -> list[Row]:
    """Make the rows of a file: most within its thirty days, some late, a few of them very late."""
    base = BEGIN + number * STEP
    rows = [] if number else [_row(draw, base - 50 * DAY, "a")]  # no later row is earlier
    for _ in range(draw.randint(6, 14)):
        late = draw.random() < 0.25
        rows.append(_row(draw, base + draw.randint(-15 * DAY if late else 0, STEP - 1), draw.choice(KEYS)))
    rows += [_row(draw, base + draw.randint(0, STEP - 1), PUNCTUAL) for _ in range(3)]
    return rows


def _row(draw: random.Random, ts: int, key: str | None) -> Row:
    value = None if draw.random() < 0.1 else draw.randint(-3, 12)
    return {"ts": ts, "k": key, "j": draw.randint(0, 2), "v": value} | {name: draw.randint(0, 99) for name in MORE}


def write_rows(folder: Path, number: int, rows: Sequence[Row]) -> None:
    """Let a file appear, whole, and younger than the ones before it."""
    folder.mkdir(exist_ok=True)
    draft, path = folder / f".{number:06d}.draft", folder / f"{number:06d}.parquet"
    pq.write_table(pa.table([pa.array([row[f.name] for row in rows], f.type) for f in SCHEMA], schema=SCHEMA), draft)
    os.utime(draft, (BEGIN // 1_000_000 + number,) * 2)
    draft.replace(path)


def write_table(path: Path, number: int, rows: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write the table as CSV, with other sizes or times than before."""
    lines = [",".join(["k", *columns]), *(",".join([k, *(row[c] for c in columns)]) for k, row in rows.items())]
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (BEGIN // 1_000_000 + number,) * 2)
