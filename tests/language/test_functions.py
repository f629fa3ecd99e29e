"""CREATE FUNCTION: what a function may say, and what its calls mean once they are expanded."""

from __future__ import annotations

import pytest

from penstock.errors import LanguageError, MalformedSQL, PenstockError, UnknownColumn
from penstock.language.binding.bind import bind
from penstock.language.functions.sql_functions import define
from penstock.language.grammar.limits import MAX_NODES
from penstock.language.grammar.parse import parse_query, parse_statement
from penstock.language.statements import CreateFunction
from penstock.model.function import Function, Parameter
from penstock.model.query import Query
from tests.language.conftest import Catalog

W = "[RANGE 10 s SLIDE 1 s]"


def defined(*texts: str) -> dict[str, Function]:
    """Define functions, each with those before it."""
    functions: dict[str, Function] = {}
    for text in texts:
        statement = parse_statement(text)
        assert isinstance(statement, CreateFunction)
        functions[statement.name.lower()] = define(statement, functions)
    return functions


def bound(text: str, functions: dict[str, Function]) -> Query:
    """Bind with functions; the canonical text binds to the same without them."""
    query = bind(parse_query(text), Catalog(), "q", functions)
    assert bind(parse_query(query.text), Catalog(), "q") == query
    return query


def test_a_function_is_its_parameters_and_its_body() -> None:
    text = "CREATE FUNCTION Net(Price DOUBLE, rate decimal(4, 2)) RETURNS double RETURN (price) * (1 - RATE)"
    assert defined(text)["net"] == Function(
        "Net", (Parameter("Price", "double"), Parameter("rate", "decimal(4,2)")), "double", "`Price` * (1 - `rate`)"
    )


def test_the_function_of_the_papers_third_query() -> None:
    functions = defined("CREATE FUNCTION midcap(symbol STRING) RETURNS boolean RETURN symbol RLIKE '^M'")
    query = bound(
        "SELECT sum(T.price * T.volume) FROM Trades T [RANGE '5 min' SLIDE '5 min'] "
        "WHERE (T.volume > 100) AND midcap(T.symbol)",
        functions,
    )
    assert query.where == "`volume` > 100 AND CAST(CAST(`symbol` AS string) RLIKE '^M' AS boolean)"


def test_a_call_is_expanded_with_its_arguments_cast() -> None:
    functions = defined(
        "CREATE FUNCTION twice(x DOUBLE) RETURN x + x",
        "CREATE FUNCTION four(x DOUBLE) RETURNS int RETURN twice(Twice(x))",
    )
    assert functions["four"].body == (
        "CAST(CAST(`x` AS double) + CAST(`x` AS double) AS double) + "
        "CAST(CAST(`x` AS double) + CAST(`x` AS double) AS double)"
    )
    query = bound(
        f"SELECT TWICE(sum(t.price)) - 1, max(twice(vol)) AS m FROM trades t {W} WHERE four(1) = 4", functions
    )
    assert [output.name for output in query.outputs] == ["twice(sum(price)) - 1", "m"]
    assert query.outputs[0].expression == "CAST(`a0` AS double) + CAST(`a0` AS double) - 1"
    assert str(query.aggregates[1]) == "max(CAST(`vol` AS double) + CAST(`vol` AS double))"


def test_a_call_can_be_grouped_by_and_used_in_having() -> None:
    functions = defined("CREATE FUNCTION initial(s STRING) RETURN upper(left(s, 1))")
    query = bound(
        f"SELECT initial(symbol) i, count(*) n FROM trades {W} GROUP BY initial(symbol) HAVING initial(symbol) > 'A'",
        functions,
    )
    assert query.keys == ("upper(left(CAST(`symbol` AS string), 1))",)
    assert (query.outputs[0].expression, query.having) == ("`k0`", "`k0` > 'A'")


def test_a_function_without_parameters_is_a_constant() -> None:
    functions = defined("CREATE FUNCTION half() RETURN 0.5")
    assert bound(f"SELECT count(*) n FROM trades {W} WHERE price > half()", functions).where == "`price` > 0.5"


