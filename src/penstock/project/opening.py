"""Opens an engine on a project, and brings its catalog to what the folder says."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import CatalogError, LanguageError, PenstockError, ProjectError, Unsupported, WrongType
from penstock.language.binding.query_text import write_name
from penstock.language.grammar.parse import parse_statement
from penstock.language.statements import CreateStream, CreateTable
from penstock.model.derived import source_of, text_of
from penstock.model.query import Query
from penstock.model.schema import Stream
from penstock.project.declarations import Declared
from penstock.project.document import Place
from penstock.project.files import read_text
from penstock.project.folder import SETTINGS_FILE, Project
from penstock.project.former_sources import drop_former_sources
from penstock.project.problems import Problem, in_file
from penstock.project.python_functions import PythonFunction
from penstock.project.queries import QueryFile, select_of
from penstock.project.settings import PASSED

if TYPE_CHECKING:
    from penstock.engine import Engine
    from penstock.sinks.protocol import Sink

STAYS: Final = "Change it back. The new one goes into a file of another name, beside it or in its place."


def open_engine(
    project: Project, *, state: Path | None = None, sinks: Sequence[Sink] = (), strategy: str | None = None
) -> Engine:
    """Start Spark as the project asks and open its state; nothing is entered yet."""
    from penstock.engine import Engine

    session, how = start_spark(project), strategy or project.settings.strategy
    given = {name: getattr(project.settings, name) for name in PASSED}
    return Engine(state, spark=session, strategy=how, sinks=sinks, **given)  # type: ignore[arg-type]


def start_spark(project: Project) -> Any:
    """Start the embedded Spark as the project asks, or return the session that runs already."""
    from penstock.spark.session.embedded import embedded

    wish = project.settings.spark
    memory = {} if wish.memory is None else {"memory": wish.memory}
    return embedded(cores=wish.cores, settings=dict(wish.settings or {}), **memory)


def enter_sources(project: Project, engine: Engine) -> list[str]:
    """Enter streams, tables and functions; those that a state folder knows go on as the project says now.

    What cannot go on is refused with its line. Returned is what has changed.
    """
    changes: list[str] = []
    for declared in (*project.settings.streams, *project.settings.tables):
        kind = "stream" if isinstance(declared.item, Stream) else "table"
        try:
            found = _taken_over(project, engine, declared, changes)
        except CatalogError as error:
            raise _in_settings(project, engine, declared, error) from None
        if found:
            changes.append(f'{kind} "{declared.item.name}" goes on with changes: {", ".join(found)}')
    for function in project.functions:
        function.enter(engine)
    return changes


def _taken_over(project: Project, engine: Engine, declared: Declared, changes: list[str]) -> list[str]:
    """Let a stream or table go on as it is declared; queries that are gone from the folder are not in the way."""
    statement = create_statement(declared)
    try:
        return engine.replace_source(statement)
    except CatalogError:
        changes += _drop_former(project, engine)
        return engine.replace_source(statement)


def _in_settings(project: Project, engine: Engine, declared: Declared, error: CatalogError) -> CatalogError:
    """Let an error about a stream or table point at its line in penstock.yml."""
    text = read_text(project.folder / SETTINGS_FILE, SETTINGS_FILE)
    where = text if isinstance(text, str) else None
    place = _place(declared, error)
    at = Problem(CatalogError(error.what, text=where, place=place)).position
    line = "" if at is None else f":{at[0]}"
    what, hint = f"{SETTINGS_FILE}{line}: {error.what}", error.hint
    if readers := _edited_readers(project, engine, error):
        say = f"{', '.join(readers)} changed, and open windows are answered as before, with what penstock.yml had"
        hint = f"{say}. Put that back, run, and take it out once those windows are final."
    return CatalogError(what, text=where, place=place, detail=error.detail, hint=hint)


def _edited_readers(project: Project, engine: Engine, error: CatalogError) -> list[str]:
    """List the queries in the way that the folder has edited already."""
    told = error.detail or ""
    named = [query for query in project.bound if f'query "{query.name}"' in told]
    return [f'query "{query.name}"' for query in named if not _is_entered(project, engine, query)]


def source_problems(project: Project, engine: Engine) -> list[Problem]:
    """Enter streams, tables and functions of a project that is nowhere else, and collect what Spark refuses."""
    problems: list[Problem] = []
    text = (project.folder / SETTINGS_FILE).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as empty:
        for declared in (*project.settings.streams, *project.settings.tables):
            try:
                engine.execute(create_statement(_without_data(declared, empty)))
            except PenstockError as error:
                placed = type(error)(
                    error.what, text=text, place=_place(declared, error), detail=error.detail, hint=error.hint
                )
                problems.append(Problem(placed, SETTINGS_FILE))
            else:
                problems += _wrong_columns(declared, engine, text)
    for function in project.functions if not problems else ():
        try:
            function.enter(engine)
        except PenstockError as error:
            problems.append(Problem(error, function.file))
    return problems


def _wrong_columns(declared: Declared, engine: Engine, text: str) -> list[Problem]:
    """Let Spark type the columns that a stream computes."""
    from penstock.spark.sources.computed_columns import not_typed

    stream, problems = engine.catalog.stream(declared.item.name), []
    computed = stream is not None and any(column.expression for column in stream.columns)
    for name, why in not_typed(engine.session, stream.columns).items() if stream is not None and computed else ():
        what = f'column "{name}" of stream "{declared.item.name}" cannot be computed'
        place = declared.columns.get(name.lower(), declared.place)
        problems.append(Problem(WrongType(what, text=text, place=place, detail=why), SETTINGS_FILE))
    return problems


def _without_data(declared: Declared, empty: str) -> Declared:
    """Let a path that does not exist yet be an empty folder, where columns are declared: nothing is read here."""
    path = declared.item.options.get("path", "://")
    if not declared.item.columns or "://" in path or "*" in path or Path(path).exists():
        return declared
    return replace(declared, item=replace(declared.item, options={**declared.item.options, "path": empty}))


def _place(declared: Declared, error: PenstockError) -> Place:
    """Find what an error about a stream or table is about: the column that it points to or names, else its name."""
    pointed = error.text[slice(*error.place)] if error.text and error.place else ""
    told = f"{error.what} {error.detail or ''}".lower()
    if (named := re.match(r'column "([^"]+)"', told)) is not None:
        return declared.columns.get(named[1], declared.place)
    for name, place in declared.columns.items():
        if pointed.strip("`").lower() == name or f'"{name}"' in told or f"`{name}`" in told:
            return place
    return declared.place


def enter_queries(project: Project, engine: Engine) -> list[str]:
    """Bring the engine's queries to what the folder says; return what changed in a state that was there before."""
    _refuse_first(project, engine)
    changes = _drop_former(project, engine)
    known = [query.name for query in project.queries if engine.catalog.has("query", query.name)]
    there = {*known, *(name for name in project.joins if engine.catalog.has("stream", name))}
    fresh = [file for file in project.files if file.name not in there]
    if engine.catalog.query_names() or changes:  # a project that begins has nothing new
        changes += [f'{"join" if file.name in project.joins else "query"} "{file.name}" is new' for file in fresh]
    try:
        engine.execute("\n;\n".join(file.statement for file in fresh))
        bound = {query.name.lower(): query for query in project.bound}
        changes += [said for name in known for said in _brought_up_to_date(project, engine, bound[name.lower()])]
        changes += [*_drop_former(project, engine), *_still_read(project, engine)]  # of streams that were read before
        changes += drop_former_sources(project, engine)
    except LanguageError as error:
        if problems := type_problems(project, engine):
            raise problems[0].error from None
        raise error
    return changes


