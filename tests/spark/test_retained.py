"""Batches kept and asked for again by time, across restarts."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.model.schema import Column, Stream
from penstock.spark.kept_rows import commit_folders
from penstock.spark.kept_rows.retained import Retained
from penstock.spark.sources.rows import frame_of
from penstock.store import faults

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAM = Stream(
    "trades",
    (
        Column("ts", "timestamp"),
        Column("price a", "decimal(10,2)"),
        Column("tags", "map<string,int>"),
        Column("twice", "decimal(11,2)", "`price a` * 2"),
    ),
    "ts",
)
AHEAD_US = 1_000


def batch(spark: SparkSession, times: Sequence[int | None]) -> DataFrame:
    columns = [
        pa.array(times, pa.timestamp("us", "UTC")),
        pa.array([None if t is None else Decimal(t) for t in times], pa.decimal128(10, 2)),
        pa.array([[("t", 1)] for _ in times], pa.map_(pa.string(), pa.int32())),
    ]
    return frame_of(spark, pa.table(columns, ["ts", "price a", "tags"]), STREAM.columns)


def kept_times(retained: Retained, since_us: int = 0, before_us: int = 1 << 40) -> list[int]:
    return sorted(retained.rows(since_us, before_us).toArrow()["ts"].cast(pa.int64()).to_pylist())


def test_valid_rows_are_kept_whole_and_found_by_time(interpreted: SparkSession, tmp_path: Path) -> None:
    retained = Retained(interpreted, tmp_path, STREAM)
    assert retained.since_us() is None
    assert retained.rows(0, 100).schema == batch(interpreted, []).schema
    retained.begin(5)
    retained.keep(batch(interpreted, [5, 20, None, AHEAD_US, AHEAD_US - 1]), 0, AHEAD_US)
    retained.keep(batch(interpreted, [7, 30]), 1, AHEAD_US)
    assert kept_times(retained) == [5, 7, 20, 30, AHEAD_US - 1]
    assert kept_times(retained, 7, 30) == [7, 20]
    found = retained.rows(20, 21)
    assert found.schema == batch(interpreted, []).schema
    assert [tuple(row.asDict().values())[1:4] for row in found.collect()] == [(20, {"t": 1}, 40)]


def test_a_restart_keeps_committed_rows_and_since_when_they_are_whole(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    retained = Retained(interpreted, tmp_path, STREAM)
    retained.begin(5)
    retained.keep(batch(interpreted, [5]), 0, AHEAD_US)
    retained.keep(batch(interpreted, [6, 6]), 1, AHEAD_US)  # never committed
    retained = Retained(interpreted, tmp_path, STREAM)
    retained.forget_after(0)
    assert (kept_times(retained), retained.since_us()) == ([5], 5)
    retained.keep(batch(interpreted, [6]), 1, AHEAD_US)
    retained.keep(batch(interpreted, [6]), 1, AHEAD_US)  # the same again, not twice
    assert kept_times(retained) == [5, 6]


def test_old_rows_go_folder_by_folder_and_the_rest_is_known_to_be_whole(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    retained = Retained(interpreted, tmp_path, STREAM)
    retained.begin(0)
    for number, times in enumerate([[1, 4], [3, 9], [12]]):
        retained.keep(batch(interpreted, times), number, AHEAD_US)
    retained.expire(9)  # the second folder has a row of 9: it stays, its row of 3 with it
    assert (kept_times(retained), retained.since_us()) == ([3, 9, 12], 5)
    assert Retained(interpreted, tmp_path, STREAM).since_us() == 5
    retained.begin(11)  # rows were missed for a while
    assert Retained(interpreted, tmp_path, STREAM).since_us() == 11


def test_folders_stay_few_and_hold_every_row(
    interpreted: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_folders, "FAN_IN", 3)
    retained = Retained(interpreted, tmp_path, STREAM)
    retained.begin(0)
    for number in range(8):
        retained.keep(batch(interpreted, [number] if number != 3 else []), number, AHEAD_US)
    assert kept_times(retained) == [n for n in range(8) if n != 3]
    assert len(retained.folders.spans) <= 3


def test_a_write_can_be_stopped_before_after_and_in_the_middle(
    interpreted: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retained, seen = Retained(interpreted, tmp_path, STREAM), []

    def look(point: str) -> None:
        seen.append((point, sum(f.stat().st_size for f in tmp_path.glob("*/*.parquet"))))

    monkeypatch.setattr(faults, "hook", look)
    retained.keep(batch(interpreted, [1, 2]).coalesce(1), 0, AHEAD_US)
    assert [point for point, _ in seen] == ["rows.before", "rows.torn", "rows.after"]
    (_, nothing), (_, half), (_, whole) = seen
    assert 0 == nothing < half < whole
    assert kept_times(retained) == [1, 2]
