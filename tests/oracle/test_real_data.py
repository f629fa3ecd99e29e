"""Real streams through real files: a hundred queries over trades, and two feeds whose rows come out of order."""

from __future__ import annotations

import gzip
import io
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from penstock.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000
HOUR = 3_600 * SECOND


@dataclass(frozen=True)
class Ask:
    """One query in parts; ranges are at least slides, so every row is in some window."""

    name: str
    range_us: int
    slide_us: int
    offset_us: int
    outputs: tuple[str, ...]
    keys: tuple[str, ...] = ()
    where: str | None = None
    having: str | None = None

    @property
    def text(self) -> str:
        window = f"[RANGE {self.range_us} us SLIDE {self.slide_us} us OFFSET {self.offset_us} us]"
        return f"SELECT {self.listed} FROM feed {window}{self.rest(self.keys)}"

    @property
    def listed(self) -> str:
        return ", ".join([*self.keys, *(f"{output} AS o{i}" for i, output in enumerate(self.outputs))])

    def rest(self, by: Sequence[str]) -> str:
        where = f" WHERE {self.where}" if self.where else ""
        grouped = f" GROUP BY {', '.join(by)}" if by else ""
        return f"{where}{grouped}" + (f" HAVING {self.having}" if self.having else "")


class Plain:
    """DuckDB over the rows of a feed, each with the watermark its batch began with."""

    def __init__(self, batches: Sequence[pa.Table], lateness_us: int) -> None:
        """Take batches with a column ``us``; follow the watermark from one to the next."""
        self.late, watermark, greatest, marked = 0, -(1 << 62), -(1 << 62), []
        for batch in batches:
            times = batch["us"].to_numpy()
            self.late += int((times < watermark).sum())
            marked.append(batch.append_column("watermark", pa.array(np.full(len(times), watermark))))
            greatest = max(greatest, int(times.max()))
            watermark = greatest - lateness_us
        self.db = duckdb.connect()
        self.db.register("rows_", pa.concat_tables(marked))
        self.db.execute("CREATE TABLE feed AS SELECT * FROM rows_")
        self.first = min(int(np.min(b["us"].to_numpy())) for b in batches[:1])
        self.last = greatest

    def answers(self, ask: Ask) -> pa.Table:
        """Copy every row into its windows that were not final, and group; empty windows count where nothing groups."""
        first = f"us + 1 + ((({ask.offset_us} - us - 1) % {ask.slide_us}) + {ask.slide_us}) % {ask.slide_us}"
        ends = f"range({first}, us + {ask.range_us} + 1, {ask.slide_us})"
        where = f"WHERE {ask.where}" if ask.where else ""
        copies = f"SELECT * FROM (SELECT *, unnest({ends}) AS e FROM feed {where}) WHERE e > watermark"
        kept = ask.having or "true"
        by, order = ", ".join(["e", *ask.keys]), ", ".join(["e", *(f"{key} NULLS FIRST" for key in ask.keys)])
        held = f"SELECT e, {ask.listed}, {kept} AS kept FROM ({copies}) GROUP BY {by}"
        if not ask.keys:
            every = f"SELECT unnest(range({self._first_end(ask)}, {self.last + ask.range_us + 1}, {ask.slide_us})) AS e"
            (nothing,) = self.db.sql(f"SELECT {ask.listed}, {kept} FROM feed WHERE false").fetchall()
            values = ", ".join("NULL" if v is None else str(v) for v in nothing)
            others = f"SELECT e, {values} FROM ({every} EXCEPT SELECT e FROM h)"
            held = f"WITH h AS MATERIALIZED ({held}) FROM h UNION ALL {others}"
        return self.db.sql(f"SELECT * EXCLUDE kept FROM ({held}) WHERE kept ORDER BY {order}").to_arrow_table()

    def _first_end(self, ask: Ask) -> int:
        """Return the end of the first window after the first row."""
        return self.first + 1 + (ask.offset_us - self.first - 1) % ask.slide_us


