"""Each answer is in its query's Delta table once, in types and under names that every reader of Delta takes."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import EnvironmentProblem, SinkError
from penstock.sinks.delta.columns import column_name
from penstock.store import faults
from tests.sinks.remembering import Died, Remembering, answers
from tests.sinks.values import HOSTILE, START, every_type

deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")


def rows(path: Path, columns: str = "n", order: str = "1") -> list[Any]:
    """Read the files that are a table now, by another reader than the one that wrote them."""
    files = deltalake.DeltaTable(str(path)).file_uris()
    if not files:
        return []
    text = (
        f"SELECT {columns} FROM read_parquet({files}, union_by_name = true, hive_partitioning = true) ORDER BY {order}"
    )
    return duckdb.execute(text).fetchall()


def test_values_of_every_type_are_read_back(tmp_path: Path) -> None:
    writer = ps.DeltaSink(tmp_path).open("s", Remembering())
    writer.deliver(0, [every_type()])
    writer.roll()
    found = deltalake.DeltaTable(str(tmp_path / "q")).to_pyarrow_table().sort_by("window_end").to_pylist()
    usual, odd, null = found
    assert usual["window_end"] == START
    assert (usual["amount"], odd["amount"]) == (Decimal("12345678901234567890.123456789"), Decimal("-0.000000001"))
    assert (odd["tiny"], odd["short"], odd["whole"], odd["large"]) == (-128, -(1 << 15), -(1 << 31), (1 << 63) - 1)
    assert (odd["text"], odd["bytes"], odd["single"]) == (HOSTILE, b"\x00\xff", float("inf"))
    assert odd["x"] != odd["x"]
    assert (odd["day_" + column_name("day")[4:]], odd["at"]) == (date(1, 1, 1), datetime(1, 1, 1, tzinfo=UTC))
    assert usual["local"] == datetime(2026, 1, 5)
    assert usual["took"] == 1_000_000
    assert (usual["list"], usual["pair"], usual["map"]) == ([1, None], {"a": 1, "b": HOSTILE}, [("k", 1.5)])
    assert usual["deep"] == [{"a": 1, "b": "x"}]
    filled = {name for name, value in null.items() if value is not None}
    assert filled == {"query_version", "window_start", "window_end", "penstock_source", "penstock_batch"}


@pytest.mark.parametrize("layout", ["query", "query/day"])
def test_times_beyond_those_of_delta_are_its_first_or_last(layout: str, tmp_path: Path) -> None:
    name = pa.array(["q", "q", "q"]).dictionary_encode()
    far = [-(1 << 63), (1 << 63) - 1, None]
    at = pa.array(far, pa.int64()).cast(pa.timestamp("us", "UTC"))
    day = pa.array([-(1 << 31), (1 << 31) - 1, None], pa.int32()).cast(pa.date32())
    inside = pa.StructArray.from_arrays([at, pa.ListArray.from_arrays([0, 1, 2, 3], day)], ["t", "d"])
    local = at.cast(pa.timestamp("us"))
    table = pa.table({"query_name": name, "window_start": at, "l": local, "d": day, "s": inside, "n": [1, 2, 3]})
    writer = ps.DeltaSink(tmp_path, layout=layout).open("s", Remembering())
    writer.deliver(0, [table])
    writer.roll()
    found = deltalake.DeltaTable(str(tmp_path / "q")).to_pyarrow_table().sort_by("n").to_pylist()
    first, last = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)
    assert [row["l"] for row in found] == [first, last, None]
    assert [row["d"] for row in found] == [first.date(), last.date(), None]
    assert [row["s"]["t"] and row["s"]["t"].year for row in found] == [1, 9999, None]
    assert [row["s"]["d"] for row in found] == [[first.date()], [last.date()], [None]]


def test_a_table_of_every_type_goes_on_with_the_next_engine(tmp_path: Path) -> None:
    for owner in ("0a", "0b"):
        memory = Remembering()
        memory.owner = owner
        writer = ps.DeltaSink(tmp_path).open("s", memory)
        writer.deliver(0, [every_type()])
        writer.roll()
    assert not (tmp_path / "q~2").exists()
    assert len(deltalake.DeltaTable(str(tmp_path / "q")).to_pyarrow_table()) == 6


@pytest.mark.parametrize("layout", ["query", "query/day"])
def test_a_query_that_changes_goes_on_in_its_table_or_in_another_one(layout: str, tmp_path: Path) -> None:
    writer = ps.DeltaSink(tmp_path, layout=layout).open("s", Remembering())
    at = pa.array([START], pa.timestamp("us", "UTC"))
    for number, (column, value) in enumerate([("n", 1), ("m", 2), ("n", "three"), ("n", 4)]):
        table = answers(0).set_column(1, column, pa.array([value])).append_column("window_start", at)
        writer.deliver(number, [table])
        writer.roll()
    assert rows(tmp_path / "q", "n, m", "n, m") == [(1, None), (4, None), (None, 2)]
    assert rows(tmp_path / "q~2") == [("three",)]
    parted = deltalake.DeltaTable(str(tmp_path / "q")).metadata().partition_columns
    assert parted == (["day"] if layout == "query/day" else [])
    if parted:
        assert rows(tmp_path / "q", "DISTINCT day") == [(START.date(),)]


def test_names_are_told_apart_whatever_they_are(tmp_path: Path) -> None:
    names = ["Flow", "flow", "../q", "a b", "penstock_batch", "é"]
    writer = ps.DeltaSink(tmp_path).open("s", Remembering())
    tables = [answers(place, query=name) for place, name in enumerate(names)]
    columns = ["day", "penstock_batch", "a b", "a_b", "a,b;{}()=\t\n", "'\"", "SELECT"]
    one = pa.array(["wide"]).dictionary_encode()
    wide = pa.table([one, *([place] for place, _ in enumerate(columns))], names=["query_name", *columns])
    writer.deliver(0, [*tables, wide])
    writer.roll()
    sink = ps.DeltaSink(tmp_path)
    assert [rows(sink.folder_of(name)) for name in names] == [[(place,)] for place, _ in enumerate(names)]
    found = deltalake.DeltaTable(str(tmp_path / "wide")).to_pyarrow_table().to_pylist()[0]
    assert [found[column_name(name)] for name in columns] == list(range(len(columns)))


def test_answers_wait_for_others_and_are_there_once_whatever_was_not_recorded(tmp_path: Path) -> None:
    memory, sink = Remembering(), ps.DeltaSink(tmp_path)
    writer = sink.open("s", memory)
    writer.deliver(0, [answers(1, 2)])
    writer.deliver(1, [answers(3)])
    assert not (tmp_path / "q").exists()
    assert writer.delivered == -1
    writer.roll()
    writer.deliver(2, [answers(4), answers(5, query="p")])
    memory.dies = True
    with pytest.raises(Died):
        writer.roll()
    assert rows(tmp_path / "q") == [(1,), (2,), (3,), (4,)]
    writer = sink.open("s", memory)
    assert rows(tmp_path / "q") == [(1,), (2,), (3,)]
    writer.deliver(2, [answers(4), answers(5, query="p")])
    writer.deliver(3, [answers(6)])
    writer.roll()
    assert rows(tmp_path / "q") == [(1,), (2,), (3,), (4,), (6,)]
    assert rows(tmp_path / "p") == [(5,)]


def test_a_batch_that_is_too_large_is_written_in_parts_and_taken_back_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, sink = Remembering(), ps.DeltaSink(tmp_path, roll_bytes=100)
    writer = sink.open("s", memory)
    writer.deliver(0, [answers(0)])
    writer.roll()
    left = [2]

    def fail(point: str) -> None:
        left[0] -= point == "sink.delta.before"
        if not left[0]:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(faults, "hook", fail)
    with pytest.raises(OSError, match="No space"):
        writer.deliver(1, [answers(*range(10, 30)), answers(*range(30, 50))])
    monkeypatch.setattr(faults, "hook", None)
    assert len(rows(tmp_path / "q")) == 21
    writer = sink.open("s", memory)
    assert rows(tmp_path / "q") == [(0,)]
    writer.deliver(1, [answers(*range(10, 50))])
    writer.roll()
    assert rows(tmp_path / "q") == [(0,), *((n,) for n in range(10, 50))]


def test_a_state_folder_that_was_restored_takes_back_its_own_rows_alone(tmp_path: Path) -> None:
    memory, other, sink = Remembering(), Remembering(), ps.DeltaSink(tmp_path)
    other.owner = "it's another"
    writer = sink.open("s", memory)
    for number in range(3):
        writer.deliver(number, [answers(number), answers(number, query="p")])
        writer.roll()
    neighbour = sink.open("s", other)
    neighbour.deliver(2, [answers(77)])
    neighbour.roll()
    memory.progress = {"delivered": 0}
    writer = sink.open("s", memory)
    assert (rows(tmp_path / "q"), rows(tmp_path / "p")) == ([(0,), (77,)], [(0,)])
    writer.deliver(1, [answers(1, 2)])
    writer.roll()
    assert rows(tmp_path / "q") == [(0,), (1,), (2,), (77,)]
    neighbour.deliver(3, [answers(78)])
    neighbour.roll()
    assert rows(tmp_path / "q")[-1] == (78,)


def test_a_process_believed_dead_does_not_write_over_its_successor(tmp_path: Path) -> None:
    memory, sink = Remembering(), ps.DeltaSink(tmp_path)
    believed_dead, successor = sink.open("s", memory), sink.open("s", memory)
    for writer in (successor, believed_dead):
        writer.deliver(0, [answers(1)])
    successor.roll()
    with pytest.raises(SinkError, match="another engine writes"):
        believed_dead.roll()
    assert rows(tmp_path / "q") == [(1,)]


def test_tables_go_on_after_their_files_were_put_together(tmp_path: Path) -> None:
    memory, sink = Remembering(), ps.DeltaSink(tmp_path)
    writer = sink.open("s", memory)
    for number in range(4):
        writer.deliver(number, [answers(number)])
        writer.roll()
        if number == 2:
            table = deltalake.DeltaTable(str(tmp_path / "q"))
            table.optimize.compact()
            table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    memory.progress = {"delivered": 1}
    writer = sink.open("s", memory)
    assert rows(tmp_path / "q") == [(0,), (1,)]


def test_settings_that_cannot_be_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SinkError, match='layout of the delta sink must be one of query, query/day, not "day"'):
        ps.DeltaSink(tmp_path, layout="day")

    def missing(name: str) -> Any:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr("penstock.sinks.delta.tables.import_module", missing)
    with pytest.raises(EnvironmentProblem, match="deltalake") as caught:
        ps.DeltaSink(tmp_path)
    assert caught.value.hint == 'Run `pip install "penstock[delta]"`.'
