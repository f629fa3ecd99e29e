"""Names people have: words of SQL as names of columns, outputs, fields, streams, tables and queries, without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import LanguageError, MalformedSQL, UnknownColumn, Unsupported
from penstock.language.binding.bind import bind
from penstock.language.binding.functions import NO_PARENTHESES
from penstock.language.binding.query_text import write_name
from penstock.language.functions.sql_functions import define
from penstock.language.grammar.literals import quote, word_set
from penstock.language.grammar.parse import parse_expression, parse_query, parse_statement
from penstock.language.grammar.readings import RESERVED
from penstock.language.printing import write_expression
from penstock.model.query import Query
from penstock.model.schema import Column, Stream, Table
from tests.language.conftest import Catalog

W = "[RANGE 10 s SLIDE 10 s]"
OWN = word_set("range slide offset window rows partition watermark options using lifetime emit query stream start")
SEEN = "user order group end offset left right full from limit sort watermark current_date".split()  # noqa: SIM905
WORDS = sorted((RESERVED | NO_PARENTHESES | OWN) - word_set("null true false current_path"))


class Worded(Catalog):
    """A stream and tables whose columns are words of SQL; they are called so, too."""

    def __init__(self) -> None:
        super().__init__()
        columns = tuple(Column(word, "bigint") for word in WORDS)
        struct = Column("s", f"struct<{','.join(f'{word}:bigint' for word in WORDS)}>")
        time = Column("ts", "timestamp")
        for name in ("t", *WORDS):
            self.streams.append(Stream(name, (time, struct, *columns), "ts"))
        self.tables.append(Table("u", columns))


@pytest.fixture(scope="module")
def worded() -> Worded:
    return Worded()


def bound_alike(names: Worded, text: str, word: str) -> Query:
    """Bind a text with a bare word and with the same in backquotes; both are the same, also after a restart."""
    query = bind(parse_query(text.replace("{}", word)), names, "q")
    assert query == bind(parse_query(text.replace("{}", quote(word))), names, "q"), word
    assert bind(parse_query(query.text), names, "q") == query, query.text
    return query


BOUND = f"""
SELECT {{}} , count(*) AS n FROM t {W} GROUP BY {{}}
SELECT sum( {{}} ) AS v , max( {{}} * 2 ) - min( 1 + {{}} ) AS {{}} FROM t {W} WHERE {{}} > 1 AND {{}} IS NOT NULL
SELECT sum(start) AS {{}} , count(*) AS n FROM t {W} HAVING {{}} > 1
SELECT a.{{}} AS k , sum( CASE WHEN a.{{}} > 1 THEN {{}} ELSE {{}} END ) AS v FROM t AS a {W} GROUP BY a.{{}}
SELECT {{}}.{{}} , max( {{}}.s.{{}} ) AS v FROM {{}} {W} GROUP BY {{}}.{{}}
SELECT s.{{}} , count(*) AS n FROM t {W} WHERE s.{{}} BETWEEN {{}} AND {{}} GROUP BY s.{{}} HAVING max( s.{{}} ) > 1
SELECT count(*) AS n FROM t {W} JOIN u USING ( {{}} ) WHERE u.{{}} IN ( {{}} , 2 )
SELECT {{}} , last( {{}} ) AS v FROM t [PARTITION BY {{}} ROWS 3 SLIDE 2] GROUP BY {{}}
SELECT {{}} , grouping( {{}} ) AS g , count(*) AS n FROM t {W} GROUP BY ROLLUP ( {{}} , start )
""".strip().split("\n")


@pytest.mark.parametrize("text", BOUND)
def test_a_word_of_sql_is_a_column_wherever_a_column_may_be(text: str, worded: Worded) -> None:
    for word in WORDS:
        bound_alike(worded, text, word)


@pytest.mark.parametrize("word", SEEN)
def test_names_that_were_seen_refused_are_read(word: str, worded: Worded) -> None:
    query = bind(parse_query(f"SELECT {word} FROM t {W} GROUP BY {word}"), worded, "q")
    assert [output.name for output in query.outputs] == [word]
    assert query.keys == (f"`{word}`",)


def test_a_column_comes_before_the_function_of_its_name(worded: Worded) -> None:
    for word in NO_PARENTHESES - {"current_path"}:
        query = bind(parse_query(f"SELECT max({word}) AS m FROM t {W} WHERE {word} = 1"), worded, "q")
        assert query.where == f"`{word}` = 1"
        assert str(query.aggregates[0]) == f"max(`{word}`)"


def test_without_such_a_column_the_function_is_refused_as_ever(catalog: Catalog) -> None:
    for word in NO_PARENTHESES:
        for text in (f"SELECT max({word}) FROM trades {W}", f"SELECT max(price) FROM trades {W} WHERE {word} = symbol"):
            with pytest.raises(Unsupported, match=rf"{word}\(\) is not available"):
                bind(parse_query(text), catalog, "q")
        with pytest.raises(LanguageError, match=rf"{word}\(\) is not available"):
            define(parse_statement(f"CREATE FUNCTION f(x int) RETURN {word}"), {})  # type: ignore[arg-type]


def test_in_having_an_alias_comes_before_the_function_and_in_group_by_after_it_as_in_spark(
    bound: Callable[[str], Query],
) -> None:
    assert bound(f"SELECT sum(price) AS user FROM trades {W} HAVING user > 1").having == "`a0` > 1"
    with pytest.raises(Unsupported, match=r"user\(\) is not available") as raised:
        bound(f"SELECT upper(symbol) AS user, count(*) AS n FROM trades {W} GROUP BY user")
    assert "`user`" in str(raised.value.hint)
    assert bound(f"SELECT upper(symbol) AS user, count(*) AS n FROM trades {W} GROUP BY `user`").keys == (
        "upper(`symbol`)",
    )


def test_group_by_all_is_a_column_of_that_name_or_means_all_outputs(
    bound: Callable[[str], Query], worded: Worded
) -> None:
    assert bind(parse_query(f"SELECT all, count(*) AS n FROM t {W} GROUP BY all"), worded, "q").keys == ("`all`",)
    named = bound(f"SELECT upper(symbol) AS all, count(*) AS n FROM trades {W} GROUP BY ALL")
    assert named.keys == ("upper(`symbol`)",)
    found = bound(
        f"SELECT symbol, window_end, 7 AS seven, upper(symbol) AS s, count(*) AS n FROM trades {W} GROUP BY ALL"
    )
    assert found.keys == ("`symbol`", "upper(`symbol`)")
    whole = bound(f"SELECT count(*) AS n FROM trades {W} GROUP BY ALL")
    assert (whole.keys, whole.grouped) == ((), False)


@pytest.mark.parametrize("written", ["ALL", "all", "(ALL)"])
def test_group_by_all_is_printed_so_that_it_means_all_outputs_when_it_is_read_again(
    bound: Callable[[str], Query], written: str
) -> None:
    text = f"SELECT symbol, count(*) AS n FROM trades {W} GROUP BY {written}"
    assert bound(str(parse_query(text))).keys == bound(text).keys == ("`symbol`",)
    assert parse_query(text) != parse_query(f"SELECT symbol, count(*) AS n FROM trades {W} GROUP BY `all`")


EXPRESSIONS = {
    "end - start": "`end` - start",
    "CASE WHEN end > start THEN end END": "CASE WHEN `end` > start THEN `end` END",
    "CASE end WHEN 1 THEN 2 END": "CASE `end` WHEN 1 THEN 2 END",
    "CASE WHEN when THEN then ELSE else END": "CASE WHEN `when` THEN `then` ELSE `else` END",
    "CASE when WHEN 1 THEN 2 END": "CASE `when` WHEN 1 THEN 2 END",
    "case = case": "`case` = `case`",
    "case IS NULL OR end IS NULL": "`case` IS NULL OR `end` IS NULL",
    "NOT not": "NOT `not`",
    "not AND b": "`not` AND b",
    "and AND and": "`and` AND `and`",
    "x BETWEEN and AND and": "x BETWEEN `and` AND `and`",
    "in IN (in)": "`in` IN (`in`)",
    "like LIKE like": "`like` LIKE `like`",
    "is IS NULL": "`is` IS NULL",
    "a LIKE escape": "a LIKE `escape`",
    "a LIKE any": "a LIKE `any`",
    "div DIV div": "`div` DIV `div`",
    "interval - 1": "`interval` - 1",
    "interval - interval": "`interval` - `interval`",
    "INTERVAL - 1 day": "INTERVAL '-1' DAY",
    "date - DATE '2026-01-01'": "`date` - DATE '2026-01-01'",
    "count(distinct)": "count(`distinct`)",
    "count(DISTINCT distinct)": "count(DISTINCT `distinct`)",
    "count(all, distinct)": "count(`all`, `distinct`)",
    "(select)": "`select`",
    "exists = from": "`exists` = `from`",
    "user.name = end.name": "`user`.name = `end`.name",
    "null IS NULL AND true": "NULL IS NULL AND TRUE",
    "user-defined": "user - defined",
    "order[0] + end::int": "`order`[0] + CAST(`end` AS int)",
    "left(left, 1)": "left(`left`, 1)",
    "extract(day FROM from)": "EXTRACT(DAY FROM `from`)",
    "sum(x) FILTER (WHERE where)": "sum(CASE WHEN `where` THEN x END)",
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions_over_words_of_sql_mean_what_they_mean_to_spark(text: str) -> None:
    assert write_expression(parse_expression(text)) == EXPRESSIONS[text]


STATEMENTS = """
CREATE STREAM order (end TIMESTAMP, user STRING, x STRUCT<end: INT>) USING csv WATERMARK FOR end AS end - INTERVAL 5 s
CREATE STREAM `order` (`end` timestamp, `user` string, x struct<end:int>) USING csv WATERMARK FOR `end` AS `end` - 5 s

