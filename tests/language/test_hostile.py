"""Hostile input: every attack is refused or harmless, in under a second, and nothing forbidden reaches Spark."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import LanguageError, MalformedSQL, PenstockError, underline
from penstock.language.binding.canonical import render
from penstock.language.duration import parse_duration
from penstock.language.grammar import limits
from penstock.language.grammar.limits import LIMITS
from penstock.language.grammar.literals import quote
from penstock.language.grammar.parse import parse_expression, parse_query, parse_script
from penstock.model.query import Query
from penstock.printable import columns
from tests.cases import cases
from tests.language.attack import Attack, W, where
from tests.language.attacks import ATTACKS
from tests.language.conftest import Catalog
from tests.language.fuzz import SLOWEST_S, check_error, mutants, queries_of, survive
from tests.language.reach import assert_harmless, assert_plain

FUZZED = cases(3_000)
SOAKED = int(os.environ.get("PENSTOCK_SOAK_INPUTS", "100000"))


def labelled(attacks: tuple[Attack, ...]) -> list[object]:
    counted: Counter[str] = Counter()
    out: list[object] = []
    for attack in attacks:
        counted[attack.family] += 1
        out.append(pytest.param(attack, id=f"{attack.family} {counted[attack.family]}"))
    return out


@pytest.mark.parametrize("attack", labelled(tuple(a for a in ATTACKS if a.refused)))
def test_an_attack_is_refused_at_once_with_an_error_of_ours(attack: Attack, catalog: Catalog) -> None:
    assert attack.refused is not None
    started = time.thread_time()
    with pytest.raises(attack.refused) as raised:
        queries_of(attack.text, catalog)
    check_error(raised.value)
    assert time.thread_time() - started < SLOWEST_S


@pytest.mark.parametrize("attack", labelled(tuple(a for a in ATTACKS if a.harmless)))
def test_what_only_looks_like_an_attack_is_read_as_what_it_says(attack: Attack, catalog: Catalog) -> None:
    [query] = queries_of(attack.text, catalog)
    assert query.text == attack.harmless
    assert_harmless(query, catalog)
    assert queries_of(query.text, catalog) == [query]


def test_there_are_five_hundred_different_attacks() -> None:
    assert len({a.text for a in ATTACKS}) == len(ATTACKS) >= 500
    assert len({a.family for a in ATTACKS}) >= 25


def test_mutated_statements_end_well_and_soon(catalog: Catalog) -> None:
    outcomes = Counter(survive(text, catalog) for text in mutants(seed=1, number=FUZZED))
    assert outcomes["bound"] > FUZZED / 100
    assert outcomes["MalformedSQL"] > FUZZED / 10


@pytest.mark.soak
def test_fresh_mutations_end_well_and_soon(catalog: Catalog) -> None:
    for _ in range(max(1, SOAKED // 1_000)):
        seed = random.SystemRandom().randrange(1 << 40)
        try:
            for text in mutants(seed, 1_000):
                survive(text, catalog)
        except BaseException as error:
            error.add_note(f"seed {seed}: {text!r}")
            raise


READERS: tuple[Callable[[str], object], ...] = (parse_script, parse_query, parse_expression, parse_duration)


@given(st.text(max_size=200) | st.text(alphabet="()[]'\"`\\;-/*{}$#,.0aeS \n", max_size=60))
def test_any_text_at_all_is_read_or_refused(text: str) -> None:
    for read in READERS:
        try:
            read(text)
        except PenstockError as error:
            check_error(error)


@given(st.text(min_size=1, max_size=20), st.integers(1, 40_000))
def test_long_text_is_read_or_refused(piece: str, times: int) -> None:
    started = time.thread_time()
    for read in READERS:
        with contextlib.suppress(PenstockError):
            read(piece * (times // len(piece)))
    assert time.thread_time() - started < len(READERS) * SLOWEST_S


@given(st.text(max_size=60))
def test_any_text_binds_as_a_condition_or_is_refused(catalog: Catalog, text: str) -> None:
    survive(where(text), catalog)
    survive(where(f"symbol = '{text}'"), catalog)
    survive(f"SELECT count(*) AS `{text}` FROM trades {W}", catalog)


@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=40))
def test_any_name_that_shows_reads_as_itself(name: str) -> None:
    try:
        read = parse_expression(quote(name))
    except MalformedSQL:
        assert not name.isprintable() or "${" in name
        return
    assert read.name == name
    assert render(read) == quote(name)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=40))
def test_any_string_reaches_spark_as_one_printable_literal(value: str) -> None:
    escaped = "".join(f"\\U{ord(sign):08x}" for sign in value)
    text = render(parse_expression(f"upper('{escaped}')"))
    assert_plain(text, frozenset())
    assert parse_expression(text).expressions[0].name == value


# What reaches Spark is checked by eyes of its own: they must see.


@pytest.mark.parametrize(
    "text",
    [
        "reflect('a', 'b')", "`other` = 1", "`price` = 1 -- x", "`price`; 1", "/* x */ `price`", "price = 1",
        "`price` = ${x}", "'a\nb'", "`price` + (SELECT 1)", "upper(`price`", "`price`)", "'x", "x -> x",
        "CAST(`price` AS thing)", "@x", "?", "UPPER(`price`)", "'${x}'",
    ],
)  # fmt: skip
def test_the_checker_sees_what_must_not_pass(text: str) -> None:
    with pytest.raises(AssertionError):
        assert_plain(text, frozenset({"price"}))


@pytest.mark.parametrize(
    "text",
    [
        "`price` > 1.5E3 AND `price` IS NOT NULL", "upper('x''\\'') LIKE 'a\\\\%' ESCAPE '!'",
        "CAST(`price` AS struct<a:int,`b c`:array<string>>)",
        "CASE WHEN `price` THEN INTERVAL '1 02:03' DAY TO MINUTE END", "EXTRACT(YEAR FROM DATE '2020-01-01') - -3",
        "`price`[0].`x` <=> X'1F'",
    ],
)  # fmt: skip
def test_the_checker_lets_plain_text_pass(text: str) -> None:
    assert_plain(text, frozenset({"price"}))


# Limits.


def test_every_limit_is_documented_with_its_value() -> None:
    values = {value for name, value in vars(limits).items() if name.startswith(("MAX_", "LONGEST_", "WINDOWS_"))}
    assert {limit.value for limit in LIMITS} == values
    assert len({limit.name for limit in LIMITS}) == len(LIMITS)
    assert all(limit.meaning and limit.meaning[0].islower() for limit in LIMITS)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (where("(" * 41 + "true" + ")" * 41), "nested more than 40 levels deep"),
        (where("volume IN (" + ", ".join(map(str, range(5_001))) + ")"), "more than 5,000 values in a list"),
        (
            where(" OR ".join(f"(volume > {i} AND price < {i})" for i in range(501))),
            "more than 1,000 predicates in one statement",
        ),
        (where("`" + "x" * 256 + "` = 1"), "a name of more than 255 characters"),
        (where("volume = " + "9" * 39), f'"{"9" * 39}" has more than 38 digits'),
        (where("symbol = repeat('x', 10001)"), "repeat() makes at most 10,000 repetitions"),
        (
            where("symbol = repeat(repeat('x', 9999), 9999)"),
            "calls within calls make a value more than 1,000,000 times longer",
        ),
        ("SELECT " + ", ".join(f"max({i}) AS a{i}" for i in range(501)) + f" FROM trades {W}", "more than 500 outputs"),
        (
            f"SELECT count(*) FROM trades {W} GROUP BY " + ", ".join(f"vol + {i}" for i in range(51)),
            "more than 50 grouping expressions",
        ),
        (
            f"SELECT count(*) FROM trades {W}" + "".join(f" JOIN listing l{i} USING (symbol)" for i in range(21)),
            "more than 20 joins",
        ),
        ("CREATE TABLE t (" + ", ".join(f"c{i} int" for i in range(2_001)) + ") USING csv", "more than 2,000 columns"),
        (
            "CREATE TABLE t (a int) USING csv OPTIONS (" + ", ".join(f"o{i} = 1" for i in range(101)) + ")",
            "more than 100 options",
        ),
        (
            "SELECT count(*) FROM trades [RANGE 36525 d SLIDE 1 ms]",
            "a window of 36525 d every 1 ms holds each row 3,155,760,000,000 times",
        ),
    ],
)  # fmt: skip
def test_a_limit_says_what_it_is(catalog: Catalog, text: str, what: str) -> None:
    with pytest.raises(LanguageError) as raised:
        queries_of(text, catalog)
    assert raised.value.what == what
    assert raised.value.place is not None


def test_a_query_that_is_accepted_can_be_read_again(catalog: Catalog, bound: Callable[[str], Query]) -> None:
    long = " + ".join(["volume"] * 400)
    assert len(bound(f"SELECT max({long}), min({long} + 1) FROM trades {W}").outputs) == 2
    wide = ", ".join(f"max({long}) AS a{i}" for i in range(60))
    nots, signs = "NOT " * 30 + "(volume > 1)", "- " * 30 + "volume"
    cases = "max(CASE WHEN volume > 1 THEN 1 END) AS m"
    for text in (
        where(nots),
        f"SELECT max({signs}) AS m FROM trades {W}",
        f"SELECT {cases} FROM trades {W} HAVING " + " OR ".join(["m > 1"] * 400),
    ):
        with pytest.raises(MalformedSQL, match="written out, the query is too large"):
            queries_of(text, catalog)
    for text in (
        f"SELECT {wide} FROM trades {W}",
        f"SELECT max({long}) m FROM trades {W} HAVING " + " OR ".join(["m > 1"] * 200),
    ):
        survive(text, catalog)


# Errors.


def test_an_error_shows_no_sign_that_steers_a_terminal() -> None:
    error = MalformedSQL(
        "a\x1b[31m\u202eb", text="x\x1b\u202ey", place=(1, 2), detail="c\x9b\nd", hint="\ue000\U000e0001"
    )
    assert str(error) == (
        "error[MalformedSQL]: a\\u001b[31m\\u202eb\n  x  y\n   ^\ndetail: c\\u009b\nd\nhint: \\ue000\\U000e0001"
    )


def test_a_place_is_underlined_behind_wide_letters_and_marks() -> None:
    assert underline("符号 = e\u0301x", (7, 8)) == ["  符号 = e\u0301x", "          ^"]
    assert columns("符e\u0301") == 3
