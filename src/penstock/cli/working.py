"""Opens an engine on a project folder or a script for the time of a command, and closes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.printing import say, spinning
from penstock.errors import LanguageError, ProjectError
from penstock.model.strategy import DEFAULT_STRATEGY

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from penstock.engine import Engine
    from penstock.project.folder import Project
    from penstock.project.problems import Problem
    from penstock.sinks.protocol import Sink


@dataclass(frozen=True, slots=True)
class Working:
    """An engine at work: for which project if any, what changed since its last run, what a script's statements told."""

    engine: Engine
    project: Project | None
    state: Path | None = None
    changes: tuple[str, ...] = ()
    told: tuple[pa.Table, ...] = ()


def is_script(path: Path) -> bool:
    """Tell a script of statements from a project."""
    return path.suffix.lower() == ".sql"


def sound_project(path: Path) -> Project:
    """Read a project; if it has problems, print them all and end with 1."""
    from penstock.project.folder import read_project

    project = read_project(path)
    end_with(project.problems)
    return project


def end_with(problems: Sequence[Problem]) -> None:
    """Print problems, if there are any, and end with 1."""
    from penstock.project.problems import write_problems

    if problems:
        say(write_problems(problems), err=True)
        raise click.exceptions.Exit(1)


@contextmanager
def working(
    path: Path,
    *,
    state: Path | None = None,
    sinks: Sequence[Sink] = (),
    strategy: str | None = None,
    keep: bool = False,
) -> Iterator[Working]:
    """Open an engine on a project or script; ``keep``: with the project's own state and sinks."""
    if is_script(path):
        with _script_engine(path, state, sinks, strategy) as at_work:
            yield at_work
        return
    from penstock.project.opening import enter_queries, enter_sources, open_engine, type_problems

    project = sound_project(path)
    if not project.queries:
        raise ProjectError(f"{project.name} has no queries", hint="Put one into queries/, a file each.")
    own_sinks = project.sinks() if keep else []
    own_state = state or (project.settings.state if keep else None)
    with starting_spark():
        engine = open_engine(project, state=own_state, sinks=[*own_sinks, *sinks], strategy=strategy)
    with engine:
        changes = enter_sources(project, engine)
        try:
            changes += enter_queries(project, engine)
        except LanguageError:
            end_with(type_problems(project, engine))
            raise
        yield Working(engine, project, own_state, tuple(changes))


@contextmanager
def _script_engine(path: Path, state: Path | None, sinks: Sequence[Sink], strategy: str | None) -> Iterator[Working]:
    """Open an engine and carry out a script's statements."""
    text = _script(path)
    with starting_spark():
        from penstock.engine import Engine

        engine = Engine(state, strategy=strategy or DEFAULT_STRATEGY, sinks=sinks)  # type: ignore[arg-type]
    with engine:
        yield Working(engine, None, state, told=tuple(_executed(engine, text, path)))


def _executed(engine: Engine, text: str, path: Path) -> list[pa.Table]:
    """Carry out a script; a mistake in it is shown with the script's line."""
    from penstock.project.problems import in_file

    try:
        return engine.execute(text)
    except LanguageError as error:
        if error.place is not None and error.text is not None and error.text in text:
            end_with([in_file(error, str(path), text)])
        raise


def _script(path: Path) -> str:
    """Read a script."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ProjectError(f"{path} does not exist", hint="Name a project folder or a file of statements.") from None
    except UnicodeDecodeError:
        raise ProjectError(f"cannot read {path}: it is not UTF-8 text") from None
    except OSError as error:
        raise ProjectError(f"cannot read {path}: {error.strerror}") from None


def starting_spark() -> AbstractContextManager[Any]:
    """Say on a terminal that Spark is starting, which takes some seconds."""
    return spinning("starting Spark")