CREATE TABLE using (using INT, options INT) USING csv OPTIONS (path 'x')
CREATE TABLE `using` (`using` int, `options` int) USING csv OPTIONS (path = 'x')

CREATE QUERY as AS SELECT a from FROM t
CREATE QUERY `as` AS SELECT a AS `from` FROM t

CREATE QUERY if AS SELECT a from, b FROM from
CREATE QUERY `if` AS SELECT a AS `from`, b FROM `from`

CREATE FUNCTION f(end int, case int) RETURN end - case
CREATE FUNCTION f(`end` int, `case` int) RETURN `end` - `case`

DROP QUERY if
DROP QUERY `if`

DROP STREAM IF EXISTS exists
DROP STREAM IF EXISTS `exists`

ALTER QUERY set SET WINDOW [RANGE 1 s SLIDE 1 s]
ALTER QUERY `set` SET WINDOW [RANGE 1 s SLIDE 1 s]

DESCRIBE STREAM left
DESCRIBE STREAM `left`

SHOW CREATE QUERY from
SHOW CREATE QUERY `from`

EXPLAIN QUERY select
EXPLAIN QUERY `select`

SELECT a as, b as FROM t
SELECT a AS `as`, b AS `as` FROM t

SELECT a and, b is FROM t
SELECT a AS `and`, b AS `is` FROM t

