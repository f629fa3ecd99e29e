"""Streams and tables of a project as statements: the engine reads back exactly what penstock.yml says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.language.parse import CreateStream, CreateTable, parse_statement
from penstock.model.schema import Column, Stream, Table
from penstock.project.declarations import Declared
from penstock.project.opening import create_statement

PRINTABLE = st.characters(blacklist_categories=("Cs", "Cc", "Cf", "Co", "Cn"))
NAMES = st.text("abz_09", min_size=1, max_size=8).map(lambda text: f"c{text}")
OPTIONS = st.dictionaries(
    st.text("abcXYZ", min_size=1, max_size=8).map(str.lower).filter(lambda key: key != "max_ahead"),
    st.text(PRINTABLE, min_size=1, max_size=30),
    max_size=4,
)
TYPES = st.sampled_from(("string", "double", "bigint", "decimal(10,2)", "array<int>", "struct<a:int,b:string>"))
COLUMNS = st.dictionaries(NAMES, TYPES, max_size=5).map(lambda found: tuple(Column(*pair) for pair in found.items()))
LENGTHS = st.integers(0, 10**12)


@given(COLUMNS, OPTIONS, LENGTHS, LENGTHS)
def test_a_stream_survives_its_statement(
    columns: tuple[Column, ...], options: dict[str, str], lateness_us: int, ahead_us: int
) -> None:
    stream = Stream("trades", (Column("ts", "timestamp"), *columns), "ts", lateness_us, ahead_us, "csv", options)
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
