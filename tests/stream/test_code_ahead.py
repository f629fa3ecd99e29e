"""After a restart the code of the job is generated while the engine recovers, and changes nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine import Engine
from penstock.model.aggregation import Aggregation
from penstock.model.schema import Column, Stream
from penstock.spark.job.partials import PartialsJob
from penstock.spark.job.writer import Bounds
from penstock.stream.code_ahead import CodeAhead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DECLARED = (
    "CREATE STREAM IF NOT EXISTS readings (ts TIMESTAMP, x DOUBLE, city STRING) USING parquet "
    "OPTIONS (path = '{path}') WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS"
)
QUERY = "SELECT city, max(x) AS high FROM readings [RANGE 2 MIN SLIDE 1 MIN]"
READINGS = Stream("readings", (Column("ts", "timestamp"), Column("x", "double"), Column("city", "string")), "ts")


class WatchedJob:
    """A job that notes what it was run over."""

    def __init__(self) -> None:
        self.schemas: list[str] = []
        self.rows = 0

    def run(self, batch: DataFrame, tables: object, bounds: Bounds) -> None:
        self.schemas.append(batch.schema.simpleString())
        self.rows += batch.count()
        raise ValueError("nobody hears of this")


def run_ahead(spark: SparkSession, columns: set[str], *, stopped: bool = False) -> WatchedJob:
    nothing: Any = None
    job, ahead = WatchedJob(), CodeAhead(spark, READINGS, nothing, nothing)
    if stopped:
        ahead.stop()
    ahead.begin(lambda: cast(Any, job), Bounds(0, 1), columns)
    ahead.wait()
    return job


def test_the_job_is_run_over_no_rows_of_the_columns_that_batches_have(spark: SparkSession) -> None:
    job = run_ahead(spark, {"x", "ts"})
    assert (job.schemas, job.rows) == (["struct<ts:timestamp,x:double>"], 0)


def test_columns_that_are_not_declared_and_an_end_leave_the_code_to_the_batch(spark: SparkSession) -> None:
    assert run_ahead(spark, {"x", "__inputs_y"}).schemas == []
    assert run_ahead(spark, {"x"}, stopped=True).schemas == []


@pytest.mark.parametrize(("aggregation", "constant"), [("driver", 7.25), ("executors", 8.25)])
def test_a_batch_finds_the_code_that_was_generated_ahead(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aggregation: Aggregation, constant: float
) -> None:
    compiled: Any = cast(Any, spark)._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    ran: list[tuple[bool, int]] = []
    run = PartialsJob.run

    def counted(self: PartialsJob, *given: Any, **named: Any) -> Any:
        before = compiled.getCount()
        found = run(self, *given, **named)
        ran.append((self.sends_rows, compiled.getCount() - before))
        return found

    monkeypatch.setattr(PartialsJob, "run", counted)
    (tmp_path / "files").mkdir()
    times = pa.array([60_000_000, 200_000_000], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"ts": times, "x": [1.0, 2.0], "city": ["A", "B"]}), tmp_path / "files" / "one.parquet")
    with Engine(tmp_path / "state", spark=spark, aggregation=aggregation) as engine:
        engine.execute(DECLARED.format(path=tmp_path / "files"))
        engine.create_query("high", f"{QUERY} WHERE x * x <> {constant} GROUP BY city")
        runner = engine.stream("readings")
        pipeline = runner.pipeline
        pipeline.code_ahead.taken_back(pipeline.plan(runner.snapshot()), (1, 1), pipeline.clock(), runner.columns)
        pipeline.code_ahead.wait()
        engine.process_available()
        assert engine.results("high", "rows")[0]["high"] == 1.0
    rows_sent = aggregation == "driver"
    assert [sent for sent, _ in ran] == [rows_sent, rows_sent]
    assert ran[0][1] > 0
    assert ran[1][1] <= 1  # what reads the files is compiled in the tasks of the first batch that has some


def test_a_restarted_stream_generates_code_and_answers_as_before(spark: SparkSession, tmp_path: Path) -> None:
    begun: list[Bounds] = []

    class Noted(CodeAhead):
        def begin(self, write: Any, bounds: Bounds, columns: Any) -> None:
            begun.append(bounds)
            super().begin(write, bounds, columns)

    (tmp_path / "files").mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("penstock.stream.stream_parts.CodeAhead", Noted)
        for number in range(3):
            first = 60_000_000 * (2 * number + 1)
            times = pa.array([first, first + 90_000_000], pa.timestamp("us", tz="UTC"))
            table = pa.table({"ts": times, "x": [1.0, 2.0], "city": ["A", "A"]})
            pq.write_table(table, tmp_path / "files" / f"{number}.parquet")
            with Engine(tmp_path / "state", spark=spark) as engine:
                engine.execute(DECLARED.format(path=tmp_path / "files"))
                engine.create_queries({"high": f"{QUERY} GROUP BY city"})
                engine.process_available()
                found = engine.results("high", "rows")
    assert len(begun) == 2  # a stream that has had no rows has no plan to go on with
    assert [row["high"] for row in found] == [1.0, 2.0, 2.0, 2.0, 2.0]
