"""Converts answers from Arrow to pandas, polars or rows, as a program asks for."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, Literal, get_args

import pyarrow as pa

from penstock.errors import EnvironmentProblem, Unsupported, nearest
from penstock.sinks.row_values import python_rows

Form = Literal["arrow", "pandas", "polars", "rows"]
FORMS: Final[tuple[str, ...]] = get_args(Form)


def in_form(answers: pa.Table, form: Form) -> Any:
    """Return answers as an Arrow table, a pandas or polars DataFrame, or a list of rows."""
    match form:
        case "arrow":
            return answers
        case "rows":
            return python_rows(answers)
        case "pandas":
            return _frame(_require("pandas"), answers)
        case "polars":
            return _require("polars").from_arrow(answers)
    raise Unsupported(
        f'there is no form "{form}" of results', detail=f"forms: {', '.join(FORMS)}", hint=nearest(str(form), FORMS)
    )


def _frame(pandas: Any, answers: pa.Table) -> Any:
    """Make a DataFrame; columns with dates that pandas cannot hold come as rows have them, as objects."""
    try:
        return answers.to_pandas()
    except (OverflowError, ValueError):
        columns = {name: _series(pandas, answers.select([name])) for name in answers.column_names}
        return pandas.DataFrame(columns)


def _series(pandas: Any, answers: pa.Table) -> Any:
    """Make one column of a DataFrame."""
    [name] = answers.column_names
    try:
        return answers.to_pandas()[name]
    except (OverflowError, ValueError):
        return pandas.Series([row[name] for row in python_rows(answers)], dtype=object)


def _require(package: str) -> Any:
    """Load a package that Penstock itself does not need, or say how to get it."""
    try:
        return import_module(package)
    except ImportError as error:
        hint = f'Run `pip install {package}`, or take form="arrow".'
        raise EnvironmentProblem(f"{package} cannot be loaded", detail=str(error), hint=hint) from None
