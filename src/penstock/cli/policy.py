"""Implements ``penstock policy``, which tells or changes the policy of a running engine."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.arguments import json_option
from penstock.cli.locating import find_state, project_option, state_option
from penstock.cli.printing import say, say_json
from penstock.cli.shedding import shed
from penstock.printable import shown

__all__ = ["policy", "shed"]


@click.command(short_help="Tell or change which answers come first.")
@click.argument("name", required=False)
@click.option("--synchronize", metavar="TECHNIQUE", help="Which evaluations run together from now on.")
@project_option
@state_option
@json_option
def policy(name: str | None, synchronize: str | None, project: Path, state: Path | None, as_json: bool) -> None:
    """Let the running engine choose by the policy NAME from now on; without NAME, tell by which it chooses.

    It holds until the engine stops. For good, write it into penstock.yml: defaults, policy and synchronize.

    \b
    Examples:
      penstock policy
      penstock policy HNR
      penstock policy --synchronize CS
    """
    from penstock.control import ask_running

    asked = {"policy": name, "synchronize": synchronize}
    body = {what: word for what, word in asked.items() if word is not None}
    found = ask_running(find_state(project, state).folder, "policy", body)
    if as_json:
        say_json(found)
        return
    if name is not None or synchronize is None:
        changed = "" if name is None else " from now on"
        say(f"answers come in the order of policy {shown(found['policy'])}{changed}")
    if synchronize is not None or name is None:
        changed = "" if synchronize is None else " from now on"
        say(f"evaluations run together by technique {shown(found['synchronize'])}{changed}")
