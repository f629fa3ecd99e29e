"""The columns of the stream and of the table that scenarios read."""

from __future__ import annotations

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("k", pa.string()),
        ("j", pa.int32()),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("d", pa.decimal128(10, 2)),
    ]
)
TABLE = pa.schema([("k", pa.string()), ("sector", pa.string()), ("factor", pa.int32())])
CREATE_TABLE = "CREATE TABLE t (k STRING, sector STRING, factor INT) USING parquet OPTIONS (path = '{}')"
