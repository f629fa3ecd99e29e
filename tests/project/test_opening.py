"""Streams and tables of a project as statements: the engine reads back exactly what penstock.yml says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine import Engine
from penstock.errors import CatalogError, ProjectError
from penstock.language.grammar.parse import CreateStream, CreateTable, parse_query, parse_statement
from penstock.language.stream_options import OWN_OPTIONS
from penstock.model.schema import Column, Stream, Table
from penstock.project.declarations import Declared
from penstock.project.folder import read_project
from penstock.project.opening import create_statement, enter_queries, enter_sources
from penstock.spark.typing import Typer
from penstock.testing import TestBed
from tests.project.making import COUNT, TRADES, write_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PRINTABLE = st.characters(blacklist_categories=("Cs", "Cc", "Cf", "Co", "Cn"))
NAMES = st.text("abz_09", min_size=1, max_size=8).map(lambda text: f"c{text}")
OPTIONS = st.dictionaries(
    st.text("abcXYZ", min_size=1, max_size=8).map(str.lower).filter(lambda key: key not in OWN_OPTIONS),
    st.text(PRINTABLE, min_size=1, max_size=30),
    max_size=4,
)
TYPES = st.sampled_from(("string", "double", "bigint", "decimal(10,2)", "array<int>", "struct<a:int,b:string>"))
COLUMNS = st.dictionaries(NAMES, TYPES, max_size=5).map(lambda found: tuple(Column(*pair) for pair in found.items()))
LENGTHS = st.integers(0, 10**12)


@given(COLUMNS, OPTIONS, LENGTHS, LENGTHS, LENGTHS, LENGTHS)
def test_a_stream_survives_its_statement(
    columns: tuple[Column, ...], options: dict[str, str], lateness_us: int, ahead_us: int, idle_us: int, rows_us: int
) -> None:
    keys = tuple(column.name for column in columns[::2])
    own = (lateness_us, ahead_us, "csv", options, idle_us, keys, rows_us)
    stream = Stream("trades", (Column("ts", "timestamp"), *columns), "ts", *own)
    statement = parse_statement(create_statement(Declared(stream, True, (0, 1))))
    assert statement == CreateStream(stream)


@given(COLUMNS.filter(bool), OPTIONS)
def test_a_table_survives_its_statement(columns: tuple[Column, ...], options: dict[str, str]) -> None:
    table = Table("select", columns, "parquet", options)  # a name that needs quotes
    statement = parse_statement(create_statement(Declared(table, True, (0, 1))))
    assert statement == CreateTable(table)


def test_columns_that_only_files_tell_are_left_to_spark() -> None:
    table = Table("t", (Column("a", ""),), "csv", {"path": "it's"})
    assert create_statement(Declared(table, False, (0, 1))) == "CREATE TABLE t USING csv OPTIONS (path = 'it\\'s')"


def test_a_computed_column_keeps_its_expression() -> None:
    columns = (Column("ms", "bigint"), Column("ts", "timestamp", "timestamp_millis(`ms`)"))
    stream = Stream("s", columns, "ts", format="csv")
    statement = parse_statement(create_statement(Declared(stream, True, (0, 1))))
    assert isinstance(statement, CreateStream)
    assert statement.stream.columns == columns


def opened(spark: SparkSession, folder: Path) -> tuple[Engine, list[str]]:
    project = read_project(folder)
    assert project.problems == ()
    engine = Engine(folder / "state", spark=spark)
    enter_sources(project, engine)
    return engine, enter_queries(project, engine)


def test_a_query_added_by_hand_stays_when_files_go(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_project(tmp_path, TRADES.split("tables:")[0], one=COUNT, two=COUNT)
    (folder / "data" / "trades").mkdir(parents=True)
    engine, changes = opened(spark, folder)
    with engine:
        assert changes == []
        added = [engine.typed(parse_query(COUNT), name) for name in ("by_hand", "taken_over")]
        engine.catalog.create_queries(added, origin="added")
    (folder / "queries" / "one.sql").unlink()
    write_project(folder, TRADES.split("tables:")[0], taken_over=COUNT.replace("2 MIN", "3 MIN"))
    engine, changes = opened(spark, folder)
    with engine:
        altered = 'query "taken_over" changed: version 2 answers the windows that begin from now on'
        assert changes == ['query "one" is gone', altered]
        assert engine.catalog.query_names() == ["two", "by_hand", "taken_over"]
        assert [engine.catalog.query(name).origin for name in ("by_hand", "taken_over")] == ["added", ""]
    monkeypatch.setattr(Typer, "type_queries", None)
    monkeypatch.setattr(Typer, "type_query", None)  # nothing changed: Spark is not asked for types again
    engine, changes = opened(spark, folder)
    with engine:
        assert changes == []


BY_SYMBOL = "SELECT symbol, sum(volume) AS n FROM trades [RANGE 2 s SLIDE 2 s] GROUP BY symbol"


def test_an_edited_query_whose_past_cannot_be_had_is_refused_and_nothing_is_dropped_for_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = write_project(tmp_path, TRADES.split("tables:")[0], one=BY_SYMBOL, two=COUNT)
    (folder / "data" / "trades").mkdir(parents=True)
    with TestBed(spark, state=folder / "state", max_driver_groups=2) as bed:
        enter_sources(read_project(folder), bed.engine)
        enter_queries(read_project(folder), bed.engine)
        for first in (0, 6, 12):
            times = range(first, first + 6)
            bed.feed("trades", [{"ts": t, "symbol": s, "price": 1.0, "volume": 2} for t in times for s in "ABCD"])
        assert bed.engine.stream("trades").pipeline.groupings.spread
        version = bed.engine.catalog.version
        past = BY_SYMBOL.replace("n FROM", "volume FROM") + " WITH (from = 'beginning')"
        write_project(folder, TRADES.split("tables:")[0], one=past, two=COUNT.replace("2 MIN", "3 MIN"), three=COUNT)
        with pytest.raises(ProjectError, match=r'the past of query "one" is not available, and queries/one.sql asks'):
            enter_queries(read_project(folder), bed.engine)
        assert bed.engine.catalog.version == version
        assert {row["n"] for row in bed.answers("one")} == {4}


def test_a_column_that_goes_with_the_edit_of_its_reader_is_refused_with_what_to_do(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = TRADES.split("tables:")[0].replace("volume: INT}", 'volume: INT, value: {type: DOUBLE, as: "price * 2"}}')
    folder = write_project(tmp_path, before, worth=COUNT.replace("count(*)", "sum(value)"))
    (folder / "data" / "trades").mkdir(parents=True)
    opened(spark, folder)[0].close()
    write_project(folder, TRADES.split("tables:")[0])
    (folder / "queries" / "worth.sql").write_text(COUNT)
    with Engine(folder / "state", spark=spark) as engine, pytest.raises(CatalogError) as refused:
        enter_sources(read_project(folder), engine)
    error = refused.value
    assert 'column "value" of stream "trades" is double as `price` * 2, and cannot go while it is read' in error.what
    assert error.text is not None
    assert error.place is not None
    assert error.text[slice(*error.place)] == "trades"  # the column has no line any more
    assert str(error.hint).startswith('query "worth" changed, and open windows are answered as before')
    write_project(folder, before)
    engine, changes = opened(spark, folder)
    with engine:
        assert changes == ['query "worth" changed: version 2 answers the windows that begin from now on']
    write_project(folder, TRADES.split("tables:")[0])
    with opened(spark, folder)[0] as engine:
        found = engine.catalog.stream("trades")
        assert found is not None
        assert [column.name for column in found.columns] == ["ts", "symbol", "price", "volume"]


def test_a_stream_and_a_table_that_are_gone_are_dropped_and_go_on_when_they_are_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = write_project(tmp_path, TRADES, one=COUNT)
    (folder / "data" / "trades").mkdir(parents=True)
    (folder / "data" / "trades" / "a.csv").write_text("ts,symbol,price,volume\n2026-01-05T09:00:01Z,A,1,2\n")
    (folder / "data" / "listing.csv").write_text("A,true\n")
    with opened(spark, folder)[0] as engine:
        engine.process_available()
        engine.catalog.create_queries([engine.typed(parse_query(COUNT), "by_hand")], origin="added")
    other = TRADES.replace("trades:", "sales:").replace("data/trades", "data").split("tables:")[0]
    write_project(folder, other)
    (folder / "queries" / "one.sql").unlink()
    (folder / "data" / "trades").rename(folder / "data" / "away")
    engine, changes = opened(spark, folder)
    with engine:
        stays = 'stream "trades" is gone from penstock.yml, and stays: stream "trades" is read by query "by_hand"'
        assert changes == ['query "one" is gone', stays, 'table "listing" is gone']
        engine.drop_query("by_hand")
    engine, changes = opened(spark, folder)
    with engine:
        assert changes == ['stream "trades" is gone']
        assert (engine.catalog.stream_names(), engine.catalog.table_names()) == (["sales"], [])
    write_project(folder, TRADES, one=COUNT)
    (folder / "data" / "away").rename(folder / "data" / "trades")
    engine, changes = opened(spark, folder)
    with engine:
        assert changes == ['stream "sales" is gone']
        engine.process_available()
        assert engine.stream("trades").pipeline.progress.clock.counts.ingested == 1  # it was not read again
        (folder / "data" / "trades" / "b.csv").write_text("ts,symbol,price,volume\n2026-01-05T09:09:01Z,A,1,2\n")
        engine.process_available()
    write_project(folder, other, one=COUNT.replace("trades", "sales"))
    engine, changes = opened(spark, folder)
    with engine:
        why = "edited queries have windows over it that are not final"
        stays = f'stream "trades" is gone from penstock.yml, and stays: {why}'
        assert changes[1:] == [stays, 'table "listing" is gone']


def test_a_stream_whose_files_tell_its_columns_goes_on_without_files_and_with_other_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    settings = "streams:\n  trades: {format: parquet, path: PATH, time: ts, lateness: 0 s}\nstate: state\n"
    first = pa.array([60_000_000], pa.timestamp("us", "UTC"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    pq.write_table(pa.table({"ts": first, "volume": [7]}), tmp_path / "one" / "a.parquet")
    total = COUNT.replace("count(*)", "sum(volume)")
    folder = write_project(tmp_path, settings.replace("PATH", "one"), total=total)
    with opened(spark, folder)[0] as engine:
        engine.process_available()
    write_project(folder, settings.replace("PATH", "two"))  # nothing is in it yet
    with opened(spark, folder)[0] as engine:
        engine.process_available()
        assert repr(engine.stream("trades")) == "<Stream trades: queries 1, rows 1, not running>"
    later = pa.array([70_000_000, 600_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": later, "volume": [1, 2], "shop": ["x", "y"]}), tmp_path / "two" / "b.parquet")
    write_project(
        folder,
        settings.replace("PATH", "two"),
        shops="SELECT shop, sum(volume) AS n FROM trades [RANGE 2 MIN SLIDE 1 MIN] GROUP BY shop",
    )
    with opened(spark, folder)[0] as engine:
        engine.process_available()
        assert [row["n"] for row in engine.results("total", "rows")][:2] == [8, 8]
