"""Every format of sources keeps what its description says: options, columns, tables and history."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import Engine
from penstock.errors import PenstockError, SourceError
from penstock.model.schema import Column, Stream, Table
from penstock.project.folder import read_project
from penstock.sources.description import UNKNOWN_TYPE, SourceFormat
from penstock.sources.registry import FORMATS, check_source, formats_for, found_columns
from penstock.sources.trades import Market
from penstock.spark.sources.readers import Position, SourceReader, reader_of
from penstock.spark.sources.reading import inferred_columns, read_stream, with_columns
from tests.project.making import write_project

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVERY = formats_for("stream")  # tests/sources/test_postgres_tables.py has the one that is for tables alone
WHEN = "2026-01-05T00:00:00"
NAMES = ("ts", "n")


def parquet(folder: Path) -> dict[str, str]:
    pq.write_table(pa.table({"ts": pa.array([0], pa.timestamp("us", "UTC")), "n": [1]}), folder / "a.parquet")
    return {"path": str(folder)}


def csv(folder: Path) -> dict[str, str]:
    (folder / "a.csv").write_text(f"ts,n\n{WHEN},1\n")
    return {"path": str(folder), "header": "true"}


def json_lines(folder: Path) -> dict[str, str]:
    (folder / "a.json").write_text(json.dumps({"n": 1, "ts": WHEN}) + "\n")
    return {"path": str(folder)}


def trades(folder: Path) -> dict[str, str]:
    return {"rows_per_batch": "10"}


MADE: dict[str, Callable[[Path], dict[str, str]]] = {
    "parquet": parquet,
    "csv": csv,
    "json": json_lines,
    "trades": trades,
}


def declared(format_: str) -> tuple[Column, ...]:
    second = Column("symbol", "string") if format_ == "trades" else Column("n", "bigint")
    return (Column("ts", "timestamp"), second, Column("twice", "timestamp", "`ts`"))


def stream(format_: str, options: dict[str, str], columns: tuple[Column, ...] = ()) -> Stream:
    return Stream("s", columns, "ts", format=format_, options=options)


def settings(format_: str, options: dict[str, str], kind: str = "stream", columns: str = "") -> str:
    """Write a stream or table of penstock.yml; a path stands beside its options."""
    path = [f"path: {options['path']}"] if "path" in options else []
    own = json.dumps({k: v for k, v in options.items() if k != "path"})
    parts = [f"format: {format_}", *path, f"options: {own}", *([columns] if columns else [])]
    plain = "streams:\n  o: {format: trades, time: ts}\ntables:\n" if kind == "table" else "streams:\n"
    return plain + f"  s: {{{', '.join([*parts, *(['time: ts'] if kind == 'stream' else [])])}}}\n"


def problems(folder: Path, text: str) -> list[str]:
    return [str(problem) for problem in read_project(write_project(folder / "project", text)).problems]


# Options.


def test_every_format_is_tried_here() -> None:
    assert MADE.keys() == FORMATS.keys() - {"postgres"}
    assert all(name == described.name for name, described in FORMATS.items())
    assert formats_for("stream") == ("parquet", "csv", "json", "trades")
    assert formats_for("table") == ("parquet", "csv", "json", "postgres")


@pytest.mark.parametrize("format_", EVERY)
def test_an_option_that_a_format_has_not_is_refused_with_those_it_has(format_: str, tmp_path: Path) -> None:
    options = {**MADE[format_](tmp_path), "no_such": "1"}
    with pytest.raises(SourceError, match='no option "no_such"') as refused:
        check_source(stream(format_, options))
    told = f"{refused.value.what} {refused.value.detail}"
    assert all(option in told for option in FORMATS[format_].options)
    (problem,) = problems(tmp_path, settings(format_, options, columns="columns: {ts: TIMESTAMP}"))
    assert 'no option "no_such"' in problem


@pytest.mark.parametrize("format_", EVERY)
def test_every_option_that_a_format_says_it_has_is_taken(format_: str, tmp_path: Path) -> None:
    for option in FORMATS[format_].options:
        FORMATS[format_].check("s", {option: str(getattr(Market(), option, "1"))})


@pytest.mark.parametrize("format_", EVERY)
@pytest.mark.parametrize("kind", ["stream", "table"])
def test_what_a_format_needs_is_asked_for(format_: str, kind: str, tmp_path: Path) -> None:
    found = problems(tmp_path, settings(format_, {}, kind, "columns: {ts: TIMESTAMP}"))
    if kind == "table" and not FORMATS[format_].tables:
        assert f'cannot be "{format_}"' in found[0]
    else:
        assert [need for need in FORMATS[format_].needs if f'{kind} "s" has no {need}' not in "".join(found)] == []
        assert len(found) == len(FORMATS[format_].needs)


def test_what_is_generated_has_no_path(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, settings("trades", {"path": "x"}))
    assert 'stream "s" is generated and has no path' in problem


# Columns.


@pytest.mark.parametrize("format_", EVERY)
def test_columns_that_nobody_declared_are_those_that_spark_finds(
    spark: SparkSession, format_: str, tmp_path: Path
) -> None:
    item = stream(format_, MADE[format_](tmp_path))
    without, found = found_columns(item), inferred_columns(spark, item)
    assert sorted(c.name for c in without) == sorted(c.name for c in found)
    assert all(c.type in (UNKNOWN_TYPE, *(o.type for o in found if o.name == c.name)) for c in without)
    assert problems(tmp_path, settings(format_, dict(item.options))) == []


@pytest.mark.parametrize("format_", EVERY)
def test_declared_columns_are_opened_as_declared(spark: SparkSession, format_: str, tmp_path: Path) -> None:
    item = stream(format_, MADE[format_](tmp_path), declared(format_))
    assert with_columns(spark, item) == item
    assert read_stream(spark, item).columns == [c.name for c in item.columns]


# Tables, history, and what there is not.


@pytest.mark.parametrize("format_", EVERY)
def test_a_table_of_a_format_that_has_none_is_refused_at_once(
    spark: SparkSession, format_: str, tmp_path: Path
) -> None:
    table = Table("t", (), format_, MADE[format_](tmp_path))
    if FORMATS[format_].tables:
        assert {c.name for c in with_columns(spark, table).columns} == set(NAMES)
        return
    with pytest.raises(SourceError, match=r'"t": a table cannot be trades\n.*Formats: parquet, csv, json, postgres\.'):
        with_columns(spark, table)


@pytest.mark.parametrize(("asked", "hint"), [("cvs", 'Did you mean "csv"? Formats: '), ("xml", "Formats: ")])
def test_an_unknown_format_is_told_with_all_that_are_known(asked: str, hint: str) -> None:
    with pytest.raises(SourceError, match=f'"s": unknown format "{asked}"') as refused:
        check_source(stream(asked, {}))
    assert refused.value.hint == f"{hint}parquet, csv, json, trades."


def test_a_statement_without_a_format_is_told_the_formats(spark: SparkSession) -> None:
    with Engine(spark=spark) as engine, pytest.raises(PenstockError, match="Add USING parquet, csv"):
        engine.execute("CREATE STREAM s (ts TIMESTAMP) WATERMARK FOR ts")


@pytest.mark.parametrize("format_", EVERY)
def test_a_reader_stands_behind_every_format(spark: SparkSession, format_: str, tmp_path: Path) -> None:
    item = stream(format_, MADE[format_](tmp_path), declared(format_))
    reader = reader_of(item)
    assert isinstance(reader, SourceReader)
    reader.check_history(spark, item, Position(tmp_path / "checkpoint", ""), accept_changed=False)


class Least(SourceReader):
    """Does no more than it must."""

    def open_stream(self, session: SparkSession, stream: Stream) -> DataFrame:
        return session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().select("value")


@pytest.fixture
def topic() -> Iterator[None]:
    FORMATS["topic"] = SourceFormat("topic", Least, "read from a topic", ("subscribe", "Broker"), needs=("subscribe",))
    yield
    del FORMATS["topic"]


def test_a_source_that_is_no_folder_fits(topic: None, spark: SparkSession, tmp_path: Path) -> None:
    told = {"subscribe": "x", "broker": "y"}
    item = stream("topic", told, (Column("value", "bigint"), Column("ts", "timestamp", "timestamp_seconds(`value`)")))
    assert with_columns(spark, item) == item
    assert read_stream(spark, item).columns[:2] == ["value", "ts"]
    whole = "columns: {value: BIGINT, ts: {type: TIMESTAMP, as: timestamp_seconds(value)}}"
    assert problems(tmp_path, settings("topic", told, columns=whole)) == []
    assert "read from a topic and has no path" in problems(tmp_path, settings("topic", {**told, "path": "x"}))[0]
    (missing,) = problems(tmp_path, settings("topic", {}, columns=whole))
    assert "Add subscribe under options." in missing
    (unknown,) = problems(tmp_path, settings("topic", {**told, "brokr": "z"}, columns=whole))
    assert 'topic has no option "brokr"' in unknown
    assert 'Did you mean "Broker"?' in unknown
    (undeclared,) = problems(tmp_path, settings("topic", told))
    assert "topic does not tell its columns" in undeclared


def test_a_source_says_what_it_cannot_do(topic: None, spark: SparkSession, tmp_path: Path) -> None:
    item, reader = stream("topic", {"subscribe": "x"}), Least()
    with pytest.raises(SourceError, match="does not tell its columns"):
        with_columns(spark, item)
    with pytest.raises(SourceError, match=r"past rows of stream .s. cannot be had") as refused:
        reader.history(spark, item, Position(tmp_path, ""), accept_changed=False)
    assert "topic is not read again" in str(refused.value)
    with pytest.raises(SourceError, match="cannot be had"):
        reader.check_history(spark, item, Position(tmp_path, ""), accept_changed=False)
    with pytest.raises(SourceError, match="a table cannot be topic"):
        reader.read_table(spark, Table("t", (), "topic"), print)
    assert reader.inspector(item, tmp_path, print) is None
    assert reader.read_whole(spark, item, Position(tmp_path, "x"), 0) is None


def test_a_folder_that_is_missing_is_told_with_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "nab" / "in").mkdir(parents=True)
    for path, hint in (("nabb", f'Did you mean "{tmp_path}/nab"?'), ("nabb/in", f'Did you mean "{tmp_path}/nab/in"?')):
        with pytest.raises(SourceError, match=f"{path} does not exist") as refused:
            found_columns(Table("t", (), "csv", {"path": str(tmp_path / path)}))
        assert refused.value.hint == hint
    with pytest.raises(SourceError, match="quotes does not exist") as refused:
        found_columns(Table("t", (), "csv", {"path": str(tmp_path / "quotes")}))
    assert refused.value.hint == "Make the folder, or correct the path."


def test_formats_and_kinds_are_known_without_spark() -> None:
    code = "import sys, penstock.sources.registry, penstock.sinks.registry as s; s.SINKS['parquet'].settings"
    done = subprocess.run([sys.executable, "-c", f"{code}; sys.exit('pyspark' in sys.modules)"], check=False)
    assert done.returncode == 0
