"""Expressions: Spark's precedences, canonical text, literals that Spark reads back."""

from __future__ import annotations

import ast
import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock.language
from penstock.errors import MalformedSQL, PenstockError, Unsupported
from penstock.language.binding.canonical import render
from penstock.language.grammar.literals import read_string, write_string
from penstock.language.grammar.parse import parse_expression


def canonical(text: str) -> str:
    """Render a text, and check that what comes out renders as itself."""
    once = render(parse_expression(text))
    assert render(parse_expression(once)) == once
    return once


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a+b*c-d", "`a` + `b` * `c` - `d`"),
        ("a-(b-c)", "`a` - (`b` - `c`)"),
        ("((a))", "`a`"),
        ("a OR b AND c", "`a` OR `b` AND `c`"),
        ("(a OR b) AND c", "(`a` OR `b`) AND `c`"),
        ("a AND (b AND c)", "`a` AND `b` AND `c`"),
        ("NOT a = b", "NOT (`a` = `b`)"),
        ("! a", "NOT `a`"),
        ("NOT a IS NULL", "`a` IS NOT NULL"),
        ("a | b & c", "`a` | (`b` & `c`)"),
        ("a & b ^ c", "(`a` & `b`) ^ `c`"),
        ("a || b + c", "(`a` || `b`) + `c`"),
        ("a = b = c", "(`a` = `b`) = `c`"),
        ("a == b", "`a` = `b`"),
        ("a != b", "`a` <> `b`"),
        ("a <=> b", "`a` <=> `b`"),
        ("a IS NOT DISTINCT FROM b", "`a` <=> `b`"),
        ("a IS DISTINCT FROM b", "NOT (`a` <=> `b`)"),
        ("a = b IS NULL", "(`a` = `b`) IS NULL"),
        ("a is true and b is not false", "`a` IS TRUE AND `b` IS NOT FALSE"),
        ("a not in (1, 2)", "`a` NOT IN (1, 2)"),
        ("a between 1 and 2 and b", "`a` BETWEEN 1 AND 2 AND `b`"),
        ("a like 'x%' escape '!'", "`a` LIKE 'x%' ESCAPE '!'"),
        ("a not rlike '^x' or a regexp 'y'", "`a` NOT RLIKE '^x' OR `a` RLIKE 'y'"),
        ("7 DIV 2 % 3", "7 DIV 2 % 3"),
        ("- - 5", "-(-5)"),
        ("2 - -3", "2 - -3"),
        ("~a ^ b", "~`a` ^ `b`"),
        ("price[0]", "`price`[0]"),
        ("m['k'].x[1]", "`m`['k'].`x`[1]"),
        ("a.b.c", "`a`.`b`.`c`"),
        ("cast(a as DECIMAL(10, 2))", "CAST(`a` AS decimal(10,2))"),
        ("a::long", "CAST(`a` AS bigint)"),
        ("try_cast(a AS struct<X: int, y array<string>>)", "TRY_CAST(`a` AS struct<X:int,y:array<string>>)"),
        ("extract(year from ts)", "EXTRACT(YEAR FROM `ts`)"),
        ("CASE WHEN a THEN 1 ELSE 2 END", "CASE WHEN `a` THEN 1 ELSE 2 END"),
        ("case a when 1 then b end", "CASE `a` WHEN 1 THEN `b` END"),
        ("DATE '2020-01-01'", "DATE '2020-01-01'"),
        ("interval 5 minutes", "INTERVAL '5' MINUTE"),
        ("INTERVAL '5' MINUTE", "INTERVAL '5' MINUTE"),
        ("interval '1 hour 30 minutes'", "INTERVAL '1 hour 30 minute'"),
        ("interval '1 02:03' day to minute", "INTERVAL '1 02:03' DAY TO MINUTE"),
        ("DATE_ADD(a, 1)", "date_add(`a`, 1)"),
        ("Substring(a, 1, 2)", "substring(`a`, 1, 2)"),
        ("left(a, 2) = Right(a, 2)", "left(`a`, 2) = right(`a`, 2)"),
        ("if(a, b, c)", "if(`a`, `b`, `c`)"),
        ("1l + 2.5bd + 1e3 + .5", "1L + 2.5BD + 1E3 + .5"),
        ("x'1f'", "X'1F'"),
        ("`odd ``name`", "`odd ``name`"),
        ("date + timestamp", "`date` + `timestamp`"),
        ("a /* note */ + -- more\n b", "`a` + `b`"),
    ],
)
def test_an_expression_has_one_canonical_text(text: str, expected: str) -> None:
    assert canonical(text) == expected


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (r"'a\nb'", "a\nb"),
        (r"'it''s'", "it's"),
        (r"'a' 'b'", "ab"),
        (r'"a"', "a"),
        (r"'\%\_'", r"\%\_"),
        (r"'\101\u0041\U0001F600'", "AA\U0001f600"),
        (r"'\ud83d\ude00'", "\U0001f600"),
        (r"r'a\nb'", r"a\nb"),
        (r"'\q\\'", "q\\"),
    ],
)
def test_a_string_is_read_as_spark_reads_it(source: str, value: str) -> None:
    assert parse_expression(source).name == value


