"""Small projects for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

TRADES = """
streams:
  trades:
    format: csv
    path: data/trades
    options: {header: true}
    columns: {ts: TIMESTAMP, symbol: STRING, price: DOUBLE, volume: INT}
    time: ts
    lateness: 5 s
tables:
  listing:
    format: csv
    path: data/listing.csv
    columns: [symbol STRING, small BOOLEAN]
"""
COUNT = "SELECT count(*) AS n FROM trades [RANGE 2 MIN SLIDE 1 MIN]"


def write_project(folder: Path, settings: str = TRADES, /, **queries: str) -> Path:
    """Write penstock.yml and a file for each query."""
    (folder / "queries").mkdir(parents=True, exist_ok=True)
    (folder / "penstock.yml").write_text(settings, encoding="utf-8")
    for name, text in queries.items():
        (folder / "queries" / f"{name}.sql").write_text(text, encoding="utf-8")
    return folder
