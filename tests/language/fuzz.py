"""A seed comes in; hostile texts go out: statements and attacks, cut, mixed, nested, with odd characters in between."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from penstock.errors import PenstockError
from penstock.language.binding.bind import bind
from penstock.language.binding.joins import Names
from penstock.language.functions.sql_functions import define
from penstock.language.grammar.parse import parse_query, parse_script
from penstock.language.statements import CreateFunction, Select
from penstock.model.query import Query
from tests.language.attacks import ATTACKS
from tests.language.reach import assert_harmless, assert_plain

SLOWEST_S = 1.0
LONGEST_ERROR = 2_500
LONGEST_SEED = 2_000  # characters of an attack that is worth changing

VALID = (
    "SELECT count(*) FROM trades [RANGE 10 s SLIDE 1 s]",
    "SELECT symbol, sum(price * volume) AS value, count(*) AS n FROM trades [RANGE 12 MIN SLIDE 5 MIN] "
    "JOIN listing USING (symbol) WHERE volume > 50000 AND listing.r2000 GROUP BY symbol HAVING n > 10",
    "SELECT avg(price) / max(vol) AS r FROM trades t [RANGE 1 h SLIDE '90 s' OFFSET 5 s] WHERE t.symbol LIKE 'A\\%' "
    "AND NOT (price BETWEEN 1 AND 2.5e3 OR volume IN (1, 2L, 3)) AND s.a IS NOT NULL",
    "SELECT upper(symbol) u, min(CASE WHEN price > 1 THEN tags[0] ELSE 'x' END) FROM trades [WINDOW 7 s SLIDE 3 s] "
    "LEFT JOIN listing l ON trades.symbol = l.symbol GROUP BY 1",
    "SELECT max(CAST(volume AS decimal(10, 2))) m, stddev(-price) FROM trades [RANGE 1 d SLIDE 1 h] "
    "WHERE ts > TIMESTAMP '2026-01-01 00:00:00' - INTERVAL 5 MINUTES AND extract(hour FROM ts) < 12",
    "SELECT var_pop(a.price), count(b.weight) FROM trades a [RANGE 5 s SLIDE 5 s], Index b WHERE a.symbol = b.Symbol",
    "CREATE STREAM x (ts timestamp, a int, b string, c bigint GENERATED ALWAYS AS (a + 1)) USING parquet "
    "OPTIONS (path = '/data/x', maxFilesPerTrigger = 1) WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS",
    "CREATE TABLE y (k string COMMENT 'key', v struct<a:int,b:array<string>>) USING csv "
    "OPTIONS (path '/data/y', header true)",
    "CREATE QUERY q AS SELECT symbol, max(price) FROM trades [RANGE 1 min SLIDE 1 min] GROUP BY symbol",
    "DROP QUERY q; DROP STREAM x; DROP TABLE `Odd Name`",
    "SELECT count(*) FROM trades GROUP BY window(ts, '12 minutes', '5 minutes'), symbol",
    "CREATE OR REPLACE QUERY q AS SELECT sum(price) s FROM trades [RANGE 1 s SLIDE 1 s] WITH (emit = 'exact')",
    "CREATE FUNCTION f(x int, y double) RETURNS double RETURN x * y + 1",
    "ALTER QUERY q AS SELECT count(*) FROM trades [RANGE 1 s SLIDE 1 s]; "
    "ALTER QUERY q SET WINDOW [RANGE 2 s SLIDE 1 s]",
    "EXPLAIN SELECT count(*) FROM trades [RANGE 1 s SLIDE 1 s]; SHOW QUERIES; "
    "DESCRIBE STREAM trades; SHOW CREATE QUERY q",
)
SEEDS = (*VALID * 12, *(a.text for a in ATTACKS if len(a.text) <= LONGEST_SEED))
PIECE = re.compile(r"\s+|\w+|'[^']*'|`[^`]*`|[^\w\s]")
ODD = (
    "'", '"', "`", "\\", ";", "--", "/*", "*/", "/*+", "(", ")", "[", "]", "{", "}", "<", ">", ",", ".", ":", "::",
    "?", "@", "#", "$", "${x}", "\0", "\n", "\r", "\t", "\x1b[31m", "\u202e", "\u200b", "\ufeff", "\ud800", "\u0301",
    "ſ", "İ", "Ω", "😀", "＇", "０", "\xa0", "µs", "NULL", "NOT", "AND", "OR", "IN", "IS", "LIKE", "BETWEEN", "CASE",
    "WHEN", "END", "CAST", "AS", "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "JOIN", "ON", "USING", "RANGE",
    "SLIDE", "OFFSET", "ROWS", "INTERVAL", "DISTINCT", "OVER", "WITH", "EXISTS", "reflect(", "uuid()", "count(*)",
    "sum(", "window(", "1e400", "0x1F", "9223372036854775808", "-1", "''", "``", "'\\u0027'", "r'", "x'", "k0", "a0",
    "`k0`", "*",
)  # fmt: skip

NAMES = tuple(
    """symbol price volume vol ts s tags trades listing quotes Index Close r2000 sector weight t n l a b value `s`.a
    trades.price upper(symbol) abs(price) count(*) sum(price) max(vol) avg(price) min(ts) stddev(volume) NULL true 1 'A'
    window_start window_end window INTERVAL date(ts) s.a tags[0] -vol k0""".split()  # noqa: SIM905
)
LIKES = (
    (re.compile(r"\d+"), ("0", "1", "5", "40", "1e3", "2.5BD", "7L", "-1", "9223372036854775807", ".5", "1e308")),
    (
        re.compile(r"'[^']*'"),
        ("''", "'A'", "'a''b'", "'\\\\'", "'${x}'", "'1 day'", "'\\u202e'", '"x"', "r'\\'", "'é'", "'5 min'"),
    ),
    (re.compile(r"`[^`]*`|(?!min\b|as\b|slide\b)[a-z][a-z0-9_]+"), NAMES),
    (
        re.compile(r"[-+*/%&|^=<>]"),
        ("+", "-", "*", "/", "%", "&", "|", "^", "=", "<", ">", "<=", "<>", "||", " DIV ", "<=>", " AND ", " OR "),
    ),
)

COLUMNS = frozenset({"symbol", "price", "volume", "vol", "ts", "tags", "sector", "weight", "x", "y", "a", "r2000"})
WRAPS = (
    ("(", ")"), ("upper(", ")"), ("- ", ""), ("CAST(", " AS string)"), ("CASE WHEN ", " IS NULL THEN 1 ELSE 'x' END"),
    ("coalesce(", ", NULL, 'é')"), ("", "::decimal(5, 2)"), ("(1 + ", " * 2)"), ("repeat(", ", 9)"), ("", " || 'x'"),
    ("reflect(", ")"), ("NOT ", ""), ("struct(", ", 1).col2"), ("`", "`"), ("max(", ")"), ("array(", ")[0]"),
)  # fmt: skip


def mutants(seed: int, number: int) -> Iterator[str]:
    """Yield so many hostile texts; the same seed yields the same ones."""
    rng = random.Random(seed)
    for _ in range(number):
        mild = rng.random() < 0.6  # much of it still parses, and is bound
        text, changes = rng.choice(VALID if mild else SEEDS), MILD if mild else CHANGES
        for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
            text = rng.choice(changes)(text, rng)
        yield text


def swap(text: str, rng: random.Random) -> str:
    pieces = PIECE.findall(text) or [""]
    i, j = rng.randrange(len(pieces)), rng.randrange(len(pieces))
    pieces[i], pieces[j] = pieces[j], pieces[i]
    return "".join(pieces)


def delete(text: str, rng: random.Random) -> str:
    pieces = PIECE.findall(text) or [""]
    start = rng.randrange(len(pieces))
    del pieces[start : start + rng.choice((1, 1, 1, 2, 5))]
    return "".join(pieces)


def duplicate(text: str, rng: random.Random) -> str:
    pieces = PIECE.findall(text) or [""]
    start = rng.randrange(len(pieces))
    part = pieces[start : start + rng.choice((1, 2, 4, 8))]
    pieces[start:start] = part * rng.choice((1, 1, 2, 50))
    return "".join(pieces)[:30_000]


def insert(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(("", " ")) + rng.choice(ODD) + rng.choice(("", " ")) + text[at:]


def scatter(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return (
        text[:at] + chr(rng.choice((rng.randrange(0x80), rng.randrange(0x3000), rng.randrange(0x110000)))) + text[at:]
    )


def nest(text: str, rng: random.Random) -> str:
    pieces = PIECE.findall(text) or [""]
    i = rng.randrange(len(pieces))
    opening, closing = rng.choice(
        (("(", ")"), ("upper(", ")"), ("NOT ", ""), ("-", ""), ("CASE WHEN ", " THEN 1 END"), ("[", "]"))
    )
    times = rng.choice((1, 1, 2, 39, 45, 300))
    pieces[i] = opening * times + pieces[i] + closing * times
    return "".join(pieces)


def wrap(text: str, rng: random.Random) -> str:
    """Put a name into a call, a CASE or parentheses."""
    pieces = PIECE.findall(text) or [""]
    places = [i for i, piece in enumerate(pieces) if piece in COLUMNS] or [0]
    i = rng.choice(places)
    opening, closing = rng.choice(WRAPS)
    pieces[i] = opening + pieces[i] + closing
    return "".join(pieces)


def exchange(text: str, rng: random.Random) -> str:
    """Put a like piece in a piece's place, so that much still parses."""
    pieces = PIECE.findall(text) or [""]
    places = [i for i, piece in enumerate(pieces) if not piece.isspace()] or [0]
    for i in rng.sample(places, min(len(places), rng.choice((1, 2, 4)))):
        kinds = [likes for pattern, likes in LIKES if pattern.fullmatch(pieces[i])]
        if kinds:
            pieces[i] = rng.choice(kinds[0])
    return "".join(pieces)


