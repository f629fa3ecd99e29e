"""Defines the three workloads of the groupings benchmark: where rows come from, and the queries."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.spark.market import Market, write_trades

OPTIONS: Final = "us-option-bars-2014/aapl_option_minute_trades.csv.gz"
DATA: Final = Path(os.environ.get("PENSTOCK_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


@dataclass(frozen=True, slots=True)
class Stream:
    """Files of rows, one a batch, and how they are declared."""

    name: str
    folder: Path
    columns: str
    rows: int

    @property
    def declared(self) -> str:
        return (
            f"CREATE STREAM s ({self.columns}) USING parquet OPTIONS (path = '{self.folder}', "
            "maxFilesPerTrigger = '1') WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
        )


@dataclass(frozen=True, slots=True)
class Query:
    """One query, and the grouping that it belongs to."""

    name: str
    by: tuple[str, ...]
    text: str  # of the SELECT

    @property
    def statement(self) -> str:
        return f"CREATE QUERY {self.name} AS {self.text}"


OPTION_KEYS: Final = (
    ("right",),
    ("expiry",),
    ("strike",),
    ("contract",),
    ("expiry", "right"),
    ("right", "strike"),
    ("expiry", "strike"),
    ("expiry", "right", "strike"),
)
TRADE_KEYS: Final = (
    (),
    ("symbol",),
    ("exchange",),
    ("side",),
    ("symbol", "exchange"),
    ("symbol", "side"),
    ("exchange", "side"),
    ("symbol", "exchange", "side"),
)


def option_bars(folder: Path, files: int) -> Stream | None:
    """Cut the bars of option contracts into files; None: the data set is not here."""
    path = DATA / OPTIONS
    if not path.exists():
        return None
    table = pcsv.read_csv(path)
    time = pc.multiply(table["ts_ms"], 1_000).cast(pa.timestamp("us", tz="UTC"))
    columns = {
        "ts": time,
        "contract": table["contract"],
        "expiry": table["expiry"].cast(pa.int32()),
        "right": table["right"],
        "strike": table["strike_e4"].cast(pa.int64()),
        "price": table["close_e4"].cast(pa.int64()),
        "volume": table["volume"].cast(pa.int32()),
    }
    _cut(pa.table(columns), folder, files)
    declared = "ts TIMESTAMP, contract STRING, expiry INT, right STRING, strike BIGINT, price BIGINT, volume INT"
    return Stream("option bars", folder, declared.replace("right", "`right`"), table.num_rows)


def trades(session: SparkSession, folder: Path, rows: int, files: int, seed: int) -> Stream:
    """Generate an hour of trades of 3,000 symbols."""
    write_trades(session, Market(seed=seed, rows=rows, rate=rows / 3600), folder, files)
    declared = "ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT, exchange STRING, side STRING"
    return Stream("trades", folder, declared, rows)


def grouped_queries(keys: tuple[tuple[str, ...], ...], unit_s: int, each: int = 8) -> list[Query]:
    """Write so many queries for each grouping: windows of 10 to 15 units, every other one with a predicate."""
    found = []
    for place, by in enumerate(keys):
        listed = ", ".join(f"`{key}`" for key in by)
        for number in range(each):
            window = f"[RANGE {(10 + number % 6) * unit_s} s SLIDE {(5 + number % 4) * unit_s} s]"
            where = f" WHERE volume > {20 * (number // 2)}" if number % 2 else ""
            aggregates = "count(*) AS n, sum(volume) AS shares, min(price) AS low, max(price) AS high"
            select = f"SELECT {listed + ', ' if by else ''}{aggregates} FROM s {window}{where}"
            found.append(Query(f"g{place}_{number}", by, select + (f" GROUP BY {listed}" if by else "")))
    return found


# -- Golab, Bijay and Özsu (2006, §5.1) ----------------------------------------------------------------------------


def packets(folder: Path, seconds: int, rate: int, files: int, seed: int) -> Stream:
    """Draw packet headers as the paper does: 1,000 sources and destinations, 100 protocols and ports."""
    draw, rows = np.random.default_rng(seed), seconds * rate
    start = np.datetime64("2026-01-05T14:30:00", "us").astype(np.int64)
    columns = {
        "ts": pa.array(start + np.sort(draw.integers(0, seconds * 1_000_000, rows))).cast(pa.timestamp("us", tz="UTC")),
        "src": pa.array(draw.integers(0, 1_000, rows, np.int32)),
        "dst": pa.array(draw.integers(0, 1_000, rows, np.int32)),
        "proto": pa.array(draw.integers(0, 100, rows, np.int32)),
        "port": pa.array(draw.integers(0, 100, rows, np.int32)),
        "bytes": pa.array(draw.integers(40, 1_500, rows, np.int32)),
    }
    _cut(pa.table(columns), folder, files)
    return Stream("packets", folder, "ts TIMESTAMP, src INT, dst INT, proto INT, port INT, bytes INT", rows)


def packet_queries(each: int, seed: int) -> list[Query]:
    """Write the paper's eight groups over six subjects: percentiles of bytes by five of them, and distinct counts.

    The paper's queries answer with one list about a subject. Of source-destination pairs, of which there are more than
    packets in a window, the number is asked for: by pair, every packet would be an answer of its own.
    """
    draw = random.Random(seed)
    percentile = "percentile(bytes, 0.9) AS high, median(bytes) AS middle"
    groups: tuple[tuple[tuple[str, ...], str], ...] = (
        (("src",), percentile),
        (("dst",), percentile),
        ((), "count(DISTINCT src, dst) AS n"),
        (("proto",), percentile),
        (("port",), percentile),
        (("proto", "port"), percentile),
        (("src",), "count(DISTINCT dst) AS n"),
        (("dst",), "count(DISTINCT src) AS n"),
    )
    found = []
    for place, (by, aggregates) in enumerate(groups):
        for number in range(each):
            window = draw.randint(20, 100)
            slide = draw.randint(1, window // 2)
            grouped = f" GROUP BY {', '.join(by)}" if by else ""
            text = f"SELECT {', '.join([*by, aggregates])} FROM s [WINDOW {window} s SLIDE {slide} s]{grouped}"
            found.append(Query(f"p{place}_{number}", by, text))
    return found


def _cut(table: pa.Table, folder: Path, files: int) -> None:
    """Write a table in order as so many files; their times tell Spark their order."""
    folder.mkdir(parents=True)
    edges = [table.num_rows * i // files for i in range(files + 1)]
    for number in range(files):
        path = folder / f"{number:03d}.parquet"
        pq.write_table(table.slice(edges[number], edges[number + 1] - edges[number]), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
