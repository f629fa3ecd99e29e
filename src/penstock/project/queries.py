"""The files under queries/ come in; queries bound against the catalog go out, with every problem of every file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.catalog import Catalog
from penstock.errors import CatalogError, PenstockError, ProjectError, Unsupported
from penstock.language.bind import bind
from penstock.language.literals import is_plain_word, quote
from penstock.language.parse import parse_statement
from penstock.language.statements import CreateQuery, Select, Statement
from penstock.model.query import Query
from penstock.project.declarations import NAME_HINT
from penstock.project.files import read_text
from penstock.project.problems import Problem, in_file

DEEPEST: Final = 2  # queries/big.sql and queries/desk/big.sql
_TOP_COMMENT: Final = re.compile(r"\s*(?:--[ \t]?(?P<line>[^\n]*)(?:\n|\Z)|/\*(?P<block>.*?)\*/)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """One file: the query's name, its text, what its first comments say, and where it is."""

    name: str
    file: str
    text: str
    description: str
    created: bool  # the text is a CREATE QUERY and not a bare SELECT

    @property
    def statement(self) -> str:
        """Write the file as a statement of a script."""
        return self.text if self.created else f"CREATE QUERY {quote(self.name)} AS\n{self.text}"


def query_paths(folder: Path) -> list[Path]:
    """List the files of queries, in order of their names."""
    return sorted(p for p in (folder / "queries").rglob("*.sql") if p.is_file() and not p.name.startswith("."))


def read_queries(folder: Path, problems: list[Problem]) -> Iterator[tuple[QueryFile, Statement]]:
    """Read and parse every file; those with mistakes are left out and their problems noted."""
    names: dict[str, str] = {}
    for path in query_paths(folder):
        shown = path.relative_to(folder).as_posix()
        if (problem := _misplaced(path, folder, shown)) is not None:
            problems.append(problem)
        elif path.stem.lower() in names:
            what, first = f'there are two queries "{path.stem}"', names[path.stem.lower()]
            problems.append(Problem(CatalogError(what, detail=f"the other one is {first}", hint="Rename one."), shown))
        else:
            names[path.stem.lower()] = shown
            found = _read(path, shown)
            if isinstance(found, Problem):
                problems.append(found)
            else:
                yield found


def _misplaced(path: Path, folder: Path, shown: str) -> Problem | None:
    """Refuse a name that no query can have, and folders in folders."""
    if not is_plain_word(path.stem):
        return Problem(ProjectError(f'"{path.stem}" is not a name for a query', hint=NAME_HINT), shown)
    if len(path.relative_to(folder / "queries").parts) > DEEPEST:
        what = "queries lie in queries/ or one folder below it"
        return Problem(ProjectError(what, hint=f"Move it to queries/{path.name}."), shown)
    return None


def _read(path: Path, shown: str) -> tuple[QueryFile, Statement] | Problem:
    """Read one file: a SELECT, or a CREATE QUERY of the file's name."""
    text = read_text(path, shown)
    if isinstance(text, Problem):
        return text
    description, body = _description(text)
    if not body.strip(" \n\t;"):
        hint = "Write one SELECT, with a window after the stream's name."
        return Problem(ProjectError(f"{shown} holds no query", hint=hint), shown)
    try:
        statement = parse_statement(text)
    except PenstockError as error:
        return in_file(error, shown, text)
    created = isinstance(statement, CreateQuery)
    if (unfit := _unfit(statement, path.stem, text)) is not None:
        return Problem(unfit, shown)
    return QueryFile(path.stem, shown, text.rstrip(" \n\t;"), description, created), statement


def _unfit(statement: Statement, name: str, text: str) -> PenstockError | None:
    """Say why a statement is not this file's query."""
    start = len(text) - len(_description(text)[1].lstrip())
    place = (start, start + len((text[start:].split(None, 1) or ["x"])[0]))
    if isinstance(statement, Select):
        return None
    if not isinstance(statement, CreateQuery):
        hint = "Streams and tables are declared in penstock.yml, functions in functions/."
        return Unsupported("a file of queries/ holds a SELECT or a CREATE QUERY", text=text, place=place, hint=hint)
    if statement.name.lower() != name.lower():
        what = f'the file is called "{name}" and its query "{statement.name}"'
        return ProjectError(what, text=text, place=place, hint="Give both one name, or write the SELECT alone.")
    return None


def _description(text: str) -> tuple[str, str]:
    """Split the comments at the top from the rest."""
    lines: list[str] = []
    at = 0
    while (comment := _TOP_COMMENT.match(text, at)) is not None:
        lines += (comment["line"] if comment["line"] is not None else comment["block"]).strip().splitlines()
        at = comment.end()
    return "\n".join(line.strip() for line in lines).strip(), text[at:]


def bind_query(query: QueryFile, statement: Statement, catalog: Catalog) -> Query | Problem:
    """Resolve a query's names against the catalog."""
    assert isinstance(statement, Select | CreateQuery)
    select = statement.select if isinstance(statement, CreateQuery) else statement
    try:
        return bind(select, catalog, query.name, catalog.functions())
    except PenstockError as error:
        return in_file(error, query.file, query.text)
