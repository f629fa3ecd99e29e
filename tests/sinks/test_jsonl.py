"""One line an answer, each once, in words that JSON has."""

from __future__ import annotations

import contextlib
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SinkError
from penstock.sinks.jsonl import JsonLinesSink
from tests.sinks.remembering import Died, Remembering, answers, one


def lines(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def numbers(folder: Path) -> list[int]:
    return [line["n"] for line in lines(folder)]


def test_files_roll_by_size(tmp_path: Path) -> None:
    writer = JsonLinesSink(tmp_path, roll_bytes=60).open("s", Remembering())
    for number in range(6):
        writer.deliver(number, [answers(number)])
    assert [p.name for p in sorted(tmp_path.iterdir())] == [f"s-0f-0000{i}.jsonl" for i in range(2)]
    assert [len(p.read_text().splitlines()) for p in sorted(tmp_path.iterdir())] == [3, 3]
    assert numbers(tmp_path) == list(range(6))


def test_what_was_written_and_not_recorded_is_cut_off(tmp_path: Path) -> None:
    memory = Remembering()
    writer = JsonLinesSink(tmp_path).open("s", memory)
    writer.deliver(0, [answers(0)])
    memory.dies = True
    with pytest.raises(Died):
        writer.deliver(1, [answers(1, 2)])
    (file,) = tmp_path.iterdir()
    with file.open("a") as torn:
        torn.write('{"half": ')
    again = JsonLinesSink(tmp_path).open("s", memory)
    assert again.delivered == 0
    again.deliver(1, [answers(1, 2)])
    assert numbers(tmp_path) == [0, 1, 2]


@given(st.integers(1, 200), st.lists(st.sampled_from(["deliver", "die", "again", "restart"]), max_size=20))
def test_every_answer_is_there_once_wherever_the_process_dies(
    tmp_path_factory: pytest.TempPathFactory, roll_bytes: int, steps: list[str]
) -> None:
    folder, memory, commits = tmp_path_factory.mktemp("out"), Remembering(), 0
    writer = JsonLinesSink(folder, roll_bytes=roll_bytes).open("s", memory)
    for step in steps:
        memory.dies = step == "die"
        if step in ("deliver", "die"):
            with contextlib.suppress(Died):
                writer.deliver(commits, [answers(commits)])
            commits += 1
        if step in ("die", "restart"):
            writer = JsonLinesSink(folder, roll_bytes=roll_bytes).open("s", memory)
        if step in ("die", "restart", "again"):
            for commit in range(commits):
                writer.deliver(commit, [answers(commit)])
    assert numbers(folder) == list(range(commits))


@pytest.mark.parametrize(
    ("value", "type_", "words"),
    [
        (math.nan, None, "NaN"),
        (-math.inf, None, "-Infinity"),
        (0.1, None, 0.1),
        (2**63 - 1, None, 2**63 - 1),
        (Decimal("12.50"), pa.decimal128(38, 2), "12.50"),
        (Decimal("0.000000000000000001"), pa.decimal128(38, 18), "0.000000000000000001"),
        (Decimal(0), pa.decimal128(38, 10), "0.0000000000"),
        (b"\x00\xff", None, "AP8="),
        (True, None, True),
        (None, pa.string(), None),
        ('é"\n', None, 'é"\n'),
        (datetime(2026, 1, 5, 12, 0, 0, 250, tzinfo=UTC), None, "2026-01-05T12:00:00.000250Z"),
        (datetime(2026, 1, 5, 12, tzinfo=UTC), None, "2026-01-05T12:00:00.000000Z"),
        (datetime(2026, 1, 5, 12), None, "2026-01-05T12:00:00.000000"),
        ({"w": [datetime(1, 1, 1, tzinfo=UTC)]}, None, {"w": ["0001-01-01T00:00:00.000000Z"]}),
        (time(12, 30), None, "12:30:00.000000"),
        (date(2026, 1, 5), None, "2026-01-05"),
        ([1.5, math.nan, None], None, [1.5, "NaN", None]),
        ({"a": Decimal("1.5"), "b": [b""]}, None, {"a": "1.5", "b": [""]}),
    ],
)
def test_values_are_worded(tmp_path: Path, value: Any, type_: pa.DataType | None, words: Any) -> None:
    JsonLinesSink(tmp_path).open("s", Remembering()).deliver(0, [one("x", value, type_)])
    assert lines(tmp_path) == [{"query_name": "q", "x": words}]


def test_no_value_stops_the_sink(tmp_path: Path) -> None:
    writer = JsonLinesSink(tmp_path).open("s", Remembering())
    far, broken = pa.array([1 << 62]).cast(pa.timestamp("us", tz="UTC")), pa.array([b"\xff"]).view(pa.string())
    tables = [
        one("interval", timedelta(days=1, microseconds=1)),
        one("map", [("a", date(2026, 1, 5))], pa.map_(pa.string(), pa.date32())),
        one("far", None).set_column(1, "far", far),
        one("broken", None).set_column(1, "broken", broken),
    ]
    writer.deliver(0, tables)
    assert [list(line)[1] for line in lines(tmp_path)] == ["interval", "map", "far", "broken"]


def test_two_streams_share_a_folder(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path)
    for stream in ("a", "b"):
        sink.open(stream, Remembering()).deliver(0, [answers(1)])
    assert numbers(tmp_path) == [1, 1]


def test_a_folder_that_cannot_be_made_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="cannot write answers"):
        JsonLinesSink(tmp_path / "file" / "out").open("s", Remembering())


def test_signs_that_steer_a_terminal_are_escaped_and_the_data_stays(tmp_path: Path) -> None:
    text = "é符\x1b[7m\x07\x9b\u202e\u2028"
    JsonLinesSink(tmp_path).open("s", Remembering()).deliver(0, [one("x", text)])
    [file] = tmp_path.glob("*.jsonl")
    written = file.read_text(encoding="utf-8")
    assert written == '{"query_name": "q", "x": "é符\\u001b[7m\\u0007\\u009b\\u202e\\u2028"}\n'
    assert lines(tmp_path)[0]["x"] == text
