"""Files by list of columns, or in a folder for each query, rolled by size or time, each answer once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SinkError
from penstock.sinks import rolling
from penstock.sinks.parquet import LAYOUTS, ParquetSink
from penstock.sinks.protocol import WriteLarge
from tests.sinks.remembering import Died, Remembering, answers


def visible(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def numbers(folder: Path) -> list[int]:
    return sorted(n for file in visible(folder) for n in pq.read_table(file)["n"].to_pylist())


def in_parts(number: Callable[[], int]) -> WriteLarge:
    """Write as executors do, in so many parts."""

    def write(table: pa.Table, folder: Path, name: str) -> list[Path]:
        count = number()
        drafts = [folder / f".{name}-{part:03d}.parquet.draft" for part in range(count)]
        for part, draft in enumerate(drafts):
            rows = table.take(pa.array(range(part, table.num_rows, count), pa.int64()))
            pq.write_table(rows, draft)
        return drafts

    return write


def test_queries_and_batches_with_equal_columns_share_a_file(tmp_path: Path) -> None:
    writer = ParquetSink(tmp_path, layout="columns").open("s", Remembering())
    for commit in range(10):
        writer.deliver(commit, [answers(commit, 100 + commit), answers(commit, column="m")])
    assert visible(tmp_path) == []
    writer.roll()
    assert sorted(pq.read_metadata(file).num_rows for file in visible(tmp_path)) == [10, 20]
    assert writer.delivered == 9
    writer.roll()
    assert len(visible(tmp_path)) == 2


def test_files_roll_by_size_and_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr(rolling, "time", SimpleNamespace(monotonic=lambda: now[0]))
    size = answers(0).nbytes
    writer = ParquetSink(tmp_path, layout="columns", roll_bytes=3 * size, roll_seconds=60).open("s", Remembering())
    for commit in range(7):
        writer.deliver(commit, [answers(commit)])
    assert [pq.read_metadata(file).num_rows for file in visible(tmp_path)] == [3, 3]
    assert writer.delivered == 5
    now[0] += 61
    writer.deliver(7, [answers(7)])
    assert [pq.read_metadata(file).num_rows for file in visible(tmp_path)] == [3, 3, 2]
    writer.deliver(8, [])
    writer.roll()
    assert numbers(tmp_path) == list(range(8))
    assert writer.delivered == 8


def test_a_crash_between_rename_and_record_gives_no_duplicates(tmp_path: Path) -> None:
    memory = Remembering()
    writer = ParquetSink(tmp_path, layout="columns").open("s", memory)
    writer.deliver(0, [answers(0)])
    writer.roll()
    for commit in (1, 2):
        writer.deliver(commit, [answers(commit), answers(commit, column="m")])
    memory.dies = True
    with pytest.raises(Died):
        writer.roll()
    assert len(visible(tmp_path)) == 3
    again = ParquetSink(tmp_path).open("s", memory)
    assert again.delivered == 0
    for commit in (1, 2, 3):
        again.deliver(commit, [answers(commit)])
    again.roll()
    assert numbers(tmp_path) == [0, 1, 2, 3]


STEPS = st.lists(st.sampled_from(["deliver", "deliver", "roll", "die", "restart", "cores"]), max_size=25)


@given(STEPS, st.integers(1, 9), st.integers(1, 200), st.sampled_from([LAYOUTS[0], LAYOUTS[-1]]))
def test_every_answer_is_there_once_wherever_the_process_dies(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], large_rows: int, roll_bytes: int, layout: str
) -> None:
    folder, memory, cores, commits = tmp_path_factory.mktemp("out"), Remembering(), 2, 0
    sink = ParquetSink(folder, layout=layout, roll_bytes=roll_bytes, large_rows=large_rows)
    sink.write_large = in_parts(lambda: cores)
    writer = sink.open("s", memory)
    for step in [*steps, "restart", "roll"]:
        if step == "deliver":
            writer.deliver(commits, [answers(commits)])
            commits += 1
        if step == "cores":
            cores = 5 - cores
        if step == "roll":
            writer.roll()
        if step == "die" and commits - 1 > writer.delivered:
            memory.dies = True
            with pytest.raises(Died):
                writer.roll()
        if step in ("die", "restart"):
            writer = sink.open("s", memory)
            for commit in range(writer.delivered + 1, commits):
                writer.deliver(commit, [answers(commit)])
    assert numbers(folder) == list(range(commits))


def test_two_states_share_a_folder(tmp_path: Path) -> None:
    for owner in ("0a", "0b"):
        memory = Remembering()
        memory.owner = owner
        writer = ParquetSink(tmp_path).open("s", memory)
        writer.deliver(0, [answers(1)])
        writer.roll()
    assert numbers(tmp_path) == [1, 1]


def test_a_folder_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="cannot write answers"):
        ParquetSink(tmp_path / "file" / "out").open("s", Remembering())
