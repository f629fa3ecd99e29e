"""A state folder brings an engine back to where it stood, and every sink holds each answer once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine import Engine
from penstock.errors import StateError, StreamEnded
from penstock.kernel.answering import Answering
from penstock.sinks.delivery import Delivery
from penstock.sinks.jsonl import JsonLinesSink
from penstock.sinks.parquet import ParquetSink
from penstock.stream import batch_taking
from penstock.testing import TestBed
from tests.cases import sweep
from tests.oracle.cases import Case, make_case
from tests.oracle.duck import Oracle, answered_ends
from tests.oracle.harness import compare, open_bed
from tests.stream import feeding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def reopened(spark: SparkSession, folder: Path, case: Case) -> TestBed:
    sinks = [ParquetSink(folder / "parquet"), JsonLinesSink(folder / "jsonl")]
    return open_bed(spark, case, state=folder / "state", sinks=sinks)


@pytest.mark.parametrize("seed", sweep([3001, 3004, 3005, 3006], 2))
def test_a_restart_between_any_two_batches_changes_nothing(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    case = make_case(seed, most_queries=12)
    for number, batch in enumerate(case.batches):
        with reopened(spark, tmp_path, case) as bed:
            for query in case.queries:
                bed.query(query.name, query.text)
            if number:  # Spark may replay the batch before: it is in already
                bed.feed("s", case.batches[number - 1], number=number - 1)
            bed.feed("s", batch, number=number)
    with reopened(spark, tmp_path, case) as bed:
        if case.flush:
            bed.flush()
        oracle, rows = Oracle(case), 0
        for query in case.queries:
            found = bed.results(query.name)
            compare(case, query, found, oracle.answers(query, answered_ends(query, case)))
            rows += found.num_rows
    lines = sum(len(p.read_text().splitlines()) for p in (tmp_path / "jsonl").glob("*.jsonl"))
    assert lines == rows
    assert sum(pq.read_metadata(p).num_rows for p in (tmp_path / "parquet").rglob("*.parquet")) == rows


def test_an_ended_stream_takes_no_more_rows(spark: SparkSession, tmp_path: Path) -> None:
    case = make_case(3004, most_queries=2)
    for _ in range(2):
        with reopened(spark, tmp_path, case) as bed:
            bed.feed("s", case.batches[0], number=0)
            bed.flush()
            with pytest.raises(StreamEnded, match="was ended"):
                bed.feed("s", case.batches[0], number=1)


def test_a_second_engine_on_one_folder_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with Engine(tmp_path, spark=spark), pytest.raises(StateError, match="another engine"):
        Engine(tmp_path, spark=spark)


def test_a_restart_after_compaction_answers_the_last_windows_from_whole_partials(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_taking, "COMPACTED_EVERY", 1)
    monkeypatch.setattr("penstock.store.commits.FAN", 0)
    with feeding.open_bed(spark, state=tmp_path) as bed:
        bed.query("quiet", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] HAVING n < 5")
        for start in range(0, 50, 10):
            bed.feed("s", feeding.rows(*range(start, start + 10)))
        assert bed.timeline("quiet") == []
    with feeding.open_bed(spark, state=tmp_path) as bed:
        assert bed.timeline("quiet") == []


def test_a_restart_makes_no_answers_again_that_are_in_the_log(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with feeding.open_bed(spark, state=tmp_path) as bed:
        bed.query("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        bed.feed("s", feeding.rows(*range(25)))
    with monkeypatch.context() as patch:
        patch.setattr(Answering, "answer", None)  # nobody calls it
        bed = feeding.open_bed(spark, state=tmp_path)
        assert bed.engine.stream("s").pipeline.progress.clock.number >= 0
    with bed:
        bed.feed("s", feeding.rows(*range(25, 35)), number=1)
        assert [row["n"] for row in bed.answers("q")] == [10, 10, 10]


def test_a_sink_that_a_failed_step_passed_over_gets_its_answers_from_the_log(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise StateError("the disk is full")

    sinks = [JsonLinesSink(tmp_path / "jsonl")]
    with feeding.open_bed(spark, state=tmp_path / "state", sinks=sinks) as bed:
        bed.query("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        bed.feed("s", feeding.rows(*range(15)))
        with monkeypatch.context() as patch:
            patch.setattr(Delivery, "deliver", broken)
            with pytest.raises(StateError):
                bed.feed("s", feeding.rows(*range(15, 25)))
        bed.feed("s", feeding.rows(*range(15, 25)), number=1)
        bed.feed("s", feeding.rows(*range(25, 35)), number=2)
        assert len(bed.answers("q")) == 3
    lines = [line for path in (tmp_path / "jsonl").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert len(lines) == 3


def test_a_query_that_failed_with_the_last_answers_is_still_paused_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    with feeding.open_bed(spark, state=tmp_path) as bed:
        bed.query("fails", "SELECT 1 / (count(*) - 10) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        bed.query("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        bed.feed("s", feeding.rows(*range(25)))
        why = bed.paused("fails")
        assert why is not None
    with feeding.open_bed(spark, state=tmp_path) as bed:
        bed.feed("s", feeding.rows(*range(25, 35)), number=1)
        assert bed.paused("fails") == why
        assert bed.paused("q") is None
        assert bed.answers("fails") == []
        assert len(bed.answers("q")) == 3


def test_a_table_that_changes_between_two_engines_is_read_again_in_the_same_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark caches what the first engine read, and takes two reads of one folder for the same."""
    folder = tmp_path / "listed"
    folder.mkdir()

    def listing(symbol: str) -> None:
        for old in folder.iterdir():
            old.unlink()
        pq.write_table(pa.table({"k": [symbol]}), folder / f"{symbol}.parquet")

    listing("a")
    for number, first in enumerate((0, 4)):
        with TestBed(spark, state=tmp_path / "state") as bed:
            bed.stream("s", "ts TIMESTAMP, k STRING")
            bed.engine.execute(f"CREATE TABLE t (k STRING) USING parquet OPTIONS (path = '{folder}')")
            bed.query("q", "SELECT count(*) AS n FROM s [RANGE 2 s SLIDE 2 s] JOIN t USING (k)")
            bed.feed("s", [(second, "a") for second in range(first, first + 5)], number=number)
            found = bed.timeline("q")
        listing("b")
    assert found == [(2, 2), (4, 2), (6, 1), (8, 0)]  # of [4, 6), the row at 4 came twice, once before the change
