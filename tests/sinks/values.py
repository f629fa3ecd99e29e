"""Answers with a value of every type, and with texts that somebody may have written on purpose."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

HOSTILE = 'a\'; DROP TABLE q; --\\ \t\n\x1b[31m\u2028 "quoted" {x} \U0001f600 é'
START = datetime(2026, 1, 5, 12, tzinfo=UTC)


def every_type(query: str = "q") -> pa.Table:
    """Make three answers: usual values, odd ones, and NULL."""
    rows = 3
    ends = [START + timedelta(minutes=n) for n in range(rows)]
    columns: dict[str, pa.Array] = {
        "query_name": pa.array([query] * rows).dictionary_encode(),
        "query_version": pa.array([1] * rows, pa.int32()),
        "window_start": pa.array([end - timedelta(minutes=1) for end in ends], pa.timestamp("us", "UTC")),
        "window_end": pa.array(ends, pa.timestamp("us", "UTC")),
    }
    typed: list[tuple[str, list[Any], pa.DataType]] = [
        ("yes", [True, False, None], pa.bool_()),
        ("tiny", [1, -128, None], pa.int8()),
        ("short", [1, -(1 << 15), None], pa.int16()),
        ("whole", [1, -(1 << 31), None], pa.int32()),
        ("large", [1, (1 << 63) - 1, None], pa.int64()),
        ("single", [1.5, float("inf"), None], pa.float32()),
        ("x", [1.5, float("nan"), None], pa.float64()),
        ("amount", [Decimal("12345678901234567890.123456789"), Decimal("-0.000000001"), None], pa.decimal128(38, 9)),
        ("text", ["", HOSTILE, None], pa.string()),
        ("bytes", [b"", b"\x00\xff", None], pa.binary()),
        ("day", [date(2026, 1, 5), date(1, 1, 1), None], pa.date32()),
        ("at", [START, datetime(1, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        ("local", [datetime(2026, 1, 5), datetime(9999, 12, 31, 23, 59, 59, 999999), None], pa.timestamp("us")),
        ("took", [timedelta(seconds=1), timedelta(days=-3, microseconds=1), None], pa.duration("us")),
        ("list", [[1, None], [], None], pa.list_(pa.int64())),
        ("pair", [{"a": 1, "b": HOSTILE}, {"a": None, "b": None}, None], _PAIR),
        ("map", [[("k", 1.5)], [], None], pa.map_(pa.string(), pa.float64())),
        ("deep", [[{"a": 1, "b": "x"}], [None], None], pa.list_(_PAIR)),
    ]
    columns |= {name: pa.array(values, kind) for name, values, kind in typed}
    return pa.table(columns)


_PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])
