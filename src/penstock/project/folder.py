"""Reads and checks a whole project folder, without Spark and without data."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.catalog import Catalog
from penstock.errors import PenstockError, ProjectError, nearest
from penstock.language.statements import Statement
from penstock.model.query import Query
from penstock.model.schema import Stream, Table
from penstock.project.document import YamlFile
from penstock.project.files import read_text
from penstock.project.functions import FunctionFile, read_functions
from penstock.project.problems import Problem
from penstock.project.python_functions import PythonFunction, read_python_functions
from penstock.project.queries import QueryFile, bind_query, in_order, query_paths, read_queries, sources_of
from penstock.project.settings import ProjectSettings, read_settings
from penstock.sinks.settings import chosen_names
from penstock.sources.registry import FORMATS
from penstock.store.changes import ChangeLog

if TYPE_CHECKING:
    from penstock.sinks.callback import CallbackSink
    from penstock.sinks.protocol import Sink

SETTINGS_FILE: Final = "penstock.yml"


@dataclass(frozen=True, slots=True)
class Project:
    """A folder as far as it could be read; with problems it can be looked at, but not run."""

    folder: Path
    settings: ProjectSettings
    functions: tuple[PythonFunction | FunctionFile, ...]  # each after those that it calls
    queries: tuple[QueryFile, ...]
    bound: tuple[Query, ...]
    joins: Mapping[str, Stream]  # files of queries/ that join two streams, and what they are
    files: tuple[QueryFile, ...]  # of queries and joins, each after those that feed it
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    unread: frozenset[str] = frozenset()  # names of queries that have mistakes
    callbacks: tuple[CallbackSink, ...] = ()  # sinks of functions.py

    def sinks(self) -> list[Sink]:
        """Make the sinks that the project declares and marks."""
        return [*(sink.make() for sink in self.settings.sinks), *self.callbacks]

    @property
    def name(self) -> str:
        """Return the project's name."""
        return self.settings.name

    def query(self, name: str) -> QueryFile | None:
        """Find a query that has no mistakes."""
        return next((q for q in self.queries if q.name.lower() == name.lower()), None)

    def join(self, name: str) -> Stream | None:
        """Find the stream of pairs that a file makes."""
        return next((stream for known, stream in self.joins.items() if known.lower() == name.lower()), None)


def find_folder(path: Path) -> Path:
    """Return the project folder that a path names, or say that it is none."""
    folder = path.parent if path.name == SETTINGS_FILE else path
    if (folder / SETTINGS_FILE).is_file():
        return folder
    what = f"{path} does not exist" if not path.exists() else f"there is no {SETTINGS_FILE} in {folder}"
    raise ProjectError(what, hint="Name a project folder, or make one: penstock init my-project.")


def read_project(path: Path) -> Project:
    """Read and bind everything, and collect all problems."""
    folder = find_folder(path)
    problems: list[Problem] = []
    settings, text = _settings(folder, problems)
    catalog = _catalog(settings, text, problems)
    python = read_python_functions(folder, catalog, problems)
    functions: tuple[PythonFunction | FunctionFile, ...] = (
        *python.functions,
        *read_functions(folder, catalog, problems),
    )
    follows = _Following(settings, problems)
    files, bound, joins = list[QueryFile](), list[Query](), dict[str, Stream]()
    for query, statement in in_order(read_queries(folder, problems)):
        found = bind_query(query, statement, catalog, settings.windows_at_a_time)
        match found:
            case Problem():
                follows.unread.add(query.name.lower())
                if not follows.tells(found, statement):
                    problems.append(found)
                continue
            case Query():
                bound.append(found)
            case Stream():
                joins[query.name] = found
        files.append(query)
    queries = tuple(query for query in files if query.name not in joins)
    notes = _notes(settings, files, problems)
    unread = frozenset(path.stem.lower() for path in query_paths(folder)) - {query.name.lower() for query in files}
    what = (functions, queries, tuple(bound), joins, tuple(files), tuple(problems), notes, unread, python.sinks)
    return Project(folder, settings, *what)


