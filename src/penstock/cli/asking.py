"""Implements ``penstock ask``, which answers a query once, and ``backfill``, which answers past windows."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.arguments import json_option, query_names
from penstock.cli.backfill_progress import backfilling
from penstock.cli.carrying import carry_out
from penstock.cli.locating import find_state, project_option, state_option
from penstock.cli.printing import say, say_json
from penstock.cli.reporting import columns_text
from penstock.cli.waiting import wait_option
from penstock.model.counts import counted
from penstock.printable import shown


@click.command(short_help="Answer a query once, from what is stored.")
@click.argument("sql")
@project_option
@state_option
@wait_option
@json_option
def ask(sql: str, project: Path, state: Path | None, wait_s: float | None, as_json: bool) -> None:
    """Answer SQL once, over the window that ends at the stream's watermark.

    The window has a RANGE and no SLIDE. It is answered from what the engine keeps for its queries, without reading
    the source; if that does not hold what the question needs, the error says what is missing.

    \b
    Examples:
      penstock ask 'SELECT max(price) FROM trades [RANGE 10 MIN]'
      penstock ask 'SELECT symbol, count(*) AS n FROM trades [RANGE 1 H] GROUP BY symbol' --json
    """
    found = carry_out(find_state(project, state), "ask", {"text": sql}, wait_s=wait_s)
    if as_json:
        say_json(found)
        return
    names = [column["name"] for column in found["columns"]]
    if not found["rows"]:
        say("no groups: the window holds no row that the query takes")
        return
    start, end = found["rows"][0][:2]
    say(f"window {start} to {end}")
    say(columns_text(names[2:], [row[2:] for row in found["rows"]]))


@click.command(short_help="Answer windows of the past from the source's history.")
@click.argument("queries", nargs=-1, required=True, shell_complete=query_names)
@click.option(
    "--from",
    "since",
    default="beginning",
    show_default=True,
    metavar="WHEN",
    help="'beginning', or a timestamp: 2026-01-05T15:00:00, UTC unless it says otherwise.",
)
@click.option(
    "--accept-changed-files", "accept", is_flag=True, help="Read files that were written again since they were read."
)
@project_option
@state_option
@json_option
def backfill(
    queries: tuple[str, ...], since: str, accept: bool, project: Path, state: Path | None, as_json: bool
) -> None:
    """Answer the windows of QUERIES that ended before they were added, in one pass over the source's history.

    The windows of the past meet those that are answered already, without a gap and without an answer twice. A running
    engine reads the past beside its batches, and answers when nothing else waits; after Ctrl-C it goes on. Needs a
    source that can be read again: files, or the generator. Files that were written again since they were first read
    are named and refused, unless they are accepted.

    \b
    Examples:
      penstock backfill pace vwap
      penstock backfill pace --from 2026-01-05T15:00:00
    """
    body = {"queries": list(queries), "since": since, "accept_changed_files": accept}
    from penstock.control import StillAtWork

    place = find_state(project, state)
    try:
        found = carry_out(place, "backfill", body, long="backfilling", showing=backfilling(place.folder, queries))
    except StillAtWork:
        say("the engine goes on with the backfill; penstock status shows how far it is", err=True)
        raise click.exceptions.Exit(130) from None
    if as_json:
        say_json(found)
        return
    for name, windows in found["windows"].items():
        say(f"{shown(name)}: {counted(windows, 'window', 'windows')} of the past answered")
