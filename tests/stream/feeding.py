"""What tests of streams share: rows by the second, a bed or an engine over files to feed, and sums to expect."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine import Engine
from penstock.testing import EPOCH, TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]"


def rows(*seconds: float) -> list[dict[str, Any]]:
    return [{"ts": ts, "k": "ab"[int(ts) % 2], "v": int(ts)} for ts in seconds]


def open_bed(spark: SparkSession, **options: Any) -> TestBed:
    declared = {name: options.pop(name) for name in ("retain_rows", "dedup") if name in options}
    bed = TestBed(spark, **options)
    bed.stream("s", "ts TIMESTAMP, k STRING, v INT", **declared)
    return bed


def seconds(first_end_us: int | None) -> float | None:
    return None if first_end_us is None else first_end_us / 1e6 - EPOCH.timestamp()


def put(folder: Path, number: int, times: range) -> None:
    folder.mkdir(exist_ok=True)
    table = pa.table(
        {
            "ts": pa.array([EPOCH + timedelta(seconds=t) for t in times], pa.timestamp("us", tz="UTC")),
            "v": pa.array(list(times), pa.int32()),
            "w": pa.array([2 * t for t in times], pa.int32()),
        }
    )
    path = folder / f"{number:03d}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark reads files in this order


def file_engine(spark: SparkSession, tmp_path: Path) -> Engine:
    engine = Engine(tmp_path / "state", spark=spark)
    engine.execute(
        f"CREATE STREAM s (ts TIMESTAMP, v INT, w INT) USING parquet "
        f"OPTIONS (path '{tmp_path / 'source'}', maxFilesPerTrigger 1) WATERMARK FOR ts"
    )
    return engine


def found(engine: Engine, name: str) -> list[tuple[float, Any]]:
    answers = engine.results(name, "rows")
    return [((a["window_end"] - EPOCH).total_seconds(), a["x"]) for a in answers]


def sums(ends: range, factor: int = 1) -> list[tuple[float, int]]:
    return [(end, factor * sum(range(max(0, end - 10), end))) for end in ends]