def _settings(folder: Path, problems: list[Problem]) -> tuple[ProjectSettings, str]:
    """Read penstock.yml."""
    text = read_text(folder / SETTINGS_FILE, SETTINGS_FILE)
    if isinstance(text, Problem):
        problems.append(text)
        return ProjectSettings(folder.absolute().name, unread=None), ""
    reading = YamlFile(SETTINGS_FILE, text)
    settings = read_settings(reading, folder)
    problems += sorted(reading.problems, key=lambda problem: problem.error.place or (0, 0))
    return settings, text


def _catalog(settings: ProjectSettings, text: str, problems: list[Problem]) -> Catalog:
    """Enter streams and tables in a catalog that is kept nowhere."""
    catalog = Catalog(ChangeLog(None))
    for declared in (*settings.streams, *settings.tables):
        try:
            if isinstance(declared.item, Stream):
                catalog.create_stream(declared.item)
            else:
                catalog.create_table(declared.item)
        except PenstockError as error:
            placed = type(error)(error.what, text=text, place=declared.place, hint="Choose another name.")
            problems.append(Problem(placed, SETTINGS_FILE))
    return catalog


class _Following:
    """Tells mistakes of queries that only follow from others, in penstock.yml, a function or another query."""

    def __init__(self, settings: ProjectSettings, problems: list[Problem]) -> None:
        """Keep what could not be read."""
        self.settings, self.functions = settings, any(_of_function(problem) for problem in problems)
        self.unread: set[str] = set()  # queries with mistakes; one may make a stream that others read

    def tells(self, problem: Problem, statement: Statement) -> bool:
        """Tell whether a mistake follows from what the query reads or calls."""
        if problem.error.code == "UnknownFunction":
            return self.functions
        if problem.error.code not in ("UnknownStream", "UnknownTable", "UnknownColumn"):
            return False
        read = sources_of(statement)
        return self.settings.may_have(read) or any(name.lower() in self.unread for name in read)


def _of_function(problem: Problem) -> bool:
    """Tell whether a mistake is one of a function."""
    return problem.file is not None and problem.file.startswith("functions")


def _missing(path: str, *, table: bool) -> str | None:
    """Say that nothing is at a path yet, or that no file is where a table's are read; None: something is."""
    if any(sign in path for sign in "*?[") and not any(sign in path for sign in "{\\"):
        return None if any(glob.iglob(path, recursive=True)) else f"no file matches {path} yet"
    if "*" not in path and not Path(path).exists():
        return f"{path} does not exist yet"
    empty = table and Path(path).is_dir() and not any(one.is_file() for one in Path(path).rglob("[!._]*"))
    return f"{path} holds no files yet" if empty else None


def _notes(settings: ProjectSettings, queries: list[QueryFile], problems: list[Problem]) -> tuple[str, ...]:
    """Say what is not wrong, but will be missed."""
    notes = []
    for declared in (*settings.streams, *settings.tables):
        described = FORMATS.get(declared.item.format or "")
        for path in (declared.item.options.get(name, "") for name in (described.paths if described else ())):
            if path and "://" not in path and (missing := _missing(path, table=isinstance(declared.item, Table))):
                notes.append(f'"{declared.item.name}": {missing}')
    notes += _sinks_for_nobody(settings, [query.name for query in queries])
    if not queries and not problems:
        notes.append("there are no queries; put one into queries/, a file each")
    return tuple(notes)


def _sinks_for_nobody(settings: ProjectSettings, queries: list[str]) -> list[str]:
    """Say which sinks are for queries that there are not, or not yet."""
    known, notes = {name.lower() for name in queries}, []
    for sink in settings.sinks:
        for name in sorted(chosen_names(str(sink.settings.get("queries", ""))) - known):
            what, near = f'the {sink.kind} sink is for "{name}", and there is no such query', nearest(name, queries)
            notes.append(what if near is None else f"{what}. {near}")
    return notes
