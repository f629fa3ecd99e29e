"""Every query has a folder of its own, which readers of Parquet read as one table, with each answer once."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sinks.growing_files import SMALL_BYTES
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.query_folders import folder_name
from tests.sinks.remembering import Died, Remembering, answers
from tests.store.dying import Died as DiedInside
from tests.store.dying import dying_at

INSTANT = pa.timestamp("us", "UTC")
DAY_US = 86_400_000_000
SIGNS = [".", "..", "_hidden", "a=b", "con", "größe", "a/b", "../up", "%2f", " x", "", "x" * 300]
HOSTILE = ["Flow", "FLOW", "flow", *SIGNS]


def held(sink: ParquetSink, query: str = "q") -> list[int]:
    files = sorted(sink.folder_of(query).rglob("*.parquet"))
    return [n for file in files for n in pq.read_table(file, partitioning=None)["n"].to_pylist()]


def shared(folder: Path) -> list[int]:
    return sorted(n for file in folder.glob("*.parquet") for n in pq.read_table(file)["n"].to_pylist())


def windows(query: str, *starts_us: int) -> pa.Table:
    names = pa.array([query] * len(starts_us)).dictionary_encode()
    return pa.table({"query_name": names, "window_start": pa.array(starts_us, INSTANT), "n": list(starts_us)})


# -- names -------------------------------------------------------------------------------------------------------------


def test_names_that_differ_have_folders_that_differ_whatever_the_file_system_makes_of_case() -> None:
    crafted = [folder_name("Flow"), folder_name(folder_name("Flow"))]
    folders = {name: folder_name(name) for name in [*HOSTILE, *crafted]}
    assert len({folder.lower() for folder in folders.values()}) == len(folders)
    assert folders["flow"] == "flow"


@given(st.text(max_size=80))
def test_a_folder_is_safe_whatever_the_query_is_called(name: str) -> None:
    folder = folder_name(name)
    assert folder.isascii()
    assert folder == folder.lower()
    assert folder[0] not in "._"
    assert set(folder) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
    assert len(folder) <= 60
    assert folder_name(folder) == folder or folder != name


def test_queries_with_hostile_names_are_apart(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "out")
    writer = sink.open("s", Remembering())
    writer.deliver(0, [answers(place, query=name) for place, name in enumerate(HOSTILE)])
    writer.roll()
    assert [held(sink, name) for name in HOSTILE] == [[place] for place in range(len(HOSTILE))]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_small_file_grows_and_a_large_one_is_followed_by_another(tmp_path: Path) -> None:
    sink, memory = ParquetSink(tmp_path), Remembering()
    writer = sink.open("s", memory)
    for number in range(5):
        writer.deliver(number, [answers(number)])
        writer.roll()
    writer = sink.open("s", memory)  # after a restart too
    writer.deliver(5, [answers(5)])
    writer.roll()
    assert len(list(sink.folder_of("q").glob("*.parquet"))) == 1
    draw = random.Random(1)
    many = [draw.getrandbits(62) for _ in range(SMALL_BYTES // 4)]
    writer.deliver(6, [answers(*many)])
    writer.roll()
    writer.deliver(7, [answers(7)])
    writer.roll()
    assert len(list(sink.folder_of("q").glob("*.parquet"))) == 2
    assert held(sink) == [0, 1, 2, 3, 4, 5, *many, 7]


def test_answers_are_parted_by_the_day_their_window_begins(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path, layout="query/day")
    writer = sink.open("s", Remembering())
    writer.deliver(0, [windows("q", 0, DAY_US - 1, DAY_US), windows("p", -1)])
    writer.roll()
    folders = [path for path in (tmp_path / "q").iterdir() if path.is_dir()]
    days = {path.name: len(pq.read_table(path, partitioning=None)) for path in folders}
    assert days == {"day=1970-01-01": 2, "day=1970-01-02": 1}
    assert [path.name for path in (tmp_path / "p").iterdir() if path.is_dir()] == ["day=1969-12-31"]
    read = pq.read_table(tmp_path / "q")
    assert sorted(zip(read["n"].to_pylist(), map(str, read["day"].to_pylist()), strict=True)) == [
        (0, "1970-01-01"),
        (DAY_US - 1, "1970-01-01"),
        (DAY_US, "1970-01-02"),
    ]


def test_more_queries_than_files_that_are_open_at_once(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path, roll_bytes=1)
    writer = sink.open("s", Remembering())
    tables = [answers(number, query=f"q{number % 250}") for number in range(600)]
    writer.deliver(0, tuple(tables))  # no list: read one at a time
    writer.deliver(1, tuple(tables))
    found = {number: held(sink, f"q{number}") for number in range(250)}
    assert found == {number: [*range(number, 600, 250)] * 2 for number in range(250)}


@pytest.mark.parametrize("layout", ["query", "query/day"])
def test_what_a_record_counts_is_durable_with_all_names_on_the_way_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    synced, sync = set[int](), os.fsync

    def note(handle: int) -> None:
        synced.add(os.fstat(handle).st_ino)
        sync(handle)

    monkeypatch.setattr(os, "fsync", note)
    out = tmp_path / "out"
    writer = ParquetSink(out, layout=layout).open("s", Remembering())
    for number in range(3):
        synced.clear()
        writer.deliver(number, [windows("q", 0, DAY_US), windows(f"p{number}", 1)])
        writer.roll()
        new = [path for name in ("q", f"p{number}") for path in (out / name).rglob("*.parquet")]
        assert {path.stat().st_ino for path in new} | {path.parent.stat().st_ino for path in new} <= synced
        folders = [path.parent for path in out.rglob(f"p{number}/**/*.parquet")] + [out]
        records = list((out / f"p{number}").glob("_columns-*"))
        assert {path.stat().st_ino for path in (*folders, out / f"p{number}", *records)} <= synced


# -- columns that change -----------------------------------------------------------------------------------------------


def test_columns_that_are_added_stay_in_the_folder_and_other_types_go_beside_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink, memory = ParquetSink(tmp_path), Remembering()
    more = answers(1).append_column("m", pa.array([1.5]))
    texts = answers(2).set_column(1, "n", pa.array(["two"]))
    for number, table in enumerate([answers(0), more, texts, answers(3)]):
        writer = sink.open("s", memory)
        writer.deliver(number, [table])
        writer.roll()
    assert held(sink) == [0, 3, 1]
    assert pq.read_table(tmp_path / "q~2")["n"].to_pylist() == ["two"]
    assert [record.message for record in caplog.records] == [
        f'answers of query "q" do not fit those before: they go to {tmp_path / "q~2"} from now on'
    ]


def test_a_day_beside_a_column_of_that_name(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path, layout="query/day")
    writer = sink.open("s", Remembering())
    named = windows("q", 0).append_column("Day", pa.array(["x"]))
    writer.deliver(0, [named, windows("p", 0)])
    writer.deliver(1, [windows("p", 1).append_column("day", pa.array(["y"]))])
    writer.roll()
    assert [path.name for path in (tmp_path / "q").iterdir() if path.is_dir()] == ["day_=1970-01-01"]
    assert [path.name for path in (tmp_path / "p").iterdir() if path.is_dir()] == ["day=1970-01-01"]
    assert [path.name for path in (tmp_path / "p~2").iterdir() if path.is_dir()] == ["day_=1970-01-01"]


def test_another_layout_begins_another_folder(tmp_path: Path) -> None:
    memory = Remembering()
    for number, layout in enumerate(["query", "query/day", None, "query"]):
        writer = ParquetSink(tmp_path, layout=layout).open("s", memory)
        writer.deliver(number, [windows("q", number)])
        writer.roll()
    sink = ParquetSink(tmp_path)
    assert held(sink) == [0, 3]
    assert pq.read_table(tmp_path / "q~2")["n"].to_pylist() == [1, 2]


@pytest.mark.parametrize("lost", ["_columns-s-0f-.json", "_columns-s-0f-.json,"])
def test_what_a_folder_said_of_itself_may_be_lost(tmp_path: Path, lost: str) -> None:
    sink, memory = ParquetSink(tmp_path), Remembering()
    writer = sink.open("s", memory)
    writer.deliver(0, [answers(0)])
    writer.roll()
    record = tmp_path / "q" / lost.rstrip(",")
    record.write_text("no record") if "," in lost else record.unlink()
    writer = sink.open("s", memory)
    writer.deliver(1, [answers(1), answers(2).set_column(1, "n", pa.array(["two"]))])
    writer.roll()
    assert held(sink) == [0, 1]
    assert pq.read_table(tmp_path / "q~2")["n"].to_pylist() == ["two"]


# -- folders of the version before -------------------------------------------------------------------------------------


def test_a_folder_that_was_begun_with_shared_files_goes_on_with_them(tmp_path: Path) -> None:
    memory = Remembering()
    ParquetSink(tmp_path, layout="columns").open("s", memory)
    for number in range(3):
        writer = ParquetSink(tmp_path, layout="columns" if not number else None).open("s", memory)
        writer.deliver(number, [answers(number)])
        writer.roll()
        assert memory.progress == {"delivered": number}  # as the version before wrote it
    fresh = ParquetSink(tmp_path).open("other", Remembering())  # another stream of the same sink
    fresh.deliver(0, [answers(3)])
    fresh.roll()
    assert shared(tmp_path) == [
        0,
        1,
        2,
        3,
    ]
    assert not (tmp_path / "q").exists()


def test_a_folder_may_change_its_layout_when_asked(tmp_path: Path) -> None:
    memory = Remembering()
    for number, layout in enumerate(["columns", "query", None, "columns"]):
        writer = ParquetSink(tmp_path, layout=layout).open("s", memory)
        writer.deliver(number, [answers(number)])
        memory.dies = number > 0
        if memory.dies:  # right before the first record of another layout, too
            with pytest.raises(Died):
                writer.roll()
            writer = ParquetSink(tmp_path, layout=layout).open("s", memory)
            writer.deliver(number, [answers(number)])
        writer.roll()
    assert held(ParquetSink(tmp_path)) == [1, 2]
    assert shared(tmp_path) == [0, 3]


# -- exactly once ------------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.sampled_from(["deliver", "deliver", "large", "wider", "roll", "restart", "back"]),
        st.tuples(st.just("die"), st.integers(0, 12)),
    ),
    max_size=25,
)


class Played:
    """A sink that is given numbers by a log, dies, is opened again, and is set back to a copy of what it recorded."""

    def __init__(self, folder: Path, layout: str) -> None:
        self.sink, self.memory = ParquetSink(folder, layout=layout, roll_bytes=400), Remembering()
        self.log: list[Any] = []
        self.copies: list[dict[str, object]] = [{}]
        self.open()

    def open(self) -> None:
        self.writer = self.sink.open("s", self.memory)
        for number in range(self.writer.delivered + 1, len(self.log)):
            self.writer.deliver(number, self.log[number])

    def deliver(self, step: str) -> None:
        number = len(self.log)
        day = DAY_US * (number // 3)
        tables: Any = [windows("q", day + 2 * number), windows("p", day + 2 * number + 1)]
        if step == "wider":
            tables = [table.append_column("m", pa.array([1])) for table in tables]
        self.log.append(tuple(tables) * 20 if step == "large" else tables)
        self.writer.deliver(number, self.log[number])

    def die(self, nth: int) -> None:
        """Die at a moment of what it writes next."""
        with dying_at(nth):
            try:
                self.writer.roll()
            except DiedInside:
                self.open()

    def play(self, step: Any) -> None:
        match step:
            case ("die", nth):
                self.die(nth)
            case "roll":
                self.writer.roll()
                self.copies.append(self.memory.read())
            case "restart":
                self.open()
            case "back":  # a backup of the state folder is restored
                self.memory.progress = self.copies[len(self.copies) // 2]
                self.open()
            case _:
                self.deliver(step)

    def check(self) -> None:
        self.writer.roll()
        every = [n for tables in self.log for table in tables for n in table["n"].to_pylist()]
        assert sorted(held(self.sink, "q") + held(self.sink, "p")) == sorted(every)
        assert not list(self.sink.folder.rglob("*.draft"))


@given(STEPS, st.sampled_from(["query", "query/day"]))
def test_every_answer_is_there_once_whatever_dies_and_is_set_back(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], layout: str
) -> None:
    folder = tmp_path_factory.mktemp("out")
    played = Played(folder, layout)
    for step in steps:
        played.play(step)
    played.check()
    shutil.rmtree(folder)


def test_a_death_at_each_moment_of_a_write_is_made_good(tmp_path: Path) -> None:
    moments: list[str] = []
    for nth in range(30):
        played = Played(tmp_path / str(nth), "query")
        played.play("deliver")
        played.play("roll")
        played.play("deliver")
        played.play("wider")
        with dying_at(nth) as reached:
            try:
                played.writer.roll()
            except DiedInside:
                moments.append(reached[-1])
                played.open()
        played.check()
    whats, whens = ("", ".columns", ".reach"), ("before", "torn", "after")
    wanted = {f"sink.parquet{what}.{when}" for what in whats for when in whens}
    assert wanted <= set(moments)
