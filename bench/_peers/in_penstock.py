"""Runs the windows in Penstock, with its state on disk and its answers in Parquet."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession

from bench._peers.trades import COLUMNS, Case, PeerRun, Trades, read_answers
from penstock.engine import Engine
from penstock.sinks.parquet import ParquetSink


def run(session: SparkSession, trades: Trades, case: Case, folder: Path) -> PeerRun:
    """Create all queries, then process all files; timed from then until the sink holds every answer."""
    began = time.perf_counter()
    sink = ParquetSink(folder / "answers", layout="columns")
    with Engine(folder / "state", spark=session, sinks=[sink]) as engine:
        engine.execute(script(trades, case))
        engine.stream("trades")  # opens logs and sinks
        created = time.perf_counter()
        engine.process_available(flush=True)
        ended = time.perf_counter()
    symbol = "symbol" if case.by_symbol else "''"
    answers = read_answers(
        f"SELECT query_name::VARCHAR AS query, epoch_us(window_end) AS end_us, {symbol} AS symbol, value, n "
        f"FROM '{folder}/answers/*.parquet' WHERE n > 0"
    )
    return PeerRun(ended - created, answers, {"creating_seconds": created - began})


def script(trades: Trades, case: Case) -> str:
    """Write the stream and its queries in SQL."""
    stream = (
        f"CREATE STREAM trades ({COLUMNS}) USING csv OPTIONS (path = '{trades.folder}', maxFilesPerTrigger = '1') "
        "WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
    )
    key, grouped = ("symbol, ", " GROUP BY symbol") if case.by_symbol else ("", "")
    queries = [
        f"CREATE QUERY q{number} AS SELECT {key}sum(price * volume) AS value, count(*) AS n FROM trades {w}{grouped}"
        for number, w in enumerate(case.windows)
    ]
    return ";\n".join([stream, *queries])
