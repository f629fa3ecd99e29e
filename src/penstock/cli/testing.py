"""Implements ``penstock test``, which runs the tests of a project and shows the differences."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.arguments import json_option, profile_option, query_names, styled
from penstock.cli.printing import say, say_json, spinning
from penstock.cli.working import end_with, sound_project, starting_spark
from penstock.errors import ProjectError, nearest
from penstock.model.counts import counted
from penstock.printable import shown

if TYPE_CHECKING:
    from penstock.project.cases import QueryTest
    from penstock.project.folder import Project
    from penstock.project.trial import TrialOutcome, Trials


@click.command()
@click.argument("words", nargs=-1, metavar="[PROJECT] [NAME]...", shell_complete=query_names)
@profile_option
@click.option("-v", "--verbose", is_flag=True, help="Print the answers that were found, too.")
@json_option
def test(words: tuple[str, ...], verbose: bool, as_json: bool) -> None:
    """Run the tests of a project's queries.

    PROJECT is a folder (default: the current one); NAMEs choose tests by their name, file or query. Every file
    tests/*.yml holds one test, or a list of tests, with:

    \b
      query         the query to test (default: the file's name)
      rows          by stream: a list, a block of CSV, or {file: rows.csv}
      tables        rows by table in the same forms (default: the project's)
      batches       rows of each batch, such as [2, 3] (default: one batch)
      clock         what the clock shows (default: a time after all rows)
      flush         false: windows that are not final stay open
      expect        the answers in order; columns not named are not compared
      contains      answers that must be there, among others and in any order
      expect_error  the code of an error or a part of its text, not answers
      name          says which test of a list it is

    Ends with 1 if a test fails.

    \b
    Examples:
      penstock test
      penstock test vwap sectors -v
      penstock test market --json
    """
    from penstock.project.cases import read_cases

    project, names = _split(words)
    cases, problems = read_cases(project)
    end_with(problems)
    chosen = _chosen(cases, names)
    outcomes = _run_all(project, chosen, verbose=verbose, quiet=as_json)
    if as_json:
        say_json(_as_dict(project, outcomes))
    if not all(outcome.passed for outcome in outcomes):
        raise click.exceptions.Exit(1)


def _split(words: Sequence[str]) -> tuple[Project, Sequence[str]]:
    """Tell the project from names of tests: it comes first, and is a folder."""
    first = Path(words[0]) if words else Path(".")
    if words and (first.is_dir() or first.name == "penstock.yml" or "/" in words[0]):
        return sound_project(first), words[1:]
    return sound_project(Path(".")), words


def _chosen(cases: Sequence[QueryTest], names: Sequence[str]) -> list[QueryTest]:
    """Choose tests by name, file or query."""
    handles = {id(case): {case.name, Path(case.file).stem, case.query, case.file} for case in cases}
    for name in names:
        if not any(name in handle for handle in handles.values()):
            known = sorted({handle for several in handles.values() for handle in several})
            raise ProjectError(f'there is no test "{name}"', hint=nearest(name, known))
    return [case for case in cases if not names or handles[id(case)] & set(names)]


def _run_all(project: Project, cases: Sequence[QueryTest], *, verbose: bool, quiet: bool) -> list[TrialOutcome]:
    """Run the tests on one Spark session and print each as it ends."""
    from penstock.project.trial import Trials

    if not cases:
        if not quiet:
            say("there are no tests in tests/")
        return []
    began = time.perf_counter()
    with starting_spark():
        trials = Trials(project)
        trials.prepare()
    outcomes = []
    for case in cases:
        outcomes.append(_run_one(trials, case))
        if not quiet:
            _tell(outcomes[-1], verbose)
    if not quiet:
        say(_summary(outcomes, time.perf_counter() - began))
    return outcomes


def _run_one(trials: Trials, case: QueryTest) -> TrialOutcome:
    """Run one test, with its name on a terminal while it runs."""
    with spinning(case.name):
        return trials.run(case)


def _tell(outcome: TrialOutcome, verbose: bool) -> None:
    """Print an outcome: a line if it passed, the differences if not."""
    from penstock.sinks.terminal import columns_of

    passed = outcome.passed
    word = styled("passed", fg="green") if passed else styled("FAILED", fg="red", bold=True)
    lines = [f"  {shown(outcome.case.name)}  ({outcome.seconds:.1f} s)"]
    if not passed:
        lines.append(f"  in {shown(outcome.case.file)}")
        lines += [f"  {difference}" for difference in outcome.differences]
    if verbose:
        lines += [f"  found  {columns_of(row)}" for row in outcome.found] or ["  found no answers"]
    say("\n".join(lines), own=word)


def _summary(outcomes: Sequence[TrialOutcome], seconds: float) -> str:
    """Count the tests."""
    failed = sum(not outcome.passed for outcome in outcomes)
    count = f"{len(outcomes) - failed} passed" + (f", {failed} failed" if failed else "")
    return f"{counted(len(outcomes), 'test', 'tests')}: {count} in {seconds:.1f} s"


def _as_dict(project: Project, outcomes: Sequence[TrialOutcome]) -> dict[str, Any]:
    """Give programs the outcomes."""
    return {
        "project": project.name,
        "passed": sum(outcome.passed for outcome in outcomes),
        "failed": sum(not outcome.passed for outcome in outcomes),
        "tests": [
            {
                "name": outcome.case.name,
                "file": outcome.case.file,
                "query": outcome.case.query,
                "passed": outcome.passed,
                "differences": list(outcome.differences),
                "seconds": round(outcome.seconds, 3),
            }
            for outcome in outcomes
        ],
    }