def compare(ask: Ask, found: pa.Table, expected: pa.Table) -> None:
    """Compare whole columns: exact but for doubles."""
    assert found["window_end"].cast(pa.int64()).to_pylist() == expected["e"].to_pylist(), ask.text
    for name in expected.column_names[1:]:
        mine, wanted = found[name], expected[name]
        if pa.types.is_floating(mine.type):
            assert np.allclose(_doubles(mine), _doubles(wanted), rtol=1e-9, atol=1e-9, equal_nan=True), (name, ask.text)
        else:
            assert mine.to_pylist() == wanted.cast(mine.type).to_pylist(), (name, ask.text)


def _doubles(column: pa.ChunkedArray) -> Any:
    return column.cast(pa.float64()).to_numpy()


# -- trades of US shares ------------------------------------------------------------------------------------------

TRADES = (
    "CREATE STREAM feed (ts_ms BIGINT, symbol STRING, price_e4 BIGINT, size INT, exchange STRING, condition STRING, "
    "suspicious INT, ts TIMESTAMP GENERATED ALWAYS AS (timestamp_millis(ts_ms))) USING csv "
    "OPTIONS (path = '{path}', maxFilesPerTrigger = '2') WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
)
OUTPUTS = (
    "count(*)", "sum(size)", "sum(price_e4 * size)", "min(price_e4)", "max(price_e4)", "avg(price_e4)", "max(size)",
    "sum(price_e4 * size) / sum(size)", "count(CASE WHEN size >= 1000 THEN 1 END)", "stddev_samp(price_e4 / 10000.0)",
)  # fmt: skip
PREDICATES = (
    "symbol = 'IBM'", "symbol <> 'SPY'", "symbol IN ('AIG', 'BAC')", "size > 500", "size BETWEEN 100 AND 300",
    "exchange = 'D'", "exchange IN ('N', 'P', 'Q')", "price_e4 > 1000000 AND size >= 200", "size % 100 <> 0",
    "condition = '1'", "suspicious = 1", "symbol = 'SPY' AND exchange <> 'D'", "price_e4 < 200000 OR size > 10000",
)  # fmt: skip
HAVINGS = ("count(*) > 20", "sum(size) > 100000", "max(price_e4) - min(price_e4) > 500", "avg(size) < 300")


def hundred_queries() -> list[Ask]:
    rng = random.Random(2013)
    asks = []
    for number in range(100):
        slide = rng.choice([60, 75, 100, 240, 300, 420, 600, 900, 3600]) * SECOND
        range_ = rng.choice([slide, slide, slide * 2, slide + rng.randrange(0, slide, 5 * SECOND)])
        offset = rng.choice([0, rng.randrange(0, slide, 5 * SECOND)])
        if number % 25 == 0:  # edges at odd times
            range_, offset = range_ + 123_456, offset + 654_321
        keys = rng.choice([(), (), ("symbol",), ("symbol",), ("exchange",), ("symbol", "exchange")])
        where = rng.choice([None, *PREDICATES, *PREDICATES])
        having = rng.choice(HAVINGS) if rng.random() < 0.2 else None
        outputs = tuple(rng.sample(OUTPUTS, rng.randint(1, 3)))
        asks.append(Ask(f"q{number}", range_, slide, offset, outputs, keys, where, having))
    return asks


