"""Loads a project's functions.py, and finds the Python functions and aggregates that it marks."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from penstock.catalog import Catalog
from penstock.errors import PenstockError, ProjectError
from penstock.language.functions.python_aggregates import AggregateWish, aggregate_wish_of, algebra_in, define_aggregate
from penstock.language.functions.python_functions import Wish, define_python, wish_of
from penstock.model.function import Function
from penstock.project.files import read_text
from penstock.project.problems import Problem

if TYPE_CHECKING:
    from penstock.engine import Engine
    from penstock.sinks.callback import CallbackSink

PYTHON_FILE: Final = "functions.py"
_MODULE: Final = "project_functions"  # what the file is called once it is loaded


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """One function or aggregate: what the catalog knows of it, its code, and what its mark says."""

    function: Function
    called: Callable[..., Any]
    wish: Wish | AggregateWish

    @property
    def file(self) -> str:
        """Name the file that it is in."""
        return PYTHON_FILE

    def enter(self, engine: Engine) -> None:
        """Register it; a state folder may know an older one."""
        wish, name = self.wish, self.function.name
        types = {"parameters": wish.parameters, "returns": wish.returns}
        if isinstance(wish, AggregateWish):
            engine.create_aggregate(name, self.called, samples=wish.samples, **types, replace=True)  # type: ignore[arg-type]
            return
        ways = {"vectorised": wish.vectorised, "expensive": wish.expensive}
        engine.create_function(name, self.called, **types, **ways, replace=True)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class PythonFile:
    """What a project's functions.py marks."""

    functions: tuple[PythonFunction, ...] = ()
    sinks: tuple[CallbackSink, ...] = ()


def read_python_functions(folder: Path, catalog: Catalog, problems: list[Problem]) -> PythonFile:
    """Load the file, if there is one, and enter the functions and aggregates that it marks; find its sinks."""
    path = folder / PYTHON_FILE
    if not path.is_file():
        return PythonFile()
    text = read_text(path, PYTHON_FILE)
    module = _loaded(path, text) if isinstance(text, str) else text
    if isinstance(module, Problem):
        problems.append(module)
        return PythonFile()
    found: list[PythonFunction] = []
    sinks = _sinks_in(module)
    for called in dict.fromkeys(value for value in vars(module).values() if _is_marked(value)):
        wish = aggregate_wish_of(called) or wish_of(called)
        assert wish is not None
        try:
            function = _defined(called.__name__, called, wish)
            catalog.create_function(function)
            found.append(PythonFunction(function, called, wish))
        except PenstockError as error:
            problems.append(Problem(error, PYTHON_FILE))
    if not found and not sinks and not problems:
        hint = "Write @penstock.function() before each function that queries may call, or @penstock.aggregate(…)."
        problems.append(Problem(ProjectError(f"{PYTHON_FILE} marks no function", hint=hint), PYTHON_FILE))
    return PythonFile(tuple(found), sinks)


def _sinks_in(module: ModuleType) -> tuple[CallbackSink, ...]:
    """Find the sinks of a file; one that makes none has not loaded what they need."""
    if (known := sys.modules.get("penstock.sinks.callback")) is None:
        return ()
    return tuple(dict.fromkeys(value for value in vars(module).values() if isinstance(value, known.CallbackSink)))


def _is_marked(value: Any) -> bool:
    """Tell whether a name of the file stands for a marked function."""
    marked = wish_of(value) is not None or aggregate_wish_of(value) is not None
    return callable(value) and hasattr(value, "__name__") and marked


def _defined(name: str, called: Any, wish: Wish | AggregateWish) -> Function:
    """Define a function or an aggregate."""
    if isinstance(wish, AggregateWish):
        return define_aggregate(name, algebra_in(name, called), wish)
    return define_python(name, called, wish)


def _loaded(path: Path, text: str) -> ModuleType | Problem:
    """Run the file as a module of its own."""
    module = ModuleType(_MODULE)
    module.__file__ = str(path.resolve())
    sys.modules[_MODULE] = module  # classes of the file look for it
    try:
        exec(compile(text, module.__file__, "exec"), module.__dict__)
    except SyntaxError as error:
        return _problem(text, error.lineno or 1, f"{PYTHON_FILE} is not valid Python: {error.msg}")
    except Exception as error:  # it is the user's program: anything may happen
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == module.__file__
        ]
        return _problem(text, (lines or [1])[-1] or 1, f"{PYTHON_FILE} fails: {type(error).__name__}: {error}")
    return module


def _problem(text: str, line: int, what: str) -> Problem:
    """Point at a line of the file."""
    lines = text.splitlines(keepends=True) or [""]
    start = sum(map(len, lines[: line - 1]))
    shown = lines[min(line, len(lines)) - 1]
    place = (start + len(shown) - len(shown.lstrip()), start + len(shown.rstrip()))
    return Problem(ProjectError(what, text=text, place=place, hint="Fix it, then check again."), PYTHON_FILE)
