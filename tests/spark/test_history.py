"""A stream read once, then read again whole: exactly the rows that the committed batches had."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import SourceError, StateError
from penstock.model.schema import Column, Stream
from penstock.spark.sources.reading import history, read_stream
from penstock.spark.sources.streaming_query import SparkQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Recorder:
    """Runs a stream, remembers the rows of its batches and the positions after them."""

    def __init__(self, spark: SparkSession, stream: Stream, checkpoint: Path) -> None:
        self.spark, self.stream, self.checkpoint = spark, stream, checkpoint
        self.rows: list[list[str]] = []
        self.positions: list[str] = []

    def run(self) -> None:
        columns = [c.name for c in self.stream.columns]
        SparkQuery(self.stream.name, read_stream(self.spark, self.stream), self.checkpoint, self._take).run_available(
            columns
        )

    def _take(self, batch: DataFrame, number: int, source: str) -> None:
        self.rows.append(shown(batch.select(*(f"`{c.name}`" for c in self.stream.columns))))
        self.positions.append(source)

    def again(self, position: int) -> list[str]:
        frame = history(self.spark, self.stream, self.checkpoint, self.positions[position])
        assert frame is not None
        assert [name for name in frame.columns if not name.startswith("__")] == [c.name for c in self.stream.columns]
        return shown(frame.select(*(f"`{c.name}`" for c in self.stream.columns)))


def shown(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


COLUMNS = (Column("ts", "timestamp"), Column("v", "bigint"), Column("twice", "bigint", "v * 2"))


def write_parquet(path: Path, first: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = list(range(first, first + 3))
    pq.write_table(pa.table({"ts": pa.array(values, pa.timestamp("us", "UTC")), "v": values}), path)


def test_history_is_what_the_batches_had_and_nothing_that_came_later(interpreted: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "a source"
    options = {"path": str(folder), "maxFilesPerTrigger": "1"}
    recorder = Recorder(interpreted, Stream("s", COLUMNS, "ts", format="parquet", options=options), tmp_path / "check")
    for number in range(5):
        write_parquet(folder / f"part {number:02d} 100%25 [x] *,?.parquet", number * 10)
    setting = "spark.sql.streaming.fileSource.log.compactInterval"
    interpreted.conf.set(setting, "3")
    recorder.run()
    interpreted.conf.unset(setting)
    assert len(recorder.rows) == 5
    assert (tmp_path / "check" / "sources" / "0" / "2.compact").exists()
    write_parquet(folder / "later.parquet", 500)
    for position in (0, 2, 4):
        assert recorder.again(position) == sorted(r for rows in recorder.rows[: position + 1] for r in rows)
    none = history(interpreted, recorder.stream, recorder.checkpoint, "")
    assert none is not None
    assert (none.count(), none.columns) == (0, ["ts", "v", "twice", "__inputs_twice"])


def test_folders_that_are_columns_are_columns_again(interpreted: SparkSession, tmp_path: Path) -> None:
    columns = (*COLUMNS, Column("day", "date"))
    stream = Stream("s", columns, "ts", format="parquet", options={"path": str(tmp_path / "in")})
    recorder = Recorder(interpreted, stream, tmp_path / "check")
    write_parquet(tmp_path / "in" / "day=2026-01-05" / "a.parquet", 0)
    write_parquet(tmp_path / "in" / "day=2026-01-06" / "a.parquet", 10)
    recorder.run()
    assert "day=datetime.date(2026, 1, 5)" in recorder.rows[0][0]
    assert recorder.again(0) == recorder.rows[0]


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_text_is_read_again_with_the_same_options(interpreted: SparkSession, tmp_path: Path, format_: str) -> None:
    (tmp_path / "in").mkdir()
    text = "time;n\n1970-01-01;3\n" if format_ == "csv" else '{"time": "1970-01-01", "n": 3}\n'
    (tmp_path / "in" / "a").write_text(text)
    options = {"path": str(tmp_path / "in") + "/*"} | ({"header": "true", "sep": ";"} if format_ == "csv" else {})
    columns = (Column("time", "timestamp"), Column("n", "int"))
    recorder = Recorder(interpreted, Stream("s", columns, "time", format=format_, options=options), tmp_path / "check")
    recorder.run()
    assert recorder.again(0) == recorder.rows[0] == ["Row(time=datetime.datetime(1970, 1, 1, 0, 0), n=3)"]


def test_the_generator_makes_the_same_rows_again(interpreted: SparkSession, tmp_path: Path) -> None:
    columns = (Column("ts", "timestamp"), Column("symbol", "string"), Column("price", "double"))
    options = {"rows_per_batch": "40", "symbols": "5", "seed": "7"}
    recorder = Recorder(interpreted, Stream("s", columns, "ts", format="trades", options=options), tmp_path / "check")
    for _ in range(2):
        recorder.run()
    assert [len(rows) for rows in recorder.rows] == [40, 40]
    assert recorder.again(1) == sorted(recorder.rows[0] + recorder.rows[1])


def test_a_history_that_is_not_whole_is_refused(interpreted: SparkSession, tmp_path: Path) -> None:
    stream = Stream("s", COLUMNS, "ts", format="parquet", options={"path": str(tmp_path / "in")})
    recorder = Recorder(interpreted, stream, tmp_path / "check")
    write_parquet(tmp_path / "in" / "a b.parquet", 0)
    recorder.run()
    (tmp_path / "in" / "a b.parquet").rename(tmp_path / "elsewhere.parquet")
    with pytest.raises(SourceError, match=r"is incomplete: .*/in/a b.parquet is gone") as gone:
        recorder.again(0)
    assert "Put it back" in (gone.value.hint or "")
    (tmp_path / "check" / "sources" / "0" / "0").unlink()
    with pytest.raises(StateError, match="lacks its entry 0"):
        recorder.again(0)
    with pytest.raises(StateError, match="position of stream"):
        history(interpreted, stream, recorder.checkpoint, "v1\n{}\n{")
    moved = Stream("s", COLUMNS, "ts", format="parquet", options={"path": "x", "cleanSource": "archive"})
    with pytest.raises(SourceError, match="cleanSource = archive removes files"):
        history(interpreted, moved, recorder.checkpoint, recorder.positions[0])


def test_a_frame_of_the_program_has_no_history(interpreted: SparkSession, tmp_path: Path) -> None:
    assert history(interpreted, Stream("s", COLUMNS, "ts"), tmp_path, "") is None
