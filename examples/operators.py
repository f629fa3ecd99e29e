"""An expensive function behind a queue: two queries share what it computes, and one that fails harms nobody else."""

from __future__ import annotations

import time

from penstock.testing import TestBed


def risk(price: float, volume: int) -> float:
    """Take a while, as a model does."""
    time.sleep(0.001)
    return round(price * volume / 10_000, 3)


def strict(volume: int) -> bool:
    """Fail where the volume is 0."""
    return 1 / volume < 0.5


TRADES = [(n / 10, "ORCA" if n % 2 else "SEAL", 10.0 + n % 7, n % 10 * 100) for n in range(40)]

with TestBed() as bed:
    bed.stream("trades", "ts TIMESTAMP, symbol STRING, price DOUBLE, volume BIGINT")
    bed.engine.create_function("risk", risk, expensive=True)
    bed.engine.create_function("strict", strict, expensive=True)
    bed.engine.set_operator_policy("Chain")

    bed.query("risky", "SELECT symbol, risk(price, volume) AS r FROM trades WHERE risk(price, volume) > 1.1")
    bed.query("of_orca", "SELECT price FROM trades WHERE symbol = 'ORCA' AND risk(price, volume) > 1.1")
    bed.query("careful", "SELECT price FROM trades WHERE volume > 800 AND strict(volume)")
    bed.query("careless", "SELECT price FROM trades WHERE strict(volume)")

    bed.feed("trades", TRADES)
    for query in ("risky", "of_orca", "careful"):
        print(query, [tuple(row.values())[4:] for row in bed.answers(query)])
    print("careless is paused:", bed.paused("careless"))
    for line in str(bed.engine.explain()).splitlines():
        if "call" not in line and "strict" not in line and "risk(price, volume) > 1.1 (" in line:
            print(line.strip())
