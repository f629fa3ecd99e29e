"""Footers of Parquet files tell how many rows there are and when, where Spark reads the times as they stand there."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.model.schema import Column
from penstock.spark.job.counted_rows import TimeSpan
from penstock.spark.sources.parquet_times import times_in

START = 1_767_603_600_000_000  # 2026-01-05 09:00:00
MICROS, MILLIS = pa.timestamp("us", tz="UTC"), pa.timestamp("ms", tz="UTC")
TS = Column("ts", "timestamp")


def footer(path: Path, times: Sequence[int | None], kind: pa.DataType = MICROS, **options: Any) -> pq.FileMetaData:
    values = pa.array(times, pa.int64()).cast(MICROS).cast(kind, safe=False)
    pq.write_table(pa.table({"v": pa.nulls(len(times), pa.int32()), "ts": values}), path, **options)
    return pq.read_metadata(path)


@pytest.mark.parametrize("seed", range(20))
def test_the_times_of_some_files_are_the_least_and_the_greatest_of_all_rows(tmp_path: Path, seed: int) -> None:
    draw, every, footers = random.Random(seed), list[int](), []
    for number in range(draw.randint(1, 3)):
        kind = draw.choice([MICROS, MILLIS])
        step = 1_000 if kind == MILLIS else 1
        times = [START + draw.randrange(10**9) // step * step for _ in range(draw.choice([0, 1, 7, 300]))]
        group = draw.choice([1, 10, 1_000])
        footers.append(footer(tmp_path / f"{number}.parquet", times, kind, row_group_size=group))
        every += times
    told = times_in(footers, TS)
    assert told == (TimeSpan(len(every), min(every), max(every)) if every else None)


def test_what_footers_do_not_tell_is_left_to_spark(tmp_path: Path) -> None:
    path, good = tmp_path / "one.parquet", [START, START + 5]
    assert times_in([footer(path, good)], TS) == TimeSpan(2, START, START + 5)
    assert times_in([footer(path, good)], Column("TS", "TIMESTAMP")) == TimeSpan(2, START, START + 5)
    left = [
        footer(path, [START, None]),
        footer(path, [-5, START]),  # before 1970
        footer(path, good, pa.timestamp("ns", tz="UTC")),
        footer(path, good, pa.timestamp("us")),  # of no zone
        footer(path, good, write_statistics=False),
        footer(path, good, use_deprecated_int96_timestamps=True),
    ]
    pq.write_table(pa.table({"ts": pa.array([good], pa.list_(MICROS))}), path)
    left.append(pq.read_metadata(path))
    pq.write_table(pa.table({"ts": pa.array(good, MICROS), "TS": pa.array(good, MICROS)}), path)
    left.append(pq.read_metadata(path))
    assert [times_in([one], TS) for one in left] == [None] * len(left)
    assert times_in([footer(path, good), left[0]], TS) is None  # one file that does not is enough
    assert times_in([footer(path, good)], Column("at", "timestamp")) is None
    assert times_in([footer(path, good)], Column("ts", "timestamp_ntz")) is None
    assert times_in([footer(path, good)], Column("ts", "timestamp", expression="ts")) is None
