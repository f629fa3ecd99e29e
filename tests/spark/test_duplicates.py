"""Batches with repeated keys in, against a plain Python model of what is remembered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import StateError, WrongType
from penstock.spark.kept_rows import commit_folders
from penstock.spark.kept_rows.duplicates import Duplicates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[int | None, float | None, str | None, int]  # time, two columns of the key, and another one

AHEAD_US = 1_000
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("x", pa.float64()), ("s", pa.string()), ("v", pa.int64())])


def frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    columns = [pa.array([r[i] for r in rows], SCHEMA.types[i]) for i in range(4)]
    return spark.createDataFrame(pa.table(columns, schema=SCHEMA))


def same(x: float) -> float | str:
    return "NaN" if math.isnan(x) else x + 0.0  # −0.0 + 0.0 is 0.0


def plain(rows: Sequence[Row]) -> list[str]:
    return sorted(str((ts, None if x is None else same(x), s, v)) for ts, x, s, v in rows)


@dataclass
class Model:
    """What the words say, row by row."""

    remembered: dict[tuple[object, ...], int] = field(default_factory=dict)

    def split(self, rows: Sequence[tuple[Row, int]], watermark_us: int) -> tuple[list[Row], int]:
        known = {k: ts for k, ts in self.remembered.items() if ts >= watermark_us}
        kept: list[Row] = []
        taken: dict[tuple[object, ...], int] = {}
        for row, _ in sorted(rows, key=lambda r: (r[0][0] is not None, r[0][0] or 0, r[1])):
            ts, x, s, _ = row
            if ts is None or ts >= AHEAD_US or x is None or s is None:
                kept.append(row)
            elif (same(x), s) not in known and (same(x), s) not in taken:
                kept.append(row)
                taken[same(x), s] = ts
        self.remembered = known | {k: ts for k, ts in taken.items() if ts >= watermark_us}
        return kept, len(rows) - len(kept)


def split(duplicates: Duplicates, batch: DataFrame, number: int, watermark_us: int) -> tuple[list[Row], int]:
    kept, dropped = duplicates.split(batch, number, watermark_us, AHEAD_US)
    table = kept.select("ts", "x", "s", "v").toArrow()
    table = table.set_column(0, "ts", table["ts"].cast(pa.int64()))
    duplicates.release()
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True)), dropped


times = st.one_of(st.integers(0, 60), st.just(AHEAD_US - 1), st.just(AHEAD_US), st.none())
doubles = st.sampled_from([0.0, -0.0, float("nan"), 1.5, 2.5, None])
rows = st.tuples(times, doubles, st.sampled_from(["a", "b", None]), st.integers(0, 2))
batches = st.lists(st.tuples(st.lists(rows, min_size=20, max_size=80), st.integers(0, 30)), min_size=3, max_size=4)


@given(batches=batches, restart=st.integers(0, 4))
@settings(max_examples=2)
def test_rows_are_dropped_exactly_where_the_model_drops_them(
    interpreted: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[list[Row], int]],
    restart: int,
) -> None:
    folder, model, watermark = tmp_path_factory.mktemp("keys"), Model(), 0
    duplicates = Duplicates(interpreted, ["x", "s"], "ts", folder)
    for number, (rows, step) in enumerate(batches):
        batch = frame(interpreted, rows)
        hashes = batch.selectExpr("xxhash64(ts, x, s, v) AS h").toArrow()["h"].to_pylist()
        expected, dropped = model.split(list(zip(rows, hashes, strict=True)), watermark)
        if number == restart:  # its keys were written, its commit was not
            split(duplicates, batch, number, watermark)
            duplicates = Duplicates(interpreted, ["x", "s"], "ts", folder)
            duplicates.forget_after(number - 1)
        kept, counted = split(duplicates, batch, number, watermark)
        assert (plain(kept), counted) == (plain(expected), dropped)
        watermark += step
        duplicates.expire(watermark)


def test_a_key_is_forgotten_when_the_watermark_has_passed_its_row(interpreted: SparkSession, tmp_path: Path) -> None:
    #  watermark   0 ──────────── 10 ── 11
    #  key a       ts 10          ▲ known until here
    duplicates = Duplicates(interpreted, ["s"], "ts", tmp_path)
    assert split(duplicates, frame(interpreted, [(10, None, "a", 0)]), 0, 0)[1] == 0
    assert split(duplicates, frame(interpreted, [(12, None, "a", 0)]), 1, 10)[1] == 1
    assert split(duplicates, frame(interpreted, [(12, None, "a", 0)]), 2, 11)[1] == 0
    duplicates.expire(11)
    assert [s.first for s in duplicates.folders.spans] == [2]


def test_many_small_folders_are_put_together_and_forget_nothing(
    interpreted: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_folders, "FAN_IN", 3)
    duplicates = Duplicates(interpreted, ["v"], "ts", tmp_path)
    for number in range(5):
        split(duplicates, frame(interpreted, [(20 + number, None, None, number)]), number, 2 * number)
    assert [s.name for s in duplicates.folders.spans] == ["000000000000-000000000002", "000000000003", "000000000004"]
    duplicates = Duplicates(interpreted, ["v"], "ts", tmp_path)
    again = frame(interpreted, [(40, None, None, v) for v in range(6)])
    assert split(duplicates, again, 5, 21) == ([(40, None, None, 0), (40, None, None, 5)], 4)


def test_a_crash_while_folders_are_put_together_leaves_each_key_once(interpreted: SparkSession, tmp_path: Path) -> None:
    duplicates = Duplicates(interpreted, ["v"], "ts", tmp_path)
    for number in range(2):
        split(duplicates, frame(interpreted, [(20, None, None, number)]), number, 0)
    (tmp_path / "000000000001").rename(tmp_path / "000000000000-000000000001")  # as if it were both
    (tmp_path / ".000000000000-000000000002").mkdir()
    duplicates = Duplicates(interpreted, ["v"], "ts", tmp_path)
    assert [s.name for s in duplicates.folders.spans] == ["000000000000-000000000001"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000000000000-000000000001"]


def test_one_spark_job_splits_a_batch(interpreted: SparkSession, tmp_path: Path) -> None:
    duplicates, context = Duplicates(interpreted, ["s"], "ts", tmp_path), interpreted.sparkContext
    batch = frame(interpreted, [(1, None, "a", 0), (2, None, "a", 1)])
    split(duplicates, batch, 0, 0)
    context.addJobTag("split")
    duplicates.split(batch, 1, 0, AHEAD_US)
    context.removeJobTag("split")
    jobs = interpreted._jsc.sc().statusTracker().getJobIdsForTag("split")
    duplicates.release()
    assert len(jobs) == 1


def test_a_map_is_no_key_and_a_damaged_file_is_named(interpreted: SparkSession, tmp_path: Path) -> None:
    duplicates = Duplicates(interpreted, ["m"], "ts", tmp_path)
    with pytest.raises(WrongType, match='"m" cannot be a key of rows: it is map<'):
        duplicates.split(frame(interpreted, []).selectExpr("*", "map('a', 1) AS m"), 0, 0, AHEAD_US)
    duplicates = Duplicates(interpreted, ["s"], "ts", tmp_path)
    split(duplicates, frame(interpreted, [(1, None, "a", 0)]), 0, 0)
    next((tmp_path / "000000000000").glob("*.parquet")).write_bytes(b"PAR1")
    with pytest.raises(StateError, match=r"000000000000/.* is missing or damaged"):
        Duplicates(interpreted, ["s"], "ts", tmp_path).expire(0)
