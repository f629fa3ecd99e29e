"""Runs the windows in DuckDB: all rows are loaded once, then the queries run one by one."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Final

import duckdb

from bench._peers.trades import Case, Peer, PeerRun, Trades, read_answers
from bench._plain import SECOND_US, Window

COLUMNS: Final = "{'ts': 'TIMESTAMP', 'symbol': 'VARCHAR', 'price': 'DOUBLE', 'volume': 'INTEGER'}"


def peers(trades: Trades) -> dict[str, Peer]:
    """Name both ways to write a query: as one writes it, and with slices made by hand."""
    return {
        "DuckDB": partial(run, trades, False),
        "DuckDB, slices by hand": partial(run, trades, True),
    }


def run(trades: Trades, sliced: bool, case: Case, folder: Path) -> PeerRun:
    """Load the files, then write every query's answers to a Parquet file of its own."""
    write = sliced_query if sliced else query
    with duckdb.connect() as database:
        began = time.perf_counter()
        database.execute(
            f"CREATE TABLE trades AS FROM read_csv('{trades.folder}/*.csv', header = false, columns = {COLUMNS})"
        )
        loaded = time.perf_counter()
        for number, window in enumerate(case.windows):
            text = write(f"q{number}", window, case.by_symbol)
            database.execute(f"COPY ({text}) TO '{folder}/q{number}.parquet' (FORMAT parquet)")
        ended = time.perf_counter()
    parts = {"loading_seconds": loaded - began, "querying_seconds": ended - loaded}
    return PeerRun(ended - began, read_answers(f"FROM '{folder}/*.parquet'"), parts)


def query(name: str, window: Window, by_symbol: bool) -> str:
    """Write a query in which every row counts in each window that holds it."""
    symbol = "symbol" if by_symbol else "'' AS symbol"
    slide_us = window.slide_s * SECOND_US
    return (
        f"SELECT '{name}' AS query, (epoch_us(ts) // {slide_us} + 1 + later) * {slide_us} AS end_us, {symbol}, "
        "sum(price * volume) AS value, count(*) AS n "
        f"FROM trades, (SELECT unnest(range({window.range_s // window.slide_s})) AS later) GROUP BY ALL"
    )


def sliced_query(name: str, window: Window, by_symbol: bool) -> str:
    """Write a query that sums rows by slide first, and slides to windows then."""
    symbol = "symbol" if by_symbol else "'' AS symbol"
    slide_us = window.slide_s * SECOND_US
    return (
        f"WITH slices AS (SELECT epoch_us(ts) // {slide_us} AS slice, {symbol}, "
        "sum(price * volume) AS value, count(*) AS n FROM trades GROUP BY ALL) "
        f"SELECT '{name}' AS query, (slice + 1 + later) * {slide_us} AS end_us, symbol, "
        "sum(value) AS value, sum(n)::BIGINT AS n "
        f"FROM slices, (SELECT unnest(range({window.range_s // window.slide_s})) AS later) GROUP BY ALL"
    )
