"""Python functions in SQL: a row at a time, by arrays, and one that fails on a row and harms its own query only."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from penstock.testing import TestBed

START = datetime(2026, 1, 5, 14, 30, tzinfo=UTC)
TRADES = [  # seconds after START, symbol, price, volume
    (1, "ORCA", 10.0, 100),
    (2, "SEAL", 99.5, 0),
    (4, "ORCA", 10.5, 900),
    (6, "SEAL", 101.0, 30),
    (11, "ORCA", 10.25, 50),
]


def is_block(price: float, volume: int) -> bool:
    """Tell a large trade; type hints tell Spark's types."""
    return price * volume >= 3_000


def in_cents(price: pa.Array) -> pa.Array:
    """Round to cents, thousands of rows a call."""
    return pc.cast(pc.round(pc.multiply(price, 100.0)), pa.int64())


def per_share(price: float, volume: int) -> float:
    """Fail where the volume is 0."""
    return price / volume


with TestBed(epoch=START) as bed:
    bed.stream("trades", "ts TIMESTAMP, symbol STRING, price DOUBLE, volume BIGINT")
    engine = bed.engine
    engine.create_function("is_block", is_block)
    engine.create_function("in_cents", in_cents, parameters="price double", returns="bigint", vectorised=True)
    engine.create_function("per_share", per_share)

    window = "trades [RANGE 10 s SLIDE 10 s]"
    bed.query(
        "blocks",
        f"SELECT symbol, sum(in_cents(price)) AS cents FROM {window} WHERE is_block(price, volume) GROUP BY symbol",
    )
    bed.query("guarded", f"SELECT max(per_share(price, volume)) AS most FROM {window} WHERE volume > 0")
    bed.query("careless", f"SELECT max(per_share(price, volume)) AS most FROM {window}")

    names = ("ts", "symbol", "price", "volume")
    bed.feed("trades", [dict(zip(names, trade, strict=True)) for trade in TRADES])
    for query in ("blocks", "guarded", "careless"):
        print(query, bed.timeline(query))
    print("careless is paused:", (bed.paused("careless") or "").split(" in per_share")[0])
