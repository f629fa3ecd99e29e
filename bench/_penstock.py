"""Runs windows over files of trades in Penstock, and measures times, answers and counted operations."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench._batch_ends import BatchEnds
from bench._frame import scratch_folder
from bench._noting import NotingSink
from bench._plain import Answers, Source, Window
from penstock.engine import Engine
from penstock.kernel.synopsis import Kernel
from penstock.model.strategy import DEFAULT_STRATEGY, Strategy


@dataclass(frozen=True, slots=True)
class Setting:
    """What to run, and how."""

    windows: tuple[Window, ...]
    symbols: bool = False
    on_disk: bool = True
    strategy: Strategy = DEFAULT_STRATEGY
    kernel: Kernel = "fast"
    layout: str = "columns"  # of the Parquet sink; "query": a folder for each query, as a new sink has it


@dataclass(slots=True)
class Ran:
    """What a run took and did."""

    creating_seconds: float
    seconds: float = 0.0
    answers: int = 0
    batch_ends: list[float] = field(default_factory=list)
    steps: dict[str, float] = field(default_factory=dict)
    partial_operations: int = 0
    final_operations: int = 0
    kept: list[Answers] = field(default_factory=list)


def run_penstock(
    session: SparkSession,
    source: Source,
    setting: Setting,
    *,
    keep: int = 0,
    after_group: Callable[[], None] | None = None,
) -> Ran:
    """Process all files with a fresh state folder; timed until the Parquet sink holds every answer."""
    with scratch_folder() as scratch:
        state, folder = scratch / "state", scratch / "answers"
        began, ran, ends = time.perf_counter(), Ran(0.0), BatchEnds(after_group)
        with Engine(
            state if setting.on_disk else None,
            spark=session,
            strategy=setting.strategy,
            kernel=setting.kernel,
            sinks=[NotingSink(folder, ends.note, "trades", setting.layout)],
        ) as engine:
            engine.execute(script(source, setting))
            ends.watch(engine, "trades")  # opens logs and sinks
            ran.creating_seconds = time.perf_counter() - began
            began = time.perf_counter()
            engine.process_available(flush=True)
            ran.seconds = time.perf_counter() - began
            _read_off(engine, ran)
        ran.batch_ends = ends.ends()
        assert rows_in(folder) == ran.answers, "the sink does not hold every answer"
        ran.kept = [answers_of(pq.read_table(folder), f"q{number}") for number in range(keep)]
        return ran


def rows_in(folder: Path) -> int:
    """Count the rows of all files below a folder, by their footers."""
    return sum(pq.read_metadata(file).num_rows for file in folder.rglob("*.parquet"))


def script(source: Source, setting: Setting) -> str:
    """Write the stream and its queries in SQL."""
    stream = (
        "CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT) USING parquet "
        f"OPTIONS (path = '{source.folder}', maxFilesPerTrigger = '1') WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
    )
    key, grouped = ("symbol, ", " GROUP BY symbol") if setting.symbols else ("", "")
    queries = [
        f"CREATE QUERY q{number} AS SELECT {key}sum(price * volume) AS value FROM trades {window}{grouped}"
        for number, window in enumerate(setting.windows)
    ]
    return ";\n".join([stream, *queries])


def answers_of(written: pa.Table, query: str) -> Answers:
    """Read one query's answers out of the sink's files."""
    table = written.filter(pc.equal(written["query_name"].cast(pa.string()), query))
    ends = table["window_end"].cast(pa.int64()).to_pylist()
    symbols: Sequence[str | None] = (
        table["symbol"].to_pylist() if "symbol" in table.column_names else [None] * len(ends)
    )
    values = table["value"].to_pylist()
    found = {(end, s): v for end, s, v in zip(ends, symbols, values, strict=True) if v is not None}
    assert len(found) == sum(v is not None for v in values), "a window was answered twice"
    return found


def _read_off(engine: Engine, ran: Ran) -> None:
    """Read counters and step times."""
    pipeline = engine.stream("trades").pipeline
    ran.answers = pipeline.metrics.answers
    ran.steps = {
        name: round(value, 4) for name, value in asdict(pipeline.metrics).items() if name not in ("batches", "answers")
    }
    ran.partial_operations = pipeline.synopsis.partial_operations
    ran.final_operations = pipeline.synopsis.window_partials
