"""The two most traded symbols of each window, also when a late row comes, and at which venues they were traded."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.testing import TestBed

START = datetime(2026, 1, 5, 14, 30, tzinfo=UTC)
TRADES = [  # seconds after START, symbol, venue, volume
    (1, "ORCA", "X", 100),
    (2, "SEAL", "Y", 300),
    (4, "WHALE", "X", 250),
    (6, "ORCA", "X", 50),
    (11, "WHALE", "Y", 70),
    (14, "SEAL", "Y", 70),
    (21, "ORCA", "X", 10),
]

with TestBed(epoch=START) as bed:
    bed.stream("trades", "ts TIMESTAMP, symbol STRING, venue STRING, volume BIGINT")
    window = "trades [RANGE 10 s SLIDE 10 s]"
    bed.query(
        "leaders",
        f"SELECT symbol, sum(volume) AS shares FROM {window} GROUP BY symbol ORDER BY shares DESC LIMIT 2 "
        "WITH (late = 'revise', revise_for = '1 min')",
    )
    bed.query("places", f"SELECT DISTINCT symbol, venue FROM {window} ORDER BY venue, symbol")

    bed.feed("trades", TRADES)
    print("leaders:", bed.timeline("leaders"))
    print("places:", bed.timeline("places"))

    bed.feed("trades", [(8, "ORCA", "X", 500)])  # late: its window was answered
    print("with the late trade:", bed.timeline("leaders"))
    for end, revision, op, *answer in bed.revisions("leaders"):
        print(f"  window to {end}, revision {revision}: {op} {answer}")
