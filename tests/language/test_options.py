"""WITH (…): which options there are, which are honoured, and what is said about the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import LanguageError, MalformedSQL, PenstockError, Unsupported, WrongType
from penstock.language.altering import with_options, with_window
from penstock.language.bind import bind
from penstock.language.options import OPTIONS, OptionClause
from penstock.language.parse import parse_query, parse_statement
from penstock.language.statements import AlterQuery
from penstock.model.query import Query
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
    "retain": "'1 d'",
    "retain_rows": "1500 ms",
    "keep": "'30 d'",
}


def test_every_option_has_an_example_here() -> None:
    assert list(GOOD) == [option.name for option in OPTIONS]


@pytest.mark.parametrize("name", GOOD)
def test_an_option_is_honoured_or_refused_by_name(bound: Bound, name: str) -> None:
    text = f"{QUERY} WITH ({name} = {GOOD[name]})"
    option = next(option for option in OPTIONS if option.name == name)
    if option.honoured:
        assert option.default in option.honoured
        assert bound(text) == bound(QUERY)
        return
    with pytest.raises(Unsupported) as raised:
        bound(text)
    assert raised.value.what == f"option {name} is not honoured yet"
    assert raised.value.place is not None
    assert text[slice(*raised.value.place)] == f"{name} = {GOOD[name]}"
    assert raised.value.detail == option.meaning


@pytest.mark.parametrize(
    ("option", "kind", "what"),
    [
        ("emit = 'fresh'", Unsupported, "option emit = 'fresh' is not honoured yet"),
        ("on_error = 'null'", Unsupported, "option on_error = 'null' is not honoured yet"),
        ("late = 'revise'", Unsupported, "option late = 'revise' is not honoured yet"),
        ("from = 'beginning'", Unsupported, "option from is not honoured yet"),
        ("priority = 0", WrongType, 'option priority takes a whole number above 0, found "0"'),
        ("priority = 'high'", WrongType, 'option priority takes a whole number above 0, found "high"'),
        ("priority = -1", WrongType, 'option priority takes a whole number above 0, found "-1"'),
        ("priority = 1.5", WrongType, 'option priority takes a whole number above 0, found "1.5"'),
        ("deadline = 5", WrongType, "option deadline takes a duration such as '5 s', found \"5\""),
        ("deadline = '0 s'", WrongType, "option deadline takes a duration such as '5 s', found \"0 s\""),
        ("keep = '1 month'", WrongType, "option keep takes a duration such as '5 s', found \"1 month\""),
        ("emit = 'soon'", WrongType, "option emit takes 'exact' or 'fresh', found \"soon\""),
        ("from = 'yesterday'", WrongType, "option from takes 'beginning' or a timestamp, found \"yesterday\""),
        ("emit = 'exact', EMIT = 'exact'", LanguageError, 'option "emit" is there twice'),
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
    assert error("zzz").detail == "existing options: " + ", ".join(option.name for option in OPTIONS)


def test_options_may_be_altered_and_keep_the_rest(bound: Bound) -> None:
    query = bound(QUERY)
    altered = with_options(query, (OptionClause("emit", "exact"),))
    assert str(altered) == f"SELECT count(*) AS n FROM trades {W} WITH (emit = 'exact')"
    assert bound(str(altered)) == query
    with pytest.raises(Unsupported, match="option priority is not honoured yet"):
        bound(str(with_options(query, (OptionClause("priority", 2),))))


def test_another_window_keeps_the_rest(bound: Bound) -> None:
    query = bound(f"SELECT symbol, sum(price) AS s FROM trades {W} WHERE volume > 5 GROUP BY symbol HAVING s > 1")
    statement = parse_statement("ALTER QUERY q SET WINDOW [WINDOW 1 h SLIDE 5 min OFFSET 1 min]")
    assert isinstance(statement, AlterQuery)
    altered = with_window(query, statement.change)  # type: ignore[arg-type]
    assert bound(str(altered)).text == query.text.replace(W, "[RANGE 1 h SLIDE 5 min OFFSET 1 min]")
    with pytest.raises(Unsupported, match="ROWS windows are not available"):
        bound(str(with_window(query, parse_statement("ALTER QUERY q SET WINDOW [ROWS 5]").change)))  # type: ignore[union-attr,arg-type]
    grouped = bound("SELECT count(*) AS n FROM trades GROUP BY window(ts, '5 minutes')")
    with pytest.raises(Unsupported, match="SET WINDOW for a query with GROUP BY window"):
        with_window(grouped, statement.change)  # type: ignore[arg-type]
