"""Reads the query files under queries/, binds them to the catalog, and collects every problem."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlglot import exp

from penstock.catalog import Catalog
from penstock.errors import CatalogError, PenstockError, ProjectError, Unsupported
from penstock.evaluate.typed import TypedQuery
from penstock.language.binding.bind import bind
from penstock.language.binding.stream_joins import bind_stream_join, is_stream_join
from penstock.language.grammar.dialect import check_windows_at_a_time
from penstock.language.grammar.literals import is_plain_word, quote
from penstock.language.grammar.parse import parse_statement
from penstock.language.statements import CreateQuery, CreateStreamAs, Select, Statement
from penstock.model.derived import pairs_stream
from penstock.model.query import Query
from penstock.model.schema import Column, Stream
from penstock.project.declarations import NAME_HINT
from penstock.project.files import read_text
from penstock.project.problems import Problem, in_file
from penstock.sources.description import UNKNOWN_TYPE
from penstock.stream.derived.columns import refuse_as_stream, stream_made_by

DEEPEST: Final = 2  # queries/big.sql and queries/desk/big.sql
_TOP_COMMENT: Final = re.compile(r"\s*(?:--[ \t]?(?P<line>[^\n]*)(?:\n|\Z)|/\*(?P<block>.*?)\*/)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """One file: the query's name, its text, what its first comments say, and where it is."""

    name: str
    file: str
    text: str
    description: str
    created: bool  # the text is a CREATE and not a bare SELECT
    makes_stream: bool = False  # its answers, or the pairs of its join, are a stream that other queries read

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
        what = "files of queries must be in queries/ or one folder below it"
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
    made = isinstance(statement, CreateStreamAs)
    created = made or isinstance(statement, CreateQuery)
    if (unfit := _unfit(statement, path.stem, text)) is not None:
        return Problem(unfit, shown)
    return QueryFile(path.stem, shown, text.rstrip(" \n\t;"), description, created, made), statement


def _unfit(statement: Statement, name: str, text: str) -> PenstockError | None:
    """Say why a statement is not this file's query."""
    start = len(text) - len(_description(text)[1].lstrip())
    place = (start, start + len((text[start:].split(None, 1) or ["x"])[0]))
    if isinstance(statement, Select):
        return None
    if not isinstance(statement, CreateQuery | CreateStreamAs):
        hint = "Streams and tables are declared in penstock.yml, functions in functions/."
        what = "a file in queries/ must hold a SELECT, a CREATE QUERY or a CREATE STREAM AS"
        return Unsupported(what, text=text, place=place, hint=hint)
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


def select_of(statement: Statement) -> Select:
    """Return the SELECT of a file's statement."""
    assert isinstance(statement, Select | CreateQuery | CreateStreamAs)
    return statement if isinstance(statement, Select) else statement.select


def in_order(found: Iterable[tuple[QueryFile, Statement]]) -> Iterator[tuple[QueryFile, Statement]]:
    """Put files that make streams before those that read them; what feeds itself stays last, and finds no stream."""
    files = list(found)
    waiting = {query.name.lower(): (query, statement) for query, statement in files if query.makes_stream}
    while ready := [name for name, (_, made) in waiting.items() if not _reads(made, waiting)]:
        yield from (waiting.pop(name) for name in ready)
    yield from waiting.values()
    yield from ((query, statement) for query, statement in files if not query.makes_stream)


def _reads(statement: Statement, names: Iterable[str]) -> bool:
    """Tell whether a statement reads one of some streams."""
    return not {name.lower() for name in sources_of(statement)}.isdisjoint(names)


def sources_of(statement: Statement) -> list[str]:
    """Name the streams and tables that a statement reads."""
    return [str(table.name) for table in select_of(statement).expression.find_all(exp.Table)]


def _enter_stream(query: Query, catalog: Catalog) -> None:
    """Enter the stream that a query's answers are; Spark would tell the types of its columns."""
    refuse_as_stream(query)
    columns = [Column(output.name, UNKNOWN_TYPE) for output in query.outputs]
    typed = TypedQuery(query, (), (), (), frozenset(), ())
    catalog.create_answers(stream_made_by(query, columns, catalog), typed)


def _enter_join(name: str, select: Select, catalog: Catalog) -> Stream:
    """Enter the stream of pairs that a join of two streams is; Spark would tell the types of its columns."""
    join, text = bind_stream_join(select, catalog, catalog.functions())
    columns = [Column(output.name, UNKNOWN_TYPE) for output in join.outputs]
    stream = pairs_stream(name, join, columns, text)
    catalog.create_joined(stream)
    return stream


def bind_query(
    query: QueryFile, statement: Statement, catalog: Catalog, windows_at_a_time: int
) -> Query | Stream | Problem:
    """Resolve a query's names against the catalog; its range may hold so many slides. A join is a stream of pairs."""
    try:
        if query.makes_stream and is_stream_join(select_of(statement), catalog):
            return _enter_join(query.name, select_of(statement), catalog)
        bound = bind(select_of(statement), catalog, query.name, catalog.functions())
        check_windows_at_a_time(bound.window, windows_at_a_time, select_of(statement).text)
        if query.makes_stream:
            _enter_stream(bound, catalog)
        return bound
    except PenstockError as error:
        return in_file(error, query.file, query.text)