def _brought_up_to_date(project: Project, engine: Engine, bound: Query) -> list[str]:
    """Alter a query that means something else in the folder by now; say so."""
    if _is_entered(project, engine, bound):
        return []
    name = bound.name
    query, found = project.query(name), engine.catalog.query(name)
    if query is None or query.makes_stream:
        return []
    entered = engine.alter_query(name, str(select_of(parse_statement(query.text))), origin="")
    if entered.id == found.id:
        return []
    version = engine.catalog.version_of(entered.id)
    return [f'query "{name}" changed: version {version} answers the windows that begin from now on']


def _refuse_first(project: Project, engine: Engine) -> None:
    """Refuse queries that ask for what cannot be had before any query is dropped for them, or entered beside them."""
    for file, query in zip(project.queries, project.bound, strict=True):
        if engine.catalog.stream(source_of(query.stream)) is None or _is_entered(project, engine, query):
            continue  # what the project itself makes has no past, and what is there changes nothing
        try:
            engine.check_query(query, select_of(parse_statement(file.text)))
        except Unsupported as error:
            what = f"{error.what}, and {file.file} asks for it"
            raise ProjectError(what, detail=error.detail, hint=error.hint) from None


def _drop_former(project: Project, engine: Engine) -> list[str]:
    """Drop queries that are gone from the folder; those added by hand were never in it."""
    known = {query.name.lower(): query for query in project.bound}
    changes = []
    for name in reversed(_made(engine)):  # readers of a stream go before it
        if name in engine.catalog.joins():
            changes += _drop_join(project, engine, name)
            continue
        wanted, found = known.get(name.lower()), engine.catalog.query(name)
        makes_stream = engine.catalog.makes_stream(name)
        if wanted is not None:
            if makes_stream and not _is_entered(project, engine, wanted):
                what = f'stream "{name}" is not as in {_file_of(project, name)}'
                raise CatalogError(what, detail="answers that others read stay those of one query", hint=STAYS)
        elif found.origin != "added" and _dropped(engine, name):
            changes.append(f'query "{name}" is gone')
    return changes[::-1]


