"""After a restart the source is opened while commits are read back; what fails in either is told as it always was."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine import Engine
from penstock.errors import SourceError, StateError
from penstock.stream.declared_sources import DeclaredSources
from penstock.stream.pipeline import Pipeline
from tests.store.sound import partials_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DECLARED = (
    "CREATE STREAM readings (ts TIMESTAMP, x BIGINT) USING parquet OPTIONS (path = '{path}') "
    "WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS; "
    "CREATE QUERY total AS SELECT sum(x) AS total FROM readings [RANGE 1 MIN SLIDE 1 MIN]"
)


def offer(folder: Path, minute: int) -> None:
    """Write a file with one row in a minute."""
    times = pa.array([minute * 60_000_000], pa.timestamp("us", tz="UTC"))
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"ts": times, "x": [minute]}), folder / f"{minute}.parquet")


@pytest.fixture
def begun(spark: SparkSession, tmp_path: Path) -> Path:
    """Make a state folder in which some minutes are committed."""
    for minute in (1, 2):
        offer(tmp_path / "rows", minute)
    with Engine(tmp_path / "state", spark=spark) as engine:
        engine.execute(DECLARED.format(path=tmp_path / "rows"))
        engine.process_available()
    return tmp_path


def totals(engine: Engine) -> list[int]:
    """Return what the query has answered."""
    return [total for total in engine.results("total")["total"].to_pylist() if total]


def test_a_source_is_opened_while_commits_are_read_and_gives_no_row_before(
    spark: SparkSession, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, order, opens, recovers = threading.Event(), list[str](), DeclaredSources.open, Pipeline.recover
    takes = Pipeline.process

    def noting_open(self: DeclaredSources, stream: object) -> DataFrame:
        frame = opens(self, stream)  # type: ignore[arg-type]
        order.append("opened")
        opened.set()
        return frame

    def recovering(self: Pipeline, *given: object) -> None:
        assert opened.wait(60)  # as long as it takes: the source does not wait for the commits
        recovers(self, *given)  # type: ignore[arg-type]
        order.append("recovered")

    def taking(self: Pipeline, *given: object) -> None:
        order.append("batch")
        takes(self, *given)  # type: ignore[arg-type]

    for owner, name, instead in (
        (DeclaredSources, "open", noting_open),
        (Pipeline, "recover", recovering),
        (Pipeline, "process", taking),
    ):
        monkeypatch.setattr(owner, name, instead)
    offer(begun / "rows", 3)
    with Engine(begun / "state", spark=spark) as engine:
        engine.process_available(flush=True)
        assert totals(engine) == [1, 2, 3]
    assert order == ["opened", "recovered", "batch"]


def test_a_source_that_cannot_be_opened_ahead_is_opened_when_it_is_needed(
    spark: SparkSession, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens, failed = DeclaredSources.open, list[str]()

    def failing_once(self: DeclaredSources, stream: object) -> DataFrame:
        if not failed:
            failed.append(threading.current_thread().name)
            raise OSError("not now")
        return opens(self, stream)  # type: ignore[arg-type]

    monkeypatch.setattr(DeclaredSources, "open", failing_once)
    offer(begun / "rows", 3)
    with Engine(begun / "state", spark=spark) as engine:
        engine.process_available(flush=True)
        assert totals(engine) == [1, 2, 3]
    assert failed == ["penstock-source"]


def test_a_folder_that_is_gone_is_told_of_when_rows_are_asked_for(spark: SparkSession, begun: Path) -> None:
    with Engine(begun / "state", spark=spark) as engine:
        assert totals(engine) == [1]  # opens the stream, and its source with it
        (begun / "rows").rename(begun / "elsewhere")
        with pytest.raises(SourceError, match="rows does not exist"):
            engine.process_available()
        (begun / "elsewhere").rename(begun / "rows")
        engine.process_available(flush=True)
        assert totals(engine) == [1, 2]


def test_a_damaged_commit_is_told_of_though_the_source_is_being_opened(spark: SparkSession, begun: Path) -> None:
    partials = [file for folder in (begun / "state" / "commits").iterdir() for file in partials_in(folder)]
    assert partials
    partials[-1].write_bytes(partials[-1].read_bytes()[:-20])
    with pytest.raises(StateError), Engine(begun / "state", spark=spark) as engine:
        engine.process_available()
