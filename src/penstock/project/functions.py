"""Reads the SQL functions under functions/, and orders them so that each finds those it calls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog import Catalog
from penstock.errors import PenstockError, ProjectError, UnknownFunction
from penstock.language.functions.sql_functions import define
from penstock.language.grammar.parse import parse_statement
from penstock.language.statements import CreateFunction
from penstock.project.files import read_text
from penstock.project.problems import Problem, in_file

if TYPE_CHECKING:
    from penstock.engine import Engine


@dataclass(frozen=True, slots=True)
class FunctionFile:
    """One file: where it is, its text, and the function it creates."""

    file: str
    text: str
    created: CreateFunction

    def enter(self, engine: Engine) -> None:
        """Create it; a state folder may know an older one."""
        engine.execute(str(replace(self.created, or_replace=True, if_not_exists=False)))


def read_functions(folder: Path, catalog: Catalog, problems: list[Problem]) -> tuple[FunctionFile, ...]:
    """Read and define every function; one that calls another waits for it, whatever their files are called."""
    waiting = [found for path in _paths(folder) if (found := _read(path, folder, problems)) is not None]
    entered: list[FunctionFile] = []
    while waiting:
        failed = [(one, error) for one in waiting if (error := _define(one, catalog, entered)) is not None]
        if len(failed) == len(waiting):
            problems += [in_file(error, one.file, one.text) for one, error in failed]
            break
        waiting = [one for one, error in failed if isinstance(error, UnknownFunction)]
        problems += [in_file(e, one.file, one.text) for one, e in failed if not isinstance(e, UnknownFunction)]
    return tuple(entered)


def _paths(folder: Path) -> list[Path]:
    """List the files of functions, in order of their names."""
    return sorted(p for p in (folder / "functions").glob("*.sql") if p.is_file() and not p.name.startswith("."))


def _read(path: Path, folder: Path, problems: list[Problem]) -> FunctionFile | None:
    """Read one file: a CREATE FUNCTION of the file's name."""
    shown = path.relative_to(folder).as_posix()
    text = read_text(path, shown)
    if isinstance(text, Problem):
        problems.append(text)
        return None
    try:
        statement = parse_statement(text)
    except PenstockError as error:
        problems.append(in_file(error, shown, text))
        return None
    if not isinstance(statement, CreateFunction) or statement.name.lower() != path.stem.lower():
        hint = f"Write CREATE FUNCTION {path.stem}(…) RETURN …"
        problems.append(Problem(ProjectError(f'{shown} does not create the function "{path.stem}"', hint=hint), shown))
        return None
    return FunctionFile(shown, text, statement)


def _define(one: FunctionFile, catalog: Catalog, entered: list[FunctionFile]) -> PenstockError | None:
    """Enter a function; return why it cannot be, if it cannot."""
    try:
        catalog.create_function(define(one.created, catalog.functions()))
    except PenstockError as error:
        return error
    entered.append(one)
    return None
