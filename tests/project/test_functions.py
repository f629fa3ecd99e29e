"""functions/: one function a file, in any order; queries and their tests call them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.project.folder import read_project
from penstock.project.functions import FunctionFile
from tests.project.making import TRADES, write_project
from tests.shell import Penstock, penstock

__all__ = ["penstock"]  # a fixture

VALUE = "SELECT sum(notional(price, volume)) AS v FROM trades [RANGE 2 MIN SLIDE 2 MIN]"
FUNCTIONS = {  # notional calls scaled, whose file comes after it
    "notional": "CREATE FUNCTION notional(p DOUBLE, v INT) RETURNS DOUBLE RETURN scaled(p) * v",
    "scaled": "CREATE FUNCTION scaled(p DOUBLE) RETURN p * 10",
}


def write_functions(folder: Path, functions: dict[str, str]) -> Path:
    (folder / "functions").mkdir(parents=True)
    for name, text in functions.items():
        (folder / "functions" / f"{name}.sql").write_text(text, encoding="utf-8")
    return folder


def test_a_query_calls_functions_that_call_each_other(tmp_path: Path) -> None:
    project = read_project(write_functions(write_project(tmp_path, TRADES, value=VALUE), FUNCTIONS))
    assert project.problems == ()
    assert [f.created.name for f in project.functions if isinstance(f, FunctionFile)] == ["scaled", "notional"]
    assert "notional" not in project.bound[0].text


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("CREATE FUNCTION f(p INT) RETURN missing(p)", "UnknownFunction", 'no function "missing"'),
        ("CREATE FUNCTION g(p INT) RETURN p", "ProjectError", 'does not create the function "f"'),
        ("DROP FUNCTION f", "ProjectError", 'does not create the function "f"'),
        ("CREATE FUNCTION f(p INT) RETURN sum(p)", "LanguageError", "aggregates are not allowed"),
        ("CREATE FUNCTION f(p INT) RETURN f(p)", "LanguageError", "calls itself"),
        ("", "MalformedSQL", ""),
    ],
)
def test_a_mistake_in_a_function_has_its_file(tmp_path: Path, text: str, code: str, says: str) -> None:
    project = read_project(write_functions(write_project(tmp_path), {"f": text}))
    (problem,) = project.problems
    assert (problem.file, problem.error.code) == ("functions/f.sql", code)
    assert says in str(problem)


def test_functions_that_wait_for_each_other_are_both_mistakes(tmp_path: Path) -> None:
    circle = {"a": "CREATE FUNCTION a(p INT) RETURN b(p)", "b": "CREATE FUNCTION b(p INT) RETURN a(p)"}
    project = read_project(write_functions(write_project(tmp_path), circle))
    assert [p.file for p in project.problems] == ["functions/a.sql", "functions/b.sql"]


@pytest.mark.usefixtures("spark")
def test_tests_of_queries_know_the_functions(tmp_path: Path, penstock: Penstock) -> None:
    write_functions(write_project(tmp_path, TRADES.split("tables:")[0], value=VALUE), FUNCTIONS)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "value.yml").write_text(
        "rows: {trades: [{ts: 2026-01-05 14:31:00, symbol: A, price: 2.0, volume: 3}]}\nexpect: [{v: 60.0}]\n"
    )
    done = penstock("test", tmp_path)
    assert done.code == 0, done.out + done.err