@given(st.text())
def test_a_written_string_reads_as_itself(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        return
    written = write_string(value)
    assert read_string(written) == value
    assert "${" not in written
    assert "\0" not in written


def test_spark_cannot_substitute_variables_in_a_string() -> None:
    assert canonical("'${env:HOME}'") == r"'\u0024{env:HOME}'"


def test_a_name_that_spark_would_substitute_is_refused() -> None:
    with pytest.raises(MalformedSQL):
        parse_expression("`${env:HOME}`")


@pytest.mark.parametrize(
    "text",
    [
        "(select 1)", "a in (select 1)", "exists (select 1)", "sum(x) over (order by y)",
        "transform(a, x -> x)", "f(x => 1)", "(a, b)", "a like any ('x')", "+a", "cast(a as varchar(3))",
        "sum(x) ignore nulls", "struct(a as b)",
    ],
)  # fmt: skip
def test_what_spark_has_and_penstock_not_is_named(text: str) -> None:
    with pytest.raises(Unsupported) as raised:
        parse_expression(text)
    assert "not available" in raised.value.what
    assert raised.value.place is not None


@pytest.mark.parametrize(
    "text",
    [
        "", "a +", "a between 1", "case when a end", "case a end", "f(", "a b", "a is 5", "a in ()", "1x + ", "'abc",
        "`abc", "/* abc", "a is null is null", "a = not b", "cast(a as thing)", "0x1F", "5..6", "${x}", ":p", "?",
        "a;b",
        "interval 5", "interval 'x' day", "'\\ud83d'", "a\0b", "\ud800", "\u037e", "a（b）", "x'zz'", "a[0", "a.5",
    ],
)  # fmt: skip
def test_what_does_not_parse_is_malformed_with_a_place(text: str) -> None:
    with pytest.raises(MalformedSQL) as raised:
        parse_expression(text)
    assert raised.value.text == text
    assert raised.value.place is not None
    assert str(raised.value).startswith("error[MalformedSQL]: ")


def test_forty_levels_are_read_and_more_are_refused() -> None:
    assert canonical("(" * 40 + "a" + ")" * 40) == "`a`"
    assert canonical("abs(" * 40 + "a" + ")" * 40).count("abs(") == 40
    for text in ("(" * 41 + "a" + ")" * 41, "(" * 10_000 + "a" + ")" * 10_000, "abs(" * 41 + "a" + ")" * 41):
        with pytest.raises(MalformedSQL, match="nested more than 40 levels deep"):
            parse_expression(text)


@pytest.mark.parametrize(
    "text",
    ["NOT " * 10_000 + "a", "- " * 10_000 + "a", "~" * 10_000 + "a", "a" + "[0]" * 10_000, "a" + ".b" * 10_000,
     "a" + "::int" * 10_000, "CASE WHEN " * 5_000, "[" * 10_000, "a+" * 10_000 + "a", "a AND " * 10_000 + "a",
     "array<" * 1_000, "cast(a as " + "array<" * 1_000, "a OR b AND c = d | e ^ f & g + h * (" * 40,
     "'a' " * 20_000 + "+"],
)  # fmt: skip
def test_hostile_chains_end_in_a_clear_error(text: str) -> None:
    with pytest.raises(MalformedSQL):
        parse_expression(text)


@pytest.mark.parametrize("operator", ["+", "*", "AND", "OR", "||", "|"])
def test_flat_chains_of_five_hundred_work(operator: str) -> None:
    text = f" {operator} ".join(["a"] * 500)
    assert canonical(text).count("`a`") == 500


def test_chains_stacked_in_parentheses_are_not_deeper_than_spark_can_go() -> None:
    chain = "a"
    for _ in range(3):
        chain = f"({chain})" + " + a" * 400
    with pytest.raises(MalformedSQL, match="nested too deeply"):
        parse_expression(chain)


TOKENS = """a b 1 'x' ( ) [ ] , . + - * / = < > NOT AND OR IS NULL IN LIKE BETWEEN CASE WHEN THEN ELSE END CAST AS
int f( interval 5 minutes :: date ' ` ; -- /* */ SELECT FROM"""


@given(st.lists(st.sampled_from(sorted(set(TOKENS.split()))), max_size=14))
def test_any_row_of_tokens_parses_or_raises_an_error_of_ours(tokens: list[str]) -> None:
    with contextlib.suppress(PenstockError):
        canonical(" ".join(tokens))


def test_the_language_imports_no_spark() -> None:
    for file in Path(penstock.language.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.startswith(("pyspark", "penstock.spark")) for name in names), file.name
