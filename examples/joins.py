"""Two streams joined within a range of time: which orders of a customer were filled within five minutes, and how."""

import tempfile
from datetime import UTC, datetime, timedelta

from penstock.testing import TestBed

START = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def order(minutes: float, customer: str, price: float) -> dict[str, object]:
    return {"ts": at(minutes), "customer": customer, "price": price}


def main(state: str) -> None:
    with TestBed(state=state) as bed:
        for name in ("orders", "fills"):
            bed.stream(name, "ts TIMESTAMP, customer STRING, price DOUBLE", lateness="30 s")
        bed.engine.execute("""
            CREATE STREAM pairs AS
            SELECT orders.customer, fills.price - orders.price AS slip
            FROM orders [RANGE 5 MIN] JOIN fills [RANGE 5 MIN] ON orders.customer = fills.customer;
            CREATE STREAM quick AS
            SELECT orders.customer, fills.price - orders.price AS slip
            FROM orders [RANGE 1 MIN] JOIN fills [RANGE 1 MIN] ON orders.customer = fills.customer
        """)
        for name in ("pairs", "quick"):
            bed.query(
                f"slip_{name}",
                f"SELECT customer, count(*) AS n, max(slip) AS most FROM {name} "
                "[RANGE 10 MIN SLIDE 10 MIN] GROUP BY customer",
            )
        bed.feed("orders", [order(0, "ann", 100.0), order(1, "bob", 50.0)])
        bed.feed("fills", [order(0.5, "ann", 100.25), order(4, "bob", 50.5), order(7, "ann", 99.0)])
        for side in next(s for s in bed.engine.status()["streams"] if s["stream"] == "pairs")["retained"]:
            print(f"{side['stream']}: {side['rows']} rows wait")
        bed.flush()
        for name in ("pairs", "quick"):
            for row in bed.answers(f"slip_{name}"):
                print(f"{name}: {row['customer']} {row['n']} {row['most']:+.2f}")
        print(*bed.engine.execute("EXPLAIN")[0]["plan"].to_pylist()[4:6], sep="\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
