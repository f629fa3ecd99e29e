"""Finds the state folder of a project."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from penstock.cli.arguments import profile_option
from penstock.cli.working import is_script
from penstock.errors import ProjectError, StateError

SETTINGS_FILE: Final = "penstock.yml"

state_option: Final = click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="The state folder; by default the one that penstock.yml names.",
)
_project_option: Final = click.option(
    "--project",
    type=click.Path(path_type=Path),
    default=".",
    metavar="FOLDER",
    help="The project; by default the current folder.",
)


def project_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the project's folder and profile."""
    return _project_option(profile_option(command))


@dataclass(frozen=True, slots=True)
class Place:
    """A state folder, and the project that it belongs to if one was named."""

    folder: Path
    project: Path | None


def find_state(project: Path, state: Path | None) -> Place:
    """Find the state folder of a project, or say that nothing ran there yet."""
    place = Place(state, None) if state is not None else Place(_named_by(project), project)
    if not (place.folder / "format").is_file():
        raise _no_state(place.folder)
    return place


def _no_state(folder: Path) -> StateError:
    """Say that there is no state in a folder, or not yet."""
    from penstock.store.folder import StateFolder

    if (owner := StateFolder.owner(folder)) is not None:
        return StateError(f"an engine is just starting on {folder} ({owner})", hint="Ask again in a few seconds.")
    what = f"{folder} does not exist" if not folder.exists() else f"{folder} is not a state folder"
    begun = "One that was just started makes the folder once Spark is up, some seconds later."
    return StateError(what, hint=f"Start an engine on it first: penstock run. {begun}")


def _named_by(project: Path) -> Path:
    """Read which state folder a project names; its other settings are not looked at."""
    if is_script(project):
        raise ProjectError("a script names no state folder", hint="Name it: --state FOLDER.")
    folder = project.parent if project.name == SETTINGS_FILE else project
    if not (folder / SETTINGS_FILE).is_file():
        from penstock.project.folder import find_folder  # says what is wrong; importing it takes long

        folder = find_folder(project)
    named = _settings(folder / SETTINGS_FILE).get("state")
    if not isinstance(named, str) or not named:
        hint = "Name one with --state FOLDER, or put state: state into penstock.yml."
        raise ProjectError(f"{folder.absolute().name} keeps no state: penstock.yml names no state folder", hint=hint)
    return folder / named


def _settings(path: Path) -> dict[str, Any]:
    """Read the settings as plain YAML, with the profile and the variables of the environment."""
    from yaml.nodes import MappingNode

    from penstock.project.document import YamlFile, value_of
    from penstock.project.environment import PROFILE, fill_in, with_profile

    try:
        reading = YamlFile(path.name, path.read_text(encoding="utf-8-sig"))
        root = reading.root()
    except (OSError, UnicodeDecodeError, RecursionError):
        root = None
    if root is None:
        raise ProjectError(f"cannot read {path}", hint="penstock check says what is wrong.")
    if not isinstance(root, MappingNode):
        return {}
    root = with_profile(reading, root, os.environ.get(PROFILE, ""))
    fill_in(reading, root, os.environ)
    found = value_of(root)
    return found if isinstance(found, dict) else {}
