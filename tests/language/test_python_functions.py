"""Python functions as the language knows them: their types, their digest, and how calls are written."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import LanguageError, PenstockError
from penstock.language.binding.bind import bind
from penstock.language.functions.fingerprint import digest_of
from penstock.language.functions.python_functions import Wish, define_python
from penstock.language.functions.sql_functions import define
from penstock.language.grammar.parse import parse_query, parse_statement
from penstock.language.statements import CreateFunction
from penstock.model.function import Function
from penstock.model.query import Query
from tests.language.conftest import Catalog

W = "[RANGE 10 s SLIDE 1 s]"
TYPED = Wish("p double", "double")


def half(p: float) -> float:
    return p / 2


def named(*functions: Function) -> dict[str, Function]:
    return {name: f for f in functions for name in (f.name.lower(), f.pinned)}


def bound(text: str, *functions: Function) -> Query:
    """Bind; the canonical text binds to the same."""
    query = bind(parse_query(text), Catalog(), "q", named(*functions))
    assert bind(parse_query(query.text), Catalog(), "q", named(*functions)) == query
    return query


def types_of(function: Function) -> tuple[str, str | None]:
    return ", ".join(f"{p.name} {p.type}" for p in function.parameters), function.returns


def test_types_come_from_the_hints_or_from_what_is_written() -> None:
    def hinted(a: int, b: float | None, c: str, d: bool, e: bytes, f: date, g: datetime) -> bool | None:
        return None

    every = "a bigint, b double, c string, d boolean, e binary, f date, g timestamp"
    assert types_of(define_python("f", hinted, Wish())) == (every, "boolean")
    assert types_of(define_python("f", half, Wish(returns="decimal(10, 2)"))) == ("p double", "decimal(10,2)")
    assert types_of(define_python("f", half, Wish({"x y": "INT"}, "array<int>"))) == ("x y int", "array<int>")
    assert types_of(define_python("root", math.sqrt, Wish("x double", "double"))) == ("x double", "double")


def test_a_call_stays_a_call_under_the_name_of_its_very_code() -> None:
    one = define_python("Half", half, Wish())
    query = bound(f"SELECT HALF(sum(half(price))) FROM trades {W} WHERE half(volume) > 2 GROUP BY half(price)", one)
    name = one.pinned
    assert (name[:5], len(name)) == ("half_", 15)
    assert query.where == f"{name}(CAST(`volume` AS double)) > 2"
    assert query.keys == (f"{name}(CAST(`price` AS double))",)
    assert [output.name for output in query.outputs] == ["half(sum(half(price)))"]
    assert query.outputs[0].expression == f"{name}(CAST(`a0` AS double))"


def test_functions_of_sql_call_those_of_python() -> None:
    one = define_python("half", half, Wish())
    created = parse_statement("CREATE FUNCTION fourth(x DOUBLE) RETURN half(half(x))")
    assert isinstance(created, CreateFunction)
    other = define(created, named(one))
    query = bound(f"SELECT count(*) FROM trades {W} WHERE fourth(price) > 1", one, other)
    inner = f"{one.pinned}(CAST(CAST(`price` AS double) AS double))"
    assert query.where == f"{one.pinned}(CAST({inner} AS double)) > 1"


def test_a_call_with_too_few_arguments_is_refused_with_its_place() -> None:
    with pytest.raises(LanguageError, match="takes 1 argument, found 2") as error:
        bound(f"SELECT count(*) FROM trades {W} WHERE half(price, 2) > 1", define_python("half", half, Wish()))
    assert "half(price, 2)" in str(error.value)
    assert "p double" in str(error.value)


# -- what it is, wherever it is written ----------------------------------------------------------------------------

LIMIT = 3


def above(p: float) -> bool:
    return p > LIMIT


def digest(called: Callable[..., Any]) -> str:
    code = define_python("f", called, TYPED).python
    assert code is not None
    return code.digest


def made(step: int, words: frozenset[str] = frozenset("abc")) -> Callable[[float], float]:
    def inner(p: float) -> float:
        return p + step if str(p) in words else sum(q * step for q in (p, p))

    return inner


def test_the_same_code_has_the_same_digest_and_other_code_another(monkeypatch: pytest.MonkeyPatch) -> None:
    assert digest(made(1)) == digest(made(1))
    assert digest(made(1)) != digest(made(2))
    assert digest(made(1)) != digest(made(1, frozenset("abd")))
    assert digest(lambda p: p + 1) == digest(lambda p: p + 1) != digest(lambda p: p + 2)
    before = digest(above)
    monkeypatch.setitem(above.__globals__, "LIMIT", 4)  # a constant of the file is part of what it computes
    assert digest(above) != before
    assert digest_of(half, 1) != digest_of(half, True)


def test_a_function_that_calls_itself_has_a_digest() -> None:
    def down(p: float) -> float:
        return down(p - 1) if p > 0 else p

    assert digest(down) == digest(down)


def test_the_digest_is_the_same_in_another_process_and_at_another_line(tmp_path: Path) -> None:
    program = """