def cross(text: str, rng: random.Random) -> str:
    other = rng.choice(SEEDS)
    return text[: rng.randrange(len(text) + 1)] + other[rng.randrange(len(other) + 1) :]


def shorten(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text) + 1)]


MILD = (exchange, exchange, exchange, exchange, wrap)
CHANGES = (swap, delete, duplicate, insert, insert, scatter, nest, exchange, cross, shorten)


def survive(text: str, names: Names) -> str:
    """Give a text to the language; return what became of it, having checked that it ended well and soon."""
    started = time.thread_time()
    try:
        outcome = attempt(text, names)
    except PenstockError as error:
        outcome = error.code
        check_error(error)
    taken = time.thread_time() - started
    assert taken < SLOWEST_S, f"{taken:.2f} s for {text[:500]!r}"
    return outcome


def attempt(text: str, names: Names) -> str:
    """Parse a script and bind what it selects."""
    outcome = "nothing"
    for statement in parse_script(text):
        outcome = type(statement).__name__
        if isinstance(statement, CreateFunction):
            assert_plain(define(statement, {}).body, frozenset(p.name for p in statement.parameters))
        for select in selects_in(statement):
            query = bind(select, names, "q")
            assert_harmless(query, names)
            assert bind(parse_query(query.text), names, "q") == query, query.text
            outcome = "bound"
    return outcome


def queries_of(text: str, names: Names) -> list[Query]:
    """Bind all that a script selects."""
    queries = []
    for statement in parse_script(text):
        if isinstance(statement, CreateFunction):
            define(statement, {})
        queries += [bind(select, names, "q") for select in selects_in(statement)]
    return queries


def selects_in(statement: object) -> list[Select]:
    """Find the SELECTs of a statement, whatever kind of statement it is."""
    if isinstance(statement, Select):
        return [statement]
    if not is_dataclass(statement):
        return []
    return [found for field in fields(statement) for found in selects_in(getattr(statement, field.name))]


def check_error(error: PenstockError) -> None:
    """Check that an error can be shown on any terminal: short, and without anything that steers it."""
    shown = str(error)
    assert len(shown) <= LONGEST_ERROR, shown[:300]
    assert all(line.isprintable() for line in shown.split("\n")), repr(shown[:500])
    assert shown.startswith(f"error[{error.code}]: ")
    shown.encode()
