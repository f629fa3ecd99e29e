"""Conditions that mean the same by their form have one text, and that text means what the condition meant."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp, transpile

from penstock.language.binding.canonical import render, strip
from penstock.language.grammar.limits import MAX_CHAIN
from penstock.language.grammar.parse import parse_expression
from penstock.language.predicates.negation_normal_form import Chain, negation_normal_form
from penstock.language.predicates.normalize import normal
from penstock.language.predicates.split import AS_IT_IS, NOT, Every, Formula, Leaf, leaves_of, read_predicate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def may_fail(node: exp.Expr) -> bool:
    text = render(node)
    return "/" in text or "CAST(" in text


def canonical(text: str) -> str:
    return render(parse_expression(text))


def form(text: str) -> str:
    return normal(canonical(text), may_fail)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a > 1 AND b < 2", "b < 2 AND a > 1"),
        ("a > 1 OR b < 2", "b < 2 OR a > 1"),
        ("a > 5", "5 < a"),
        ("a > 5", "NOT a <= 5"),
        ("a >= 5", "NOT (5 > a)"),
        ("a = 5", "NOT NOT (5 = a)"),
        ("a <> 5", "NOT a = 5"),
        ("a < b", "b > a"),
        ("a <=> 5", "5 <=> a"),
        ("a > 1", "a > 1 AND a > 1 AND NOT a <= 1"),
        ("a > 1 AND (b = 2 OR c = 3)", "(c = 3 OR 2 = b) AND a > 1"),
        ("a > 1 AND b = 2 AND c = 3", "c = 3 AND (b = 2 AND a > 1)"),
        ("NOT (a > 1 AND b = 2)", "b <> 2 OR a <= 1"),
        ("NOT (a > 1 OR NOT (b = 2 OR NOT flag))", "(NOT flag OR b = 2) AND a <= 1"),
        ("c = 1 OR (a = 1 OR b = 2) AND (b = 2 OR a = 1)", "a = 1 OR b = 2 OR c = 1"),
        ("a BETWEEN 1 AND 5", "a <= 5 AND 1 <= a"),
        ("a NOT BETWEEN 1 AND 5", "a > 5 OR a < 1"),
        ("s IN ('x', 'y')", "s IN ('y', 'x', 'y')"),
        ("NOT a IN (3, -1)", "a NOT IN (-1, 3)"),
        ("NOT a IS NULL", "a IS NOT NULL"),
        ("NOT s LIKE 'x%' AND flag", "flag AND s NOT LIKE 'x%'"),
        ("NOT ((a > 1) = flag)", "(a > 1) <> flag"),
    ],
)
def test_what_means_the_same_has_one_text(one: str, other: str) -> None:
    assert form(one) == form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a > 1 AND b < 2", "a > 1 OR b < 2"),
        ("a > 1", "a > 1L"),
        ("a > 1 AND (b = 2 OR c = 3)", "(a > 1 AND b = 2) OR c = 3"),
        ("NOT (a <=> 5)", "a <> 5"),  # NULL
        ("a IN (1, NULL)", "a IN (1)"),
    ],
)
def test_what_differs_keeps_texts_of_its_own(one: str, other: str) -> None:
    assert form(one) != form(other)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b <> 0 AND a / b > 1", "`b` <> 0 AND `a` / `b` > 1"),
        ("a / b > 1 AND b <> 0", "`a` / `b` > 1 AND `b` <> 0"),  # fails, as it is written to
        ("b <> 0 AND a / b > 1 AND a = 1 AND a = 1", "`b` <> 0 AND `a` / `b` > 1 AND `a` = 1 AND `a` = 1"),
        ("NOT (b = 0 OR a / b <= 1)", "`b` <> 0 AND `a` / `b` > 1"),
        ("1 < a / b", "1 < `a` / `b`"),  # the right side is not evaluated where the left one is NULL
        ("(c = 1 OR b <> 0) AND (a / b > 1 OR a = 2)", "(`b` <> 0 OR `c` = 1) AND (`a` / `b` > 1 OR `a` = 2)"),
        ("a / b BETWEEN 1 AND 2 AND a = 1", "`a` / `b` BETWEEN 1 AND 2 AND `a` = 1"),
        ("CAST(s AS int) IN (2, 1)", "CAST(`s` AS int) IN (2, 1)"),
    ],
)
def test_what_may_fail_stays_behind_its_guards(text: str, expected: str) -> None:
    assert form(text) == expected


def test_a_chain_that_would_grow_too_long_stays_as_it_is() -> None:
    half = MAX_CHAIN * 2 // 3
    one, other = (" OR ".join(f"{name} = {i}" for i in range(half)) for name in "ab")
    text = canonical(f"NOT (({one}) OR NOT (c = 1)) AND NOT ({other})")
    assert normal(text, may_fail) == text
    assert "`a` <> 1 AND" in form(f"NOT ({one})")


def test_each_test_is_asked_about_with_canonical_text() -> None:
    asked: list[str] = []

    def never(node: exp.Expr) -> bool:
        asked.append(render(node))
        return False

    normal(canonical("5 < a AND NOT (flag OR s like 'x%')"), never)
    assert sorted(asked) == ["5 < `a`", "`flag`", "`s` LIKE 'x%'"]


# Random conditions. DuckDB and Spark say what they mean; a small interpreter also where they fail.

ROWS: list[dict[str, Any]] = [
    {"a": a, "b": b, "x": x, "s": s, "flag": flag}
    for a in (None, 0, 1, 5)
    for b in (None, 0, 1)
    for x, s in ((None, "x"), (0.5, None), (math.nan, "xy"), (1.0, ""))
    for flag in (None, True, False)
]
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
NUMBERS = st.sampled_from(["a", "b", "0", "1", "5", "a + b", "NULL"])
COMPARED = st.builds(lambda one, sign, other: f"({one} {sign} {other})", NUMBERS, OPERATORS, NUMBERS)
FLOATS = st.builds(lambda sign, value: f"({value} {sign} x)", OPERATORS, st.sampled_from(["0.5D", "1D", "x"]))
DIVIDED = st.builds(lambda text, sign: text.replace("?", sign), st.sampled_from(["5 / b ? 1", "a ? 5 / b"]), OPERATORS)
OTHERS = st.sampled_from(
    ["flag", "s LIKE 'x%'", "s IN ('xy', 'x')", "a IN (5, 1, 5)", "a IS NULL", "a BETWEEN 0 AND 1", "a BETWEEN b AND 5"]
)


def conditions(tests: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        tests,
        lambda inner: st.one_of(
            st.builds(
                lambda parts, word: f"({f' {word} '.join(parts)})", st.lists(inner, min_size=2, max_size=4), WORD
            ),
            inner.map(lambda one: f"NOT ({one})"),
        ),
        max_leaves=8,
    )


WORD = st.sampled_from(["AND", "OR"])
PLAIN = conditions(st.one_of(COMPARED, COMPARED, FLOATS, OTHERS))
FAILING = conditions(st.one_of(COMPARED, DIVIDED, OTHERS))


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (a int, b int, x double, s varchar, flag boolean)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [list(row.values()) for row in ROWS])
        yield connection


@given(text=PLAIN)
def test_the_normal_text_means_the_same_in_three_valued_logic(duck: duckdb.DuckDBPyConnection, text: str) -> None:
    before, after = (transpile(t, read="spark", write="duckdb")[0] for t in (canonical(text), form(text)))
    same = f"SELECT count(*) FROM t WHERE ({before}) IS NOT DISTINCT FROM ({after})"
    assert duck.execute(same).fetchone() == (len(ROWS),), (before, after)


@given(text=FAILING)
def test_the_normal_text_fails_on_the_rows_that_the_condition_fails_on(text: str) -> None:
    before, after = parse_expression(canonical(text)), parse_expression(form(text))
    for row in ROWS:
        assert outcome(before, row) == outcome(after, row), (form(text), row)


@given(text=FAILING)
def test_the_formula_of_either_text_comes_to_what_the_condition_comes_to(text: str) -> None:
    condition, formulas = parse_expression(canonical(text)), [read_predicate(t) for t in (canonical(text), form(text))]
    for row in ROWS[::5]:
        expected = outcome(condition, row)
        assert [outcome_of(formula, row) for formula in formulas] == [expected, expected], (text, form(text), row)


@given(text=FAILING)
def test_the_formulas_of_both_texts_have_the_same_tests(text: str) -> None:
    found = [{form(written(leaf)) for leaf in leaves_of(read_predicate(t))} for t in (canonical(text), form(text))]
    assert found[0] == found[1]


@given(text=FAILING)
def test_no_chain_is_a_part_of_one_with_its_operator_and_nothing_within_is_a_negation(text: str) -> None:
    waiting = [negation_normal_form(parse_expression(canonical(text)), lambda _: True)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Chain):
            assert len(part.parts) > 1
            assert not [one for one in part.parts if isinstance(one, Chain) and one.connective is part.connective]
            waiting += part.parts
        else:
            assert not isinstance(part.node, exp.Not | exp.And | exp.Or | exp.Between | exp.Paren)


@given(text=FAILING)
def test_a_normal_text_is_canonical_and_stays_as_it_is(text: str) -> None:
    found = form(text)
    assert canonical(found) == found
    assert normal(found, may_fail) == found


def test_spark_takes_both_texts_alike(interpreted: SparkSession) -> None:
    texts = [
        "NOT (1D < x OR x = 0.5D)", "NOT x > 1D", "x <> x", "NOT (0.5D >= x AND flag)", "a < x", "NOT s < 'xy'",
        "NOT (a BETWEEN 0 AND 1 OR s LIKE 'x%')", "NOT (flag AND NOT (a = 1 OR b = 1))", "NOT a IN (5, 1)",
        "a NOT BETWEEN b AND 5", "NOT (a <=> 5) AND NULL", "NOT (5 <> a OR NULL)", "NOT ((a > 1) = flag)", "'x' > s",
    ]  # fmt: skip
    rows = interpreted.createDataFrame(
        [tuple(row.values()) for row in ROWS], "a int, b int, x double, s string, flag boolean"
    )
    pairs = [f"({canonical(text)}) <=> ({form(text)}) AS c{i}" for i, text in enumerate(texts)]
    found = rows.selectExpr(*pairs).toArrow()
    assert [found[f"c{i}"].to_pylist() for i in range(len(texts))] == [[True] * len(ROWS)] * len(texts)


FAILED = "failed"
tree_of = lru_cache(parse_expression)
OUTCOMES = [False, True, None, FAILED]  # as turns number them
COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq, exp.NEQ: operator.ne, exp.LT: operator.lt,
    exp.LTE: operator.le, exp.GT: operator.gt, exp.GTE: operator.ge,
}  # fmt: skip


def outcome(node: exp.Expr, row: dict[str, Any]) -> Any:
    try:
        return evaluated(node, row)
    except ZeroDivisionError:
        return FAILED


def outcome_of(formula: Formula, row: dict[str, Any]) -> Any:
    """Evaluate a formula in the order of its parts, up to the first that decides or fails."""
    if isinstance(formula, Leaf):
        return OUTCOMES[formula.turns[OUTCOMES.index(outcome(tree_of(formula.text), row))]]
    every = isinstance(formula, Every)
    found: Any = every
    for part in formula.parts:
        one = outcome_of(part, row)
        if one in (not every, FAILED):
            return one
        found = None if one is None else found
    return found


def written(leaf: Leaf) -> str:
    assert leaf.turns in (AS_IT_IS, NOT)
    return leaf.text if leaf.turns == AS_IT_IS else f"NOT ({leaf.text})"


def evaluated(node: exp.Expr, row: dict[str, Any]) -> Any:
    """Evaluate as Spark does: AND stops at false, OR at true, other operators at a NULL on the left."""
    node = strip(node)
    match node:
        case exp.And() | exp.Or():
            deciding = isinstance(node, exp.Or)
            left = evaluated(node.this, row)
            if left is deciding:
                return deciding
            right = evaluated(node.expression, row)
            return deciding if right is deciding else None if None in (left, right) else not deciding
        case exp.Not():
            inner = evaluated(node.this, row)
            return None if inner is None else not inner
        case exp.Column():
            return row[node.name]
        case exp.Literal():
            return node.name if node.is_string else int(node.name)
        case exp.Null():
            return None
        case exp.Is():
            return evaluated(node.this, row) is None
        case exp.Anonymous():
            assert node.name == "isnull"
            return evaluated(node.expressions[0], row) is None
        case exp.In():
            value = evaluated(node.this, row)
            return None if value is None else value in [evaluated(one, row) for one in node.expressions]
        case exp.Between():
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
            return evaluated(exp.And(this=low, expression=high), row)
    return operated(node, row)


def operated(node: exp.Expr, row: dict[str, Any]) -> Any:
    left = evaluated(node.this, row)
    right = None if left is None else evaluated(node.expression, row)
    if left is None or right is None:
        return None
    match node:
        case exp.Add():
            return left + right
        case exp.Div():
            return left / right
        case exp.Like():
            return left.startswith(right.rstrip("%"))
    return COMPARISONS[type(node)](left, right)
