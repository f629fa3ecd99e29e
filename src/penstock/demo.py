"""Numbers of rows and queries in, a guided run on a generated market printed out: answers, sharing, and Spark alone."""

from __future__ import annotations

import random
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from penstock.engine import Engine
from penstock.model.duration import SECOND, format_duration
from penstock.spark.generator import EXCHANGES, Market, symbols_table, write_trades

FILES: Final = 8  # one a batch
HOUR_S: Final = 3600
RANGES_S: Final = (60, 120, 300, 420, 600, 720, 900, 1200, 1800)
SLIDES_S: Final = (60, 90, 120, 150, 180, 240, 300)
BLOCK_SIZES: Final = (1_000, 5_000, 10_000, 25_000, 50_000)
PLAIN: Final = 3  # queries that Spark alone runs for comparison
TRADES: Final = "ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT, side STRING, exchange STRING"
LATENESS_S: Final = 5
SHOWN: Final = 3  # answers of a query


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of query; ``{volume}``, ``{exchange}`` and ``{number}`` vary."""

    name: str
    asks: str
    aggregates: str
    keys: str = ""
    where: str = ""
    having: str = ""
    listing: bool = False


TEMPLATES: Final = (
    Template("turnover", "how much is traded", "sum(price * volume) AS turnover, count(*) AS trades"),
    Template(
        "sector",
        "which sectors trade how much",
        "sum(price * volume) AS turnover, avg(price) AS mean_price",
        keys="sector",
        listing=True,
    ),
    Template(
        "busiest",
        "which symbols trade most often",
        "count(*) AS trades, min(price) AS low, max(price) AS high",
        keys="symbol",
        having="trades > {number}",
    ),
    Template(
        "blocks",
        "large trades by side",
        "count(*) AS blocks, max(volume) AS largest",
        keys="side",
        where="volume > {volume}",
    ),
    Template(
        "small_caps",
        "large trades outside the big index",
        "count(*) AS trades, sum(volume) AS shares",
        keys="sector",
        where="listing.r2000 AND volume > {volume}",
        having="trades > 2",
        listing=True,
    ),
    Template(
        "vwap",
        "the mean price by volume on one exchange",
        "sum(price * volume) / sum(volume) AS vwap",
        where="exchange = '{exchange}'",
    ),
    Template(
        "pressure",
        "do buyers or sellers push",
        "sum(CASE WHEN side = 'B' THEN volume ELSE -volume END) AS bought_net, stddev(volume) AS spread",
    ),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One query of the demo, as Penstock and as plain Spark write it."""

    name: str
    asks: str
    text: str
    plain: str


def run_demo(rows: int, queries: int, seed: int) -> None:
    """Generate a market, answer the queries together, and tell what sharing saved."""
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as scratch:
        folder, asked = Path(scratch), draw_queries(queries, seed)
        with _status("starting Spark"):
            engine = Engine()
        with engine:
            with _status("generating the market"):
                _generate(engine, Market(seed=seed, rows=rows, rate=rows / HOUR_S, late_fraction=0.01), folder)
            _introduce(console, rows, asked)
            with _status(f"creating {queries:,} queries"):
                engine.execute(";\n".join(f"CREATE QUERY {q.name} AS {q.text}" for q in asked))
            seconds = _process(engine)
            _print_run(console, engine, seconds)
            _print_answers(console, engine, asked)
            _print_sharing(console, engine)
            _print_plain(console, engine, folder, asked, seconds)


def draw_queries(number: int, seed: int) -> list[Asked]:
    """Fill the templates in turn with windows and constants."""
    draw = random.Random(seed)
    return [_fill(TEMPLATES[i % len(TEMPLATES)], i, draw) for i in range(number)]


