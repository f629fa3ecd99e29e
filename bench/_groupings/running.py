"""Runs queries over files of rows in Penstock, and measures time, answers and what was shared."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench._frame import scratch_folder
from bench._groupings.workloads import Query, Stream
from penstock.engine import Engine
from penstock.model.strategy import DEFAULT_STRATEGY, Strategy
from penstock.share.grouping_rollup import to_record
from penstock.sinks.parquet import ParquetSink

Sums = Mapping[str, tuple[int, float]]  # by query: answers, and all their numbers summed


@dataclass(slots=True)
class Ran:
    """What a run took and did."""

    seconds: float
    answers: int
    steps: dict[str, float]
    feeding: dict[str, Any]
    estimates: dict[str, Any]
    sums: dict[str, tuple[int, float]] = field(default_factory=dict)  # by query: answers, and all their numbers summed


def run(session: SparkSession, stream: Stream, queries: Sequence[Query], strategy: Strategy = DEFAULT_STRATEGY) -> Ran:
    """Process all files with a fresh state folder; timed until the Parquet sink holds every answer."""
    with scratch_folder() as scratch:
        folder = scratch / "answers"
        sink = ParquetSink(folder, layout="columns")
        with Engine(scratch / "state", spark=session, strategy=strategy, sinks=[sink]) as engine:
            engine.execute(";\n".join([stream.declared, *(query.statement for query in queries)]))
            pipeline = engine.stream("s").pipeline
            began = time.perf_counter()
            engine.process_available(flush=True)
            seconds, groupings = time.perf_counter() - began, pipeline.groupings
            steps = {n: round(v, 3) for n, v in asdict(pipeline.metrics).items() if isinstance(v, float)}
            estimates = {
                tree: {"rows": one.rows, "partials": {", ".join(k) or "()": n for k, n in one.partials.items()}}
                for tree, one in groupings.estimates.items()
            }
            ran = Ran(seconds, pipeline.metrics.answers, steps, to_record(groupings.feeding), estimates)
        ran.sums = sums_of(folder)
        assert sum(count for count, _ in ran.sums.values()) == ran.answers, "the sink does not hold every answer"
        return ran


def sums_of(folder: Path) -> dict[str, tuple[int, float]]:
    """Sum up each query's answers in the files of a sink, whose columns differ from file to file."""
    found: dict[str, tuple[int, float]] = {}
    for path in folder.glob("*.parquet"):
        for name, (count, value) in _sums(pq.ParquetFile(path).read()).items():
            before = found.get(name, (0, 0.0))
            found[name] = before[0] + count, before[1] + value
    return found


def _sums(written: pa.Table) -> dict[str, tuple[int, float]]:
    """Sum up each query's answers, so that two runs can be compared."""
    numbers = [f.name for f in written.schema if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)]
    total = pa.chunked_array([pa.array([0.0] * written.num_rows, pa.float64())])
    for name in numbers:
        total = pc.add(total, pc.fill_null(written[name].cast(pa.float64()), 0.0))
    row = pa.table({"query": written["query_name"].cast(pa.string()), "total": total})
    grouped = row.group_by("query").aggregate([("total", "sum"), ("total", "count")])
    each = zip(*(grouped[c].to_pylist() for c in ("query", "total_count", "total_sum")), strict=True)
    return {query: (count, value) for query, count, value in each}


def differing(ours: Ran, theirs: Ran) -> list[str]:
    """List the queries whose answers differ between two runs."""
    return differing_sums(ours.sums, theirs.sums)


def differing_sums(ours: Sums, theirs: Sums) -> list[str]:
    """List the queries whose answers differ in number or in their sums."""
    return sorted(name for name in ours.keys() | theirs.keys() if not _same(ours.get(name), theirs.get(name)))


def _same(one: tuple[int, float] | None, other: tuple[int, float] | None) -> bool:
    """Compare counts exactly, and sums of doubles closely."""
    if one is None or other is None:
        return one is other
    return one[0] == other[0] and abs(one[1] - other[1]) <= 1e-9 * max(1.0, abs(one[1]))
