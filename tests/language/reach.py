"""A bound query comes in; nothing goes out, or an AssertionError naming what must not reach Spark.

Plain regular expressions, on purpose: the language's own parser must not vouch for itself.
"""

from __future__ import annotations

import re

from penstock.language.binding.functions import AGGREGATES, SCALAR
from penstock.language.binding.joins import Names
from penstock.language.grammar.literals import word_set
from penstock.model.query import Query

KEYWORDS = word_set(
    """AND OR NOT IS NULL TRUE FALSE IN BETWEEN LIKE ILIKE RLIKE ESCAPE CASE WHEN THEN ELSE END DIV AS FROM
    INTERVAL TO DATE TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ YEAR MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND
    MICROSECOND"""
)
FORMS = frozenset({"CAST", "TRY_CAST", "EXTRACT"})
FIELDS = word_set(
    """YEAR Y YEARS YR YRS YEAROFWEEK QUARTER QTR MONTH MON MONS MONTHS WEEK W WEEKS DAY D DAYS DAYOFWEEK DOW
    DAYOFWEEK_ISO DOW_ISO DOY HOUR H HOURS HR HRS MINUTE M MIN MINS MINUTES SECOND S SEC SECONDS SECS"""
)
TYPES = word_set(
    """boolean tinyint smallint int bigint float double decimal date timestamp timestamp_ntz string binary array
    map struct"""
)
TOKEN = re.compile(
    r"""(?P<space>\ )
    |(?P<bytes>X'[0-9A-F]*')
    |(?P<string>'(?:\\.|[^'\\])*')
    |(?P<name>`(?:[^`]|``)+`)
    |(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:E[+-]?[0-9]+)?(?:BD|[LSYDF])?(?![\w`]))
    |(?P<call>[A-Za-z_][A-Za-z0-9_]*)(?P<opened>\()
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign><=>|<>|<=|>=|\|\||[-+*/%&|^~=<>(),.\[\]:])""",
    re.VERBOSE,
)


def texts_of(query: Query) -> list[str]:
    """List every text of a query that Spark will read as SQL."""
    joined = [key for join in query.joins for key in (*join.stream_keys, *join.table_keys)]
    arguments = [text for aggregate in query.aggregates for text in aggregate.arguments]
    outputs = [output.expression for output in query.outputs]
    return [*filter(None, [query.where, query.having]), *query.keys, *joined, *arguments, *outputs]


def assert_harmless(query: Query, names: Names) -> None:
    """Check that allowed functions, quoted names, literals and operators are all that a query holds."""
    columns = columns_of(query, names)
    for text in texts_of(query):
        assert_plain(text, columns)
    assert {aggregate.function for aggregate in query.aggregates} <= AGGREGATES
    assert query.text.isprintable(), query.text
    assert all(output.name.isprintable() for output in query.outputs)


def columns_of(query: Query, names: Names) -> frozenset[str]:
    """List the columns that a query's texts may name: the stream's, its joins' and the numbered ones."""
    stream = names.stream(query.stream)
    assert stream is not None
    found = {column.name for column in stream.columns} | {f"k{i}" for i in range(len(query.keys))}
    found |= {f"a{i}" for i in range(len(query.aggregates))} | {"w", "ws", "we"}
    for join in query.joins:
        table = names.table(join.table)
        assert table is not None
        found |= {f"{join.id}.{column.name}" for column in table.columns} | {column.name for column in table.columns}
    return frozenset(found)


def assert_plain(text: str, columns: frozenset[str]) -> None:
    """Check one canonical text, token by token."""
    assert "${" not in text, text
    assert text.isprintable(), text
    at, before, depth = 0, "", 0
    while at < len(text):
        token = TOKEN.match(text, at)
        assert token is not None, f"{text[at : at + 20]!r} in {text!r}"
        at = token.end()
        if token["space"]:
            continue
        check_token(token, before, text, columns)
        depth += token[0].count("(") - token[0].count(")") if not (token["string"] or token["name"]) else 0
        assert depth >= 0, text
        before = token[0]
    assert depth == 0, text


def check_token(token: re.Match[str], before: str, text: str, columns: frozenset[str]) -> None:
    """Check one token: where it is a name or a word, that it is a known one."""
    if token["name"]:
        name = token["name"][1:-1].replace("``", "`")
        assert name in columns or before in (".", "<", ","), f"{name!r} in {text!r}"
    elif token["call"]:
        assert token["call"] in SCALAR | FORMS | {"decimal"} or token["call"] in KEYWORDS, (
            f"{token['call']}() in {text!r}"
        )
    elif token["word"]:
        known = token["word"] in KEYWORDS | FIELDS or token["word"] in TYPES or before in ("<", ",")
        assert known, f"{token['word']} in {text!r}"
    elif token["sign"] == "-":
        assert before != "-" or text[token.start() - 1] == " ", f"a comment in {text!r}"
    elif token["sign"] == ":":
        assert "struct<" in text, text