SELECT sum(a) over, sum(b) filter FROM t
SELECT sum(a) AS `over`, sum(b) AS `filter` FROM t

SELECT a window, b range FROM t limit
SELECT a AS `window`, b AS `range` FROM t AS `limit`

SELECT 1 FROM order o JOIN left ON o.left = left.left LEFT JOIN full USING (full) WHERE where GROUP BY group HAVING 1
SELECT 1 FROM `order` o JOIN `left` ON o.`left` = `left`.`left` LEFT JOIN `full` USING (`full`) WHERE `where` GROUP BY `group` HAVING 1
""".strip().split("\n\n")  # noqa: E501


@pytest.mark.parametrize("pair", STATEMENTS)
def test_a_statement_with_bare_names_is_that_with_quoted_ones_and_is_printed_so_that_it_is_read_again(
    pair: str,
) -> None:
    bare, quoted = map(parse_statement, pair.split("\n"))
    assert bare == quoted
    assert parse_statement(str(bare)) == bare


@given(st.sampled_from(sorted(RESERVED | NO_PARENTHESES | OWN)), st.sampled_from(sorted(RESERVED)))
def test_a_written_name_is_read_as_that_name(name: str, alias: str) -> None:
    statement = parse_query(f"SELECT {write_name(name)} AS {alias} FROM {write_name(name)} AS {write_name(alias)}")
    tree = statement.expression
    assert (tree.expressions[0].this.name, tree.expressions[0].alias) == (name, alias)
    assert (tree.args["from_"].this.name, tree.args["from_"].this.alias) == (name, alias)
    assert parse_query(str(statement)) == statement


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (f"SELECT not FROM t {W}", "not"),
        (f"SELECT distinct FROM t {W}", "distinct"),
        (f"SELECT all FROM t {W}", "all"),
        (f"SELECT a and FROM t {W}", "and"),
        (f"SELECT sum(a) over FROM t {W}", "over"),
        (f"SELECT a FROM t {W} where", "where"),
        (f"SELECT a FROM t {W} group", "group"),
        (f"SELECT a FROM t {W} having", "having"),
        (f"SELECT a FROM t {W} with", "with"),
        (f"SELECT a FROM t {W} full", "full"),
        (f"SELECT a FROM t {W} left", "left"),
        (f"SELECT a FROM t {W} WHERE x = AND b", "AND"),
        (f"SELECT a, FROM t {W}", "FROM"),
        (f"SELECT a FROM t {W} WHERE (select is null)", "select"),
    ],
)
def test_what_cannot_be_read_as_a_name_says_to_quote_it(text: str, word: str) -> None:
    with pytest.raises(LanguageError) as raised:
        parse_query(text)
    assert f"`{word}`" in (raised.value.hint or ""), raised.value


def test_an_error_after_a_name_that_is_a_word_of_sql_stays_where_it_is() -> None:
    for text, found in (
        (f"SELECT order FROM t {W} WHERE x >", "the end"),
        (f"SELECT sum(end) FROM t {W} GROUP BY group HAVING n > )", '")"'),
        (f"SELECT end AS x FROM t {W} WHERE end IS 5", '"5"'),
    ):
        with pytest.raises(MalformedSQL, match=re.escape(f"found {found}")):
            parse_query(text)


def test_a_word_that_is_no_column_is_unknown(bound: Callable[[str], Query]) -> None:
    with pytest.raises(UnknownColumn, match='no column "order"'):
        bound(f"SELECT sum(order) FROM trades {W}")


def test_many_names_that_may_be_both_are_read() -> None:
    for one in ("interval - interval", "case and case", "case end", "end is null"):
        items = ", ".join([one] * 400)
        assert len(parse_query(f"SELECT {items} FROM t {W}").expression.expressions) == 400
