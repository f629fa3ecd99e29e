"""Implements ``penstock policy``, which tells or changes the policy of a running engine."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.arguments import json_option
from penstock.cli.locating import find_state, project_option, state_option
from penstock.cli.printing import say, say_json
from penstock.printable import shown


@click.command(short_help="Tell or change which answers come first.")
@click.argument("name", required=False)
@project_option
@state_option
@json_option
def policy(name: str | None, project: Path, state: Path | None, as_json: bool) -> None:
    """Let the running engine choose by the policy NAME from now on; without NAME, tell by which it chooses.

    It holds until the engine stops. For good, write it into penstock.yml: defaults, policy.

    \b
    Examples:
      penstock policy
      penstock policy HNR
    """
    from penstock.control import ask_running

    found = ask_running(find_state(project, state).folder, "policy", {} if name is None else {"policy": name})
    if as_json:
        say_json(found)
    else:
        changed = "" if name is None else " from now on"
        say(f"answers come in the order of policy {shown(found['policy'])}{changed}")
