"""Files and tables that cannot be read: the stream stops, nothing is half taken, and once mended nothing is missing."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import Engine
from penstock.errors import PenstockError, SourceError
from penstock.sinks.delivery import Delivery
from penstock.sinks.jsonl import JsonLinesSink, JsonLinesWriter
from penstock.sinks.protocol import Progressing, cannot_write
from penstock.spark.session.embedded import gone_away
from penstock.store.answers import MemoryAnswerLog
from penstock.store.files import read_record, write_record
from penstock.store.folder import StateFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "when-things-go-wrong.md"
ROWS = 30  # of a file, one a second
QUERY = "SELECT k, count(*) AS n, sum(v) AS total FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k"


def documented(error: PenstockError, folder: Path) -> bool:
    """Tell whether the page shows an error as users see it, with /data for the test's own folder."""
    return str(error).replace(str(folder), "/data") in PAGE.read_text()


def oracle(rows: range) -> list[tuple[int, int]]:
    """Count and sum whole windows of ten seconds; the value of a row is its second."""
    return [(10, sum(range(start, start + 10))) for start in range(rows.start, rows.stop, 10)]


def write_parquet(path: Path, first: int, **changed: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    seconds = list(range(first, first + ROWS))
    times = pa.array([s * 1_000_000 for s in seconds], pa.timestamp("us", "UTC"))
    columns = {"ts": times, "k": ["a"] * ROWS, "v": seconds} | changed
    pq.write_table(pa.table({n: c for n, c in columns.items() if c is not None}), path)


def write_text(path: Path, first: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [(datetime.fromtimestamp(s, UTC).isoformat(), "a", s) for s in range(first, first + ROWS)]
    if path.suffix == ".csv":
        path.write_text("".join(f"{ts},{k},{v}\n" for ts, k, v in rows))
    else:
        path.write_text("".join(json.dumps({"ts": ts, "k": k, "v": v}) + "\n" for ts, k, v in rows))


def cut_off(path: Path) -> None:
    write_parquet(path, ROWS)
    path.write_bytes(path.read_bytes()[:-20])


@dataclass(frozen=True)
class Case:
    """A file b beside a whole file a, and how it is spoiled."""

    format: str
    spoil: Callable[[Path], object]
    options: str = ""

    def write(self, folder: Path, name: str, first: int) -> Path:
        path = folder / f"{name}.{self.format}"
        (write_parquet if self.format == "parquet" else write_text)(path, first)
        return path

    def stream(self, folder: Path) -> str:
        return f"""CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT) USING {self.format}
            OPTIONS (path = '{folder}', maxFilesPerTrigger = 1{self.options}) WATERMARK FOR ts AS ts"""


FAILFAST = ", mode = 'FAILFAST'"
PARQUET = Case("parquet", lambda path: path)
CASES = {
    "parquet": [
        Case("parquet", cut_off),
        Case("parquet", lambda path: path.write_bytes(b"")),
        Case("parquet", lambda path: write_parquet(path, ROWS, v=["x"] * ROWS)),
        Case("parquet", lambda path: write_parquet(path, ROWS, v=None)),
    ],
    "csv": [Case("csv", lambda path: path.write_text("this is\nnot what you think\n"), FAILFAST)],
    "json": [Case("json", lambda path: path.write_text("this is\nnot what you think\n"), FAILFAST)],
}


def taken(engine: Engine) -> int:
    return engine.stream("s").pipeline.progress.clock.counts.ingested


def answers(engine: Engine) -> list[tuple[Any, ...]]:
    return [(row["n"], row["total"]) for row in engine.results("q", "rows")]


@pytest.mark.parametrize("format_", CASES)
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_lost(
    interpreted: SparkSession, tmp_path: Path, format_: str
) -> None:
    folder, last = tmp_path / "in", CASES[format_][-1]
    last.write(folder, "a", 0)
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        engine.execute(last.stream(folder))
        engine.create_query("q", QUERY)
        engine.process_available()
        for number, case in enumerate(CASES[format_], 1):
            bad = folder / f"b.{format_}"
            case.spoil(bad)
            with pytest.raises(SourceError, match=re.escape(f"cannot read {bad}: ")) as raised:
                engine.process_available()
            assert taken(engine) == ROWS, number
            assert documented(raised.value, tmp_path), raised.value
    last.write(folder, "b", ROWS)
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        engine.process_available(flush=True)
        assert (taken(engine), answers(engine)) == (2 * ROWS, oracle(range(2 * ROWS)))


def test_text_that_is_not_a_row_is_counted_where_nobody_asked_to_stop(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    case = Case("csv", lambda path: path)
    case.write(tmp_path / "in", "a", 0)
    (tmp_path / "in" / "b.csv").write_text("this is\nnot what you think\n")
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        engine.execute(case.stream(tmp_path / "in"))
        engine.create_query("q", QUERY)
        engine.process_available(flush=True)
        counts = engine.stream("s").pipeline.progress.clock.counts
        assert (counts.ingested, counts.on_time, counts.invalid) == (ROWS + 2, ROWS, 2)
        assert answers(engine) == oracle(range(ROWS))


def test_files_may_lack_columns_where_the_stream_says_so(interpreted: SparkSession, tmp_path: Path) -> None:
    write_parquet(tmp_path / "in" / "a.parquet", 0, v=None)
    case = Case("parquet", lambda path: path, ", mergeSchema = true")
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        engine.execute(case.stream(tmp_path / "in"))
        engine.create_query("q", QUERY)
        engine.process_available(flush=True)
        assert answers(engine) == [(10, None)] * 3


def test_names_with_signs_of_patterns_are_read_once(interpreted: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        write_parquet(tmp_path / "in" / f"part [{number}].parquet", number * ROWS)
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        engine.execute(PARQUET.stream(tmp_path / "in").replace("= 1", "= 9"))
        engine.create_query("q", QUERY)
        engine.process_available(flush=True)
        assert (taken(engine), answers(engine)) == (3 * ROWS, oracle(range(3 * ROWS)))


def test_a_file_that_goes_before_it_is_read_is_asked_for(interpreted: SparkSession, tmp_path: Path) -> None:
    case, folder = PARQUET, tmp_path / "in"
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        folder.mkdir()
        engine.execute(case.stream(folder))
        engine.create_query("q", QUERY)
        cut_off(folder / "a.parquet")
        with pytest.raises(SourceError):
            engine.process_available()
        (folder / "a.parquet").unlink()  # Spark has it in its log
        with pytest.raises(SourceError, match="it is gone") as raised:
            engine.process_available()
        assert documented(raised.value, tmp_path), raised.value
        write_parquet(folder / "a.parquet", 0)
        engine.process_available(flush=True)
        assert answers(engine) == oracle(range(ROWS))


def test_a_folder_that_is_gone_is_named_and_may_come_back(interpreted: SparkSession, tmp_path: Path) -> None:
    case, folder = PARQUET, tmp_path / "in"
    case.write(folder, "a", 0)
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        engine.execute(case.stream(folder))
        engine.create_query("q", QUERY)
        engine.process_available()
        shutil.rmtree(folder)
        with pytest.raises(SourceError, match="is gone") as raised:
            engine.process_available()
        assert documented(raised.value, tmp_path), raised.value
        case.write(folder, "b", ROWS)
        engine.process_available(flush=True)
        assert answers(engine) == oracle(range(2 * ROWS))


def test_a_table_that_is_lost_stops_the_stream_until_it_is_back(interpreted: SparkSession, tmp_path: Path) -> None:
    case, folder, table = PARQUET, tmp_path / "in", tmp_path / "sectors"
    case.write(folder, "a", 0)
    table.mkdir()
    (table / "one.csv").write_text("a,Energy\n")
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        engine.execute(case.stream(folder))
        engine.execute(f"CREATE TABLE sectors (k STRING, sector STRING) USING csv OPTIONS (path = '{table}')")
        engine.create_query("q", QUERY.replace("GROUP", "JOIN sectors USING (k) GROUP"))
        engine.process_available()
        case.write(folder, "b", ROWS)
        (table / "one.csv").rename(tmp_path / "one.csv")
        for what in ("holds no files", "does not exist"):
            with pytest.raises(SourceError, match=f'table "sectors": {table} {what}') as raised:
                engine.process_available()
            assert documented(raised.value, tmp_path), raised.value
            shutil.rmtree(table, ignore_errors=True)
        assert taken(engine) == ROWS
        table.mkdir()
        (tmp_path / "one.csv").rename(table / "one.csv")
        engine.process_available(flush=True)
        assert answers(engine) == oracle(range(2 * ROWS))


def test_a_file_that_may_not_be_read_is_named(interpreted: SparkSession, tmp_path: Path) -> None:
    path = PARQUET.write(tmp_path / "in", "b", 0)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("nothing is forbidden to this user")
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        engine.execute(PARQUET.stream(tmp_path / "in"))
        engine.create_query("q", QUERY)
        with pytest.raises(SourceError, match="permission denied") as raised:
            engine.process_available()
        assert documented(raised.value, tmp_path), raised.value
        path.chmod(0o600)
        engine.process_available(flush=True)
        assert answers(engine) == oracle(range(ROWS))


# -- the rest of the page ----------------------------------------------------------------------------------------------


def refused(act: Callable[[], object]) -> PenstockError:
    with pytest.raises(PenstockError) as raised:
        act()
    return raised.value


def test_a_full_disk_and_damaged_files_read_as_on_the_page(tmp_path: Path) -> None:
    path = tmp_path / "state" / "commits" / "s" / "000000000007.json"
    path.parent.mkdir(parents=True)
    draft = path.with_name(f".{path.name}.draft")
    draft.symlink_to("/dev/full")
    full = refused(lambda: write_record(path, {"n": 1}))
    assert documented(full, tmp_path), full
    draft.unlink()
    write_record(path, {"n": 1})
    path.write_bytes(path.read_bytes().replace(b"1}", b"2}"))
    damaged = refused(lambda: read_record(path))
    assert documented(damaged, tmp_path), damaged


def test_state_folders_that_cannot_be_used_read_as_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    nowhere = refused(lambda: StateFolder(tmp_path / "file" / "state"))
    text = str(nowhere).replace(str(tmp_path / "file"), "/data").replace("Not a directory", "Permission denied")
    assert text in PAGE.read_text()
    first = StateFolder(tmp_path / "state")
    second = refused(lambda: StateFolder(tmp_path / "state"))
    first.release()
    text = str(second).replace(str(tmp_path), "/data").replace(f"process {os.getpid()}", "process 4711")
    assert text in PAGE.read_text()


class FullSink(JsonLinesSink):
    """Has no space."""

    def open(self, stream: str, memory: Progressing) -> JsonLinesWriter:
        raise cannot_write(self.folder / f"{stream}.jsonl", OSError(28, "No space left on device"))


def test_sinks_that_lack_answers_and_a_lost_jvm_read_as_on_the_page(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    delivery = Delivery("s", [FullSink(tmp_path / "out")], MemoryAnswerLog(), state, str, int)
    lacking = refused(delivery.roll)
    state.release()
    assert documented(lacking, tmp_path), lacking
    assert documented(gone_away('stream "s" stopped: '), tmp_path)