def test_a_query_keeps_its_function_when_the_function_changes() -> None:
    before = bound(f"SELECT sum(f(price)) s FROM trades {W}", defined("CREATE FUNCTION f(x DOUBLE) RETURN x + 1"))
    after = bound(before.text, defined("CREATE FUNCTION f(x DOUBLE) RETURN x + 2"))
    assert before == after


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        ("CREATE FUNCTION f(x INT) RETURN y", UnknownColumn, 'function "f" has no parameter "y"'),
        ("CREATE FUNCTION f(x INT) RETURN trades.x", UnknownColumn, 'function "f" has no parameter "trades"'),
        ("CREATE FUNCTION f(x INT) RETURN sum(x)", LanguageError, "aggregates are not allowed in a function"),
        ("CREATE FUNCTION f(x INT) RETURN f(x - 1)", LanguageError, 'function "f" calls itself'),
        ("CREATE FUNCTION sum(x INT) RETURN x", LanguageError, '"sum" is a built-in function'),
        ("CREATE FUNCTION UPPER(x INT) RETURN x", LanguageError, '"UPPER" is a built-in function'),
        ("CREATE FUNCTION median(x INT) RETURN x", LanguageError, '"median" is a built-in function'),
        ("CREATE FUNCTION reflect(x INT) RETURN x", LanguageError, '"reflect" is a built-in function'),
        ("CREATE FUNCTION window(x INT) RETURN x", LanguageError, '"window" is a built-in function'),
        ("CREATE FUNCTION `cast`(x INT) RETURN x", LanguageError, '"cast" cannot be the name of a function'),
        ("CREATE FUNCTION `odd name`(x INT) RETURN x", LanguageError, '"odd name" cannot be the name of a function'),
        ("CREATE FUNCTION f(x INT) RETURN rand()", LanguageError, "rand() is not available"),
        ("CREATE FUNCTION f(x INT) RETURN g(x)", LanguageError, 'there is no function "g"'),
        ("CREATE FUNCTION f(x INT, X INT) RETURN x", MalformedSQL, 'parameter "X" is declared twice'),
        ("CREATE FUNCTION f(x INT) RETURN", MalformedSQL, "expected an expression, found the end"),
        ("CREATE FUNCTION f(x INT) AS x", MalformedSQL, 'expected "RETURN", found "AS"'),
        ("CREATE FUNCTION f(x) RETURN x", MalformedSQL, 'expected a type, found ")"'),
        ("CREATE FUNCTION f(x INT) RETURN (SELECT 1)", LanguageError, "subqueries are not available"),
        ("CREATE FUNCTION f(x INT) RETURN x; DROP QUERY q", MalformedSQL, "expected one statement, found several"),
    ],
)
def test_a_wrong_function_says_what_is_wrong(text: str, kind: type[PenstockError], what: str) -> None:
    with pytest.raises(kind) as raised:
        defined(text)
    assert raised.value.what == what
    assert raised.value.place is not None


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("twice()", "twice() takes 1 argument, found 0"),
        ("twice(1, 2)", "twice() takes 1 argument, found 2"),
        ("twice(*)", "twice() takes values, not *"),
        ("twice(DISTINCT price)", "twice() takes values, not DISTINCT"),
        ("twice(prise)", 'stream "trades" has no column "prise"'),
    ],
)
def test_a_wrong_call_says_what_is_wrong(call: str, what: str) -> None:
    text = f"SELECT max({call}) AS m FROM trades {W}"
    with pytest.raises(LanguageError) as raised:
        bound(text, defined("CREATE FUNCTION twice(x DOUBLE) RETURN x + x"))
    assert raised.value.what == what
    assert raised.value.text == text


def test_functions_that_double_do_not_explode() -> None:
    chain = ["CREATE FUNCTION f0(x DOUBLE) RETURN x + x"]
    chain += [f"CREATE FUNCTION f{n}(x DOUBLE) RETURN f{n - 1}(f{n - 1}(x))" for n in range(1, 30)]
    with pytest.raises(LanguageError, match=f"more than {MAX_NODES:,} names, constants and operators once"):
        defined(*chain)
    functions = defined(chain[0])
    with pytest.raises(LanguageError, match="once functions are expanded"):
        bound(f"SELECT max({'f0(' * 30}price{')' * 30}) AS m FROM trades {W}", functions)


def test_what_could_not_be_read_again_is_refused() -> None:
    functions = defined("CREATE FUNCTION deep(x DOUBLE) RETURN " + "abs(" * 30 + "x" + ")" * 30)
    bound(f"SELECT max(deep(price)) AS m FROM trades {W}", functions)
    with pytest.raises(MalformedSQL, match="written out, the query is too large: nested more than 40 levels deep"):
        bound(f"SELECT max(deep(deep(price))) AS m FROM trades {W}", functions)
