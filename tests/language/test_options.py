"""WITH (…): which options there are, which are honoured, and what is said about the others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import LanguageError, MalformedSQL, PenstockError, Unsupported, WrongType
from penstock.language.binding.altering import with_options, with_window
from penstock.language.binding.bind import bind
from penstock.language.grammar.parse import parse_query, parse_statement
from penstock.language.options import OPTIONS, OptionClause, option_us, since_of
from penstock.language.statements import AlterQuery
from penstock.model.duration import format_duration
from penstock.model.query import Query
from penstock.model.window import Window
from tests.language.conftest import Catalog

Bound = Callable[[str], Query]
W = "[RANGE 10 s SLIDE 1 s]"
QUERY = f"SELECT count(*) AS n FROM trades {W}"
# A value of each option that its reader takes, and how the language writes it.
GOOD = {
    "priority": "2",
    "deadline": "'5 s'",
    "lifetime": "8 h",
    "emit": "'exact'",
    "on_error": "'Pause'",
    "late": "count",
    "revise_for": "INTERVAL 5 MINUTES",
    "from": "'2026-01-05 09:30:00'",
    "changed_files": "'Refuse'",
    "retain": "'1 d'",
    "retain_rows": "1500 ms",
    "keep": "'30 d'",
    "preemptible": "True",
    "shed": "'None'",
    "explode": "'False'",
}


# What else a query must say for the option to be right, and how the option is written in canonical text.
NEEDS = {"revise_for": ", late = 'revise'"}
CANONICAL = {
    "priority": "priority = 2",
    "deadline": "deadline = '5 s'",
    "lifetime": "lifetime = '8 h'",
    "revise_for": "revise_for = '5 min'",
    "from": "from = '2026-01-05 09:30:00'",
    "retain": "retain = '1 d'",
    "retain_rows": "retain_rows = '1500 ms'",
    "keep": "keep = '30 d'",
    "preemptible": "preemptible = 'true'",
}


def test_every_option_has_an_example_here() -> None:
    assert list(GOOD) == list(OPTIONS)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_honoured_and_kept_in_one_spelling_unless_it_is_the_default(bound: Bound, name: str) -> None:
    query = bound(f"{QUERY} WITH ({name} = {GOOD[name]}{NEEDS.get(name, '')})")
    option = OPTIONS[name]
    if name in CANONICAL:
        assert CANONICAL[name] in query.text
    else:
        assert option.default is not None
        assert query == bound(QUERY)


ODD = [
    *("1 s", "0 s", "-1 s", "∞", "９ s", "1e9 d", "9" * 60, "count", "${x}", "\x00", "beginning", "TIMESTAMP ''"),
    *("2026-01-05", "２０２６-01-05", "0000-00-00", "2026-W01-1", "9999-12-31T23:59:59-23:59"),
    "2026-01-05T09:30:00.1234567+00:00:00.1",
]
TEXTS = st.text(max_size=12) | st.sampled_from(ODD)


@given(st.sampled_from(list(OPTIONS)), TEXTS | st.integers(0, 10**18 - 1))
def test_any_value_of_an_option_is_read_or_refused_at_its_place(name: str, value: str | int) -> None:
    clauses = [OptionClause(name, value), OptionClause("revise_for", "1 s"), OptionClause("late", "revise")]
    written = ", ".join(str(c) for c in clauses[: 3 if name == "keep" else 1])
    refused = None
    try:
        query = bind(parse_query(f"{QUERY} WITH ({written})"), Catalog(), "q")
    except LanguageError as error:
        refused = error
    if refused is not None:
        assert refused.place is not None
        assert str(refused)
        return
    assert bind(parse_query(query.text), Catalog(), "q") == query
    assert since_of(query) is None or name == "from"


# What programs read of them.


@pytest.mark.parametrize(
    ("written", "since"),
    [
        ("'Beginning'", "beginning"),
        ("beginning", "beginning"),
        ("'2026-01-05T09:30:00Z'", "2026-01-05 09:30:00"),
        ("'2026-01-05 10:30:00+01:00'", "2026-01-05 09:30:00"),
        ("TIMESTAMP '2026-01-05 09:30'", "2026-01-05 09:30:00"),
        ("'2026-01-05'", "2026-01-05 00:00:00"),
        ("2026-01-05", "2026-01-05 00:00:00"),
        ("'1969-12-31 23:59:59.999999'", "1969-12-31 23:59:59.999999"),
        ("'2026-01-05 09:30:00.25-23:59'", "2026-01-06 09:29:00.250000"),
    ],
)
def test_equal_instants_are_equal_queries(bound: Bound, written: str, since: str) -> None:
    query = bound(f"{QUERY} WITH (from = {written})")
    assert query.options == (("from", since),)
    assert bound(query.text) == query
    moment = datetime.fromisoformat(f"{since}+00:00") if since != "beginning" else None
    told = since_of(query)
    assert told == (since if moment is None else round(moment.timestamp() * 1_000_000))


def test_lengths_and_moments_are_told_in_microseconds(bound: Bound) -> None:
    query = bound(f"{QUERY} WITH (late = 'revise', revise_for = '90 s', keep = 30 d)")
    assert (option_us(query, "revise_for"), option_us(query, "keep")) == (90_000_000, 30 * 86_400_000_000)
    assert (option_us(query, "retain"), since_of(query)) == (None, None)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("lifetime", "retain", "retain_rows", "keep", "revise_for"), st.integers(1, 10**15)),
            "from": st.just("beginning") | st.datetimes(),
        },
    )
)
def test_options_print_back(chosen: dict[str, Any]) -> None:
    written = {name: format_duration(value) if isinstance(value, int) else str(value) for name, value in chosen.items()}
    if "revise_for" in chosen:
        written["late"] = "revise"
    clauses = ", ".join(f"{name} = '{value}'" for name, value in written.items())
    query = bind(parse_query(QUERY + (f" WITH ({clauses})" if clauses else "")), Catalog(), "q")
    assert bind(parse_query(query.text), Catalog(), "q") == query
    assert [name for name, _ in query.options] == sorted(written)
    for name, value in chosen.items():
        if isinstance(value, datetime):
            assert since_of(query) == (value - datetime(1970, 1, 1)) // timedelta(microseconds=1)
        elif isinstance(value, int):
            assert option_us(query, name) == value


@pytest.mark.parametrize(
    ("option", "kind", "what"),
    [
        (
            "emit = 'fresh', late = 'revise', revise_for = '1 h'",
            Unsupported,
            "option emit = 'fresh' beside option late is not available",
        ),
        ("on_error = 'null'", Unsupported, "option on_error = 'null' is not supported yet"),
        ("late = 'revise'", LanguageError, "option late = 'revise' needs revise_for"),
        ("revise_for = '5 s'", LanguageError, "option revise_for needs late = 'revise'"),
        ("late = 'count', revise_for = '5 s'", LanguageError, "option revise_for needs late = 'revise'"),
        ("late = 'maybe'", WrongType, "option late takes 'count' or 'revise', found \"maybe\""),
        ("lifetime = '0 s'", WrongType, "option lifetime takes a duration such as '5 s', found \"0 s\""),
        ("lifetime = '-5 s'", WrongType, "option lifetime takes a duration such as '5 s', found \"-5 s\""),
        ("keep = '6000 weeks'", WrongType, "option keep takes a duration such as '5 s', found \"6000 weeks\""),
        ("keep = ''", WrongType, "option keep takes a duration such as '5 s', found \"\""),
        ("retain = 1e400 s", WrongType, "option retain takes a duration such as '5 s', found \"1e400 s\""),
        ("retain_rows = NULL", WrongType, "option retain_rows takes a duration such as '5 s', found \"NULL\""),
        ("priority = 0", WrongType, 'option priority takes a whole number above 0, found "0"'),
        ("priority = 'high'", WrongType, 'option priority takes a whole number above 0, found "high"'),
        ("priority = -1", WrongType, 'option priority takes a whole number above 0, found "-1"'),
        ("priority = 1.5", WrongType, 'option priority takes a whole number above 0, found "1.5"'),
        ("deadline = 5", WrongType, "option deadline takes a duration such as '5 s', found \"5\""),
        ("deadline = '0 s'", WrongType, "option deadline takes a duration such as '5 s', found \"0 s\""),
        ("keep = '1 month'", WrongType, "option keep takes a duration such as '5 s', found \"1 month\""),
        ("emit = 'soon'", WrongType, "option emit takes 'exact', 'change' or 'fresh', found \"soon\""),
        ("from = 'yesterday'", WrongType, "option from takes 'beginning' or a timestamp, found \"yesterday\""),
        ("from = '2026-13-01'", WrongType, "option from takes 'beginning' or a timestamp, found \"2026-13-01\""),
        ("from = ''", WrongType, "option from takes 'beginning' or a timestamp, found \"\""),
        ("from = 5", WrongType, "option from takes 'beginning' or a timestamp, found \"5\""),
        (
            "from = '0001-01-01 00:00:00+14:00'",
            WrongType,
            "option from takes 'beginning' or a timestamp, found \"0001-01-01 00:00:00+14:00\"",
        ),
        ("emit = 'exact', EMIT = 'exact'", LanguageError, 'option "emit" is given twice'),
        ("prioritty = 2", LanguageError, 'there is no option "prioritty"'),
        ("`odd one` = 2", LanguageError, 'there is no option "odd one"'),
        ("priority", MalformedSQL, 'expected "=", found ")"'),
        ("priority =", MalformedSQL, 'expected a value, found ")"'),
        ("", MalformedSQL, 'expected an option, found ")"'),
    ],
)
def test_a_wrong_option_says_what_is_allowed(bound: Bound, option: str, kind: type[PenstockError], what: str) -> None:
    text = f"{QUERY} WITH ({option})"
    with pytest.raises(kind) as raised:
        bound(text)
    assert raised.value.what == what
    assert raised.value.text == text
    assert raised.value.place is not None


def test_an_unknown_option_names_the_nearest_or_all() -> None:
    def error(option: str) -> PenstockError:
        with pytest.raises(PenstockError) as raised:
            bind(parse_query(f"{QUERY} WITH ({option} = 1)"), Catalog(), "q")
        return raised.value

    assert error("dedline").hint == 'Did you mean "deadline"?'
    assert error("zzz").detail == "existing options: " + ", ".join(OPTIONS)


def test_options_may_be_altered_and_keep_the_rest(bound: Bound) -> None:
    query = bound(QUERY)
    altered = with_options(query, (OptionClause("emit", "exact"),))
    assert str(altered) == f"SELECT count(*) AS n FROM trades {W} WITH (emit = 'exact')"
    assert bound(str(altered)) == query
    with pytest.raises(Unsupported, match="option on_error = 'null' is not supported yet"):
        bound(str(with_options(query, (OptionClause("on_error", "null"),))))


def test_answers_that_are_no_longer_revised_need_no_length_for_it(bound: Bound) -> None:
    query = bound(f"{QUERY} WITH (late = 'revise', revise_for = '1 h', keep = '1 d')")
    altered = bound(str(with_options(query, (OptionClause("late", "Count"),))))
    assert altered.options == (("keep", "1 d"),)
    longer = bound(str(with_options(query, (OptionClause("revise_for", "2 h"),))))
    assert dict(longer.options) == {"late": "revise", "revise_for": "2 h", "keep": "1 d"}


@pytest.mark.parametrize("name", ["revision", "Op", "window_end"])
def test_answers_that_may_be_revised_have_columns_of_their_own(bound: Bound, name: str) -> None:
    text = f"SELECT count(*) AS `{name}` FROM trades {W}"
    with pytest.raises(LanguageError, match=f'two outputs are called "{name}"') as raised:
        bound(f"{text} WITH (late = 'revise', revise_for = '5 s')")
    assert raised.value.detail in (
        "every answer has a column of that name",
        "an answer that may be revised has a column of that name",
    )
    if name != "window_end":
        assert bound(text).outputs[0].name == name


# One-time queries.


def ask(text: str) -> Query:
    return bind(parse_query(text), Catalog(), "asked", asked=True)


def test_a_query_that_is_asked_may_end_at_any_microsecond() -> None:
    query = ask("SELECT symbol, max(price) AS high FROM trades t [WINDOW 10 MIN] WHERE volume > 5 GROUP BY symbol")
    assert query.window == Window(600_000_000, 1)
    assert query.text == (
        "SELECT symbol, max(price) AS high FROM trades [RANGE 10 min] WHERE volume > 5 GROUP BY symbol"
    )
    assert ask(query.text) == query


def test_a_long_query_that_is_asked_is_read_again() -> None:
    outputs = ", ".join(f"sum(price + {n}) AS s{n}" for n in range(40))
    query = ask(f"SELECT {outputs} FROM trades [RANGE 7 days]")
    assert ask(query.text) == query


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (QUERY, "a one-time query has no SLIDE in its window"),
        (QUERY.replace(W, "[RANGE 5 s OFFSET 1 s]"), "a one-time query has no OFFSET in its window"),
        (QUERY.replace(W, ""), "a one-time query needs a window"),
        (QUERY.replace(W, "[ROWS 5]"), "ROWS windows of a one-time query are not available"),
        (
            QUERY.replace(W, "") + " GROUP BY window(ts, '5 minutes')",
            "GROUP BY window(…) in a one-time query is not available",
        ),
        (
            QUERY.replace(W, "[RANGE 5 s]") + " WITH (keep = '1 d')",
            "option keep has no meaning in a one-time query",
        ),
    ],
)
def test_a_query_that_cannot_be_asked_says_why(text: str, what: str) -> None:
    with pytest.raises(Unsupported) as raised:
        ask(text)
    assert raised.value.what == what
    assert raised.value.place is not None
    assert raised.value.hint is not None


def test_a_continuous_query_without_slide_may_be_asked(bound: Bound) -> None:
    with pytest.raises(Unsupported) as raised:
        bound(QUERY.replace(W, "[RANGE 5 s]"))
    assert raised.value.hint == "Add SLIDE and how often to answer, or ask once: engine.ask(…), penstock ask."


def test_another_window_keeps_the_rest(bound: Bound) -> None:
    query = bound(f"SELECT symbol, sum(price) AS s FROM trades {W} WHERE volume > 5 GROUP BY symbol HAVING s > 1")
    statement = parse_statement("ALTER QUERY q SET WINDOW [WINDOW 1 h SLIDE 5 min OFFSET 1 min]")
    assert isinstance(statement, AlterQuery)
    altered = with_window(query, statement.change)  # type: ignore[arg-type]
    assert bound(str(altered)).text == query.text.replace(W, "[RANGE 1 h SLIDE 5 min OFFSET 1 min]")
    with pytest.raises(Unsupported, match="a continuous query needs SLIDE"):
        bound(str(with_window(query, parse_statement("ALTER QUERY q SET WINDOW [ROWS 5]").change)))  # type: ignore[union-attr,arg-type]
    rows = parse_statement("ALTER QUERY q SET WINDOW [PARTITION BY symbol ROWS 5 SLIDE 2]")
    by_rows = bound(str(with_window(query, rows.change)))  # type: ignore[union-attr,arg-type]
    assert by_rows.text == query.text.replace(W, "[PARTITION BY symbol ROWS 5 SLIDE 2]")
    grouped = bound("SELECT count(*) AS n FROM trades GROUP BY window(ts, '5 minutes')")
    with pytest.raises(Unsupported, match="SET WINDOW for a query with GROUP BY window"):
        with_window(grouped, statement.change)  # type: ignore[arg-type]
