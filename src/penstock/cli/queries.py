"""Implements ``penstock add``, ``drop``, ``pause`` and ``resume``, which change the queries of an engine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from penstock.cli.arguments import json_option, query_names
from penstock.cli.carrying import carry_out
from penstock.cli.locating import SETTINGS_FILE, find_state, project_option, state_option
from penstock.cli.printing import say, say_json
from penstock.cli.waiting import wait_option
from penstock.errors import ProjectError
from penstock.printable import shown

_DONE: Final = {
    "drop": 'query "{}" is dropped from the next batch on; its answers stay',
    "pause": 'query "{}" is paused: windows that end from now on are not answered until it is resumed',
    "resume": 'query "{}" answers again, from its first window that has not ended',
}
_AS_BEFORE: Final = {
    "pause": 'query "{}" was paused already; nothing was changed',
    "resume": 'query "{}" is not paused; nothing was changed',
}


@click.command(short_help="Add a query to a running engine.")
@click.argument("name")
@click.argument("sql", required=False)
@click.option("-f", "--file", type=click.Path(path_type=Path), metavar="FILE", help="Read the query from a file.")
@click.option("--replace", is_flag=True, help="Replace the query of that name.")
@project_option
@state_option
@wait_option
@json_option
def add(
    name: str,
    sql: str | None,
    file: Path | None,
    replace: bool,
    project: Path,
    state: Path | None,
    wait_s: float | None,
    as_json: bool,
) -> None:
    """Add the query NAME; SQL is its SELECT, or - to read it from standard input.

    The engine goes on: the query takes part from the stream's next batch on, and the command says from which window
    it will answer. It is kept in the state folder, and when the project runs again; penstock drop removes it.
    If no engine runs on the state folder, it is opened here, which starts Spark.

    \b
    Examples:
      penstock add pace 'SELECT count(*) AS n FROM trades [RANGE 5 MIN SLIDE 1 MIN]'
      penstock add pace -f pace.sql --state state
      generate-query | penstock add pace - --replace
    """
    body = {"query": name, "text": _text(sql, file)}
    found = carry_out(find_state(project, state), "alter" if replace else "create", body, wait_s=wait_s)
    words = shown(found["said"])
    if replace and (defined := _file_of(project, name)) is not None:
        found["file"] = str(defined)
        words += f".\nThe next run of the project takes the text of {shown(str(defined))} again: edit that file, too"
    _tell(found, words, as_json)


def _text(sql: str | None, file: Path | None) -> str:
    """Read the query from where the user has it."""
    if (sql is None) == (file is None):
        raise click.UsageError("give the query as SQL, or - for standard input, or with --file")
    if file is None:
        text = sys.stdin.read() if sql == "-" else str(sql)
    else:
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ProjectError(f"cannot read {file}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
    if not text.strip():
        raise click.UsageError("the query is empty")
    return text.strip().rstrip(";")


def _tell(found: dict[str, Any], words: str, as_json: bool) -> None:
    """Print what came of a change."""
    if as_json:
        say_json(found)
    else:
        say(words)


def _change(verb: str, name: str, project: Path, state: Path | None, wait_s: float | None, as_json: bool) -> None:
    """Ask for a change that needs no more than a name, and say that it is made."""
    found: dict[str, Any] = carry_out(find_state(project, state), verb, {"query": name}, wait_s=wait_s)
    done = _DONE if found.get("changed", True) else _AS_BEFORE
    file, words = _file_of(project, name) if verb == "drop" else None, done[verb].format(shown(name))
    if file is not None:
        found["file"] = str(file)
        words += (
            f".\nThe next run of the project brings it back, as {shown(str(file))} defines it: delete that file, too"
        )
    _tell(found, words, as_json)


def _file_of(project: Path, name: str) -> Path | None:
    """Find the file of a project that defines a query; None: there is none."""
    folder = project.parent if project.name == SETTINGS_FILE else project
    files = sorted((folder / "queries").rglob("*.sql")) if (folder / SETTINGS_FILE).is_file() else []
    return next((file for file in files if file.stem.lower() == name.lower()), None)


@click.command(short_help="Drop a query from a running engine.")
@click.argument("name", shell_complete=query_names)
@project_option
@state_option
@wait_option
@json_option
def drop(name: str, project: Path, state: Path | None, wait_s: float | None, as_json: bool) -> None:
    """Take the query NAME out from the next batch on; its answers stay in the sinks.

    A query that a file of the project defines comes back when the project runs again: remove the file, too.

    \b
    Examples:
      penstock drop pace
      penstock drop pace --state state --json
    """
    _change("drop", name, project, state, wait_s, as_json)


@click.command(short_help="Pause a query.")
@click.argument("name", shell_complete=query_names)
@project_option
@state_option
@wait_option
@json_option
def pause(name: str, project: Path, state: Path | None, wait_s: float | None, as_json: bool) -> None:
    """Let the query NAME answer no more until it is resumed; windows that end meanwhile are not answered.

    \b
    Example:
      penstock pause pace
    """
    _change("pause", name, project, state, wait_s, as_json)


@click.command(short_help="Resume a paused query.")
@click.argument("name", shell_complete=query_names)
@project_option
@state_option
@wait_option
@json_option
def resume(name: str, project: Path, state: Path | None, wait_s: float | None, as_json: bool) -> None:
    """Let the query NAME answer again, whether it was paused on request or by an error in the data.

    It begins with the first window that has not ended, and after an error with the first that does not hold the row.

    \b
    Example:
      penstock resume pace
    """
    _change("resume", name, project, state, wait_s, as_json)
