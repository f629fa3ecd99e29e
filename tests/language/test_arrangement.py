"""DISTINCT, ORDER BY, LIMIT and OFFSET: what names mean in them, how they are written back, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from penstock.errors import LanguageError, Unsupported
from penstock.language.grammar.parse import parse_query
from penstock.model.query import Query, SortKey

Bound = Callable[[str], Query]
W = "[RANGE 10 s SLIDE 1 s]"
BY_SYMBOL = f"SELECT symbol, sum(volume) AS n FROM trades {W} GROUP BY symbol"


@pytest.mark.parametrize(
    ("written", "canonical", "order"),
    [
        ("ORDER BY n", "ORDER BY n", [SortKey("`a0`")]),
        ("ORDER BY 2 DESC", "ORDER BY n DESC", [SortKey("`a0`", True, False)]),
        ("order by SYMBOL asc nulls last", "ORDER BY symbol NULLS LAST", [SortKey("`k0`", False, False)]),
        ("ORDER BY sum(volume) DESC NULLS FIRST", "ORDER BY n DESC NULLS FIRST", [SortKey("`a0`", True, True)]),
        ("ORDER BY n % 7, n", "ORDER BY sum(trades.volume) % 7, n", [SortKey("`a0` % 7"), SortKey("`a0`")]),
        ("ORDER BY max(price) DESC", "ORDER BY max(trades.price) DESC", [SortKey("`a1`", True, False)]),
        ("ORDER BY upper(symbol)", "ORDER BY upper(trades.symbol)", [SortKey("upper(`k0`)")]),
        ("ORDER BY n, n DESC, 2", "ORDER BY n", [SortKey("`a0`")]),
        ("ORDER BY window_end, n", "ORDER BY n", [SortKey("`a0`")]),
        ("LIMIT 10 OFFSET 5", "LIMIT 10 OFFSET 5", []),
        ("LIMIT ALL", "", []),
        ("ORDER BY window_start", "", []),
    ],
)
def test_order_by_takes_outputs_before_columns(
    bound: Bound, written: str, canonical: str, order: list[SortKey]
) -> None:
    query = bound(f"{BY_SYMBOL} {written}")
    assert query.text == f"{BY_SYMBOL} {canonical}".strip()
    assert list(query.order) == order
    assert bound(query.text) == query


def test_an_output_hides_the_column_of_its_name_in_order_by(bound: Bound) -> None:
    query = bound(f"SELECT symbol AS s, -max(price) AS price FROM trades {W} GROUP BY symbol ORDER BY price")
    assert query.order == (SortKey("-`a0`"),)
    query = bound(f"SELECT symbol AS s, -max(price) AS price FROM trades {W} GROUP BY symbol ORDER BY max(price)")
    assert query.order == (SortKey("`a0`"),)
    assert query.text.endswith("ORDER BY max(trades.price)")
    assert bound(query.text) == query


def test_distinct_columns_are_a_grouping(bound: Bound) -> None:
    distinct = bound(f"SELECT DISTINCT symbol, price > 5 AS dear, 1 AS one FROM trades {W}")
    grouped = bound(f"SELECT symbol, price > 5 AS dear, 1 AS one FROM trades {W} GROUP BY symbol, price > 5")
    assert distinct == grouped


@pytest.mark.parametrize(
    ("select", "by", "kept"),
    [
        ("symbol, count(*) AS n", "symbol", False),  # the groups are told apart by what is shown
        ("count(*) AS n", "symbol", True),
        ("symbol, count(*) AS n", "symbol, price", True),
        ("symbol, count(*) AS n", "ROLLUP (symbol)", True),  # a subtotal may look like a group
        ("price, symbol", "symbol, price", False),
    ],
)
def test_distinct_stays_only_where_answers_may_be_equal(bound: Bound, select: str, by: str, kept: bool) -> None:
    query = bound(f"SELECT DISTINCT {select} FROM trades {W} GROUP BY {by}")
    assert query.distinct is kept
    assert query.text.startswith("SELECT DISTINCT") is kept
    assert bound(query.text) == query
    assert not bound(f"SELECT DISTINCT count(*) AS n FROM trades {W}").distinct


def test_the_window_of_spark_orders_nothing(bound: Bound) -> None:
    text = "SELECT window, symbol, count(*) AS n FROM trades GROUP BY window(ts, '1 minute'), symbol"
    query = bound(f"{text} ORDER BY window, window.end, window(ts, '1 minute').start, n DESC LIMIT 3")
    assert query.order == (SortKey("`a0`", True, False),)
    assert bound(query.text) == query


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"{BY_SYMBOL} ORDER BY window_end DESC", "answers come in the order of their windows, oldest first"),
        (f"{BY_SYMBOL} ORDER BY 3", "ORDER BY 3: there are 2 outputs"),
        (f"{BY_SYMBOL} ORDER BY 'a'", "ordering by a constant is not available"),
        (f"{BY_SYMBOL} ORDER BY ALL", "ORDER BY ALL is not available"),
        (f"{BY_SYMBOL} ORDER BY price", 'column "price" is neither grouped nor aggregated'),
        (f"{BY_SYMBOL} ORDER BY prise", 'no column "prise"'),
        (f"{BY_SYMBOL} LIMIT 0", "LIMIT 0 is not available"),
        (f"{BY_SYMBOL} LIMIT n", "LIMIT takes a number of rows"),
        (f"{BY_SYMBOL} LIMIT 10 % 3", 'unexpected "%"'),
        (f"{BY_SYMBOL} OFFSET 1 LIMIT 1", 'unexpected "LIMIT"'),
        (f"{BY_SYMBOL} LIMIT 1 ORDER BY n", 'unexpected "ORDER"'),
        (f"{BY_SYMBOL} ORDER BY n NULLS", 'expected "LAST"'),
        (f"SELECT DISTINCT price FROM trades {W} ORDER BY symbol", "neither grouped nor aggregated"),
        (
            f"SELECT DISTINCT price FROM trades {W} GROUP BY price, symbol ORDER BY symbol",
            "DISTINCT with ORDER BY of what is not selected is not available",
        ),
        (
            f"SELECT DISTINCT count(*) AS n FROM trades {W} GROUP BY symbol WITH (emit = 'change')",
            "SELECT DISTINCT beside emit = 'change' is not available",
        ),
        (
            f"SELECT DISTINCT count(*) AS n FROM trades {W} GROUP BY symbol WITH (late = 'revise', revise_for = '1 s')",
            "SELECT DISTINCT beside late = 'revise' is not available",
        ),
        (
            f"{BY_SYMBOL} ORDER BY max(price) LIMIT 1 WITH (late = 'revise', revise_for = '1 s')",
            "late = 'revise' with ORDER BY of what is not selected is not available",
        ),
        (
            "SELECT symbol, count(*) AS n FROM trades [PARTITION BY symbol ROWS 5 SLIDE 5] GROUP BY symbol LIMIT 1",
            "DISTINCT, ORDER BY or LIMIT over a window with PARTITION BY is not available",
        ),
    ],
)
def test_what_cannot_be_arranged_is_said_at_its_place(bound: Bound, text: str, what: str) -> None:
    with pytest.raises(LanguageError, match=re.escape(what)) as raised:
        bound(text)
    assert raised.value.place is not None
    if isinstance(raised.value, Unsupported):
        assert raised.value.hint or "constant" in what


@pytest.mark.parametrize(
    "text",
    [
        "SELECT max(price) AS end FROM trades {w} ORDER BY end LIMIT 3",
        "SELECT max(price) AS limit FROM trades AS order {w} ORDER BY limit DESC LIMIT 3 OFFSET 2",
        "SELECT max(limit.price) AS n FROM trades limit {w} LIMIT 3",
        "SELECT max(price) AS n FROM trades {w} offset LIMIT ALL OFFSET 1",
        "SELECT DISTINCT CASE WHEN price > 5 THEN 'a' END AS c FROM trades {w} LIMIT 1",
        "SELECT DISTINCT NOT price > 5 AS c FROM trades {w} ORDER BY c NULLS FIRST WITH (keep = '1 h')",
    ],
)
def test_words_of_these_clauses_are_names_elsewhere(bound: Bound, text: str) -> None:
    written = text.format(w=W)
    select = parse_query(written)
    assert parse_query(str(select)) == select
    query = bound(written)
    assert bound(query.text) == query