def test_a_hundred_queries_over_a_day_of_trades(spark: SparkSession, shared_data: Path, tmp_path: Path) -> None:
    with gzip.open(shared_data / "us-equity-trades-2013" / "trades_20131008.csv.gz", "rt") as file:
        lines = file.read().splitlines()[1:]
    write_in_order(lines, 6, tmp_path / "in", gzip.compress)
    asks = hundred_queries()
    with Engine(spark=spark) as engine:
        engine.execute(TRADES.format(path=tmp_path / "in"))
        engine.execute("; ".join(f"CREATE QUERY {ask.name} AS {ask.text}" for ask in asks))
        day = Ask("day", 24 * HOUR, 24 * HOUR, 4 * HOUR, ("sum(size)", "sum(size * price_e4)"), ("symbol",))
        engine.create_query(day.name, day.text)
        engine.process_available(flush=True)
        pipeline = engine.stream("feed").pipeline
        assert pipeline.metrics.batches == 3
        assert (pipeline.progress.clock.counts.on_time, pipeline.progress.clock.counts.late) == (654_140, 0)
        # the figures that come with the data
        found = engine.results("day").to_pydict()
        assert found["symbol"] == ["AIG", "BAC", "IBM", "SPY"]
        assert found["o0"] == [8_774_223, 92_437_597, 5_564_671, 178_346_557]
        assert found["o1"][2] == 10_005_243_054_000
        plain = Plain([read_trades(lines)], 0)
        for ask in asks:
            compare(ask, engine.results(ask.name), plain.answers(ask))


def read_trades(lines: Sequence[str]) -> pa.Table:
    names = ["ts_ms", "symbol", "price_e4", "size", "exchange", "condition", "suspicious"]
    rows = pa.csv.read_csv(
        io.BytesIO("\n".join(lines).encode()),
        pa.csv.ReadOptions(column_names=names),
        convert_options=pa.csv.ConvertOptions(column_types={"condition": pa.string()}),
    )
    return rows.append_column("us", pc.multiply(rows["ts_ms"], 1000))


