"""A trace is a few Arrow files: it is capped, read as far as it is whole, and skipped where it is not."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import StateError
from penstock.schedule.recorded import RecordedStep, RecordedWindows
from penstock.store.trace_files import TraceWriter, answered_row, read_trace, step_row
from penstock.store.trace_schema import COLUMNS, NAMES, SCHEMA, schema_of

STATE = Path(__file__).parents[2] / "docs" / "state.md"
WINDOWS = RecordedWindows(5, 0, "trades", "HNR", 100, 200, 3, (1, 2), 4, 10, 40, 90, 190, 2.0, 0.0002, 0.0001)
STEP = RecordedStep(5, "trades", 10, 20, 90)
HOSTILE = "trades\x1b[31m\n../../x'; DROP"


def written(state: Path, *windows: RecordedWindows, run: int = 5, most_bytes: int = 1 << 20) -> TraceWriter:
    writer = TraceWriter(state / "trace", run, most_bytes)
    for one in windows:
        writer.append([answered_row(one)])
    return writer


def test_what_is_written_is_read(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "trace", 5)
    writer.append([answered_row(WINDOWS), step_row(STEP)])
    writer.append([answered_row(replace(WINDOWS, group=1, stream=HOSTILE, selectivity=0.25))])
    assert len(read_trace(tmp_path).windows) == 2  # also while the file is open
    writer.close()
    found = read_trace(tmp_path)
    assert found.windows == [WINDOWS, replace(WINDOWS, group=1, stream=HOSTILE, selectivity=0.25)]
    assert found.steps == [STEP]
    assert found.torn == []


def test_numbers_of_queries_may_be_those_of_rulers_and_files_with_smaller_ones_are_read(tmp_path: Path) -> None:
    wide = replace(WINDOWS, group=1, queries=((1 << 40) + 2,))
    written(tmp_path, WINDOWS, wide).close()
    assert read_trace(tmp_path).windows == [WINDOWS, wide]
    (path,) = (tmp_path / "trace").iterdir()
    narrow = pa.schema([(n, pa.list_(pa.int32()) if n == "queries" else SCHEMA.field(n).type) for n in NAMES])
    row = pa.Table.from_pylist([dict(zip(NAMES, answered_row(WINDOWS), strict=True))], narrow)
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(file, narrow.with_metadata(schema_of(5).metadata)) as out,
    ):
        out.write_table(row.replace_schema_metadata(schema_of(5).metadata))
    found = read_trace(tmp_path)
    assert (found.windows, found.torn) == ([WINDOWS], [])


def test_files_without_selectivities_are_read_as_if_every_window_had_said_something(tmp_path: Path) -> None:
    written(tmp_path, WINDOWS).close()
    (path,) = (tmp_path / "trace").iterdir()
    before = pa.schema([field for field in SCHEMA if field.name != "selectivity"], schema_of(5).metadata)
    rows = [
        dict(zip(NAMES, one, strict=True)) for one in (answered_row(replace(WINDOWS, selectivity=0.5)), step_row(STEP))
    ]
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, before) as out:
        out.write_table(pa.Table.from_pylist(rows, before))
    found = read_trace(tmp_path)
    assert (found.windows, found.steps, found.torn) == ([WINDOWS], [STEP], [])


def test_a_time_can_be_chosen(tmp_path: Path) -> None:
    later = replace(WINDOWS, group=1, began_us=1_000, ended_us=1_100, final_us=900)
    written(tmp_path, WINDOWS, later).close()
    assert read_trace(tmp_path, since_us=500).windows == [later]
    assert read_trace(tmp_path, until_us=500).windows == [WINDOWS]
    with pytest.raises(StateError, match="tells nothing of that time"):
        read_trace(tmp_path, since_us=5_000)


def test_the_oldest_files_go_when_all_are_too_much(tmp_path: Path) -> None:
    most = 200_000
    for run in range(3):
        writer = TraceWriter(tmp_path / "trace", run, most)
        for group in range(0, 4_000, 50):
            rows = [replace(WINDOWS, run=run, group=group + n, item=(group * n) % 997) for n in range(50)]
            writer.append([answered_row(one) for one in rows])
        writer.close()
        sizes = [path.stat().st_size for path in (tmp_path / "trace").iterdir()]
        assert sum(sizes) <= most
        assert max(sizes) <= most / 4
    found = read_trace(tmp_path)
    assert {one.run for one in found.windows} == {2}
    assert found.windows[-1].group == 3_999
    assert len(found.windows) > 1_000
    assert found.torn == []


def test_a_file_that_ends_in_the_middle_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    written(tmp_path, *(replace(WINDOWS, group=n) for n in range(4))).close()
    (path,) = (tmp_path / "trace").iterdir()
    content = path.read_bytes()
    for length in [*range(0, len(content), 97), len(content)]:
        path.write_bytes(content[:length])
        groups: list[int] = []
        with contextlib.suppress(StateError):  # nothing of it is whole
            groups = [one.group for one in read_trace(tmp_path).windows]
        assert groups == list(range(len(groups)))
    assert groups == [0, 1, 2, 3]


def test_a_crash_costs_what_was_not_written_and_the_next_engine_begins_a_file_of_its_own(tmp_path: Path) -> None:
    written(tmp_path, WINDOWS)  # never closed
    (path,) = (tmp_path / "trace").iterdir()
    path.write_bytes(path.read_bytes() + b"\xff\xff\xff\xff\x10")
    written(tmp_path, replace(WINDOWS, run=6), run=6).close()
    found = read_trace(tmp_path)
    assert [one.run for one in found.windows] == [5, 6]
    assert found.torn == [path.name]


@pytest.mark.parametrize(
    "spoilt",
    [
        {"queries": ()},
        {"windows": 0},
        {"spent_s": float("nan")},
        {"spent_s": -1.0},
        {"expected_s": float("inf")},
        {"priority": float("inf")},
        {"due_us": None},
        {"stream": None},
    ],
)
def test_what_no_engine_writes_is_skipped_and_named(spoilt: dict[str, object], tmp_path: Path) -> None:
    written(tmp_path, WINDOWS).close()
    written(tmp_path, replace(WINDOWS, **spoilt)).close()  # type: ignore[arg-type]
    found = read_trace(tmp_path)
    assert found.windows == [WINDOWS]
    assert found.torn == ["1.arrows"]


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    written(tmp_path, WINDOWS).close()
    folder = tmp_path / "trace"
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    (folder / "7.arrows").mkdir()
    (folder / "8.arrows").write_bytes(b"no Arrow at all")
    other = pa.schema([("x", pa.int64())], metadata=schema_of(5).metadata)
    with pa.OSFile(str(folder / "9.arrows"), "wb") as file, pa.ipc.new_stream(file, other) as stream:
        stream.write_table(pa.table({"x": [1]}, schema=other))
    found = read_trace(tmp_path)
    assert found.windows == [WINDOWS]
    assert found.torn == ["8.arrows", "9.arrows"]


def test_a_folder_without_a_trace_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="has no trace of what ran") as raised:
        read_trace(tmp_path)
    assert "trace_bytes" in (raised.value.hint or "")


def test_the_page_on_state_has_every_column_with_what_it_means() -> None:
    section = STATE.read_text(encoding="utf-8").split("## Trace")[1].split("\n## ")[0]
    cells = re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
    assert cells == [(column.name, column.meaning) for column in COLUMNS]
    assert list(NAMES) == SCHEMA.names
