"""Attacks by size: depth, length, numbers, types, durations and windows."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import InvalidWindow, LanguageError, MalformedSQL, PenstockError, Unsupported
from tests.language.attack import Attack, W, harmless, refused, where


def depth_and_length() -> Iterator[Attack]:
    n = 10_000
    family = "a text too deep, too long or too large"
    expressions = (
        "(" * n + "1" + ")" * n, "(" * n, ")" * n, "[" * n, "{" * n, "((" * n + "))" * n, "NOT " * n + "true",
        "- " * n + "1", "~" * n + "1", "+" * n + "1", "! " * n + "true", "tags" + "[0]" * n, "s" + ".a" * n,
        "symbol" + "::string" * n, "upper(" * n + "symbol" + ")" * n, "CASE WHEN true THEN " * 4_000, "CASE " * n,
        "1" + "+1" * n, "true" + " AND true" * n, "true" + " OR NOT true" * 6_000, "1" + " = 1" * n,
        "symbol IN (" + "1," * 30_000 + "1)", "concat(" + "symbol," * 9_000 + "1)",
        "symbol = '" + "x" * 120_000 + "'", "'a'" * 25_100, "'a' || " * 12_000 + "'a'", "1" * 90_000,
        "0." + "0" * 90_000 + "1", "1e" + "9" * 90_000, "symbol IS NULL " * 5_000, "symbol " * 13_000, ", " * 40_000,
        "CAST(" * 5_000 + "1" + " AS int)" * 5_000, "CAST(1 AS " + "array<" * 9_000 + "int" + ">" * 9_000 + ")",
        "CAST(1 AS struct<" + "a:int," * 12_000 + "b:int>)", "INTERVAL " + "1 day " * 12_000 + " IS NULL",
        "(" + " OR ".join("(volume > 1 AND price < 2)" for _ in range(900)) + ")", "(" * 41 + "1" + ")" * 41,
        "1" + "+1" * 501, "'" + "\\" * 99_000, "x" * 99_000, "/*" * 40_000, "--" * 40_000 + "\n(",
        "1 IN (" * 41 + "1" + ")" * 41, "true" + " AND (true" * 41 + ")" * 41,
        "volume" + " > 1 AND volume" * 1_100 + " > 1",
    )  # fmt: skip
    yield from refused(family, LanguageError, (where(e) for e in expressions))
    select = "SELECT {} FROM trades " + W
    lists = (
        select.format(", ".join(f"max({i}) AS a{i}" for i in range(2_000))),
        select.format("count(*) AS n") + " GROUP BY " + ", ".join(f"volume + {i}" for i in range(1_000)),
        select.format("symbol, count(*) AS n") + " GROUP BY " + ", ".join("1" for _ in range(20_000)),
        select.format("count(*) AS n") + "".join(f" JOIN listing l{i} USING (symbol)" for i in range(2_000)),
        select.format("count(*) AS n") + " t" + ", listing" * 5_000,
        select.format("count(*) AS n") + " JOIN listing USING (" + "symbol, " * 5_000 + "symbol)",
        select.format("max(" + "+".join(["volume"] * 400) + ") AS m, " + ", ".join(
            f"max({'+'.join(['volume'] * 400)} + {i}) AS m{i}" for i in range(30))),
        select.format("max(" + " + ".join(["volume"] * 499) + ") AS m") + " HAVING " + " AND ".join(
            f"m > {i}" for i in range(480)),
        select.format(", ".join(f"volume + 1 {'+ volume' * 480} AS a{i}" for i in range(20)))
        + " GROUP BY volume + 1, volume",
        "CREATE TABLE t (" + ", ".join(f"c{i} int" for i in range(8_000)) + ") USING csv OPTIONS (path = 'x')",
        "CREATE TABLE t (a int) USING csv OPTIONS (" + ", ".join(f"o{i} = {i}" for i in range(5_000)) + ")",
        "CREATE STREAM t (a " + "array<" * 200 + "int" + ">" * 200 + ") USING csv OPTIONS (path = 'x') WATERMARK FOR a",
        "CREATE QUERY " + "q" * 50_000 + " AS " + where("true"), "DROP QUERY " + "x" * 50_000,
        "DROP QUERY `" + "x" * 300 + "`", "DROP QUERY " + "x." * 20_000 + "y",
    )  # fmt: skip
    yield from refused(family, PenstockError, lists)
    huge = (
        "x" * 10_000_000, " " * 10_000_000, "(" * 4_900_000, ";" * 10_000_000, "SELECT " * 700_000, "'" * 4_999_999,
        "(;" * 2_400_000, "/*" * 2_400_000, "--" * 4_000_000, "\0" * 1_000_000, "\u202e" * 1_000_000, "é" * 1_000_000,
        "`" * 4_999_999, "DROP" * 1_000_000, "a;" * 2_000_000, "\n" * 5_000_001,
    )  # fmt: skip
    yield from refused("megabytes of text", MalformedSQL, huge)


def numbers() -> Iterator[Attack]:
    wrong = (
        "1e400", "-1e400", "1e400D", "1e39f", "9" * 39, "0." + "9" * 39, "1e99BD", "1e99999999999",
        "9223372036854775809L", "99999999999999999999L", "129Y", "32769S", "1.5L", "1e5L", "0x1F", "0X1f", "0b101",
        "0o17", "1_000", "1__0", "1,000", "1e", "1e+", "1.2.3", "1..2", ".", "..", ".e5", "5x", "5LL", "5DF", "1bdx",
        "1e5e5", "NaN5", "1'000", "#1", "1L2", "$5", "€5", "١٢٣", "１２３", "²", "½", "Ⅻ", "1\u200b0", "+5 +", "--5 x",
        "5%%2", "1 2", "1e 5", "1 e5", "- ", "+volume", "5.f.g.",
    )  # fmt: skip
    yield from refused("a number that is none", LanguageError, (where(f"volume > {n}") for n in wrong))
    fine = {
        "-9223372036854775808": "-9223372036854775808", "-9223372036854775808L": "-9223372036854775808L",
        "1e308": "1E308", "9" * 38: "9" * 38, "1e-400": "1E-400",
        "000000000000000000000000000000000000000000001": "0" * 44 + "1", ".5": ".5", "5.": "5.", "-128Y": "-128Y",
        "1.5BD": "1.5BD", "5l": "5L", "1e5f": "1E5F", "- - 5": "-(-5)", "-(-(-5))": "-(-(-5))", "1E+5": "1E+5",
        "0e0": "0E0", "-0.0": "-0.0", "X'' ": "X''", "x'DEADbeef'": "X'DEADBEEF'",
    }  # fmt: skip
    yield from harmless(
        "a number at the edge", ((where(f"volume > {n}"), where(f"volume > {c}")) for n, c in fine.items())
    )
    kinds = (
        "thing", "varchar(10)", "char(5)", "decimal(39, 0)", "decimal(5, 6)", "decimal(-1)", "decimal(1e1)",
        "decimal(0)", "int(5)", "array", "array<>", "array<int", "array<int>>", "map<int>", "map<int,int,int>",
        "struct<>", "struct<a>", "struct<a:>", "void", "interval", "variant", "udt", "java.lang.Object", "`int`;",
        "int)", "int AS x", "struct<`${x}`:int>", "struct<``:int>", "struct<a:int COMMENT 'x'>", "int NOT NULL",
        "timestamp(6)", "string COLLATE x", "array<int>[0]x", "char", "object", "null", "decimal(38,18",
        "numeric(99999999999999999999)", "geometry", "any", "*", "''", "1",
    )  # fmt: skip
    yield from refused("a type that is none", LanguageError, (where(f"CAST(volume AS {k}) IS NULL") for k in kinds))


def durations_and_windows() -> Iterator[Attack]:
    select = "SELECT count(*) AS n FROM trades [{}]"
    wrong = (
        "1e9 y", "-5 s", "0 s", "0.0000001 s", "9223372036854775808 us", "4611686018427387905 us", "1" * 41 + " s",
        "1" * 5_000 + " s", "5", "5 x", "5 month", "5 years", "1 quarter", "s", "", "''", "'5'", "5 s 5", "5 s -3 s",
        "5 s + 3 s", "1/2 s", "5 * 5 s", "NaN s", "inf s", "1e3 s", "0x5 s", "5 ſ", "５ s", "5 ѕ", "'5 s", "5 s'",
        "5 `s`", "INTERVAL", "INTERVAL -5 s", "INTERVAL '-5' s", "(5 s)", "5 s; DROP STREAM trades", "${x} s", ":x s",
        "volume s", "now()", "5 s, 5 s", "5 s /* 3", "101 years", "36526 d", "5300 weeks", "5 ss",
        "5 mmin", "5 m", "5 M", "PT5S", "P1D", "00:00:05", "5:00", "1 day ago", "forever", "unbounded",
    )  # fmt: skip
    kinds = (InvalidWindow, MalformedSQL, Unsupported)
    yield from refused("a length of time that is none", kinds, (select.format(f"RANGE {d} SLIDE 1 s") for d in wrong))
    yield from refused(
        "a length of time that is none", kinds, (select.format(f"RANGE 1 h SLIDE {d}") for d in wrong[:25])
    )
    windows = (
        "RANGE 36525 d SLIDE 1 ms", "RANGE 36525 d SLIDE 1 us", "RANGE 1 d SLIDE 1 us", "RANGE 5200 weeks SLIDE 1 s",
        "RANGE 365 d SLIDE 10 ms", "RANGE 1 h SLIDE 1 us", "RANGE 1 h", "ROWS 5", "ROWS 5 SLIDE 0", "ROWS 0",
        "ROWS -5", "ROWS 1e9", "ROWS 99999999999999999999", "ROWS 5 s", "ROWS x", "RANGE 1 s SLIDE 1 s SLIDE 1 s",
        "SLIDE 1 s RANGE 1 s", "RANGE", "", " ", "[", "0", "RANGE 1 s SLIDE", "RANGE 1 s SLIDE 1 s OFFSET",
        "RANGE 1 s OFFSET 1 s SLIDE 1 s", "RANGE 1 s SLIDE 1 s OFFSET -1 s", "NOW",
        "RANGE 1 s SLIDE 1 s OFFSET 9999999999999 d", "UNBOUNDED", "PARTITION BY symbol ROWS 5",
        "RANGE UNBOUNDED PRECEDING", "RANGE 1 s SLIDE 1 s] [RANGE 1 s SLIDE 1 s", "RANGE 1 s SLIDE 1 s]]",
        "RANGE 1 s SLIDE 1 s] t u", "RANGE 1 s SLIDE 1 s AS x",
    )  # fmt: skip
    yield from refused("a window that cannot be", LanguageError, (select.format(w) for w in windows))
    shown = "SELECT count(*) AS n FROM trades [RANGE {} SLIDE {}]"
    fine = [
        ("RANGE 1 us SLIDE 36525 d", "1 us", "36525 d"), ("RANGE 1 s SLIDE 1 us", "1 s", "1 us"),
        ("RANGE 1 µs SLIDE 1 μs", "1 us", "1 us"), ("RANGE 1 s 1 s 1 s SLIDE .5 s", "3 s", "500 ms"),
        ("RANGE 36525 d SLIDE 1 d", "36525 d", "1 d"), ("RANGE '1 s' SLIDE \"1 s\"", "1 s", "1 s"),
        ("RANGE 00005 s SLIDE 5.000 s", "5 s", "5 s"), ("RANGE 1 s SLIDE 1 s OFFSET 4611686018427 s", "1 s", "1 s"),
    ]  # fmt: skip
    yield from harmless("a window at the edge", ((select.format(text), shown.format(r, s)) for text, r, s in fine))
    spark = (
        "window(ts, '1 ms')", "window(ts, '36525 days', '1 millisecond')", "window(ts, '0 s')", "window(ts, '-1 s')",
        "window(ts)", "window(price, '1 s')", "window(ts, '1 month')", "window(ts, 5)", "window('1 s')",
        "window(ts, symbol)", "window(ts, '1 s', '0 s')", "window(ts, '1 s', '1 s', '1 s', '1 s')",
        "session_window(ts, '0 s')", "session_window(ts, symbol)", "window(now(), '1 s')", "window(ts, uuid())",
    )  # fmt: skip
    yield from refused(
        "a window of Spark's that cannot be",
        LanguageError,
        (f"SELECT count(*) AS n FROM trades GROUP BY {s}" for s in spark[1:]),
    )
