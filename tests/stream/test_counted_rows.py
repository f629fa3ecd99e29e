"""A stream without windows counts the rows of a batch by what else tells them, and as its own job would have."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import Engine
from penstock.spark.job.partials import PartialsJob, RowsJob
from penstock.testing import ManualClock, TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.stream.runner import StreamRunner

START_S = 1_767_603_600  # 2026-01-05 09:00:00
NOW = datetime.fromtimestamp(START_S + 100, UTC)
COLUMNS = "ts TIMESTAMP, id BIGINT, v BIGINT"
QUERIES = {
    "some": "SELECT id, v FROM s WHERE v > 4",
    "few": "SELECT id, id > 3 AS big, v IS NULL AS none FROM s WHERE v BETWEEN 2 AND 5 OR v IS NULL",
    "none": "SELECT id FROM s WHERE v > 100",
}
Row = tuple[int | None, int, int | None]  # time in microseconds, id, value


@pytest.fixture
def counted_by_jobs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the batches that a job of their own counts."""
    found: list[str] = []
    for kind in (PartialsJob, RowsJob):
        frame = kind.frame
        monkeypatch.setattr(kind, "frame", _noting(frame, found))
    return found


def _noting(frame: Any, found: list[str]) -> Any:
    def noted(self: PartialsJob, *given: Any) -> Any:
        if not self.layout.members:
            found.append(type(self).__name__)
        return frame(self, *given)

    return noted


def batches_of(draw: random.Random) -> list[list[Row]]:
    """Draw batches, some with late rows, some with rows without a time or far ahead, some with equal times."""
    found, ident, at = [], 0, 0
    for _ in range(6):
        rows: list[Row] = []
        kind = draw.choice(["good", "good", "late", "bad"])
        for _ in range(draw.choice([1, 5, 40])):
            second = at + draw.randint(0, 9)
            time: int | None = (START_S + second - draw.choice([0, 30]) * (kind == "late")) * 1_000_000
            if kind == "bad" and draw.random() < 0.4:
                time = draw.choice([None, (START_S + 9_000) * 1_000_000])
            rows.append((time, ident, draw.choice([None, *range(9)])))
            ident += 1
        found.append(rows)
        at += 10
    return found


def table_of(rows: list[Row]) -> pa.Table:
    times, ids, values = zip(*rows, strict=True)
    kind = pa.timestamp("us", tz="UTC")
    return pa.table({"ts": pa.array(times, kind), "id": pa.array(ids), "v": pa.array(values, pa.int64())})


def told_by(stream: StreamRunner, engine: Engine) -> list[Any]:
    clock = stream.pipeline.progress.clock
    answers = [engine.results(name).to_pylist() for name in QUERIES]
    return [answers, clock.counts, clock.invalid, clock.watermark_us, clock.first_us, clock.last_us]


def fed(spark: SparkSession, batches: list[list[Row]]) -> list[Any]:
    with TestBed(spark, clock=ManualClock(NOW)) as bed:
        bed.stream("s", COLUMNS, lateness="2 s")
        for name, text in QUERIES.items():
            bed.query(name, text)
        for rows in batches:
            bed.feed("s", table_of(rows))
        return told_by(bed.engine.stream("s"), bed.engine)


def read(spark: SparkSession, batches: list[list[Row]], folder: Path) -> list[Any]:
    (folder / "in").mkdir()
    with Engine(folder / "state", spark=spark, clock=ManualClock(NOW)) as engine:
        engine.execute(
            f"CREATE STREAM s ({COLUMNS}) USING parquet OPTIONS (path = '{folder / 'in'}', maxFilesPerTrigger = '1') "
            "WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS"
        )
        engine.create_queries(QUERIES)
        for number, rows in enumerate(batches):
            pq.write_table(table_of(rows), folder / "in" / f"{number}.parquet", row_group_size=7)
            engine.process_available()
        return told_by(engine.stream("s"), engine)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rows_are_counted_alike_by_a_job_by_what_is_sent_and_by_footers(
    spark: SparkSession, tmp_path: Path, seed: int, counted_by_jobs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers with their ordinals, counts, reasons why rows are invalid, and the watermark: all are the same."""
    batches = batches_of(random.Random(seed))
    sent = fed(spark, batches)
    assert counted_by_jobs == []
    by_footers = read(spark, batches, tmp_path)
    told = [all(row[0] is not None for row in rows) for rows in batches]
    assert len(counted_by_jobs) < told.count(True)
    del counted_by_jobs[:]
    monkeypatch.setattr("penstock.stream.continuous.continuous_queries.ALL_SENT", -1)
    by_jobs = fed(spark, batches)
    assert len(counted_by_jobs) == len(batches) - 1  # of the first one, nobody knows how large it is
    assert by_jobs == sent == by_footers
    assert sent[1].late + sent[1].invalid > 0


@pytest.mark.parametrize("text", ["SELECT 10 / v AS x FROM s", "SELECT id, k FROM s JOIN kinds ON s.v = kinds.v"])
def test_what_may_fail_or_repeat_rows_is_computed_for_rows_alone_that_somebody_takes(
    spark: SparkSession, text: str, counted_by_jobs: list[str]
) -> None:
    with TestBed(spark) as bed:
        bed.stream("s", COLUMNS)
        bed.table("kinds", [{"v": 1, "k": "a"}, {"v": 1, "k": "b"}])
        bed.query("q", text + " WHERE s.v > 0")
        bed.feed("s", [(1, 1, 0), (2, 2, 1)])
        assert bed.paused("q") is None
        assert len(bed.answers("q")) == (1 if "10" in text else 2)
        assert (bed.counts("s").on_time, len(counted_by_jobs)) == (2, 1)


def test_a_query_with_a_window_has_the_rows_counted_by_its_own_job(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with Engine(tmp_path / "state", spark=spark) as engine:
        engine.execute(
            f"CREATE STREAM s ({COLUMNS}) USING parquet OPTIONS (path = '{tmp_path / 'in'}') WATERMARK FOR ts; "
            "CREATE QUERY each AS SELECT id FROM s"
        )
        rows: list[Row] = [((START_S + second) * 1_000_000, second, 1) for second in range(20)]
        pq.write_table(table_of(rows[:8]), tmp_path / "in" / "a.parquet")
        engine.process_available()
        engine.create_query("n", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        pq.write_table(table_of(rows[8:]), tmp_path / "in" / "b.parquet")
        engine.process_available(flush=True)
        assert engine.results("each").num_rows == 20
        assert engine.results("n")["n"].to_pylist()[-1] == 10