from penstock.language.functions.fingerprint import digest_of
WORDS = frozenset({"a", "b", "c", "d"})
def helper(x): return x in {"x", "y", "z"} or x in WORDS
def f(x): return helper(x) and not any(w == x for w in WORDS)
print(digest_of(f))
"""
    texts = []
    for number, lines in enumerate(("", "\n\n# moved\n")):
        path = tmp_path / f"program{number}.py"
        path.write_text(lines + program)
        texts.append(subprocess.run([sys.executable, path], capture_output=True, text=True, check=True).stdout)
    assert texts[0] == texts[1] != ""


# -- what is refused -----------------------------------------------------------------------------------------------


def steps(p: float) -> Any:
    yield p


async def later(p: float) -> float:
    return p


def unknown_hint(p: complex) -> bool:
    return bool(p)


def lost_hint(p: Missing) -> bool:  # type: ignore[name-defined]  # noqa: F821
    return bool(p)


@pytest.mark.parametrize(
    ("name", "called", "wish", "says"),
    [
        ("f", lambda p: p, Wish(), 'the type of parameter "p" of function "f" is not known'),
        ("f", lambda p: p, Wish("p double"), 'Write it: returns="boolean"'),
        ("f", unknown_hint, Wish(), "type hints that are understood: bool, int, float"),
        ("f", lost_hint, Wish(), "cannot be read: name 'Missing' is not defined"),
        ("f", half, Wish(vectorised=True), 'the type of parameter "p"'),
        ("f", half, Wish("p double, q double"), "cannot be called with 2 arguments: too many positional"),
        ("f", lambda *, p: p, TYPED, "cannot be called with 1 argument"),
        ("f", lambda: 1, Wish("", "int"), 'function "f" has no parameters'),
        ("f", half, Wish("p dubble"), 'there is no type "dubble"'),
        ("f", half, Wish("p double", "nothing"), 'there is no type "nothing"'),
        ("f", half, Wish("p double) RETURN 1 --", "double"), "these are not parameters and a type"),
        ("f", half, Wish("p double, P double"), 'parameter "P" is declared twice'),
        ("f", steps, TYPED, 'function "f" is a generator, which gives no value'),
        ("f", later, TYPED, 'function "f" is a coroutine'),
        ("f", 7, TYPED, 'function "f" is an int, which cannot be called'),
        ("upper", half, TYPED, '"upper" is a built-in function'),
        ("sum", half, TYPED, '"sum" is a built-in function'),
        ("raise_error", half, TYPED, '"raise_error" is a built-in function'),
        ("no name", half, TYPED, '"no name" cannot be the name of a function'),
        ("select", half, TYPED, '"select" cannot be the name of a function'),
        ("", half, TYPED, 'cannot be the name of a function'),
    ],
)  # fmt: skip
def test_what_is_no_function_is_refused_with_what_to_do(name: str, called: Any, wish: Wish, says: str) -> None:
    with pytest.raises(PenstockError) as error:
        define_python(name, called, wish)
    assert says in str(error.value)
