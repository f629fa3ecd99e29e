"""Rows of the years 1 and 9999, windows that reach beyond, and values of any year that Spark has."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock.cli.reporting import shown_answers, shown_text
from penstock.sinks.protocol import Sink
from penstock.testing import ManualClock, TestBed

FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # 0001-01-01 00:00, the last microsecond of 9999
INSTANT = pa.timestamp("us", tz="UTC")
W = "FROM s [RANGE 10 min SLIDE 5 min]"
BEFORE, BEYOND = "0000-12-31T23:55:00.000000Z", "+10000-01-01T00:05:00.000000Z"
QUERIES = {
    "counts": f"SELECT k, count(*) AS n {W} GROUP BY k",
    "spark": "SELECT window, k, count(*) AS n FROM s GROUP BY window(ts, '10 minutes', '5 minutes'), k",
    "keys": f"SELECT far, day, local, named_struct('t', far) AS s, count(*) AS n {W} GROUP BY far, day, local, s",
    "picked": f"SELECT k, first(far) AS a, max_by(day, ts) AS b, max(local) AS c, last(array(far)) AS d {W} GROUP BY k",
    "told": f"SELECT k, count(DISTINCT far, day) AS n, mode(far) AS m, top(1, day) AS t {W} GROUP BY k",
    "changes": f"SELECT k, min(far) AS a, min(day) AS b {W} GROUP BY k WITH (emit = 'change')",
}


def rows(*times: int) -> pa.Table:
    """Make rows whose other times lie outside of Python's years."""
    many = len(times)
    far = pa.array([FIRST - 300_000_000] * many, pa.int64()).cast(INSTANT)
    local = pa.array([LAST + 1] * many, pa.int64()).cast(pa.timestamp("us"))
    day = pa.array([-800_000] * many, pa.int32()).cast(pa.date32())
    ts = pa.array(times, pa.int64()).cast(INSTANT)
    return pa.table({"ts": ts, "k": ["a"] * many, "far": far, "day": day, "local": local})


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def bed(interpreted: SparkSession, tmp_path: Path, out: io.StringIO) -> Iterator[TestBed]:
    files: list[Sink] = [ps.JsonLinesSink(tmp_path / "lines"), ps.ParquetSink(tmp_path / "parquet")]
    clock = ManualClock("9999-12-31 23:59:59")
    with TestBed(spark=interpreted, clock=clock, sinks=[*files, ps.TerminalSink(out)]) as bed:
        bed.stream("s", "ts TIMESTAMP, k STRING, far TIMESTAMP, day DATE, local TIMESTAMP_NTZ")
        for name, text in QUERIES.items():
            bed.query(name, text)
        yield bed


def test_windows_beyond_the_years_1_to_9999_are_answered_and_written(
    bed: TestBed, tmp_path: Path, out: io.StringIO
) -> None:
    """In every form and sink; the answers beside them are written as ever."""
    bed.feed("s", rows(FIRST, FIRST + 1))
    bed.feed("s", rows(FIRST + 300_000_000))
    [asked] = bed.ask("SELECT k, count(*) AS n FROM s [RANGE 10 min] GROUP BY k")
    bed.feed("s", rows(LAST - 60_000_000))
    entered = bed.query("more", f"SELECT k, max(far) AS m {W} GROUP BY k")
    assert "answers from the window +10000-01-01T00:00:00.000000Z to +10000-01-01T00:10:00.000000Z on" in str(entered)
    assert entered.first_window == ("+10000-01-01T00:00:00.000000Z", "+10000-01-01T00:10:00.000000Z")
    bed.flush()
    assert (asked["window_start"], asked["n"]) == (BEFORE, 2)
    assert [bed.paused(name) for name in QUERIES] == [None] * len(QUERIES)
    counts = bed.engine.results("counts", "rows")
    assert [(row["window_start"], row["window_end"], row["n"]) for row in counts] == [
        (BEFORE, datetime(1, 1, 1, 0, 5, tzinfo=UTC), 2),
        (datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1, 0, 10, tzinfo=UTC), 3),
        (datetime(1, 1, 1, 0, 5, tzinfo=UTC), datetime(1, 1, 1, 0, 15, tzinfo=UTC), 1),
        (datetime(9999, 12, 31, 23, 50, tzinfo=UTC), "+10000-01-01T00:00:00.000000Z", 1),
        (datetime(9999, 12, 31, 23, 55, tzinfo=UTC), BEYOND, 1),
    ]
    assert bed.answers("spark")[0]["window"] == {"start": BEFORE, "end": datetime(1, 1, 1, 0, 5, tzinfo=UTC)}
    keys = {"far": BEFORE, "day": "-0221-09-04", "local": "+10000-01-01T00:00:00.000000", "s": {"t": BEFORE}}
    assert [{name: row[name] for name in keys} for row in bed.answers("keys")] == [keys] * 5
    picked = bed.answers("picked")[-1]
    assert [picked[name] for name in "abcd"] == [BEFORE, "-0221-09-04", keys["local"], [BEFORE]]
    told = bed.answers("told")[0]
    assert (told["n"], told["m"], told["t"]) == (1, BEFORE, [{"item": "-0221-09-04", "count": 2}])
    assert [(row["a"], row["b"]) for row in bed.answers("changes")] == [(BEFORE, "-0221-09-04")]
    # Sinks and commands.
    assert bed.engine.stream("s").delivery.failing == {}
    lines = [json.loads(line) for file in (tmp_path / "lines").glob("*") for line in file.read_text().splitlines()]
    starts = {line["window_start"] for line in lines if line["query_name"] == "counts"}
    assert starts == {
        BEFORE,
        "0001-01-01T00:00:00.000000Z",
        "0001-01-01T00:05:00.000000Z",
        "9999-12-31T23:50:00.000000Z",
        "9999-12-31T23:55:00.000000Z",
    }
    assert f"counts  {BEFORE} – 0001-01-01T00:05:00.000000Z  k=a n=2\n" in out.getvalue()
    bed.engine.stream("s").delivery.roll()
    written = [pq.read_table(file) for file in (tmp_path / "parquet").rglob("*.parquet")]
    assert min(min(table["window_start"].cast(pa.int64()).to_pylist()) for table in written) == FIRST - 300_000_000
    assert f"window_start=9999-12-31T23:55:00.000000Z  window_end={BEYOND}  k=a  n=1" in shown_text(bed.engine, 1)
    assert shown_answers(bed.engine, 1)["counts"][0]["window_end"] == BEYOND
    json.dumps(bed.engine.status())
    assert "counts" in str(bed.engine.explain())
    assert "watermark" in bed.engine._repr_html_()
