"""Implements ``penstock check``, which finds all mistakes of a project without Spark and without data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.arguments import json_option, paragraphs, project_argument
from penstock.cli.printing import say, say_json
from penstock.cli.working import starting_spark
from penstock.model.counts import counted
from penstock.model.derived import source_of, text_of
from penstock.printable import shown

if TYPE_CHECKING:
    from penstock.project.folder import Project
    from penstock.project.problems import Problem


@click.command()
@project_argument
@click.option("--types", is_flag=True, help="Start Spark and let it check the types of all expressions, too.")
@json_option
def check(project: Path, types: bool, as_json: bool) -> None:
    """Find all mistakes of PROJECT, without Spark and without data.

    Reads penstock.yml, every file of queries/ and every test, resolves all names, and reports everything that is
    wrong at once, with file, line and column. PROJECT is a folder (default: the current one). Columns that
    penstock.yml does not declare are looked up in the data: Parquet's schema, the header of CSV, the first lines of
    JSON. Ends with 1 if there is a mistake.

    \b
    Examples:
      penstock check
      penstock check market --types
      penstock check --json | jq '.problems[].file'
    """
    from penstock.project.cases import read_cases
    from penstock.project.folder import read_project

    found = read_project(project)
    problems = list(found.problems)
    cases, wrong_cases = read_cases(found)
    problems += wrong_cases
    if types and not problems:
        problems += _type_problems(found)
    if as_json:
        say_json(_as_dict(found, problems, len(cases)))
    else:
        say(_as_text(found, problems, len(cases), typed=types))
    if problems:
        raise click.exceptions.Exit(1)


def _type_problems(project: Project) -> list[Problem]:
    """Let Spark type the queries."""
    from penstock.project.opening import open_engine, source_problems, type_problems

    with starting_spark():
        engine = open_engine(project)
    with engine:
        return source_problems(project, engine) or type_problems(project, engine)


def _as_text(project: Project, problems: list[Problem], cases: int, *, typed: bool) -> str:
    """Word what was found, and whether types were looked at."""
    settings = project.settings
    counts = (
        counted(len(settings.streams), "stream", "streams"),
        counted(len(settings.tables), "table", "tables"),
        *([counted(len(project.joins), "join of two streams", "joins of two streams")] if project.joins else []),
        counted(len(project.queries), "query", "queries"),
        counted(cases, "test", "tests"),
    )
    notes = [f"note: {shown(note)}" for note in project.notes]
    if not problems:
        looked = "" if typed else " (types were not looked at: --types does)"
        return "\n".join([f"{shown(project.name)}: {', '.join(counts)}, no mistakes{looked}", *notes])
    parts = [str(problem) for problem in problems]
    if notes:
        parts.append("\n".join(notes))
    return paragraphs([*parts, counted(len(problems), "mistake", "mistakes")])


def _as_dict(project: Project, problems: list[Problem], cases: int) -> dict[str, Any]:
    """Give programs what was found."""
    about = {query.name: query for query in project.queries}
    queries = [
        {
            "name": query.name,
            "file": about[query.name].file,
            "description": about[query.name].description,
            "stream": source_of(query.stream),
            "window": str(query.window),
            "text": query.text,
        }
        for query in project.bound
    ]
    return {
        "project": project.name,
        "ok": not problems,
        "streams": [declared.item.name for declared in project.settings.streams],
        "tables": [declared.item.name for declared in project.settings.tables],
        "joins": [
            {"name": file.name, "file": file.file, "description": file.description, "text": text_of(stream)}
            for file in project.files
            if (stream := project.join(file.name)) is not None
        ],
        "queries": queries,
        "tests": cases,
        "problems": [problem.to_dict() for problem in problems],
        "notes": list(project.notes),
    }