def _fill(template: Template, number: int, draw: random.Random) -> Asked:
    """Write one query both ways; Spark's windows start where ours do when startTime is −range mod slide."""
    range_s = draw.choice(RANGES_S)
    slide_s = draw.choice([s for s in SLIDES_S if s <= range_s])
    values = {"volume": draw.choice(BLOCK_SIZES), "exchange": draw.choice(EXCHANGES), "number": draw.randint(20, 200)}
    where, having = (f"{word} {text.format(**values)}" if text else "" for word, text in _conditions(template))
    keys, grouped = (f"{template.keys}, ", f"GROUP BY {template.keys}") if template.keys else ("", "")
    join = "JOIN listing USING (symbol)" if template.listing else ""
    lengths = ", ".join(f"'{s} seconds'" for s in (range_s, slide_s, -range_s % slide_s))
    starts = f"GROUP BY window(ts, {lengths})" + (f", {template.keys}" if keys else "")
    window = f"[RANGE {format_duration(range_s * SECOND)} SLIDE {format_duration(slide_s * SECOND)}]"
    select = f"SELECT {keys}{template.aggregates} FROM trades"
    return Asked(
        f"{template.name}_{number}",
        template.asks,
        " ".join(filter(None, (select, window, join, where, grouped, having))),
        " ".join(filter(None, (select, join, where, starts, having))),
    )


def _conditions(template: Template) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return a template's conditions with the words before them."""
    return ("WHERE", template.where), ("HAVING", template.having)


def _generate(engine: Engine, market: Market, folder: Path) -> None:
    """Write trades and the listing of symbols, and enter both."""
    write_trades(engine.session, market, folder / "trades", FILES)
    engine.execute(
        f"""
        CREATE STREAM trades ({TRADES}) USING parquet
          OPTIONS (path = '{folder / "trades"}', maxFilesPerTrigger = '1')
          WATERMARK FOR ts AS ts - INTERVAL {LATENESS_S} SECONDS
        """
    )
    symbols_table(engine.session, market).write.parquet(str(folder / "listing"))
    engine.create_table("listing", engine.session.read.parquet(str(folder / "listing")))


def _process(engine: Engine) -> float:
    """Process the whole stream with a line of progress; return the seconds it took."""
    with _status("processing") as status:
        began = time.perf_counter()
        stream = engine.stream("trades")
        deliver = stream.pipeline.deliver

        def watching(number: int, tables: Sequence[pa.Table]) -> None:
            if deliver is not None:
                deliver(number, tables)
            counted = stream.pipeline
            status.update(f"{counted.progress.counts.ingested:,} rows, {counted.metrics.answers:,} answers")

        stream.pipeline.deliver = watching
        engine.process_available(flush=True)
        return time.perf_counter() - began


class _Silent:
    """Progress where nobody watches."""

    def update(self, text: str) -> None:
        """Show nothing."""


class _Spinning:
    """Progress on a terminal."""

    def __init__(self, console: Console, text: str) -> None:
        """Prepare a line that moves."""
        self.line = console.status(text)

    def update(self, text: str) -> None:
        """Show other words."""
        self.line.update(text)


@contextmanager
def _status(text: str) -> Iterator[_Silent | _Spinning]:
    """Show what goes on while it does, on standard error and only if that is a terminal."""
    if not sys.stderr.isatty():
        yield _Silent()
        return
    spinning = _Spinning(Console(stderr=True), text)
    with spinning.line:
        yield spinning


def _introduce(console: Console, rows: int, asked: Sequence[Asked]) -> None:
    """Say in two lines what happens, and show what the queries look like."""
    console.print(f"{len(asked):,} continuous queries over {rows:,} trades, an hour of a made-up market.")
    console.print("One Spark job a batch serves all of them: rows are read once, slices are shared.\n")
    for query in asked[: len(TEMPLATES)]:
        console.print(f"{query.name}: {query.asks}", style="bold")
        _print_indented(console, query.text)
    if len(asked) > len(TEMPLATES):
        console.print(f"… and {len(asked) - len(TEMPLATES):,} more with other windows and constants")
    console.print()


