"""Implements ``penstock status`` and ``penstock queries``, which show how an engine and its queries stand."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Final

import click

from penstock.cli.arguments import json_option, project_argument
from penstock.cli.locating import find_state, state_option
from penstock.cli.printing import say, say_json
from penstock.cli.status_text import queries_text, status_text
from penstock.errors import NotRunning, RequestFailed
from penstock.printable import shown

PERIOD_S: Final = 1.0
ANSWERED_WITHIN_S: Final = 5.0
_REQUESTS: Final = {
    "waiting": "request {} waits for the engine",
    "taken": "the engine is at work on request {}",
    "done": "request {} was carried out",
    "withdrawn": "request {} was withdrawn; nothing was changed",
    "lost": "request {} is not known: answers are kept for an hour, and for as long as its engine runs",
}
_CLEARED: Final = "\x1b[H\x1b[2J"


@click.command(short_help="Show how a running engine and its streams are.")
@project_argument
@state_option
@click.option("--request", type=int, metavar="N", help="Show what came of request N.")
@click.option("--watch", is_flag=True, help="Show it again every second until Ctrl-C.")
@click.option("--check", is_flag=True, help="Exit with 1 if anything needs attention: see below.")
@json_option
def status(project: Path, state: Path | None, request: int | None, watch: bool, check: bool, as_json: bool) -> None:
    """Show whether an engine runs on PROJECT, and where its streams and sinks stand.

    Every row that came is counted as exactly one thing: ingested = on time + corrected + late + invalid + duplicate.
    If no engine runs, this is what the last one left. Starts no Spark. With --check it ends with 1 if no engine runs,
    a stream has stopped, a sink fails, an error has paused a query, or the counts do not add up.

    \b
    Examples:
      penstock status
      penstock status --state state --watch
      penstock status --check > /dev/null || page-somebody
    """
    folder = find_state(project, state).folder
    if request is not None:
        _tell_request(folder, request, as_json)
        return
    try:
        while True:
            found = found_status(folder)
            if as_json:
                say_json(found)
            else:
                say(status_text(found), own=_CLEARED if watch and sys.stdout.isatty() else "")
            if not watch:
                break
            time.sleep(PERIOD_S)
    except KeyboardInterrupt:
        if not watch:
            raise
    if check and troubles(found):
        raise click.exceptions.Exit(1)


def _tell_request(folder: Path, number: int, as_json: bool) -> None:
    """Print what came of a request."""
    from penstock.control.failures import error_of
    from penstock.control.requests import FILE, RequestBox, RequestOutcome

    lost = RequestOutcome("lost", None)
    outcome = RequestBox(folder).outcome(number) if (folder / FILE).exists() else lost
    if as_json:
        say_json({"request": number, "state": outcome.state, "answer": outcome.answer})
    elif outcome.state == "failed":
        raise error_of(outcome.answer or {})
    else:
        said = (outcome.answer or {}).get("said")
        say(shown(_REQUESTS[outcome.state].format(number) + (f": {said}" if said else "")))


@click.command(short_help="List the queries of an engine, and how each is.")
@project_argument
@state_option
@json_option
def queries(project: Path, state: Path | None, as_json: bool) -> None:
    """List the queries of PROJECT's engine: window, whether each answers, its next window, and where it came from.

    \b
    Examples:
      penstock queries
      penstock queries --state state --json | jq '.queries[] | select(.state == "paused")'
    """
    found = found_status(find_state(project, state).folder)
    if as_json:
        say_json({"queries": found["queries"]})
    else:
        say(queries_text(found))


def found_status(folder: Path) -> dict[str, Any]:
    """Ask the running engine how everything is; where none answers, read it from the state folder."""
    from penstock.control import ask_running
    from penstock.store.folder import StateFolder

    owner, answers = StateFolder.owner(folder), False
    head = {"folder": str(folder), "running": owner is not None}
    head |= {"pid": owner.pid if owner else None, "since_us": owner.since_us if owner else None}
    try:
        found, answers = ask_running(folder, "status", {}, ANSWERED_WITHIN_S), True
    except (NotRunning, RequestFailed):  # an engine that starts or stops answers nobody
        from penstock.control.reading import read_status

        found = read_status(folder).to_dict()
    return {**found, **head, "answers_requests": answers}


def troubles(found: dict[str, Any]) -> list[str]:
    """List what needs a person."""
    wrong = [] if found["running"] else ["no engine runs"]
    for stream in found["streams"]:
        name = stream["stream"]
        wrong += [f"{name}: {stream['failure']}"] if stream["failure"] else []
        wrong += [] if stream["law_holds"] else [f"{name}: the counts do not add up"]
        wrong += [f"{name}: {sink['sink']} fails" for sink in stream["sinks"] if sink["failure"]]
    return wrong + [f"{query['query']} is paused" for query in found["queries"] if query["failed"]]
