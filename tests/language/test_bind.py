"""Binding: the papers' queries, names, joins, groups, and errors as users see them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog import Catalog
from penstock.errors import AmbiguousColumn, LanguageError, PenstockError, UnknownFunction, Unsupported
from penstock.language.binding.bind import bind
from penstock.language.binding.functions import AGGREGATES, SCALAR
from penstock.language.grammar.parse import parse_query
from penstock.model.query import Aggregate, Output, Query
from penstock.model.schema import Column, Stream
from penstock.model.window import Window
from penstock.store.changes import ChangeLog

Bound = Callable[[str], Query]
TWO_STREAMS = "a query cannot join two streams by itself"
W = "[RANGE 10 s SLIDE 1 s]"
MINUTE = 60_000_000


# Krishnamurthy, Wu and Franklin (2006): queries 1, 3 and 4.


def test_the_first_query_of_the_paper(bound: Bound) -> None:
    query = bound(
        """
        SELECT  sum(T.price * T.volume)
        FROM    Trades T [RANGE '12 min' SLIDE '5 min']
        WHERE   T.volume > 50000
        """
    )
    assert query == Query(
        name="q",
        text=(
            "SELECT sum(price * volume) AS `sum(price * volume)` FROM trades [RANGE 12 min SLIDE 5 min] "
            "WHERE volume > 50000"
        ),
        stream="trades",
        window=Window(12 * MINUTE, 5 * MINUTE),
        joins=(),
        where="`volume` > 50000",
        keys=(),
        aggregates=(Aggregate("sum", ("`price` * `volume`",)),),
        outputs=(Output("sum(price * volume)", "`a0`"),),
        having=None,
        grouped=False,
    )


def test_the_third_query_of_the_paper_needs_its_user_function(bound: Bound) -> None:
    text = "SELECT sum(T.price * T.volume)\nFROM Trades T [RANGE '5 min' SLIDE '5 min']\nWHERE (T.volume > 100) AND {}"
    assert bound(text.format("startswith(T.symbol, 'M')")).where == "`volume` > 100 AND startswith(`symbol`, 'M')"
    with pytest.raises(UnknownFunction) as raised:
        bound(text.format("midcaps(T.symbol)"))
    assert str(raised.value) == (
        'error[UnknownFunction]: there is no function "midcaps"\n'
        "  WHERE (T.volume > 100) AND midcaps(T.symbol)\n"
        "                             ^^^^^^^\n"
        'hint: Did you mean "map"?'
    )


def test_the_fourth_query_of_the_paper_joins_with_commas(bound: Bound) -> None:
    query = bound(
        """
        SELECT sum(T.price * T.vol)
        FROM Trades T[RANGE 600 s SLIDE 300 s],Close C,Index X
        WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol AND X.sector = 'x' AND T.price / C.close > 1.1
        """
    )
    close, index = query.joins
    assert (close.table, close.kind, close.stream_keys, close.table_keys) == (
        "Close",
        "inner",
        ("`symbol`",),
        ("`Symbol`",),
    )
    assert (index.table, index.stream_keys) == ("Index", ("`symbol`",))
    assert query.where == f"`{index.id}.sector` = 'x' AND `price` / `{close.id}.close` > 1.1"
    assert query.text == (
        "SELECT sum(trades.price * trades.vol) AS `sum(price * vol)` FROM trades [RANGE 10 min SLIDE 5 min] "
        "JOIN Close ON trades.symbol = Close.Symbol JOIN `Index` ON trades.symbol = `Index`.Symbol "
        "WHERE `Index`.sector = 'x' AND trades.price / Close.close > 1.1"
    )


def test_the_query_of_the_design(bound: Bound) -> None:
    query = bound(
        """
        SELECT symbol, sum(price * volume) AS value, count(*) AS n
        FROM trades [RANGE 12 MIN SLIDE 5 MIN] JOIN listing USING (symbol)
        WHERE volume > 50000 AND listing.r2000
        GROUP BY symbol HAVING n > 10
        """
    )
    [join] = query.joins
    assert join.id.startswith("listing#")
    assert len(join.id) == len("listing#") + 6
    assert query.where == f"`volume` > 50000 AND `{join.id}.r2000`"
    assert query.keys == ("`symbol`",)
    assert query.outputs == (Output("symbol", "`k0`"), Output("value", "`a0`"), Output("n", "`a1`"))
    assert (query.having, query.grouped) == ("`a1` > 10", True)


# Everything the papers and the design write parses; what nothing answers yet is refused by name when it is bound.

K06, G06, S07 = (
    "Krishnamurthy, Wu and Franklin (2006)",
    "Golab, Bijay and Özsu (2006)",
    "Sharaf (2007)",
)
WRITTEN = [
    (f"{K06} 2.1, query 1", "SELECT sum(T.price * T.volume) FROM Trades T [RANGE '12 min' SLIDE '5 min'] "
     "WHERE T.volume > 50000", None),
    (f"{K06} 3, query 2", "SELECT sum(T.price * T.volume) FROM Trades T [RANGE '18 s' SLIDE '15 s']", None),
    (f"{K06} 4.1, query 3", "SELECT sum(T.price * T.volume) FROM Trades T [RANGE '5 min' SLIDE '5 min'] "
     "WHERE (T.volume > 100) AND midcap(T.symbol)", 'there is no function "midcap"'),
    (f"{K06} 6.1, query 4", "SELECT sum(T.price * T.vol) FROM Trades T[RANGE 600 s SLIDE 300 s],Close C,Index X "
     "WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol AND NOT X.sector = 'R2000' "
     "AND abs(T.Price-C.close)/C.close > 0.05", None),
    (f"{K06} 2.1, on demand", "SELECT sum(T.price) FROM Trades T [RANGE '12 min']",
     "a continuous query needs SLIDE in its window"),
    (f"{G06} 1, Q1", "SELECT MEDIAN(price) FROM trades [WINDOW 10 min SLIDE 2 min]", None),
    (f"{G06} 1, Q2", "SELECT MEDIAN(price) FROM trades [WINDOW 14 min SLIDE 3 min]", None),
    (f"{G06} 2.1, aggregates", "SELECT SUM(price), COUNT(price), AVG(price), MAX(price), MIN(price) "
     "FROM trades [WINDOW 8 min SLIDE 1 min] WHERE volume > 1 GROUP BY symbol", None),
    (f"{G06} 2.1, COUNT DISTINCT", "SELECT COUNT(DISTINCT symbol) FROM trades [WINDOW 8 min SLIDE 1 min]", None),
    (f"{G06} 2.1, PERCENTILE", "SELECT PERCENTILE(price, 0.9) FROM trades [WINDOW 8 min SLIDE 1 min]", None),
    (f"{G06} 2.1, TOP k", "SELECT TOP(10, symbol) FROM trades [WINDOW 8 min SLIDE 1 min]", None),
    *((f"{G06} 4.2, Q{n}", f"SELECT MAX(price) FROM trades [WINDOW {w} min SLIDE {s} min]", None)
      for n, (w, s) in enumerate([(10, 2), (5, 2), (6, 2), (15, 3), (12, 3), (20, 5), (30, 5)], 1)),
    (f"{S07} 2.2, tuples", "SELECT avg(price) FROM trades [ROWS 100 SLIDE 1]", None),
    (f"{S07} 2.2, a window join", "SELECT * FROM trades [RANGE 5 s] JOIN quotes [RANGE 5 s] USING (symbol)",
     "a query cannot join two streams by itself"),
    ("Guirguis et al. (2011) 2", "SELECT avg(price) FROM trades [RANGE 1 hr SLIDE 30 min]", None),
    ("Guirguis et al. (2011) 1", "SELECT avg(volume) FROM trades [RANGE 24 hours SLIDE 1 hour]", None),
    ("the design 3", "SELECT symbol, sum(price * volume) AS value, count(*) AS n "
     "FROM trades [RANGE 12 MIN SLIDE 5 MIN] JOIN listing USING (symbol) WHERE volume > 50000 AND listing.r2000 "
     "GROUP BY symbol HAVING n > 10 WITH (priority = 2, deadline = '5 s', lifetime = '8 h', emit = 'exact')",
     None),
    ("the design 4", "SELECT max(price) FROM trades [RANGE 10 MIN]", "a continuous query needs SLIDE in its window"),
    ("Babcock et al. (2004) 2", "SELECT symbol, price FROM trades WHERE price > 10", None),
]  # fmt: skip


@pytest.mark.parametrize(("where", "text", "refusal"), WRITTEN, ids=[where for where, _, _ in WRITTEN])
def test_every_query_of_the_papers_parses_and_prints_back(
    bound: Bound, where: str, text: str, refusal: str | None
) -> None:
    select = parse_query(text)
    assert parse_query(str(select)) == select, where
    if refusal is None:
        bound(text)
        return
    with pytest.raises(PenstockError) as raised:
        bound(text)
    assert raised.value.what == refusal
    assert raised.value.hint or raised.value.detail


# Names.


def test_names_are_found_in_any_case_and_written_as_the_catalog_does(bound: Bound) -> None:
    query = bound(f"select MAX(PRICE) as M from TRADES {W} where Symbol = 'A'")
    assert (query.stream, query.where, query.outputs[0].name) == ("trades", "`symbol` = 'A'", "M")


def test_two_spellings_of_one_query_are_equal(bound: Bound) -> None:
    one = bound(f"SELECT symbol, sum(price) s FROM trades {W} WHERE ((volume) > 5) GROUP BY symbol")
    two = bound(
        "select T.SYMBOL, Sum((t.price)) as s from Trades as t[window 10000 ms slide '1 s'] where t.volume>5 group by 1"
    )
    assert one == two


def test_the_same_join_has_the_same_id_in_every_query(bound: Bound) -> None:
    texts = [
        f"SELECT count(*) FROM trades {W} JOIN listing USING (symbol)",
        f"SELECT count(*) FROM trades t {W} LEFT OUTER JOIN listing l ON l.symbol = t.symbol",
        f"SELECT count(*) FROM trades {W}, listing l WHERE trades.symbol = l.symbol AND volume > 1",
    ]
    assert len({bound(text).joins[0].id for text in texts}) == 1
    other = bound(f"SELECT count(*) FROM trades {W} JOIN listing ON trades.symbol = listing.sector")
    assert other.joins[0].id != bound(texts[0]).joins[0].id


def test_the_order_of_join_keys_does_not_matter(bound: Bound) -> None:
    keys = ("trades.symbol = listing.symbol", "upper(trades.symbol) = listing.sector")
    one, two = (
        bound(f"SELECT count(*) FROM trades {W} JOIN listing ON {a} AND {b}") for a, b in (keys, reversed(keys))
    )
    assert one == two
    assert one.joins[0].table_keys == ("`sector`", "`symbol`")


def test_using_makes_two_columns_one_and_a_third_ambiguous(bound: Bound) -> None:
    using = (
        f"SELECT count(*) n FROM trades {W} JOIN listing USING (symbol) JOIN Index x USING (symbol) WHERE symbol > 'a'"
    )
    assert bound(using).where == "`symbol` > 'a'"
    with pytest.raises(AmbiguousColumn) as raised:
        bound(using.replace("x USING (symbol)", "x ON x.symbol = listing.symbol"))
    assert raised.value.what == 'column "symbol" is in "trades", "x"'


def test_one_table_joined_twice_has_two_ids(bound: Bound) -> None:
    query = bound(
        f"SELECT count(*) FROM trades t {W} JOIN listing a USING (symbol) LEFT JOIN listing b ON t.symbol = b.symbol "
        "WHERE a.r2000 AND NOT b.r2000"
    )
    first, second = query.joins
    assert second.id == f"{first.id}-2"
    assert query.where == f"`{first.id}.r2000` AND NOT `{second.id}.r2000`"


def test_a_later_table_may_join_an_earlier_one(bound: Bound) -> None:
    query = bound(
        f"SELECT sum(x.weight) FROM trades t {W} JOIN listing l USING (symbol) LEFT JOIN Index x ON l.sector = x.sector"
    )
    assert query.joins[1].stream_keys == (f"`{query.joins[0].id}.sector`",)


def test_conditions_of_an_inner_join_go_before_where(bound: Bound) -> None:
    query = bound(
        f"SELECT count(*) FROM trades {W} JOIN listing l ON trades.symbol = l.symbol AND l.r2000 AND volume > 1 "
        "WHERE price > 2"
    )
    assert query.where == f"`{query.joins[0].id}.r2000` AND `volume` > 1 AND `price` > 2"


def test_a_guarded_equality_is_not_a_join_key(bound: Bound) -> None:
    query = bound(
        f"SELECT count(*) FROM trades t {W}, Close c "
        "WHERE t.symbol = c.symbol AND t.volume <> 0 AND t.price / t.volume = c.close"
    )
    assert query.joins[0].stream_keys == ("`symbol`",)
    assert query.where == f"`volume` <> 0 AND `price` / `volume` = `{query.joins[0].id}.close`"


def test_conjuncts_of_where_keep_their_order(bound: Bound) -> None:
    query = bound(f"SELECT count(*) FROM trades {W} WHERE vol <> 0 AND (price / vol > 1 AND (volume > 1 OR price > 1))")
    assert query.where == "`vol` <> 0 AND `price` / `vol` > 1 AND (`volume` > 1 OR `price` > 1)"


# SELECT, GROUP BY, HAVING.


def test_equal_aggregates_share_a_placeholder(bound: Bound) -> None:
    query = bound(f"SELECT sum(price) / count(*) AS m, 2 * SUM((price)) AS d FROM trades {W} HAVING count(1) > 3")
    assert query.aggregates == (Aggregate("sum", ("`price`",)), Aggregate("count", ()))
    assert [o.expression for o in query.outputs] == ["`a0` / `a1`", "2 * `a0`"]
    assert query.having == "`a1` > 3"


@pytest.mark.parametrize(
    ("written", "canonical"),
    [("mean", "avg"), ("variance", "var_samp"), ("stddev", "stddev_samp"), ("std", "stddev_samp"), ("Max", "max")],
)
def test_an_aggregate_has_one_name(bound: Bound, written: str, canonical: str) -> None:
    query = bound(f"SELECT {written}(price) FROM trades {W}")
    assert query.aggregates == (Aggregate(canonical, ("`price`",)),)
    assert query.outputs[0].name == f"{written.lower()}(price)"


@pytest.mark.parametrize("group", ["upper(symbol)", "1", "u", "U", "UPPER((trades.symbol)), 1"])
def test_groups_are_expressions_positions_or_aliases(bound: Bound, group: str) -> None:
    query = bound(
        f"SELECT upper(symbol) AS u, concat(Upper(symbol), '!') AS x, count(*) n FROM trades {W} GROUP BY {group}"
    )
    assert query.keys == ("upper(`symbol`)",)
    assert [o.expression for o in query.outputs] == ["`k0`", "concat(`k0`, '!')", "`a0`"]


def test_a_column_goes_before_an_alias_in_group_by(bound: Bound) -> None:
    query = bound(f"SELECT max(vol) AS vol2, symbol AS s FROM trades {W} GROUP BY symbol")
    assert query.keys == ("`symbol`",)
    assert bound(f"SELECT count(*) AS price FROM trades {W} GROUP BY price").keys == ("`price`",)


def test_having_takes_an_alias_before_an_ungrouped_column(bound: Bound) -> None:
    query = bound(
        f"SELECT symbol AS vol, sum(vol) AS s FROM trades {W} GROUP BY symbol HAVING vol > 'a' AND sum(vol) > 1"
    )
    assert query.having == "`k0` > 'a' AND `a0` > 1"
    grouped = bound(f"SELECT max(vol) AS symbol FROM trades {W} GROUP BY symbol HAVING symbol = 'a'")
    assert grouped.having == "`k0` = 'a'"


def test_an_alias_may_hide_the_column_it_is_made_of(bound: Bound) -> None:
    query = bound(
        f"SELECT upper(symbol) AS symbol, count(*) AS n FROM trades {W} GROUP BY upper(symbol) HAVING symbol > 'a'"
    )
    assert query.having == "`k0` > 'a'"


def test_fields_and_elements_can_be_grouped(bound: Bound) -> None:
    query = bound(f"SELECT s.a, tags[0] AS t, max(s.a) AS m FROM trades {W} GROUP BY s.a, tags[0]")
    assert query.keys == ("`s`.`a`", "`tags`[0]")
    assert [o.name for o in query.outputs] == ["a", "t", "m"]


def test_groups_without_aggregates_are_a_query(bound: Bound) -> None:
    query = bound(f"SELECT symbol FROM trades {W} GROUP BY symbol, volume")
    assert (query.keys, query.aggregates, query.grouped) == (("`symbol`", "`volume`"), (), True)


def test_window_columns_are_always_there_and_need_not_be_selected(bound: Bound) -> None:
    assert bound(f"SELECT window_start, WINDOW_END, max(price) m FROM trades {W}").outputs == (Output("m", "`a0`"),)


def test_columns_with_the_names_of_keywords_are_quoted(bound: Bound) -> None:
    query = bound(f"SELECT `user` AS `group by`, count(*) AS `select` FROM quotes {W} GROUP BY `user`")
    assert query.text == (f"SELECT `user` AS `group by`, count(*) AS `select` FROM quotes {W} GROUP BY `user`")


# Errors, as users see them.


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (
            f"SELECT avg(prise) FROM trades {W}",
            'error[UnknownColumn]: stream "trades" has no column "prise"\n'
            "  SELECT avg(prise) FROM trades [RANGE 10 s SLIDE 1 s]\n"
            "             ^^^^^\n"
            'hint: Did you mean "price"?',
        ),
        (
            f"SELECT avg(t.zzz) FROM trades t {W} JOIN listing USING (symbol)",
            'error[UnknownColumn]: stream "trades" has no column "zzz"\n'
            "  SELECT avg(t.zzz) FROM trades t [RANGE 10 s SLIDE 1 s] JOIN listing USING (symbol)\n"
            "               ^^^\n"
            "detail: existing columns: symbol, price, volume, vol, ts, s, tags",
        ),
        (
            f"SELECT avg(zzz) FROM trades {W} JOIN listing USING (symbol)",
            'error[UnknownColumn]: no column "zzz" in "trades", "listing"\n'
            "  SELECT avg(zzz) FROM trades [RANGE 10 s SLIDE 1 s] JOIN listing USING (symbol)\n"
            "             ^^^\n"
            "detail: existing columns: symbol, price, volume, vol, ts, s, tags, symbol, r2000, sector",
        ),
        (
            f"SELECT price, max(volume) FROM trades {W}",
            'error[LanguageError]: column "price" is neither grouped nor aggregated\n'
            "  SELECT price, max(volume) FROM trades [RANGE 10 s SLIDE 1 s]\n"
            "         ^^^^^\n"
            "hint: Add it to GROUP BY, or aggregate it: max(price).",
        ),
        (
            f"SELECT stddev(DISTINCT price) FROM trades {W}",
            "error[Unsupported]: stddev(DISTINCT …) is not available\n"
            "  SELECT stddev(DISTINCT price) FROM trades [RANGE 10 s SLIDE 1 s]\n"
            "                ^^^^^^^^",
        ),
        (
            f"SELECT count(*) FROM tradez {W}",
            'error[UnknownStream]: there is no stream "tradez"\n'
            "  SELECT count(*) FROM tradez [RANGE 10 s SLIDE 1 s]\n"
            "                       ^^^^^^\n"
            'hint: Did you mean "trades"?',
        ),
        (
            f"SELECT max(sector) FROM trades {W}\nJOIN listing l USING (symbol) JOIN Index USING (symbol)",
            'error[AmbiguousColumn]: column "sector" is in "l", "Index"\n'
            "  SELECT max(sector) FROM trades [RANGE 10 s SLIDE 1 s]\n"
            "             ^^^^^^\n"
            "hint: Write l.sector.",
        ),
    ],
)
def test_an_error_is_printed_with_its_place(bound: Bound, text: str, printed: str) -> None:
    with pytest.raises(PenstockError) as raised:
        bound(text)
    assert str(raised.value) == printed


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT * FROM trades @", "SELECT * is not available"),
        ("SELECT trades.* FROM trades @", "SELECT * is not available"),
        ("SELECT sum(*) FROM trades @", 'only count takes "*"'),
        ("SELECT price FROM trades @", "queries without an aggregate are not available"),
        ("SELECT DISTINCT 1 AS one FROM trades @", "queries without an aggregate are not available"),
        ("SELECT count(*) FROM trades @ SORT BY 1", "SORT BY clauses are not available"),
        ("SELECT count(*) FROM trades @ QUALIFY 1", "QUALIFY clauses are not available"),
        ("SELECT count(*) FROM trades @ UNION ALL SELECT 1", "UNION, EXCEPT and INTERSECT are not available"),
        ("WITH x AS (SELECT 1) SELECT 1 FROM x", "common table expressions (WITH) are not available"),
        ("SELECT count(*) FROM trades @ WITH (on_error = 'null')", "option on_error = 'null' is not supported yet"),
        ("SELECT count(*) FROM trades WHERE price > 5", "an aggregate without a window is not available"),
        ("SELECT symbol FROM trades GROUP BY symbol", "GROUP BY without a window is not available"),
        ("SELECT symbol FROM trades HAVING price > 1", "HAVING without a window is not available"),
        ("SELECT symbol FROM trades WITH (emit = 'fresh')", "option emit of a query without a window is not available"),
        ("SELECT symbol FROM trades WITH (late = 'revise')", "option late = 'revise' needs revise_for"),
        ("SELECT price AS late FROM trades", 'two outputs are called "late"'),
        (
            "SELECT count(*) FROM trades @ WITH (explode = true)",
            "option explode of a query with a window is not available",
        ),
        ("SELECT count(*) FROM trades [RANGE 5 s]", "a continuous query needs SLIDE in its window"),
        ("SELECT count(*) FROM trades [ROWS 5]", "a continuous query needs SLIDE in its window"),
        (
            "SELECT count(*) FROM trades [ROWS 5 SLIDE 2] WITH (late = 'revise', revise_for = '1 s')",
            "option late of a query with a window of rows is not available",
        ),
        (
            "SELECT count(*) FROM trades [ROWS 5 SLIDE 2] WITH (from = 'beginning')",
            "option from of a query with a window of rows is not available",
        ),
        ("SELECT count(*) FROM trades @, quotes @ WHERE trades.symbol = quotes.symbol", TWO_STREAMS),
        ("SELECT count(*) FROM trades @ JOIN trades t @ USING (symbol)", TWO_STREAMS),
        ("SELECT stddev(DISTINCT price) FROM trades @", "stddev(DISTINCT …) is not available"),
        ("SELECT median(DISTINCT price) FROM trades @", "median(DISTINCT …) is not available"),
        ("SELECT listagg(symbol, symbol) FROM trades @", "this must be a text that is written out"),
        ("SELECT bit_xor(DISTINCT volume) FROM trades @", "bit_xor(DISTINCT …) is not available"),
        ("SELECT count(*) FROM (SELECT 1)", "subqueries in FROM are not available"),
        ("SELECT count(*) FROM trades @ WHERE price IN (SELECT 1)", "subqueries are not available"),
        (
            "SELECT count(*) FROM trades @ LATERAL VIEW explode(tags)",
            "LATERAL VIEW and lateral joins are not available",
        ),
        ("SELECT count(*) FROM trades @ CROSS JOIN listing", "CROSS joins are not available"),
        ("SELECT count(*) FROM trades @ FULL OUTER JOIN listing", "FULL joins are not available"),
        ("SELECT count(*) FROM trades @ RIGHT JOIN listing", "RIGHT joins are not available"),
        ("SELECT count(*) FROM trades @ NATURAL JOIN listing", "NATURAL joins are not available"),
        ("SELECT count(*) FROM trades @ LEFT ANTI JOIN listing", "ANTI joins are not available"),
        ("SELECT count(*) FROM trades @ JOIN quotes @ USING (symbol)", "a query cannot join two streams by itself"),
        ("SELECT count(*) FROM trades @ JOIN listing @ USING (symbol)", "windows on tables are not available"),
        ("SELECT count(*) FROM listing", "queries that begin with a table are not available"),
        ("SELECT count(*) FROM trades @, listing", 'joins without an equality (of "listing") are not available'),
        (
            "SELECT count(*) FROM trades @ JOIN listing l ON l.r2000",
            'joins without an equality (of "l") are not available',
        ),
        (
            "SELECT count(*) FROM trades @ LEFT JOIN listing l ON trades.symbol = l.symbol AND l.r2000",
            "conditions of a LEFT JOIN other than equality are not available",
        ),
        ("SELECT count(*) FROM trades @ JOIN lissting USING (symbol)", 'there is no table "lissting"'),
        ("SELECT count(*) FROM trades @ JOIN listing trades USING (symbol)", '"trades" is used twice'),
        (
            "SELECT count(*) FROM trades @ GROUP BY symbol GROUPING SETS ((symbol))",
            "GROUPING SETS after a list of expressions are not available",
        ),
        ("SELECT 7, count(*) FROM trades @ GROUP BY ALL", "grouping by a constant is not available"),
        ("SELECT volume + count(*) FROM trades @ GROUP BY ALL", 'column "volume" is neither grouped nor aggregated'),
        (
            "SELECT count(*) FROM trades [RANGE 1 DAY SLIDE 1 DAY TIME ZONE 'Europe/Berlin']",
            "windows in a time zone are not available",
        ),
        ("SELECT count(*) FROM trades @ GROUP BY 2", "GROUP BY 2: there are 1 outputs"),
        ("SELECT count(*) FROM trades @ GROUP BY 1", "aggregates are not allowed in GROUP BY"),
        ("SELECT count(*) FROM trades @ GROUP BY 'x'", "grouping by a constant is not available"),
        ("SELECT count(*) FROM trades @ GROUP BY window_end", '"window_end" inside an expression is not available'),
        ("SELECT window_end AS t, count(*) FROM trades @", "an alias for window_end is not available"),
        ("SELECT max(window_end) FROM trades @", '"window_end" inside an expression is not available'),
        ("SELECT window_end FROM trades @ GROUP BY symbol", "the query selects nothing besides its window"),
        ("SELECT count(*) AS window_end FROM trades @", 'two outputs are called "window_end"'),
        ("SELECT sum(price), SUM(price) FROM trades @", 'two outputs are called "sum(price)"'),
        ("SELECT sum(sum(price)) FROM trades @", "an aggregate inside an aggregate is not allowed"),
        ("SELECT sum(price) FROM trades @ WHERE count(*) > 1", "aggregates are not allowed in WHERE"),
        ("SELECT sum(price, vol) FROM trades @", "sum() takes one argument, found 2"),
        ("SELECT count() FROM trades @", "count() takes one argument, found 0"),
        ("SELECT product(price) FROM trades @", "product() is not available yet"),
        ("SELECT grouping(DISTINCT symbol) FROM trades @ GROUP BY symbol", "grouping(DISTINCT …) is not available"),
        ("SELECT sum(rand()) FROM trades @", "rand() is not available"),
        ("SELECT sum(price) FROM trades @ WHERE ts < now()", "now() is not available"),
        ("SELECT sum(price) FROM trades @ WHERE ts < current_date", "current_date() is not available"),
        ("SELECT java_method('java.lang.System', 'exit', 1), count(*) FROM trades @", "java_method() is not available"),
        ("SELECT explode(tags), count(*) FROM trades @", "explode() is not available"),
        ("SELECT sum(x) OVER (ORDER BY y) FROM trades @", "window functions (OVER) are not available"),
    ],
)
def test_what_penstock_does_not_do_is_refused_by_name(bound: Bound, text: str, what: str) -> None:
    text = text.replace("@", W)
    with pytest.raises(PenstockError) as raised:
        bound(text)
    assert raised.value.what == what
    assert raised.value.place is not None
    assert raised.value.text == text


def test_a_star_that_gives_a_name_twice_says_what_to_write_in_its_place(bound: Bound) -> None:
    text = "SELECT * FROM trades JOIN listing l ON trades.symbol = l.symbol"
    with pytest.raises(PenstockError) as raised:
        bound(text)
    assert raised.value.what == 'two outputs are called "symbol"'
    assert raised.value.place == (7, 8)
    assert raised.value.hint is not None
    assert raised.value.hint.endswith("in place of *, this one with another name: symbol AS symbol_of_row.")


def test_the_longest_list_of_columns_is_cut(bound: Bound) -> None:
    text = f"SELECT max(qqq) FROM trades {W} " + " ".join(
        f"JOIN Index i{n} ON trades.symbol = i{n}.symbol" for n in range(6)
    )
    with pytest.raises(PenstockError) as raised:
        bound(text)
    assert raised.value.detail is not None
    assert raised.value.detail.count(",") == 20
    assert raised.value.detail.endswith(", …")


def test_no_function_is_both_scalar_and_aggregate() -> None:
    assert not SCALAR & AGGREGATES
    assert not SCALAR & {"reflect", "java_method", "rand", "uuid", "now", "current_user", "raise_error", "explode"}


def test_a_look_alike_letter_is_another_column(bound: Bound) -> None:
    with pytest.raises(PenstockError, match="has no column"):
        bound(f"SELECT max(`pri\u0441e`) FROM trades {W}")
    with pytest.raises(PenstockError, match="stands outside of quotes"):
        bound(f"SELECT max(pri\u0441e) FROM trades {W}")


# Round trip.

LEAVES = st.sampled_from(
    ["price", "Volume", "trades.vol", "5", "-2.5", "1L", "s.a", "NULL", r"'it''s \\ ${x}'", "`ts`"]
)
OPERATORS = st.sampled_from(["+", "-", "*", "/", "%", "DIV", "||", "&", "|", "^"])
FUNCTIONS = st.sampled_from(["abs", "Upper", "- ", "coalesce", "~"])
SCALARS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds("({} {} {})".format, inner, OPERATORS, inner) | st.builds("{}({})".format, FUNCTIONS, inner)
    ),
    max_leaves=4,
)
TESTS = st.builds(
    "{} {} {}".format, SCALARS, st.sampled_from(["=", "<", ">=", "<>", "<=>", "!="]), SCALARS
) | st.builds(
    "{} {}".format,
    SCALARS,
    st.sampled_from(["IS NULL", "NOT IN (1, 2)", "BETWEEN 1 AND vol", "LIKE 'a\\%'", "IS NOT TRUE"]),
)
CONDITIONS = st.recursive(
    TESTS,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner) | st.builds("NOT {}".format, inner)
    ),
    max_leaves=5,
)
TOTALS = st.builds("{}({})".format, st.sampled_from(["sum", "MAX", "mean", "count", "stddev"]), SCALARS) | st.just(
    "count(*)"
)
FROMS = st.sampled_from(
    [
        "trades [RANGE 7 s SLIDE 3 s OFFSET 1 s]",
        "Trades [WINDOW 1 h SLIDE '90 s'] JOIN listing USING (symbol)",
        "trades [RANGE 1 d SLIDE 1 h] LEFT JOIN listing l ON trades.symbol = l.symbol "
        "JOIN Index x ON l.sector = x.sector",
        "trades [RANGE 1 s SLIDE 1 ms] JOIN listing a USING (symbol) "
        "JOIN listing b ON upper(trades.symbol) = b.symbol AND b.r2000",
    ]
)


@st.composite
def queries(draw: st.DrawFn) -> str:
    keys = draw(st.lists(SCALARS.filter(lambda s: not s.lstrip("-").replace(".", "").isdigit()), max_size=2))
    totals = draw(
        st.lists(st.builds("{} {} {}".format, TOTALS, st.sampled_from(["+", "/", "-"]), TOTALS) | TOTALS, max_size=3)
    )
    items = [f"{key} AS k_{n}" for n, key in enumerate(keys)] + [
        f"{total} AS `a {n}`" for n, total in enumerate(totals)
    ]
    source, groups = draw(FROMS), [str(n) if draw(st.booleans()) else key for n, key in enumerate(keys, 1)]
    if draw(st.booleans()):  # as Spark writes windows
        source = re.sub(r"\[.*?\]", "", source)
        groups.insert(draw(st.integers(0, len(groups))), f"window(trades.ts, '7 s', '{draw(st.integers(1, 7))} s')")
        items += draw(
            st.lists(st.sampled_from(["window", "window.start", "unix_seconds(window.end) + 1 AS e"]), max_size=1)
        )
    text = f"SELECT {', '.join(items) or 'count(*)'} FROM {source}"
    if draw(st.booleans()):
        text += f" WHERE {draw(CONDITIONS)}"
    if groups:
        text += f" GROUP BY {', '.join(groups)}"
    if draw(st.booleans()):
        text += f" HAVING {draw(TOTALS)} > 1 OR {'k_0' if keys else 'count(*)'} IS NOT NULL"
    return text


@given(queries())
def test_canonical_text_binds_to_an_equal_query(bound: Bound, text: str) -> None:
    try:
        query = bound(text)
    except (Unsupported, PenstockError) as error:
        # Only constants cannot be grouped by, and struct fields of a key need the key.
        assert "constant" in error.what or "neither grouped" in error.what, text  # noqa: PT017
        return
    assert "${" not in query.text


def test_binding_keeps_the_name(catalog: object) -> None:
    query = bind(parse_query(f"SELECT count(*) FROM trades {W}"), catalog, "mine")  # type: ignore[arg-type]
    assert query.name == "mine"
    assert str(query) == query.text


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT quantile(price) AS x FROM trades @", 'Did you mean "percentile"?'),
        ("SELECT count(*) AS n FROM trades WINDOW 1 DAY", "in brackets: trades [RANGE 1 DAY SLIDE 1 DAY]"),
        ("SELECT count(*) AS n FROM TUMBLE(trades, ts)", "in brackets: trades [RANGE 1 DAY SLIDE 1 DAY]"),
        ("SELECT id.orig_h AS h, count(*) AS n FROM dns @ GROUP BY h", "in backquotes: `id.orig_h`"),
        ("SELECT dns.id.orig_h AS h, count(*) AS n FROM dns @ GROUP BY h", "in backquotes: `id.orig_h`"),
        ('SELECT count(*) AS n FROM dns @ GROUP BY "id.orig_h"', "in backquotes: `id.orig_h`"),
        ("SELECT `id.orig_h`, count(*) AS n FROM dns @", "max(`id.orig_h`)"),
        ("SELECT `id.orig_h` AS host, count(*) AS n FROM dns @ GROUP BY host", "write GROUP BY `id.orig_h`"),
    ],
)
def test_a_hint_can_be_written_as_it_stands(text: str, hint: str) -> None:
    catalog, price = Catalog(ChangeLog(None)), Column("price", "double")
    names = ("ts", "uid", "id.orig_h", "host")
    columns = tuple(Column(name, "timestamp" if name == "ts" else "string") for name in names)
    for stream in (Stream("dns", columns, "ts"), Stream("trades", (columns[0], price), "ts")):
        catalog.create_stream(stream)
    with pytest.raises(LanguageError) as raised:
        bind(parse_query(text.replace("@", W)), catalog, "q")
    assert hint in (raised.value.hint or "")