def _print_indented(console: Console, text: str) -> None:
    """Print text that may take several lines, all of them indented."""
    lines = textwrap.wrap(text, console.width, initial_indent="  ", subsequent_indent="  ")
    console.print("\n".join(lines), markup=False, soft_wrap=True)


def _print_run(console: Console, engine: Engine, seconds: float) -> None:
    """Tell what was done and how long it took."""
    pipeline = engine.stream("trades").pipeline
    counts = pipeline.progress.counts
    late = f" ({counts.late:,} late)" if counts.late else ""
    console.print(
        f"{counts.ingested:,} rows{late}, {pipeline.metrics.answers:,} answers in {seconds:.1f} s: "
        f"{counts.ingested / seconds:,.0f} rows/s\n",
        style="bold",
    )


def _print_answers(console: Console, engine: Engine, asked: Sequence[Asked]) -> None:
    """Print some answers of the first queries."""
    for query in asked[:PLAIN]:
        answers = engine.results(query.name)
        middle = max(0, answers.num_rows // 2 - 1)  # there the windows are full
        console.print(_grid(f"{query.name}: {answers.num_rows:,} answers, for example", answers.slice(middle, SHOWN)))
    console.print()


def _grid(title: str, answers: pa.Table) -> Grid:
    """Lay answers out as a table."""
    grid = Grid(title=title, title_justify="left", title_style="bold")
    for field in answers.schema:
        number = pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
        grid.add_column(field.name, justify="right" if number else "left")
    for row in answers.to_pylist():
        grid.add_row(*(_cell(value) for value in row.values()))
    return grid


def _cell(value: object) -> str:
    """Write one value so that a person can read it."""
    match value:
        case None:
            return "NULL"
        case float():
            return f"{value:,.2f}"
        case int():
            return f"{value:,}"
        case _:
            return value.strftime("%H:%M:%S") if hasattr(value, "strftime") else str(value)


def _print_sharing(console: Console, engine: Engine) -> None:
    """Print the plan's count of operations, shared and alone."""
    console.print("What sharing saves", style="bold")
    for line in engine.explain().splitlines():
        if line.strip().startswith(("tree ", "operations ")):
            _print_indented(console, line.strip())
    console.print()


def _print_plain(console: Console, engine: Engine, folder: Path, asked: Sequence[Asked], seconds: float) -> None:
    """Run a few of the queries as separate Spark queries and compare."""
    chosen = asked[:PLAIN]
    with _status(f"{len(chosen)} of the queries as separate Spark queries"):
        plain = _plain_seconds(engine, folder, chosen)
    console.print("The same with Spark alone", style="bold")
    console.print(
        f"  {len(chosen)} of {len(asked):,} queries as separate Spark queries took {plain:.1f} s, answers not kept."
    )
    console.print(f"  Penstock took {seconds:.1f} s for all {len(asked):,}, and went first, on a cold JVM.")
    if len(asked) > len(chosen):
        pace = plain / len(chosen) * len(asked)
        console.print(
            f"  At that pace {len(asked):,} separate queries would take {pace:,.0f} s: a guess, not measured."
        )


def _plain_seconds(engine: Engine, folder: Path, asked: Sequence[Asked]) -> float:
    """Time one Structured Streaming query each, all together over the same files, into a sink that keeps nothing."""
    session = engine.session
    files = session.readStream.schema(TRADES).option("maxFilesPerTrigger", 1).parquet(str(folder / "trades"))
    files.withWatermark("ts", f"{LATENESS_S} seconds").createOrReplaceTempView("trades")
    session.read.parquet(str(folder / "listing")).createOrReplaceTempView("listing")
    began = time.perf_counter()
    running = [
        session.sql(query.plain)
        .writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", str(folder / "plain" / query.name))
        .trigger(availableNow=True)
        .start()
        for query in asked
    ]
    for query in running:
        query.awaitTermination()
    return time.perf_counter() - began
