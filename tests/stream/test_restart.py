"""A state folder brings an engine back to where it stood, and every sink holds each answer once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine import Engine
from penstock.errors import StateError, StreamEnded
from penstock.sinks.jsonl import JsonLinesSink
from penstock.sinks.parquet import ParquetSink
from penstock.stream import pipeline as pipelines
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
    assert sum(pq.read_metadata(p).num_rows for p in (tmp_path / "parquet").glob("*.parquet")) == rows


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
    monkeypatch.setattr(pipelines, "COMPACTED_EVERY", 1)
    monkeypatch.setattr("penstock.store.commits.FAN", 0)
    with feeding.open_bed(spark, state=tmp_path) as bed:
        bed.query("quiet", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] HAVING n < 5")
        for start in range(0, 50, 10):
            bed.feed("s", feeding.rows(*range(start, start + 10)))
        assert bed.timeline("quiet") == []
    with feeding.open_bed(spark, state=tmp_path) as bed:
        assert bed.timeline("quiet") == []


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
