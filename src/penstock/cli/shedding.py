"""Implements ``penstock shed``, which tells or changes which share of a stream's rows is taken where load is shed."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.arguments import json_option
from penstock.cli.carrying import carry_out
from penstock.cli.locating import find_state, project_option, state_option
from penstock.cli.printing import say, say_json
from penstock.cli.waiting import wait_option
from penstock.printable import shown


@click.command(short_help="Tell or change the share of rows that is sampled.")
@click.argument("stream")
@click.argument("share", required=False)
@project_option
@state_option
@wait_option
@json_option
def shed(
    stream: str, share: str | None, project: Path, state: Path | None, wait_s: float | None, as_json: bool
) -> None:
    """Let queries with shed = 'sample' take the SHARE of the rows of STREAM, such as 1/4 or 25%; without it, tell it.

    It holds from the next batch on until it is changed, also when the engine runs again; 1 is all rows. Queries that
    do not say shed = 'sample' take all rows, whatever the share. Rows that agree in every column are kept or shed
    together; where there are many of them, the bounds of answers are too small.

    \b
    Examples:
      penstock shed trades 1/4
      penstock shed trades 1
      penstock shed trades
    """
    body = {"stream": stream} if share is None else {"stream": stream, "share": share}
    found = carry_out(find_state(project, state), "shed", body, wait_s=wait_s)
    if as_json:
        say_json(found)
        return
    changed = "" if share is None else " from the next batch on"
    part = "all rows" if found["share"] == "1" else f"{found['share']} of the rows"
    say(f"queries that shed load take {part} of stream {shown(found['stream'])}{changed}")
