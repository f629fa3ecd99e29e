"""penstock init --from: what is proposed for files that somebody has; it is checked, tested and run."""

from __future__ import annotations

import datetime as dt
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import SourceError
from penstock.project.folder import read_project
from penstock.project.guessed_project import propose_project
from tests.shell import Penstock, penstock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["penstock"]  # a fixture

START = dt.datetime(2026, 1, 5, 14, 30)


def make_csv(folder: Path, form: str = "%Y-%m-%d %H:%M:%S", separator: str = ",") -> None:
    """Write trades of two days, each up to ten seconds late."""
    draw = random.Random(1)
    folder.mkdir(parents=True)
    for day in range(2):
        lines = [separator.join(["when", "symbol", "price", "volume"])]
        for n in range(300):
            at = START + dt.timedelta(days=day, seconds=2 * n - draw.random() * 12)
            lines.append(separator.join([at.strftime(form), "ABC"[n % 3], f"{n / 7:.2f}", str(n % 9)]))
        (folder / f"{day}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_json(folder: Path) -> None:
    folder.mkdir(parents=True)
    first = int(START.replace(tzinfo=dt.UTC).timestamp() * 1000)
    rows = [{"ts_ms": first + 1000 * n, "page": "/ab"[n % 3], "user": {"id": n, "tags": ["x"]}} for n in range(200)]
    (folder / "part.json").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")


def make_seconds(folder: Path) -> None:
    """Write a log as some programs do: seconds with a fraction, and dots in the names of columns."""
    folder.mkdir(parents=True)
    first = START.replace(tzinfo=dt.UTC).timestamp()
    lines = [f"{first + 0.25 * n:.6f},10.0.0.{n % 3},{n % 40}" for n in range(300)]
    (folder / "log.csv").write_text("\n".join(["ts,id.host,bytes", *lines]) + "\n", encoding="utf-8")


def make_parquet(folder: Path) -> None:
    folder.mkdir(parents=True)
    times = [START + dt.timedelta(minutes=n) for n in range(500)]
    table = pa.table({"dep": pa.array(times, pa.timestamp("us")), "delay": [n % 50 for n in range(500)]})
    pq.write_table(table, folder / "x.parquet")


@pytest.mark.parametrize(
    ("form", "expression"),
    [
        ("%Y-%m-%d %H:%M:%S", None),
        ("%Y-%m-%dT%H:%M:%SZ", None),
        ("%d.%m.%Y %H:%M:%S", "to_timestamp(`when`, 'dd.MM.yyyy HH:mm:ss')"),
        ("%m/%d/%Y %H:%M:%S", "to_timestamp(`when`, 'MM/dd/yyyy HH:mm:ss')"),
    ],
)
@pytest.mark.parametrize("separator", [",", ";"])
def test_times_and_separators_of_csv_are_found(
    tmp_path: Path, form: str, expression: str | None, separator: str
) -> None:
    make_csv(tmp_path / "data" / "trades", form, separator)
    text = propose_project("p", tmp_path / "p", tmp_path / "data").files["penstock.yml"]
    assert ("      ts: {type: TIMESTAMP" in text) == (expression is not None)
    assert expression is None or expression in text
    assert "    lateness: 10 s  # guessed" in text


def test_a_computed_time_takes_no_name_of_the_data_or_of_answers(tmp_path: Path) -> None:
    make_csv(tmp_path / "data" / "trades", "%d.%m.%Y %H:%M:%S")
    file = next((tmp_path / "data" / "trades").iterdir())
    head, *rows = file.read_text(encoding="utf-8").split("\n")
    file.write_text("\n".join([f"{head},TS", *(f"{row},x" for row in rows if row)]), encoding="utf-8")
    text = propose_project("p", tmp_path / "p", tmp_path / "data").files["penstock.yml"]
    assert "      time: {type: TIMESTAMP, as: " in text
    assert "    time: time  # guessed" in text


def test_a_proposal_names_streams_tables_and_what_it_guessed(tmp_path: Path, penstock: Penstock) -> None:
    make_csv(tmp_path / "data" / "trades")
    make_json(tmp_path / "data" / "clicks")
    make_parquet(tmp_path / "data" / "flights" / "year=2026")
    (tmp_path / "data" / "airports.csv").write_text("code,city\nX,Ex\nY,Why\n", encoding="utf-8")
    done = penstock("init", tmp_path / "p", "--from", tmp_path / "data")
    assert (done.code, done.err) == (0, "")
    for says in (
        "guessed  airports: a table of 1 csv file; no column looks like a time",
        "guessed  clicks: a stream of 1 json file; event time is timestamp_millis(`ts_ms`), called ts",
        "guessed  trades: lateness 10 s, as its rows lie now; live rows may come later",
        "guessed  the queries are about trades, which has the most bytes",
    ):
        assert says in done.out
    project = read_project(tmp_path / "p")
    assert [str(problem) for problem in project.problems] == []
    assert sorted(one.item.name for one in project.settings.streams) == ["clicks", "flights", "trades"]
    assert [one.item.name for one in project.settings.tables] == ["airports"]
    assert len(project.queries) == 5
    told = penstock("check", tmp_path / "p").out
    assert told.startswith("p: 3 streams, 1 table, 5 queries, 1 test, no mistakes (")


@pytest.mark.parametrize("make", [make_csv, make_json, make_seconds, make_parquet])
def test_what_is_proposed_is_tested_and_runs(
    penstock: Penstock, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: object
) -> None:
    assert callable(make)
    make(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    assert penstock("init", "p", "--from", "data").code == 0
    tested = penstock("test", "p")
    assert (tested.code, tested.out.splitlines()[-1].split(" in ")[0]) == (0, "1 test: 1 passed"), tested
    ran = penstock("run", "p", "--once", "--flush")
    assert ran.code == 0, ran
    assert list((tmp_path / "p" / "answers").rglob("*.jsonl"))


def test_types_of_text_are_marked_as_guessed_and_codes_with_leading_zeros_are_text(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    rows = [f"{START + dt.timedelta(minutes=n)},{n},{n:04},{n - 5}" for n in range(50)]
    for name, text in (("plain", ["ts,size,condition,below", *rows]), ("bare", [f"{n},00{n}" for n in range(50)])):
        (tmp_path / "data" / f"{name}.csv").write_text("\n".join(text) + "\n", encoding="utf-8")
    lines = propose_project("p", tmp_path / "p", tmp_path / "data").files["penstock.yml"].splitlines()
    guessed = "guessed; a field that is none is NULL"
    for line in (f"size: BIGINT  # {guessed}", "condition: STRING", f"below: BIGINT  # {guessed}", "_c1: STRING"):
        assert f"      {line}" in lines


def test_one_file_of_times_in_nanoseconds_runs(penstock: Penstock, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    times = pa.array([START + dt.timedelta(minutes=n) for n in range(500)], pa.timestamp("ns"))
    pq.write_table(pa.table({"at": times, "delay": range(500)}), tmp_path / "day=1" / "x.parquet")
    assert penstock("init", tmp_path / "p", "--from", tmp_path / "day=1" / "x.parquet").code == 0
    told = "x: 500 rows (0 late, 0 invalid)", "with the runs before: 500 rows (0 late, 0 invalid)"
    for here in told:  # the second run goes on behind the first
        ran = penstock("run", tmp_path / "p", "--once", "--state", tmp_path / "state")
        assert ran.code == 0, ran
        assert here in ran.out


def test_files_of_one_folder_with_other_orders_of_columns_run(
    penstock: Penstock, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    for name, header in (("x", "ts,a,b"), ("y", "ts,b,a")):
        rows = [f"{START + dt.timedelta(minutes=n)},{n},{n}" for n in range(50)]
        (tmp_path / "data" / f"{name}.csv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    assert penstock("init", tmp_path / "p", "--from", tmp_path / "data").code == 0
    ran = penstock("run", tmp_path / "p", "--once")
    assert ran.code == 0, ran
    assert all(f"{name}: 50 rows (0 late, 0 invalid)" in ran.out for name in "xy")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", "code,city\nX,Ex\nY,Why\n", "no column in .* looks like a time"),
        ("a.txt", "code,city\n", "there are no rows of Parquet, CSV or JSON"),
        ("a.parquet", "no parquet", "cannot read .*a.parquet"),
    ],
)
def test_what_cannot_be_proposed_is_told(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(SourceError, match=says):
        propose_project("p", tmp_path / "p", tmp_path)


def test_one_file_is_a_stream_whatever_lies_beside_it(tmp_path: Path) -> None:
    make_seconds(tmp_path / "day=1")
    (tmp_path / "day=1" / "other.csv").write_text("code,city\nX,Ex\n", encoding="utf-8")
    text = propose_project("p", tmp_path / "p", tmp_path / "day=1" / "log.csv").files["penstock.yml"]
    assert f'path: "{tmp_path.resolve()}/day=1/log.csv"' in text
    assert "timestamp_seconds(`ts`)" in text
    assert not any(word in text for word in ("tables:", "city", "day: STRING"))


def test_a_folder_that_is_none_is_told(tmp_path: Path, penstock: Penstock) -> None:
    done = penstock("init", tmp_path / "p", "--from", tmp_path / "nowhere")
    assert done.code == 4
    assert "there is no " in done.err
    assert not (tmp_path / "p").exists()


def test_the_end_of_a_trip_is_a_time_and_is_not_added_up(tmp_path: Path) -> None:
    (tmp_path / "trips").mkdir()
    first = int(START.replace(tzinfo=dt.UTC).timestamp())
    lines = [f"{first + 60 * n},{first + 60 * n + 300},{n % 7},{200 + n % 100}" for n in range(300)]
    header = "start_ts,end_ts,start_terminal,duration"
    (tmp_path / "trips" / "x.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    queries = propose_project("p", tmp_path / "p", tmp_path / "trips").files
    assert "max(duration)" in queries["queries/trips_large.sql"]


def test_a_column_that_files_read_as_different_types_is_text(tmp_path: Path) -> None:
    data = tmp_path / "d"
    data.mkdir()
    (data / "1.csv").write_text("ts,code,n\n2026-01-05 14:30:00,12,1\n2026-01-05 14:31:00,13,2\n", encoding="utf-8")
    (data / "2.csv").write_text("ts,code,n\n2026-01-05 14:32:00,A7,1.5\n", encoding="utf-8")
    proposal = propose_project("p", tmp_path / "p", data)
    settings = proposal.files["penstock.yml"]
    assert '      code: STRING  # guessed: files differ about its type\n      "n": DOUBLE  #' in settings
    assert "d: code is text, as files differ about its type" in proposal.guesses


@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_a_column_that_cannot_be_one_type_is_told_with_both_files(tmp_path: Path, format_: str) -> None:
    data = tmp_path / "d"
    data.mkdir()
    for name, value in (("1", 3), ("2", {"id": 3})):
        row = {"ts": "2026-01-05T14:30:00Z", "user": value}
        if format_ == "json":
            (data / f"{name}.json").write_text(json.dumps(row) + "\n", encoding="utf-8")
        else:
            pq.write_table(pa.Table.from_pylist([row]), data / f"{name}.parquet")
    with pytest.raises(SourceError, match=r'"user" is int64 in .*1\.\w+ and struct<id: int64> in .*2\.'):
        propose_project("p", tmp_path / "p", data)
