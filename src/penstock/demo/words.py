"""Writes answers as short lines for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.demo.asked import DemoQuery
from penstock.report.ticks import short_number

WINDOW: Final = ("window_start", "window_end")
AMOUNTS: Final = 10_000  # below, prices and the like, with cents


def value_text(value: object) -> str:
    """Write one value so that a person can read it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float() if abs(value) < AMOUNTS:
            return f"{value:,.2f}"
        case int() | float():
            return short_number(value)
        case datetime():
            return f"{value:%H:%M:%S}"
        case _:
            return str(value)


def top_of_last_window(answers: pa.Table | None, asked: DemoQuery, most: int) -> tuple[str, list[dict[str, Any]]]:
    """Return when the last window ended, and its first answers, the greatest first."""
    if answers is None or not answers.num_rows:
        return "", []
    last = answers.filter(pc.equal(answers["window_end"], pc.max(answers["window_end"])))
    rows: list[dict[str, Any]] = last.drop_columns(list(WINDOW)).to_pylist()
    measure = next((n for n in last.column_names if n not in (*WINDOW, *asked.keys)), None)
    if asked.keys and measure is not None:
        rows.sort(key=lambda row: -_weight(row[measure]))
    return value_text(last["window_end"][0].as_py())[:5], rows[:most]


def whole_windows(answers: pa.Table) -> pa.Table:
    """Leave out windows at both ends of the stream that were not filled."""
    if not answers.num_rows:
        return answers
    first, last = pc.min(answers["window_end"]), pc.max(answers["window_start"])
    inside = pc.and_(pc.greater_equal(answers["window_start"], first), pc.less_equal(answers["window_end"], last))
    kept = answers.filter(inside)
    return kept if kept.num_rows else answers


def row_text(row: dict[str, Any], keys: Sequence[str]) -> str:
    """Write one answer in a line: its group, then each value with its name."""
    group = [f"{value_text(row[key]):<11}" for key in keys]
    values = [f"{name} {value_text(value):>8}" for name, value in row.items() if name not in keys]
    return "  ".join([*group, *values]).rstrip()


def _weight(value: object) -> float:
    """Turn a value into something to sort by."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else -math.inf
