"""Calls of aggregates: what they take, one canonical form for equal ones, and what is refused where it stands."""

from __future__ import annotations

import pytest

from penstock.errors import LanguageError, PenstockError
from tests.language.test_bind import Bound

W = "[RANGE 10 s SLIDE 1 s]"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sum(price) FILTER (WHERE volume > 5)", "sum(CASE WHEN volume > 5 THEN price END)"),
        ("count(*) FILTER (WHERE volume > 5)", "count(CASE WHEN volume > 5 THEN 1 END)"),
        ("count(DISTINCT price) FILTER (WHERE volume > 5)", "count(DISTINCT CASE WHEN volume > 5 THEN price END)"),
        ("top(3, symbol) FILTER (WHERE volume > 5)", "top(3, CASE WHEN volume > 5 THEN symbol END)"),
        ("arg_min(symbol, price) FILTER (WHERE volume > 5)", "min_by(symbol, CASE WHEN volume > 5 THEN price END)"),
        ("first(price) IGNORE NULLS", "first_value(price, TRUE)"),
        ("first(price) RESPECT NULLS", "any_value(price)"),
        ("last(price, FALSE)", "last_value(price)"),
        ("max_by(price, volume)", "arg_max(price, volume)"),
        ("percentile_approx(price, 0.5)", "approx_percentile(price, 0.5)"),
        ("max(DISTINCT price)", "max(price)"),
        ("count(DISTINCT price, price)", "count(DISTINCT price)"),
        ("percentile(price, 5e-1)", "percentile(price, 0.5)"),
    ],
)
def test_two_spellings_are_one_aggregate(bound: Bound, one: str, other: str) -> None:
    query = bound(f"SELECT {one} AS a, {other} AS b FROM trades {W}")
    assert len(query.aggregates) == 1
    assert [output.expression for output in query.outputs] == ["`a0`", "`a0`"]
    assert bound(query.text).aggregates == query.aggregates


def test_calls_print_as_they_are_written(bound: Bound) -> None:
    query = bound(
        "SELECT percentile(price, array(0.25, 0.5)) AS p, top(3, symbol, volume) AS t, first(price) IGNORE NULLS AS f, "
        f"count(DISTINCT symbol, price) AS n FROM trades {W}"
    )
    assert [str(a) for a in query.aggregates] == [
        "percentile(`price`, array(0.25, 0.5))",
        "top(3, `symbol`, `volume`)",
        "first(`price`, TRUE)",
        "count(DISTINCT `symbol`, `price`)",
    ]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("percentile(price)", "percentile() takes two arguments, found 1"),
        ("percentile(price, 1.5)", "a percentage must be from 0 to 1"),
        ("percentile(price, array())", "an array of percentages must have at least one"),
        ("percentile(price, volume)", "this must be a number that is written out"),
        ("percentile(price, 0.5, volume, 1)", "percentile() takes two arguments, found 4"),
        ("median(price, 2)", "median() takes one argument, found 2"),
        ("top(symbol)", "top() takes two or three arguments, found 1"),
        ("top(0, symbol)", "the number of items must be a whole number from 1 to 10,000"),
        ("top(symbol, 3)", "this must be a number that is written out"),
        ("first(price, volume)", "the second argument of first() must be TRUE or FALSE"),
        ("arg_min(price)", "arg_min() takes two arguments, found 1"),
        ("mode()", "mode() takes one argument, found 0"),
        ("approx_count_distinct(price, 0.9)", "the relative deviation must be from 0.0008 to 0.39"),
        ("approx_percentile(price, 0.5, 0)", "the accuracy must be a whole number from 1 to 10,000"),
        ("approx_top_k(symbol, 2.5)", "the number of items must be a whole number from 1 to 10,000"),
        ("hll_sketch_agg(symbol, 3)", "the size of the sketch must be a whole number from 4 to 21"),
        ("stddev(DISTINCT price)", "stddev(DISTINCT …) is not available"),
        ("sum(DISTINCT price, volume)", "sum() takes one argument, found 2"),
        ("upper(symbol) FILTER (WHERE volume > 5)", "FILTER after upper(), which is not an aggregate"),
        ("sum(price) FILTER (volume > 5)", 'expected "WHERE", found "volume"'),
        ("sum(price) FILTER (WHERE sum(volume) > 5)", "an aggregate inside an aggregate is not allowed"),
        ("sum(price) IGNORE NULLS", "IGNORE clauses of sum() are not available"),
        ("sum(median(price))", "an aggregate inside an aggregate is not allowed"),
    ],
)
def test_a_wrong_call_is_refused_at_its_place(bound: Bound, call: str, what: str) -> None:
    with pytest.raises(PenstockError) as raised:
        bound(f"SELECT {call} AS a FROM trades {W}")
    assert raised.value.what == what
    assert isinstance(raised.value, LanguageError)
    assert raised.value.place is not None
