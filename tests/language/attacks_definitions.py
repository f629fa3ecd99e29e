"""Attacks in definitions: columns, options, watermarks, functions."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import LanguageError
from tests.language.attack import Attack, refused


def definitions() -> Iterator[Attack]:
    stream = "CREATE STREAM x (ts timestamp, a int{}) USING csv OPTIONS (path = 'x'{}) WATERMARK FOR ts{}"
    columns = (
        ", a int", ", `A` int", ", b", ", b thing", ", b int DEFAULT 5",
        ", b int GENERATED ALWAYS AS (reflect('a', 'b'))", ", b int GENERATED ALWAYS AS (uuid())",
        ", b int GENERATED ALWAYS AS (SELECT 1)", ", b int GENERATED ALWAYS AS (b)",
        ", b int GENERATED ALWAYS AS (c)", ", b int GENERATED ALWAYS AS (sum(a))",
        ", b int GENERATED ALWAYS AS (repeat('x', 999999999))", ", b int PRIMARY KEY", ", b int CHECK (true)",
        ", `${x}` int", ", `` int", ", b int COMMENT", ", b int COMMENT 5", ", b int)", ",",
        ", b int; DROP STREAM trades", ", `b\u202e` int", ", b int NOT NULL", ", b struct<`${env:HOME}`:int>",
        ", CONSTRAINT x CHECK (a)", ", `" + "b" * 300 + "` int", ", *", ", 5 int", ", 'b' int", ", b 'int'",
        ", b.c int",
    )  # fmt: skip
    yield from refused("a column that cannot be", LanguageError, (stream.format(c, "", "") for c in columns))
    options = (
        ", path = 'y'", ", PATH 'y'", ", x", ", x =", ", = 'y'", ", x = y", ", x = NULL", ", x = (SELECT 1)",
        ", x = uuid()", ", x = 'y' z", ", x = -", ", x = 'y'); DROP STREAM trades; --", ", ${x} = 'y'",
        ", `${x}` = 'y'", ", x = ${y}", ", x = :y", ", x = ?", ", x = {y}", ", x = [1]", ", , x = 'y'", ", x = 'y",
        ", x = 1e400", ", x = 0x1F", ", x. = 'y'", ", .x = 'y'", ", idle = ''", ", idle = '-1 s'", ", idle = 5",
        ", idle = '0 d 0 s'", ", idle = '1e99 d'", ", idle = '" + "9" * 5_000 + " s'", ", idle = true",
        ", retain_rows = '1 year'", ", retain_rows = 'NaN s'", ", retain_rows = '∞ s'", ", max_ahead = '${x} s'",
        ", dedup = ''", ", dedup = ' '", ", dedup = 'b'", ", dedup = 'a, a'", ", dedup = 'a,, ts'", ", dedup = '`a'",
        ", dedup = '``'", ", dedup = 'a; DROP STREAM trades'", ", dedup = 'a)'", ", dedup = '${x}'", ", dedup = 7",
        ", dedup = '*'", ", dedup = 'a\u202e'", ", dedup = '" + "`" * 9_999 + "'", ", dedup = '" + "a," * 9_999 + "'",
        ", dedup = 'a" + " " * 50_000 + "b'",
    )  # fmt: skip
    yield from refused("an option that cannot be", LanguageError, (stream.format("", o, "") for o in options))
    marks = (
        " AS a - 5 s", " AS ts - ", " AS ts + 5 s", " AS ts - -5 s", " AS ts - 5 month", " AS ts - 5", " AS ts - a",
        " AS now()", " AS ts - INTERVAL", " AS ts - 99999999999999999999 d", " AS ts - (SELECT 1)", " AS ts - uuid()",
        " AS ts - ${x}", " AS", " AS ts - 5 s - 5 s", " AS ts, a", " IF x", " WATERMARK FOR ts",
        " AS date_sub(ts, 1)",
    )  # fmt: skip
    yield from refused("a watermark that cannot be", LanguageError, (stream.format("", "", m) for m in marks))
    heads = (
        "CREATE STREAM", "CREATE STREAM x", "CREATE STREAM x ()", "CREATE STREAM x (ts timestamp)",
        "CREATE STREAM x (ts timestamp) USING", "CREATE STREAM x (ts timestamp) USING 'csv' WATERMARK FOR ts",
        "CREATE STREAM x (ts timestamp) USING org.evil.Source() WATERMARK FOR ts",
        "CREATE STREAM a.b (ts timestamp) USING csv WATERMARK FOR ts",
        "CREATE STREAM 'x' (ts timestamp) USING csv WATERMARK FOR ts",
        "CREATE STREAM `${x}` (ts timestamp) USING csv WATERMARK FOR ts",
        "CREATE STREAM `` (ts timestamp) USING csv WATERMARK FOR ts",
        "CREATE STREAM x (ts timestamp) USING csv LOCATION '/etc' WATERMARK FOR ts",
        "CREATE STREAM x (ts timestamp) USING csv PARTITIONED BY (a)",
        "CREATE STREAM x (ts timestamp) USING csv TBLPROPERTIES ('a' = 'b') WATERMARK FOR ts",
        "CREATE STREAM x AS SELECT count(*) FROM trades", "CREATE TABLE x AS SELECT * FROM trades", "CREATE QUERY x",
        "CREATE QUERY x AS", "CREATE QUERY x AS DROP STREAM trades", "CREATE QUERY x AS CREATE QUERY y AS SELECT 1",
        "CREATE QUERY x AS (SELECT 1)", "CREATE QUERY x (a) AS SELECT 1", "CREATE QUERY a.b AS SELECT 1",
        "CREATE FUNCTION f(x int) RETURN reflect('a', 'b')", "CREATE FUNCTION f(x int) RETURN uuid()",
        "CREATE FUNCTION f(x int) RETURN (SELECT 1)", "CREATE FUNCTION f(x int) RETURN f(x)",
        "CREATE FUNCTION f(x int) RETURN y", "CREATE FUNCTION upper(x int) RETURN x",
        "CREATE FUNCTION sum(x int) RETURN x", "CREATE FUNCTION f(x int) RETURN sum(x)",
        "CREATE FUNCTION f(x int, x int) RETURN x", "CREATE FUNCTION f(x int) LANGUAGE PYTHON AS 'import os'",
        "CREATE FUNCTION f(x int) RETURNS TABLE (a int) RETURN SELECT 1", "CREATE FUNCTION f(x) RETURN x",
        "CREATE FUNCTION f RETURN 1", "CREATE FUNCTION", "DROP", "DROP trades", "DROP STREAM", "DROP STREAM *",
        "DROP STREAM trades, quotes", "DROP STREAM 'trades'", "DROP STREAM trades WHERE true", "CREATE",
        "CREATE SECRET x", "CREATE USER x", "CREATE TRIGGER x", "CREATE PROCEDURE x", "CREATE STREAM TABLE x",
    )  # fmt: skip
    yield from refused("a definition that cannot be", LanguageError, heads)
