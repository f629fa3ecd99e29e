"""functions.py: Python functions of a project, known to its queries without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.project.folder import read_project
from penstock.project.python_functions import PythonFunction
from penstock.sinks.protocol import names_of
from tests.project.making import TRADES, write_project
from tests.shell import Penstock, penstock

__all__ = ["penstock"]  # a fixture

VALUE = "SELECT sum(thrice(half(price))) AS v FROM trades [RANGE 2 MIN SLIDE 2 MIN] WHERE is_large(volume)"
PYTHON = """
import penstock
import pyarrow.compute as pc

LEAST = 100

@penstock.function()
def is_large(volume: int) -> bool:
    return volume >= LEAST

@penstock.function(parameters="p double", returns="double", vectorised=True)
def half(p):
    return pc.divide(p, 2.0)

def not_marked(x):
    return x
"""
SQL = {"thrice": "CREATE FUNCTION thrice(x DOUBLE) RETURN half(x) * 6"}


def write(folder: Path, python: str = PYTHON, **sql: str) -> Path:
    (folder / "functions").mkdir(parents=True, exist_ok=True)
    (folder / "functions.py").write_text(python, encoding="utf-8")
    for name, text in sql.items():
        (folder / "functions" / f"{name}.sql").write_text(text, encoding="utf-8")
    return folder


def test_queries_and_functions_of_sql_call_those_of_python(tmp_path: Path) -> None:
    project = read_project(write(write_project(tmp_path, TRADES, value=VALUE), **SQL))
    assert project.problems == ()
    python = [f.function for f in project.functions if isinstance(f, PythonFunction)]
    assert [f.name for f in python] == ["is_large", "half"]
    for function in python:
        assert f"{function.pinned}(" in project.bound[0].text


def test_the_same_file_elsewhere_makes_the_same_query(tmp_path: Path) -> None:
    texts = [
        read_project(write(write_project(tmp_path / place, TRADES, value=VALUE), python, **SQL)).bound[0].text
        for place, python in {"a": PYTHON, "b": f"# moved\n\n{PYTHON}", "c": PYTHON.replace("100", "101")}.items()
    ]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("python", "says", "line"),
    [
        ("import penstock\n\ndef f(x:\n", "functions.py is not valid Python", 3),
        ("import penstock\n\nx = 1 / 0\n", "functions.py fails: ZeroDivisionError: division by zero", 3),
        ("import penstock\n\n@penstock.function()\ndef f(x):\n    return x\n", 'the type of parameter "x"', None),
        ("import penstock\n\n@penstock.function()\ndef upper(x: str) -> str: ...\n", "is a built-in function", None),
        ("def f(x: int) -> int:\n    return x\n", "functions.py marks no function", None),
        ("", "functions.py marks no function", None),
    ],
)
def test_a_mistake_has_its_file_and_line(tmp_path: Path, python: str, says: str, line: int | None) -> None:
    project = read_project(write(write_project(tmp_path), python))
    (problem,) = project.problems
    assert problem.file == "functions.py"
    assert says in str(problem)
    assert line is None or (problem.position or (0, 0))[0] == line


def test_check_knows_the_names_without_spark(tmp_path: Path, penstock: Penstock) -> None:
    write(write_project(tmp_path, TRADES, value=VALUE), **SQL)
    assert penstock("check", tmp_path).code == 0
    write(tmp_path, PYTHON.replace("def half", "def third"))
    found = penstock("check", tmp_path)
    assert found.code != 0
    assert 'there is no function "half"' in found.out + found.err


@pytest.mark.usefixtures("spark")
def test_tests_of_queries_run_the_functions(tmp_path: Path, penstock: Penstock) -> None:
    write(write_project(tmp_path, TRADES.split("tables:")[0], value=VALUE), **SQL)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "value.yml").write_text(
        "rows: {trades: [{ts: 2026-01-05 14:31:00, symbol: A, price: 2.0, volume: 300}, "
        "{ts: 2026-01-05 14:31:00, symbol: A, price: 2.0, volume: 3}]}\nexpect: [{v: 3.0}]\n"
    )
    done = penstock("test", tmp_path)
    assert done.code == 0, done.out + done.err


AGGREGATE = """
import penstock

@penstock.aggregate(samples=[(1,), (5,), (-3,)])
class span:
    @staticmethod
    def lift(x: int):
        return x, x

    @staticmethod
    def combine(a, b):
        return min(a[0], b[0]), max(a[1], b[1])

    @staticmethod
    def lower(state) -> int:
        return state[1] - state[0]
"""
SPAN = "SELECT span(volume) AS v FROM trades [RANGE 2 MIN SLIDE 2 MIN]"


@pytest.mark.usefixtures("spark")
def test_a_marked_class_is_an_aggregate(tmp_path: Path, penstock: Penstock) -> None:
    write(write_project(tmp_path, TRADES.split("tables:")[0], value=SPAN), AGGREGATE)
    assert penstock("check", tmp_path).code == 0
    (tmp_path / "tests").mkdir()
    rows = ", ".join(f"{{ts: 2026-01-05 14:31:00, symbol: A, price: 2.0, volume: {v}}}" for v in (300, 3, 40))
    (tmp_path / "tests" / "value.yml").write_text(f"rows: {{trades: [{rows}]}}\nexpect: [{{v: 297}}]\n")
    done = penstock("test", tmp_path)
    assert done.code == 0, done.out + done.err


def test_a_marked_class_without_its_parts_is_a_mistake_of_the_file(tmp_path: Path) -> None:
    project = read_project(write(write_project(tmp_path), AGGREGATE.replace("def lower", "def lowered")))
    (problem,) = project.problems
    assert problem.file == "functions.py"
    assert 'aggregate "span" has no lower' in str(problem)


def test_a_function_that_is_marked_as_a_sink_is_one_of_the_project(tmp_path: Path) -> None:
    python = "import penstock\n\n@penstock.sink\ndef keep(batch):\n    return batch\n"
    settings = f"{TRADES}\nsinks:\n  - jsonl: answers\n"
    project = read_project(write(write_project(tmp_path, settings), python))
    assert project.problems == ()
    assert names_of(project.sinks()) == [f"jsonl {tmp_path / 'answers'}", "function keep"]
