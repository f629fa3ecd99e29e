"""Columns that nobody declared: their names are found in the data, without Spark, or asked for."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import SourceError
from penstock.model.schema import Table
from penstock.project.folder import read_project
from penstock.sources.registry import found_columns
from tests.project.making import COUNT, write_project


def names(format_: str, path: Path | str, **options: str) -> list[str]:
    return [c.name for c in found_columns(Table("t", (), format_, {"path": str(path), **options}))]


def test_the_header_of_csv_names_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('ts,"the price",volume\n1,2,3\n')
    assert names("csv", tmp_path, header="true") == ["ts", "the price", "volume"]
    assert names("csv", tmp_path / "a.csv") == ["_c0", "_c1", "_c2"]
    (tmp_path / "a.csv").write_text("ts;price\n")
    assert names("csv", tmp_path / "*.csv", header="true", sep=";") == ["ts", "price"]


def test_compressed_csv_is_looked_into(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("ts,price\n")
    assert names("csv", tmp_path, header="true") == ["ts", "price"]


def test_lines_of_json_name_columns_together(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"ts": 1, "price": 2}\n\n{"ts": 3, "volume": 4}\n')
    assert names("json", tmp_path) == ["ts", "price", "volume"]


def test_the_schema_of_parquet_names_columns(tmp_path: Path) -> None:
    folder = tmp_path / "day=1"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    pq.write_table(pa.table({"ts": [1], "price": [2.0]}), folder / "a.parquet")
    assert names("parquet", tmp_path) == ["ts", "price", "day"]


@pytest.mark.parametrize(
    ("format_", "content", "options", "says"),
    [
        ("json", b"[1, 2]", {}, "not an object"),
        ("json", b"{", {}, "a.data"),
        ("json", b'{"a": 1}', {"multiLine": "true"}, "several lines"),
        ("parquet", b"no parquet", {}, "a.data"),
        ("csv", b"\xff\xfe\x00", {}, "a.data"),
        ("csv", b"", {}, "no rows"),
    ],
)
def test_what_cannot_be_found_is_asked_for(
    tmp_path: Path, format_: str, content: bytes, options: dict[str, str], says: str
) -> None:
    (tmp_path / "a.data").write_bytes(content)
    with pytest.raises(SourceError) as raised:
        names(format_, tmp_path / "a.data", **options)
    assert says in str(raised.value)
    assert "Declare them" in str(raised.value)


def test_an_address_is_not_looked_into() -> None:
    with pytest.raises(SourceError, match="cannot be found"):
        names("csv", "s3://bucket/trades")


def test_a_project_binds_against_found_columns(tmp_path: Path) -> None:
    settings = "streams: {trades: {format: csv, path: trades.csv, options: {header: true}, time: TS}}"
    (tmp_path / "trades.csv").write_text("ts,price\n")
    query = "SELECT max(price) AS high FROM trades [RANGE 1 s SLIDE 1 s]"
    project = read_project(write_project(tmp_path, settings, q=query, wrong=query.replace("price", "prise")))
    assert [p.file for p in project.problems] == ["queries/wrong.sql"]
    assert not project.settings.streams[0].with_columns
    wrong_time = read_project(write_project(tmp_path, settings.replace("TS", "when"), q=COUNT))
    assert 'no column "when"' in str(wrong_time.problems[0])


def test_columns_streams_tables_and_queries_may_be_called_by_words_of_sql(tmp_path: Path) -> None:
    settings = """
streams:
  order:
    format: csv
    path: data
    columns: {end: TIMESTAMP, user: STRING, null: INT, on: INT, from: BIGINT, case: BIGINT, current_date: STRING,
              start: {type: TIMESTAMP, as: timestamp_millis(from - case)}}
    time: end
    dedup: end, user
tables:
  left: {format: csv, path: left.csv, columns: [user STRING, left BOOLEAN, generated INT]}
"""
    text = "SELECT user, sum(case) AS end, max(on) on FROM order [RANGE 2 MIN SLIDE 1 MIN] JOIN left USING (user) "
    text += "WHERE left AND from > `null` AND current_date <> '' GROUP BY user HAVING end > 1"
    project = read_project(write_project(tmp_path, settings, group=text))
    assert project.problems == ()
    (query,) = project.bound
    assert query.where is not None
    assert query.where.endswith(" AND `from` > `null` AND `current_date` <> ''")
    assert ([a.arguments[0] for a in query.aggregates], query.having) == (["`case`", "`on`"], "`a0` > 1")
