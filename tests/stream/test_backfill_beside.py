"""A real stream in the background goes on while a past is read, and its jobs run in pools of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.engine import Engine
from penstock.spark.session.pools import BACKGROUND, EVALUATION, INGEST, POOL, in_pool
from penstock.stream.batch_job import BatchJob
from penstock.stream.past_rows import PastRows
from tests.shell import PATIENCE_S
from tests.stream.feeding import file_engine, found, put, sums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEN = "[RANGE 10 s SLIDE 10 s]"


def awaited(done: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_batches_are_answered_while_a_past_is_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, reading, go_on = tmp_path / "source", threading.Event(), threading.Event()
    pools: dict[str, set[str | None]] = {"past": set(), "batch": set()}
    rows_of, run = PastRows.rows_of, BatchJob.run

    def held(self: PastRows, *given: Any) -> Any:
        pools["past"].add(spark.sparkContext.getLocalProperty(POOL))
        reading.set()
        assert go_on.wait(PATIENCE_S)
        return rows_of(self, *given)

    def noted(self: BatchJob, *given: Any, **named: Any) -> Any:
        pools["batch"].add(spark.sparkContext.getLocalProperty(POOL))
        return run(self, *given, **named)

    monkeypatch.setattr(PastRows, "rows_of", held)
    monkeypatch.setattr(BatchJob, "run", noted)
    put(source, 0, range(0, 25))
    put(source, 1, range(25, 47))
    with file_engine(spark, tmp_path) as engine:
        engine.create_query("live", f"SELECT sum(v) AS x FROM s {TEN}")
        engine.process_available()
        engine.create_query("later", f"SELECT sum(w) AS x FROM s {TEN}")
        engine.start()
        engine.create_query("all", f"SELECT max(v) AS x FROM s {TEN} WITH (from = 'beginning')")
        asking = threading.Thread(target=lambda: counted.append(engine.backfill(["later"])))
        counted: list[dict[str, int]] = []
        asking.start()
        awaited(reading.is_set)
        put(source, 2, range(47, 72))
        awaited(lambda: len(found(engine, "live")) == 7)
        awaited(lambda: len(found(engine, "later")) == 2)
        told = engine.status()["streams"][0]["backfills"]
        assert {one["query"] for one in told} <= {"all", "later"}
        assert told
        assert all(end >= 60 for end, _ in found(engine, "all"))
        go_on.set()
        asking.join(PATIENCE_S)
        awaited(lambda: len(found(engine, "all")) == 7)
        assert counted == [{"later": 5}]
        assert found(engine, "later") == sums(range(10, 80, 10), 2)
        assert found(engine, "all") == [(end, end - 1) for end in range(10, 80, 10)]
        assert engine.status()["streams"][0]["backfills"] == ()
        engine.stop()
    assert pools == {"past": {BACKGROUND}, "batch": {INGEST}}
    assert spark.sparkContext.getLocalProperty(POOL) is None


def test_rows_that_are_kept_are_read_beside_the_batches(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    for number, first in enumerate(range(0, 60, 12)):
        put(source, number, range(first, first + 12))
    with Engine(tmp_path / "state", spark=spark) as engine:
        engine.execute(
            f"CREATE STREAM s (ts TIMESTAMP, v INT, w INT) USING parquet OPTIONS (path '{source}', "
            "maxFilesPerTrigger 1, retain_rows '1 h') WATERMARK FOR ts"
        )
        engine.create_query("live", f"SELECT sum(v) AS x FROM s {TEN}")
        engine.process_available()
        engine.start()
        engine.create_query("kept", f"SELECT sum(w) AS x FROM s {TEN}")
        awaited(lambda: found(engine, "kept") == sums(range(10, 60, 10), 2))
        put(source, 5, range(60, 72))
        awaited(lambda: found(engine, "kept") == sums(range(10, 80, 10), 2))
        engine.stop()


def test_pools_have_weights_and_a_thread_leaves_them_as_it_found_them(spark: SparkSession) -> None:
    context: Any = spark.sparkContext
    scala = context._jsc.sc()
    weights = {name: scala.getPoolForName(name).get().weight() for name in (INGEST, EVALUATION, BACKGROUND)}
    assert weights[INGEST] > weights[EVALUATION] > weights[BACKGROUND]
    assert str(scala.getSchedulingMode()) == "FAIR"
    context.setLocalProperty(POOL, "mine")
    with in_pool(spark, BACKGROUND):
        assert context.getLocalProperty(POOL) == BACKGROUND
        spark.range(3).count()
    assert context.getLocalProperty(POOL) == "mine"
    context.setLocalProperty(POOL, None)