def write_in_order(
    lines: Sequence[str], number: int, folder: Path, pack: Callable[[bytes], bytes] | None = None
) -> list[list[str]]:
    """Cut lines into so many files that the source reads one after the other."""
    folder.mkdir()
    size = -(-len(lines) // number)
    parts = [list(lines[start : start + size]) for start in range(0, len(lines), size)]
    for place, part in enumerate(parts):
        content = ("\n".join(part) + "\n").encode()
        file = folder / f"{place:03d}.csv{'.gz' if pack else ''}"
        file.write_bytes(pack(content) if pack else content)
        os.utime(file, (1_400_000_000 + place, 1_400_000_000 + place))
    return parts


# -- feeds out of order -------------------------------------------------------------------------------------------

DNS_FIELDS = (
    "uid orig orig_p resp resp_p proto trans_id rtt query qclass qclass_name qtype qtype_name rcode rcode_name "
    "aa tc rd ra z answers ttls rejected"
)
DNS = (
    "CREATE STREAM feed (t DECIMAL(20, 6), {fields}, "
    "ts TIMESTAMP GENERATED ALWAYS AS (timestamp_micros(CAST(t * 1000000 AS BIGINT)))) "
    "USING csv OPTIONS (path = '{path}', sep = '\\t', comment = '#', quote = '', nullValue = '-', "
    "maxFilesPerTrigger = '1') WATERMARK FOR ts AS ts - INTERVAL {lateness} SECONDS"
)
DNS_ASKS = (
    Ask("all", 60 * SECOND, 60 * SECOND, 0, ("count(*)", "count(rtt)", "avg(rtt)")),
    Ask("slow", 90 * SECOND, 40 * SECOND, 7 * SECOND, ("count(*)", "max(rtt)"), ("rcode_name",), "rtt > 0.001"),
    Ask("hosts", 300 * SECOND, 60 * SECOND, 0, ("count(*)", "min(rtt)"), ("orig",), None, "count(*) > 10"),
    Ask("names", 30 * SECOND, 30 * SECOND, 0, ("count(*)",), ("query",), "query LIKE '%.com'"),
)


def test_a_feed_in_severe_disorder(spark: SparkSession, shared_data: Path, tmp_path: Path) -> None:
    with gzip.open(shared_data / "zeek-dns" / "dns.log.gz", "rt") as file:
        lines = [line.rstrip("\n") for line in file if not line.startswith("#")]
    parts = write_in_order(lines, 10, tmp_path / "in")
    fields = ", ".join(f"{name} {'DOUBLE' if name == 'rtt' else 'STRING'}" for name in DNS_FIELDS.split())
    plain = Plain([read_dns(part) for part in parts], 30 * SECOND)
    with Engine(spark=spark) as engine:
        engine.execute(DNS.format(fields=fields, path=tmp_path / "in", lateness=30))
        check_feed(engine, plain, DNS_ASKS, len(lines), len(parts))
    assert plain.late > 300  # up to 670 s late


def read_dns(lines: Sequence[str]) -> pa.Table:
    cells = [line.split("\t") for line in lines]
    names = ["t", *DNS_FIELDS.split()]
    columns = {name: [None if row[i] == "-" else row[i] for row in cells] for i, name in enumerate(names)}
    rtt = [None if v is None else float(v) for v in columns["rtt"]]
    us = [int(whole) * SECOND + int(rest) for whole, rest in (t.split(".") for t in columns["t"] if t)]
    return pa.table({**{n: columns[n] for n in ("orig", "query", "rcode_name")}, "rtt": rtt, "us": us})


COINS = (
    "CREATE STREAM feed (arrival_ns BIGINT, event_ms BIGINT, trade_ms BIGINT, market STRING, symbol STRING, "
    "trade_id BIGINT, price DECIMAL(18, 8), qty DECIMAL(18, 8), buyer_is_maker INT, order_type STRING, "
    "ts TIMESTAMP GENERATED ALWAYS AS (timestamp_millis(trade_ms))) USING csv OPTIONS (path = '{path}', "
    "maxFilesPerTrigger = '1') WATERMARK FOR ts AS ts - INTERVAL {lateness} MILLISECONDS"
)
COIN_ASKS = (
    Ask("all", SECOND, SECOND, 0, ("count(*)", "sum(qty)", "max(price)")),
    Ask("markets", 5 * SECOND, 1_500_000, 250_000, ("sum(CAST(price AS DOUBLE) * qty)",), ("market", "symbol")),
    Ask("takers", 10 * SECOND, 10 * SECOND, 0, ("sum(qty)", "min(price)"), ("symbol",), "buyer_is_maker = 1"),
)


def test_a_feed_in_mild_disorder(spark: SparkSession, shared_data: Path, tmp_path: Path) -> None:
    with gzip.open(shared_data / "binance-trades-2024" / "trades.csv.gz", "rt") as file:
        lines = file.read().splitlines()[1:]
    parts = write_in_order(lines, 9, tmp_path / "in")
    plain = Plain([read_coins(part) for part in parts], 20_000)
    with Engine(spark=spark) as engine:
        engine.execute(COINS.format(path=tmp_path / "in", lateness=20))
        check_feed(engine, plain, COIN_ASKS, len(lines), len(parts))
    assert plain.late > 0  # up to 214 ms late


def read_coins(lines: Sequence[str]) -> pa.Table:
    cells = [line.split(",") for line in lines]
    amount = pa.decimal128(18, 8)
    return pa.table(
        {
            "us": [int(c[2]) * 1000 for c in cells],
            "market": [c[3] for c in cells],
            "symbol": [c[4] for c in cells],
            "price": pa.array([c[6] for c in cells]).cast(amount),
            "qty": pa.array([c[7] for c in cells]).cast(amount),
            "buyer_is_maker": [int(c[8]) for c in cells],
        }
    )


def check_feed(engine: Engine, plain: Plain, asks: Sequence[Ask], rows: int, batches: int) -> None:
    """Run a feed to its end and compare counts and answers."""
    for ask in asks:
        engine.create_query(ask.name, ask.text)
    engine.process_available(flush=True)
    pipeline = engine.stream("feed").pipeline
    counts = pipeline.progress.clock.counts
    assert pipeline.metrics.batches == batches
    assert (counts.ingested, counts.late, counts.invalid) == (rows, plain.late, 0)
    assert counts.on_time == rows - plain.late
    for ask in asks:
        compare(ask, engine.results(ask.name), plain.answers(ask))
