"""What a stream is behind with: files that no commit has taken, told by a running engine and by its folder alone."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock import Engine
from penstock.cli.status_text import status_text
from penstock.control.reading import read_status
from penstock.model.schema import Column, Stream
from penstock.spark.sources.unread_files import UnreadFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 10


def write(folder: Path, number: int, name: str | None = None) -> Path:
    times = pa.array([(number * ROWS + i) * 1_000_000 for i in range(ROWS)], pa.timestamp("us", "UTC"))
    path = folder / (name or f"{number:04d}.parquet")
    pq.write_table(pa.table({"ts": times}), path)
    return path


def behind(status: dict[str, Any]) -> dict[str, Any]:
    found = status["streams"][0]["backlog"]
    assert isinstance(found, dict)
    return found


def test_files_that_no_commit_has_taken_are_counted_with_their_age(spark: SparkSession, tmp_path: Path) -> None:
    data, state = tmp_path / "the data", tmp_path / "state"
    data.mkdir()
    for number in range(12):  # Spark puts its log of ten batches together
        write(data, number, "a %20 name.parquet" if number == 5 else None)
    declared = f"CREATE STREAM s (ts TIMESTAMP) USING parquet OPTIONS (path = '{data}', maxFilesPerTrigger = 1)"
    with Engine(state, spark=spark) as engine:
        engine.execute(f"{declared} WATERMARK FOR ts")
        engine.create_query("q", "SELECT count(*) AS n FROM s [RANGE 30 s SLIDE 30 s]")
        told = behind(engine.status())
        assert told["files"] is None  # nobody has looked: the stream is not at work
        engine.process_available()
        told = behind(engine.status())
        assert (told["files"], told["rows"], told["oldest_s"]) == (0, 0, None)
        hour_ago = time.time() - 3_600
        for number in range(12, 15):
            os.utime(write(data, number), (hour_ago, hour_ago + number))
        write(data, 15, "_hidden.parquet")
        found = engine.status()
        told = behind(found)
        assert (told["files"], told["rows"]) == (3, 3 * ROWS)
        assert 3_500 < told["oldest_s"] < 3_700
        shown = " ".join(
            status_text({**found, "folder": "state", "pid": 1, "since_us": None, "answers_requests": True}).split()
        )
        assert "behind 3 files, about 30 rows in the source, the oldest written 59 min" in shown
        assert engine.metrics().streams[0].backlog.files == 3
        assert behind(read_status(state).to_dict())["files"] == 3
        engine.process_available()
        assert behind(engine.status())["files"] == 0
        assert engine.status()["streams"][0]["counts"]["ingested"] == 15 * ROWS


def test_what_cannot_be_listed_is_unknown(tmp_path: Path) -> None:
    columns = (Column("ts", "timestamp"),)
    for path in ("s3://somewhere/else", f"{tmp_path}/{{a,b}}", ""):
        stream = Stream("s", columns, "ts", format="parquet", options={"path": path})
        assert UnreadFiles(stream, tmp_path / "checkpoint").look("") is None
    assert UnreadFiles(Stream("s", columns, "ts"), tmp_path).look("") is None
    write(tmp_path, 1)
    (tmp_path / "deeper").mkdir()
    write(tmp_path / "deeper", 2)
    for path, files in ((str(tmp_path), 2), (f"{tmp_path}/*.parquet", 1), (f"{tmp_path}/d*", 1), (f"{tmp_path}/x*", 0)):
        stream = Stream("s", columns, "ts", format="parquet", options={"path": path})
        found = UnreadFiles(stream, tmp_path / "checkpoint").look("")
        assert found is not None
        assert found.files == files, path
