"""Parquet files hold just the answers that were written, in less room than without being told how to encode them."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.sinks.parquet import ParquetSink
from penstock.sinks.parquet_encodings import encoded
from tests.sinks.remembering import Remembering

ROWS = 4_200  # more than are looked at
INSTANT = pa.timestamp("us", "UTC")
WIDE = pa.map_(pa.string(), pa.struct([("x", pa.int64()), ("l", pa.list_(pa.string()))]))
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "whole": (pa.int64(), lambda draw: draw.getrandbits(63) - (1 << 62)),
    "small": (pa.int32(), lambda draw: draw.randrange(-5, 5)),
    "short": (pa.int16(), lambda draw: draw.randrange(-(1 << 15), 1 << 15)),
    "byte": (pa.int8(), lambda draw: draw.randrange(-128, 128)),
    "fraction": (pa.float64(), lambda draw: draw.choice([draw.random(), float("nan"), -0.0])),
    "single": (pa.float32(), lambda draw: draw.randrange(9)),
    "money": (pa.decimal128(20, 2), lambda draw: decimal.Decimal(draw.randrange(10**12)) / 100),
    "text": (pa.string(), lambda draw: draw.choice(["a", "b", str(draw.random())])),
    "bytes": (pa.binary(), lambda draw: draw.randbytes(3)),
    "day": (pa.date32(), lambda draw: dt.date(2026, 1, 1) + dt.timedelta(draw.randrange(-40_000, 400))),
    "moment": (INSTANT, lambda draw: draw.randrange(-(1 << 50), 1 << 50)),
    "local": (pa.timestamp("us"), lambda draw: draw.randrange(1 << 50)),
    "listed": (pa.list_(pa.string()), lambda draw: [draw.choice("xyz") for _ in range(draw.randrange(3))]),
    "deep": (WIDE, lambda draw: [("k", {"x": draw.randrange(9), "l": ["a", None]})]),
}


def drawn(seed: int, rows: int = ROWS) -> pa.Table:
    """Draw answers of a continuous query with columns of many types, a few of them NULL."""
    draw = random.Random(seed)
    columns = {
        "query_name": pa.array(["q"] * rows),
        "query_version": pa.array([1] * rows, pa.int32()),
        "event_time": pa.array(sorted(draw.randrange(1 << 50) for _ in range(rows)), INSTANT),
        "commit": pa.array([7] * rows, pa.int64()),
        "ordinal": pa.array(range(rows), pa.int64()),
        "late": pa.array([draw.random() < 0.1 for _ in range(rows)]),
    }
    for name, (kind, value) in VALUES.items():
        values = [None if draw.random() < 0.1 else value(draw) for _ in range(rows)]
        columns[name] = pa.array(values, kind)
    return pa.table(columns)


@pytest.mark.parametrize("layout", ["query", "columns"])
def test_spark_duckdb_and_pandas_read_what_was_written(layout: str, tmp_path: Path, spark: SparkSession) -> None:
    table, memory = drawn(len(layout)), Remembering()
    writer = ParquetSink(tmp_path, layout=layout, roll_bytes=300_000).open("s", memory)
    writer.deliver(0, [table])
    writer.roll()
    writer.deliver(1, (table.slice(0, 4_100), table.slice(4_100)))  # as rows come that are many
    writer.roll()
    both = pa.concat_tables([table, table])
    [*files] = sorted(tmp_path.rglob("*.parquet"))
    assert files
    read = pa.concat_tables([pq.ParquetFile(file).read().replace_schema_metadata() for file in files])
    expected = both.select(read.column_names)
    assert in_order(read.cast(expected.schema)) == in_order(expected)
    names = [str(file) for file in files]
    by_spark = spark.read.parquet(*names).select(*expected.column_names).toArrow()
    assert in_order(by_spark.cast(expected.schema)) == in_order(expected)
    sums = "sum(whole), sum(small), sum(money), count(text), max(moment), min(day), sum(ordinal), count(deep)"
    with duckdb.connect() as duck:
        duck.register("expected", expected)
        by_duckdb = duck.execute(f"SELECT {sums} FROM read_parquet({names})").fetchall()
        assert by_duckdb == duck.execute(f"SELECT {sums} FROM expected").fetchall()
    by_pandas = pd.concat([pd.read_parquet(name) for name in names])
    assert by_pandas["small"].sum() == np.nansum(expected["small"].to_pandas())


def in_order(table: pa.Table) -> list[str]:
    """List rows so that they can be compared, NaN and all."""
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return sorted(map(repr, rows))


def test_a_column_that_hardly_repeats_has_no_dictionary(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    rows = 100_000
    names = pa.array([f"q{n}" for n in range(1_000)])
    takers = pa.ListArray.from_arrays(
        pa.array(np.arange(rows + 1, dtype=np.int32)), names.take(draw.integers(0, 1_000, rows))
    )
    table = pa.table(
        {
            "queries": takers,
            "event_time": pa.array(1_767_571_200_000_000 + 3_000 * np.arange(rows)).view(INSTANT),
            "commit": np.full(rows, 3),
            "ordinal": np.arange(rows),
            "late": np.zeros(rows, np.bool_),
            "symbol": pa.array([f"S{n}" for n in range(100)]).take(draw.integers(0, 100, rows)),
            "price": draw.uniform(0, 1_000, rows),
        }
    )
    told, untold, once = (tmp_path / name for name in ("told", "untold", "once"))
    pq.write_table(table, told, **encoded(table))
    pq.write_table(table, untold, compression="zstd")
    own = table.select(["event_time", "symbol", "price"])
    pq.write_table(own, once, **encoded(own))
    assert told.stat().st_size < 0.65 * untold.stat().st_size
    assert told.stat().st_size < 1.25 * once.stat().st_size  # a list of one name out of a thousand takes ten bits
    group = pq.read_metadata(told).row_group(0)
    found = {group.column(place).path_in_schema: group.column(place).encodings for place in range(group.num_columns)}
    words = {name for name, encodings in found.items() if "RLE_DICTIONARY" in encodings}
    assert words == {"queries.list.element", "symbol"}
    assert {name for name, encodings in found.items() if "DELTA_BINARY_PACKED" in encodings} == {
        "event_time",
        "commit",
        "ordinal",
    }


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_few_answers_or_none_are_written_as_they_are(rows: int, tmp_path: Path) -> None:
    table = drawn(5, rows)
    pq.write_table(table, tmp_path / "few", **encoded(table))
    assert in_order(pq.read_table(tmp_path / "few").cast(table.schema)) == in_order(table)
