"""Implements ``penstock policy``, which tells or changes the policy of a running engine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from penstock.cli.arguments import json_option
from penstock.cli.locating import find_state, project_option, state_option
from penstock.cli.printing import say, say_json
from penstock.cli.shedding import shed
from penstock.printable import shown

__all__ = ["policy", "shed"]

_TOLD: Final = {
    "policy": "answers come in the order of policy",
    "operators": "expensive functions take their rows in the order of policy",
    "synchronize": "evaluations run together by technique",
}


@click.command(short_help="Tell or change which answers come first.")
@click.argument("name", required=False)
@click.option("--operators", metavar="POLICY", help="In which order expensive functions take their rows from now on.")
@click.option("--synchronize", metavar="TECHNIQUE", help="Which evaluations run together from now on.")
@project_option
@state_option
@json_option
def policy(
    name: str | None, operators: str | None, synchronize: str | None, project: Path, state: Path | None, as_json: bool
) -> None:
    """Let the running engine choose by the policy NAME from now on; without NAME, tell by which it chooses.

    It holds until the engine stops. For good, write it into penstock.yml: defaults, policy, operator_policy and
    synchronize.

    \b
    Examples:
      penstock policy
      penstock policy HNR
      penstock policy --operators Chain-Flush
      penstock policy --synchronize CS
    """
    from penstock.control import ask_running

    asked = {"policy": name, "operators": operators, "synchronize": synchronize}
    body = {what: word for what, word in asked.items() if word is not None}
    found = ask_running(find_state(project, state).folder, "policy", body)
    if as_json:
        say_json(found)
        return
    for what, told in _TOLD.items():
        if what in body or not body:
            say(f"{told} {shown(found[what])}{' from now on' if what in body else ''}")
