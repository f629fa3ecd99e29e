"""Measures what a few of the demo's queries cost as Spark queries of their own, and compares the answers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.demo.asked import DemoQuery
from penstock.demo.market import LATENESS_S, TRADES, Files
from penstock.engine import Engine

READER: Final = "alone"
TOLERANCE: Final = 1e-9  # of doubles, which are summed in another order


@dataclass(frozen=True, slots=True)
class Alone:
    """What was measured: some queries together, each a Spark query, over the rows that were measured when shared."""

    names: tuple[str, ...]
    seconds: float
    compared: int  # answers of these queries, compared with Spark's on all rows at once
    different: int

    def pace(self, queries: int) -> float:
        """Return the seconds that so many queries would take at this pace: a guess, not measured."""
        return self.seconds / len(self.names) * queries


def choose_alone(asked: Sequence[DemoQuery], number: int = 3) -> list[DemoQuery]:
    """Take neighbours from the middle: different kinds of queries, with windows as they were drawn."""
    start = max(0, len(asked) // 2 - number // 2)
    return list(asked[start : start + number])


def run_alone(engine: Engine, files: Files, asked: Sequence[DemoQuery]) -> Alone:
    """Warm up on the first files as the shared run did, time the rest, then compare answers."""
    with _views(engine, files, streaming=True):
        frames = {query.name: engine.session.sql(query.alone) for query in asked}
        files.let_in(READER, files.written[: files.warm])
        _run(engine, files, frames)
        files.let_in(READER, files.written[files.warm :])
        began = time.perf_counter()
        _run(engine, files, frames)
        seconds = time.perf_counter() - began
    with _views(engine, files, streaming=False):
        pairs = [(query, engine.session.sql(query.alone).toArrow()) for query in asked]
    found = [compare_answers(engine.results(q.name), table, q.keys) for q, table in pairs]
    return Alone(tuple(q.name for q in asked), seconds, sum(c for c, _ in found), sum(d for _, d in found))


@contextmanager
def _views(engine: Engine, files: Files, *, streaming: bool) -> Iterator[None]:
    """Name the trades and the listing as Spark's own queries do."""
    session, folder = engine.session, str(files.source(READER))
    if streaming:
        trades = session.readStream.schema(TRADES).option("maxFilesPerTrigger", 1).parquet(folder)
        trades = trades.withWatermark("ts", f"{LATENESS_S} seconds")
    else:
        trades = session.read.schema(TRADES).parquet(folder)
    trades.createOrReplaceTempView("trades")
    session.read.parquet(str(files.listing)).createOrReplaceTempView("listing")
    try:
        yield
    finally:
        session.catalog.dropTempView("trades")
        session.catalog.dropTempView("listing")


def _run(engine: Engine, files: Files, frames: dict[str, Any]) -> None:
    """Run the queries together over what is let in, into a sink that keeps nothing."""
    running = []
    try:
        for name, frame in frames.items():
            writer = frame.writeStream.outputMode("update").format("noop").trigger(availableNow=True)
            running.append(writer.option("checkpointLocation", str(files.folder / "checkpoints" / name)).start())
        for query in running:
            query.awaitTermination()
    finally:
        for query in running:
            query.stop()


def compare_answers(ours: pa.Table, theirs: pa.Table, keys: Sequence[str]) -> tuple[int, int]:
    """Count the answers compared and those that differ; Spark has no answer for a window without rows."""
    by = ("window_end", *keys)
    values = [name for name in theirs.column_names if name not in by]
    wanted, found = _by_key(theirs, by, values), _by_key(ours, by, values)
    extra = found.keys() - wanted.keys() if keys else set()
    different = [key for key, row in wanted.items() if not _alike(row, found.get(key))]
    return len(wanted) + len(extra), len(different) + len(extra)


def _by_key(table: pa.Table, by: Sequence[str], values: Sequence[str]) -> dict[tuple[Any, ...], list[Any]]:
    """Index answers by window and group; an instant is the same in every time zone."""
    ends = table["window_end"].cast(pa.int64()).to_pylist()
    columns = [ends, *(table[name].to_pylist() for name in by[1:])]
    rows = zip(*(table[name].to_pylist() for name in values), strict=True)
    return {key: list(row) for key, row in zip(zip(*columns, strict=True), rows, strict=True)}


def _alike(wanted: Sequence[Any], found: Sequence[Any] | None) -> bool:
    """Tell whether two answers are the same, doubles nearly."""
    if found is None:
        return False
    return all(
        math.isclose(a, b, rel_tol=TOLERANCE) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(wanted, found, strict=True)
    )
