"""Statements: CREATE, DROP, scripts, and the errors that point into them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import (
    InvalidWindow,
    LanguageError,
    MalformedSQL,
    PenstockError,
    UnknownColumn,
    Unsupported,
    WrongType,
)
from penstock.language.grammar.dialect import WindowClause
from penstock.language.grammar.parse import (
    CreateQuery,
    CreateStream,
    CreateTable,
    Drop,
    Select,
    parse_query,
    parse_script,
    parse_statement,
)
from penstock.language.options import OptionClause
from penstock.language.statements import AlterQuery, Describe, Explain, Pause, Resume, Show, ShowCreate
from penstock.model.query import Query
from penstock.model.schema import Column, Stream, Table

TRADES = """
CREATE STREAM trades (              -- what is bought and sold
  symbol STRING, price DOUBLE, `time` BIGINT,
  ts TIMESTAMP GENERATED ALWAYS AS (timestamp_millis(time * 1000)),
  extra struct<a: int, b: array<decimal(10, 2)>>
) USING csv OPTIONS (path = '/data/trades', header true, 'max.files' '10', kafka.group.id = 'it''s')
WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS
"""


HEADS = "SELECT, CREATE, DROP, ALTER, EXPLAIN, SHOW or DESCRIBE"
WINDOW_EXPECTED = 'expected a window such as [RANGE 12 MIN SLIDE 5 MIN], found "5"'
COMPUTED_REFUSED = "computed columns in ALTER STREAM are not available"
SOURCE_CHANGE_EXPECTED = "expected ADD COLUMN, DROP COLUMN, SET OPTIONS or WATERMARK, found the end"
SHOW_EXPECTED = 'expected STREAMS, TABLES, QUERIES, FUNCTIONS or CREATE, found "EVERYTHING"'


def only(text: str) -> object:
    """Parse a script of one statement."""
    [statement] = parse_script(text)
    return statement


def test_create_stream_gives_columns_source_and_watermark() -> None:
    assert only(TRADES) == CreateStream(
        Stream(
            "trades",
            (
                Column("symbol", "string"),
                Column("price", "double"),
                Column("time", "bigint"),
                Column("ts", "timestamp", "timestamp_millis(`time` * 1000)"),
                Column("extra", "struct<a:int,b:array<decimal(10,2)>>"),
            ),
            "ts",
            5_000_000,
            format="csv",
            options={"path": "/data/trades", "header": "true", "max.files": "10", "kafka.group.id": "it's"},
        )
    )


@pytest.mark.parametrize(
    ("watermark", "lateness_us"),
    [
        ("WATERMARK FOR ts", 0),
        ("WATERMARK FOR ts AS ts", 0),
        ("watermark for TS as Ts - interval '2' minute", 120_000_000),
        ("WATERMARK FOR ts AS ts - 1500 ms", 1_500_000),
        ("WATERMARK FOR ts AS ts - '3 s'", 3_000_000),
    ],
)
def test_a_watermark_may_have_a_delay(watermark: str, lateness_us: int) -> None:
    for text in (f"USING csv {watermark}", f"{watermark} USING csv OPTIONS ()"):
        created = only(f"CREATE STREAM s (ts timestamp) {text}")
        assert isinstance(created, CreateStream)
        assert (created.stream.time, created.stream.lateness_us) == ("ts", lateness_us)


def test_create_table_drop_and_create_query() -> None:
    table = Table("listing", (Column("symbol", "string"), Column("r2000", "boolean")), "parquet", {"path": "x"})
    script = """
    CREATE TABLE listing (symbol string, r2000 boolean) USING parquet OPTIONS (path 'x');
    ; -- nothing here
    CREATE QUERY big AS SELECT count(*) FROM trades [RANGE 1 h SLIDE 1 min];
    DROP QUERY big; DROP STREAM trades; drop table `Odd Name`;
    """
    created, query, *drops = parse_script(script)
    assert created == CreateTable(table)
    assert isinstance(query, CreateQuery)
    assert (query.name, query.select.text) == ("big", "SELECT count(*) FROM trades [RANGE 1 h SLIDE 1 min]")
    assert drops == [Drop("query", "big"), Drop("stream", "trades"), Drop("table", "Odd Name")]


def test_a_stream_keeps_how_far_ahead_rows_may_be() -> None:
    created = only(
        "CREATE STREAM s (ts timestamp) USING csv OPTIONS (path 'x', MAX_AHEAD = '1 h') WATERMARK FOR ts AS ts - 5 s"
    )
    assert isinstance(created, CreateStream)
    assert (created.stream.max_ahead_us, created.stream.options) == (3_600_000_000, {"path": "x"})


def test_a_stream_keeps_its_own_options_for_itself() -> None:
    own = "IDLE = '10 s', dedup = 'ID , `odd``,one`', retain_rows = 'INTERVAL 1 HOUR', max_ahead '1 min'"
    text = f"CREATE STREAM s (ts timestamp, id bigint, `odd`` ,one` int, `odd``,one` int) USING csv OPTIONS ({own})"
    created = only(f"{text} WATERMARK FOR ts")
    assert isinstance(created, CreateStream)
    stream = created.stream
    assert (stream.idle_us, stream.retain_rows_us, stream.max_ahead_us) == (10_000_000, 3_600_000_000, 60_000_000)
    assert (stream.dedup, stream.options) == (("id", "odd`,one"), {})
    assert "idle = '10 s', dedup = 'id, `odd``,one`', retain_rows = '1 h'" in str(created)
    table = only("CREATE TABLE t (a int) USING csv OPTIONS (idle = 'x', dedup = 'y')")
    assert isinstance(table, CreateTable)
    assert table.table.options == {"idle": "x", "dedup": "y"}


@pytest.mark.parametrize(
    ("option", "kind", "what"),
    [
        ("idle = '0 s'", InvalidWindow, "idle must be longer than zero"),
        ("idle = 'soon'", InvalidWindow, '"soon" is not a duration'),
        ("idle = '6000 weeks'", InvalidWindow, "idle must be at most 100 years"),
        ("retain_rows = '1 month'", InvalidWindow, '"month" has no fixed length'),
        ("retain_rows = true", InvalidWindow, '"true" is not a duration'),
        ("dedup = 'vanue'", UnknownColumn, 'stream "s" has no column "vanue" for dedup'),
        ("dedup = ''", LanguageError, 'dedup takes columns, found ""'),
        ("dedup = 'id,'", LanguageError, 'dedup takes columns, found "id,"'),
        ("dedup = ',id'", LanguageError, 'dedup takes columns, found ",id"'),
        ("dedup = '`id'", LanguageError, 'dedup takes columns, found "`id"'),
        ("dedup = 'id, venue, ID'", LanguageError, 'column "id" is in dedup twice'),
        ("dedup = 'm'", WrongType, 'column "m" of dedup is map<string,int>, whose values cannot be compared'),
        ("idle = '1 s', IDLE = '2 s'", MalformedSQL, 'option "IDLE" is given twice'),
        ("dedup = 'a" + " " * 50_000 + "`'", LanguageError, "dedup takes columns, found"),
    ],
)
def test_a_wrong_option_of_a_stream_is_underlined(option: str, kind: type[PenstockError], what: str) -> None:
    columns = "ts timestamp, id bigint, venue string, m map<string,int>"
    text = f"CREATE STREAM s ({columns}) USING csv OPTIONS (path 'x', {option}) WATERMARK FOR ts"
    with pytest.raises(kind) as raised:
        parse_statement(text)
    assert raised.value.what.startswith(what)
    assert raised.value.text == text
    assert raised.value.place is not None
    if kind is UnknownColumn:
        assert raised.value.hint == 'Did you mean "venue"?'


def test_clauses_that_make_statements_safe_to_repeat() -> None:
    query = "AS SELECT count(*) FROM trades [RANGE 1 h SLIDE 1 min]"
    statements = parse_script(
        f"""CREATE QUERY IF NOT EXISTS q {query}; CREATE OR REPLACE QUERY q {query};
        CREATE FUNCTION IF NOT EXISTS f(x INT) RETURN x; create or replace function f(x INT) return x;
        CREATE TABLE IF NOT EXISTS t USING csv; DROP FUNCTION IF EXISTS f; DROP STREAM IF EXISTS s"""
    )
    flags = [(getattr(s, "if_not_exists", None), getattr(s, "or_replace", None)) for s in statements]
    assert flags[:5] == [(True, False), (False, True), (True, False), (False, True), (True, False)]
    assert statements[5:] == [Drop("function", "f", True), Drop("stream", "s", True)]


def test_questions_and_changes_are_statements() -> None:
    script = """EXPLAIN; EXPLAIN QUERY q; SHOW QUERIES; SHOW CREATE STREAM s; DESC TABLE t; DESCRIBE FUNCTION f;
    alter query q pause; ALTER QUERY q RESUME;
    ALTER QUERY q SET (late = 'count'); ALTER QUERY q SET WINDOW [RANGE 1 h SLIDE 1 min]"""
    assert parse_script(script) == [
        Explain(),
        Explain("q"),
        Show("queries"),
        ShowCreate("stream", "s"),
        Describe("table", "t"),
        Describe("function", "f"),
        AlterQuery("q", Pause()),
        AlterQuery("q", Resume()),
        AlterQuery("q", (OptionClause("late", "count"),)),
        AlterQuery("q", WindowClause("RANGE", 3_600_000_000, 60_000_000)),
    ]


def test_a_query_inside_create_query_has_places_in_its_own_text() -> None:
    created = only("CREATE QUERY q AS SELECT count(prise) FROM trades t [RANGE 1 h SLIDE 1 min] WITH (late = 'count')")
    assert isinstance(created, CreateQuery)
    alone = parse_query(created.select.text)
    assert [n.meta for n in created.select.expression.walk()] == [n.meta for n in alone.expression.walk()]
    assert [option.place for option in created.select.options] == [option.place for option in alone.options]


def test_an_error_in_a_script_points_into_the_whole_script() -> None:
    script = "DROP QUERY a;\nSELECT count(*) FROM t [RANGE 1 s SLIDE 0 s];\nDROP QUERY b"
    with pytest.raises(InvalidWindow) as raised:
        parse_script(script)
    assert raised.value.text == script
    assert script[slice(*raised.value.place or ())] == "0 s"
    assert str(raised.value) == (
        "error[InvalidWindow]: the slide of a window must be longer than zero\n"
        "  SELECT count(*) FROM t [RANGE 1 s SLIDE 0 s];\n"
        "                                          ^^^"
    )


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        ("CREATE STREAM s (ts timestamp) USING csv", MalformedSQL, 'stream "s" has no WATERMARK'),
        ("CREATE STREAM s (ts timestamp) WATERMARK FOR ts", MalformedSQL, '"s" has no USING'),
        ("CREATE STREAM s (a int) USING csv WATERMARK FOR ts", UnknownColumn, 'stream "s" has no column "ts"'),
        (
            "CREATE STREAM s (ts bigint) USING csv WATERMARK FOR ts",
            WrongType,
            'the column of event time "ts" is bigint, not timestamp',
        ),
        ("CREATE STREAM s (a int, A int) USING csv", MalformedSQL, 'column "A" is declared twice'),
        ("CREATE TABLE s (a thing) USING csv", MalformedSQL, 'there is no type "thing"'),
        ("CREATE TABLE s (a decimal(39)) USING csv", MalformedSQL, "there is no decimal(39,0)"),
        ("CREATE TABLE s (a int) USING csv USING csv", MalformedSQL, "a second USING"),
        ("CREATE TABLE s (a int) USING csv OPTIONS (a '1', A '2')", MalformedSQL, 'option "A" is given twice'),
        ("CREATE TABLE s (a int) USING csv OPTIONS (a)", MalformedSQL, 'expected a string, found ")"'),
        ("CREATE TABLE s AS SELECT 1", Unsupported, "CREATE TABLE … AS SELECT statements are not available"),
        ("CREATE STREAM s AS SELECT 1", MalformedSQL, "expected FROM and a stream, found the end"),
        (
            "CREATE OR REPLACE STREAM s AS SELECT 1",
            Unsupported,
            "OR REPLACE clauses for a stream that a query makes are not available",
        ),
        ("CREATE TEMPORARY TABLE s (a int)", Unsupported, "TEMPORARY names are not available"),
        ("CREATE TEMP VIEW s AS SELECT 1", Unsupported, "TEMPORARY names are not available"),
        (
            "CREATE OR REPLACE QUERY IF NOT EXISTS q AS SELECT 1",
            MalformedSQL,
            "OR REPLACE and IF NOT EXISTS exclude each other",
        ),
        ("CREATE VIEW v AS SELECT 1", MalformedSQL, 'expected QUERY, STREAM, TABLE or FUNCTION, found "VIEW"'),
        ("CREATE STREAM s (ts timestamp) USING csv OPTIONS (max_ahead = '5')", InvalidWindow, '"5" has no unit'),
        ("ALTER QUERY q SET x", MalformedSQL, 'expected "(", found "x"'),
        ("ALTER QUERY q SET WINDOW 5 s", MalformedSQL, WINDOW_EXPECTED),
        ("ALTER QUERY q", MalformedSQL, "expected AS, SET, PAUSE or RESUME, found the end"),
        ("ALTER QUERY q PAUSE 5 min", MalformedSQL, 'unexpected "5"'),
        ("ALTER STREAM s PAUSE", MalformedSQL, SOURCE_CHANGE_EXPECTED.replace("the end", '"PAUSE"')),
        ("ALTER STREAM s", MalformedSQL, SOURCE_CHANGE_EXPECTED),
        ("ALTER STREAM s ADD COLUMN a INT, A INT", MalformedSQL, 'column "A" is added twice'),
        (
            "ALTER STREAM s ADD COLUMN a INT GENERATED ALWAYS AS (b)",
            Unsupported,
            "computed columns in ALTER STREAM are not available",
        ),
        (
            "ALTER TABLE s WATERMARK FOR ts",
            MalformedSQL,
            SOURCE_CHANGE_EXPECTED.replace(" or WATERMARK", "").replace("the end", '"WATERMARK"'),
        ),
        ("ALTER QUERY q RENAME TO r", Unsupported, "ALTER QUERY … RENAME statements are not available"),
        ("ALTER STREAM s SET x", MalformedSQL, SOURCE_CHANGE_EXPECTED.replace("the end", '"SET"')),
        ("ALTER FUNCTION f", Unsupported, "ALTER FUNCTION statements are not available"),
        ("ALTER QUERY q RESUME now", MalformedSQL, 'unexpected "now"'),
        ("SHOW EVERYTHING", MalformedSQL, SHOW_EXPECTED),
        ("SHOW", MalformedSQL, SHOW_EXPECTED.replace('"EVERYTHING"', "the end")),
        ("DESCRIBE trades", MalformedSQL, 'expected QUERY, STREAM, TABLE or FUNCTION, found "trades"'),
        ("EXPLAIN CODEGEN", MalformedSQL, 'expected QUERY, SELECT or the end, found "CODEGEN"'),
        ("EXPLAIN SELECT 1", MalformedSQL, "expected FROM and a stream, found the end"),
        ("DROP QUERY IF NOT EXISTS a", MalformedSQL, 'unexpected "NOT"'),
        ("GRANT ALL", Unsupported, "GRANT statements are not available"),
        ("hello", MalformedSQL, f'expected {HEADS}, found "hello"'),
        ("DROP QUERY a b", MalformedSQL, 'unexpected "b"'),
        (
            "CREATE STREAM s (a int, b int GENERATED ALWAYS AS (sum(a))) USING csv",
            PenstockError,
            "aggregates are not allowed in a computed column",
        ),
        (
            "CREATE STREAM s (a int, b int GENERATED ALWAYS AS (c)) USING csv",
            UnknownColumn,
            'stream "s" has no column "c"',
        ),
        (
            "CREATE STREAM s (a int, b int GENERATED ALWAYS AS (now())) USING csv",
            Unsupported,
            "now() is not available",
        ),
    ],
)
def test_a_wrong_statement_says_what_is_wrong(text: str, kind: type[PenstockError], what: str) -> None:
    with pytest.raises(kind) as raised:
        parse_script(text)
    assert raised.value.what == what
    assert raised.value.place is not None


def test_an_empty_script_has_no_statements() -> None:
    assert parse_script("") == parse_script(" ;; -- nothing\n /* at all */ ") == []


def test_a_query_may_end_in_a_semicolon_but_not_be_followed() -> None:
    assert isinstance(parse_query("SELECT count(*) FROM t [RANGE 1 s SLIDE 1 s];"), Select)
    with pytest.raises(MalformedSQL, match="expected one statement, found several"):
        parse_query("SELECT 1 FROM t; DROP STREAM t")
    with pytest.raises(MalformedSQL, match="expected a SELECT"):
        parse_query("DROP STREAM t")


def test_semicolons_and_comments_inside_strings_are_text() -> None:
    [statement] = parse_script("SELECT count(*) FROM t [RANGE 1 s SLIDE 1 s] WHERE a = ';--/*' -- ; '\n")
    assert isinstance(statement, Select)


def test_a_megabyte_is_refused_before_it_is_read() -> None:
    with pytest.raises(MalformedSQL, match="the statement is longer than 100,000 characters"):
        parse_query("SELECT " + "a, " * 333_333)
    with pytest.raises(MalformedSQL, match="the statement is longer"):
        parse_script("DROP QUERY a; SELECT " + "a" * 100_001)
    with pytest.raises(MalformedSQL, match="the script is longer"):
        parse_script(" " * 5_000_001)


@pytest.mark.parametrize(
    "text", ["SELECT \0", "SELECT '\ud800'", "SELECT 'abc", 'SELECT "abc', "SELECT `abc", "/* abc"]
)
def test_text_that_is_no_text_is_malformed(text: str) -> None:
    with pytest.raises(MalformedSQL) as raised:
        parse_script(text)
    assert str(raised.value).startswith("error[MalformedSQL]")


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("trades [RANGE 12 MIN SLIDE 5 MIN] t", "[RANGE 12 min SLIDE 5 min]"),
        ("trades T[RANGE '12 min' SLIDE '5 min']", "[RANGE 12 min SLIDE 5 min]"),
        ("trades AS t [range 90 s slide 1500 ms]", "[RANGE 90 s SLIDE 1500 ms]"),
        ("trades [WINDOW 10 s SLIDE 10 s] AS t", "[RANGE 10 s SLIDE 10 s]"),
        ("trades t [RANGE INTERVAL 5 MINUTES SLIDE INTERVAL '1' MINUTE]", "[RANGE 5 min SLIDE 1 min]"),
        ("trades t [RANGE 7 s SLIDE 3 s OFFSET 1 s]", "[RANGE 7 s SLIDE 3 s OFFSET 1 s]"),
        ("trades t [RANGE 7 s SLIDE 3 s OFFSET 4 s]", "[RANGE 7 s SLIDE 3 s OFFSET 1 s]"),
        ("trades t [RANGE 60s SLIDE 1d]", "[RANGE 1 min SLIDE 1 d]"),
        ("trades /* x */ t /* y */ [ RANGE 1.5 s -- z\n SLIDE 1 week ]", "[RANGE 1500 ms SLIDE 7 d]"),
    ],
)
def test_a_window_is_read_in_every_spelling(bound: Callable[[str], Query], text: str, window: str) -> None:
    assert str(bound(f"SELECT max(t.tags[0]) FROM {text} WHERE t.tags[1] = 'x'").window) == window


@pytest.mark.parametrize(
    ("window", "kind", "what"),
    [
        ("", Unsupported, "an aggregate without a window is not available"),
        ("[RANGE 5 s]", Unsupported, "a continuous query needs SLIDE in its window"),
        ("[ROWS 5]", Unsupported, "a continuous query needs SLIDE in its window"),
        ("[ROWS 500000000 SLIDE 1]", InvalidWindow, "a window of 500,000,000 rows every 1 holds each row too often"),
        ("[PARTITION BY symbol RANGE 5 s SLIDE 1 s]", MalformedSQL, 'expected ROWS after PARTITION BY, found "RANGE"'),
        ("[PARTITION BY symbl ROWS 5 SLIDE 1]", UnknownColumn, 'stream "trades" has no column "symbl"'),
        (
            "[PARTITION BY symbol ROWS 5 SLIDE 1]",
            LanguageError,
            'column "symbol" of PARTITION BY is not in GROUP BY',
        ),
        ("[ROWS 0 SLIDE 1]", InvalidWindow, "a number of rows must be a positive integer"),
        ("[RANGE 5 SLIDE 1 s]", InvalidWindow, '"5" has no unit'),
        ("[RANGE 0 s SLIDE 1 s]", InvalidWindow, "the range of a window must be longer than zero"),
        ("[RANGE 101 weeks SLIDE 1 year]", InvalidWindow, '"year" has no fixed length'),
        ("[RANGE 6000 weeks SLIDE 1 s]", InvalidWindow, "the range of a window must be at most 100 years"),
        ("[RANGE 99999999999999999 d SLIDE 1 s]", InvalidWindow, '"99999999999999999 d" is too long'),
        ("[SLIDE 1 s]", MalformedSQL, 'expected RANGE, WINDOW, ROWS or SESSION, found "SLIDE"'),
        ("[RANGE SLIDE 1 s]", MalformedSQL, 'expected a duration such as 12 MIN, found "SLIDE"'),
        ("[RANGE 1 s SLIDE 1 s", MalformedSQL, 'expected "]", found the end'),
        ("[RANGE 1 s SLIDE 1 s] [RANGE 1 s SLIDE 1 s]", MalformedSQL, "a second window"),
        ("[RANGE 1 s SLIDE 1 s] t [RANGE 1 s SLIDE 1 s]", MalformedSQL, "a second window"),
        ("[0]", MalformedSQL, 'expected RANGE, WINDOW, ROWS or SESSION, found "0"'),
    ],
)
def test_a_window_that_cannot_be_is_refused(
    bound: Callable[[str], Query], window: str, kind: type[PenstockError], what: str
) -> None:
    with pytest.raises(kind) as raised:
        bound(f"SELECT count(*) FROM trades {window}")
    assert raised.value.what == what


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ('SELECT count(*) AS "n x" FROM s', 'expected an alias, found "n x"', "`n x`"),
        ('SELECT count(*) "n x" FROM s', 'unexpected "n x"', "`n x`"),
        ('SELECT count(*) AS "" FROM s', 'expected an alias, found ""', "at least one character"),
        ('SELECT count(*) FROM "binance"', 'expected a stream or table, found "binance"', "`binance`"),
        ("SELECT count(*) FROM s WHERE m = ''spot''", 'unexpected "spot"', "not doubled: 'spot'"),
        ("SELECT count(*) FROM s WHERE m IN (''spot'')", 'expected ")", found "spot"', "not doubled: 'spot'"),
    ],
)
def test_wrong_quotes_are_told_with_the_right_ones(text: str, what: str, hint: str) -> None:
    with pytest.raises(MalformedSQL) as raised:
        parse_query(text)
    assert raised.value.what == what
    assert hint in str(raised.value.hint)