def _made(engine: Engine) -> list[str]:
    """List the queries and joins of an engine, each after those that feed it."""
    joins, makes_stream = engine.catalog.joins(), engine.catalog.makes_stream
    plain = [name for name in engine.catalog.query_names() if not makes_stream(name)]
    return [*(name for name in engine.catalog.stream_names() if name in joins or makes_stream(name)), *plain]


def _drop_join(project: Project, engine: Engine, name: str) -> list[str]:
    """Drop a join that is gone from the folder; refuse one that joins something else by now."""
    wanted, known = project.join(name), engine.catalog.known_stream(name)
    if wanted is None:
        return [f'join "{name}" is gone'] if _dropped(engine, name) else []
    if _as_entered(project, engine, text_of(wanted)) != text_of(known):
        what = f'join "{name}" is not as in {_file_of(project, name)}'
        raise CatalogError(what, hint=STAYS)
    return []


def _dropped(engine: Engine, name: str) -> bool:
    """Drop a query or a join; one that makes a stream stays as long as another one reads that."""
    if name not in engine.catalog.joins() and not engine.catalog.makes_stream(name):
        engine.drop_query(name)
        return True
    try:
        engine.execute(f"DROP STREAM {write_name(name)}")
    except CatalogError:
        return False
    return True


def _still_read(project: Project, engine: Engine) -> list[str]:
    """Tell which streams are gone from the folder, and stay for what reads them."""
    known = {query.name.lower() for query in project.bound}
    gone = [name for name in engine.catalog.query_names() if name.lower() not in known]
    stay = [n for n in gone if engine.catalog.makes_stream(n) and engine.catalog.query(n).origin != "added"]
    stay += [name for name in engine.catalog.joins() if project.join(name) is None]
    return [f'stream "{name}" is gone from the folder, and stays until nobody reads it' for name in stay]


def _is_entered(project: Project, engine: Engine, query: Query) -> bool:
    """Tell whether a query is there as the folder has it."""
    known = engine.catalog.has("query", query.name)
    return known and _as_entered(project, engine, query.text) == engine.catalog.query(query.name).query.text


def _as_entered(project: Project, engine: Engine, text: str) -> str:
    """Write a query as the engine does: Python code that is registered again may keep an older id."""
    for one in project.functions:
        if isinstance(one, PythonFunction):
            text = text.replace(f"{one.function.pinned}(", f"{engine.catalog.function(one.function.name).pinned}(")
    return text


def _file_of(project: Project, name: str) -> str:
    """Name the file of a query."""
    return next((file.file for file in project.files if file.name.lower() == name.lower()), name)


def type_problems(project: Project, engine: Engine) -> list[Problem]:
    """Let Spark type every query, and collect what it refuses."""
    problems: list[Problem] = []
    waiting: list[QueryFile] = []
    for query in project.files:
        if query.makes_stream:  # others read it
            try:
                engine.execute(query.statement)
            except PenstockError as error:
                problems.append(in_file(error, query.file, query.text))
                continue
        if query.name not in project.joins:
            waiting.append(query)
    selects = [(select_of(parse_statement(query.text)), query.name) for query in waiting]
    for query, found in zip(waiting, engine.typed_all(selects), strict=True):
        if isinstance(found, PenstockError):
            problems.append(in_file(found, query.file, query.text))
    return problems


def create_statement(declared: Declared) -> str:
    """Write a stream or table as the statement that creates it; columns that files tell are left to Spark."""
    item = declared.item if declared.with_columns else replace(declared.item, columns=())
    return str(CreateStream(item) if isinstance(item, Stream) else CreateTable(item))
