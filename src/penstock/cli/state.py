"""Implements ``penstock state``, which verifies, backs up and restores a state folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.arguments import json_option, paragraphs
from penstock.cli.locating import find_state, project_option, state_option
from penstock.cli.printing import say, say_json
from penstock.errors import StateError
from penstock.model.counts import counted
from penstock.printable import shown

if TYPE_CHECKING:
    from penstock.store.verifying import Verified


@click.group(short_help="Verify, back up and restore a state folder.")
def state() -> None:
    """Verify, back up and restore a state folder.

    A state folder holds what an engine goes on from: its catalog, commits with partials, answers, how far sinks came,
    and Spark's checkpoints. Keep it in one piece: copies made by hand while an engine runs are of no use.

    \b
    Examples:
      penstock state verify
      penstock state backup /backups/monday
      penstock state restore /backups/monday state --force
    """


@state.command()
@state_option
@project_option
@json_option
def verify(state: Path | None, project: Path, as_json: bool) -> None:
    """Read every file and check that all belong together.

    Checks every checksum, that no file is missing, that commits, answers and sinks' progress are of one time, and that
    Spark's checkpoint is where the commits are. Changes nothing. Ends with 4 if something is wrong. The folder must
    not be in use: back it up, and the backup is verified.

    \b
    Examples:
      penstock state verify
      penstock state verify --state /backups/monday --json
    """
    from penstock.store.folder import held
    from penstock.store.verifying import verify_state

    folder = find_state(project, state).folder
    _check_free(folder, "Stop it, or run `penstock state backup`: a backup is verified.")
    with held(folder):
        found = verify_state(folder)
    if as_json:
        say_json(_as_dict(found))
    else:
        say(_as_text(found))
    if not found.sound:
        raise click.exceptions.Exit(4)


@state.command()
@click.argument("target", type=click.Path(path_type=Path))
@state_option
@project_option
@json_option
def backup(target: Path, state: Path | None, project: Path, as_json: bool) -> None:
    """Copy a state folder to TARGET, a new folder, and verify the copy.

    A running engine makes the copy itself, between two batches; otherwise the folder is locked meanwhile. What sinks
    wrote is not in the state folder: after a restore, they are set back to where the backup was.

    \b
    Examples:
      penstock state backup /backups/monday
      penstock state backup /backups/monday --state state
    """
    from penstock.store.copying import copy_state
    from penstock.store.folder import StateFolder, held

    folder, target = find_state(project, state).folder, target.absolute()
    if StateFolder.owner(folder) is not None:
        from penstock.control.asking import ask_running

        ask_running(folder, "backup", {"folder": str(target)})
        by = "by the running engine"
    else:
        with held(folder):
            copy_state(folder, target)
        by = "while no engine ran"
    files = [path.stat().st_size for path in target.rglob("*") if path.is_file()]
    found = {"state": str(folder), "backup": str(target), "files": len(files), "bytes": sum(files)}
    if as_json:
        say_json(found)
    else:
        copied = f"copied {_shown(folder)} to {_shown(target)} {by}"
        say(f"{copied}: {_sizes(len(files), sum(files))}, verified")


@state.command()
@click.argument("backup", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Move a state folder that is there aside; it is not deleted.")
@json_option
def restore(backup: Path, folder: Path, force: bool, as_json: bool) -> None:
    """Restore BACKUP to FOLDER.

    BACKUP is a folder that ``penstock state backup`` made. It is verified first, and so is the copy. FOLDER must be
    new or empty, or with --force in nobody's use.

    \b
    Examples:
      penstock state restore /backups/monday state
      penstock state restore /backups/monday state --force
    """
    from penstock.store.copying import restore_state

    _check_free(folder, "Stop it first.")
    copied, aside = restore_state(backup, folder.absolute(), force=force)
    found = {"state": str(folder), "files": copied.files, "bytes": copied.size, "moved": str(aside) if aside else None}
    lines = [f"restored {_shown(backup)} to {_shown(folder)}: {_sizes(copied.files, copied.size)}, verified"]
    if aside is not None:
        lines.append(f"what was there is in {_shown(aside)}")
    if as_json:
        say_json(found)
    else:
        say("\n".join(lines))


def _check_free(folder: Path, hint: str) -> None:
    """Refuse a folder that an engine uses."""
    from penstock.store.folder import StateFolder

    owner = StateFolder.owner(folder)
    if owner is not None:
        raise StateError(f"{owner} uses the state folder {folder}", hint=hint)


def _as_text(found: Verified) -> str:
    """Word what was found."""
    streams = counted(len(found.streams), "stream", "streams")
    about = f"{_shown(found.folder)}: {streams}, {_sizes(found.files, found.size)}"
    if found.sound:
        return f"{about}, sound"
    problems = counted(len(found.problems), "problem", "problems")
    return paragraphs([*(str(problem) for problem in found.problems), f"{about}, {problems}"])


def _as_dict(found: Verified) -> dict[str, Any]:
    """Give programs what was found."""
    problems = [{"what": p.what, "detail": p.detail, "hint": p.hint} for p in found.problems]
    about = {"state": str(found.folder), "sound": found.sound, "streams": list(found.streams)}
    return {**about, "files": found.files, "bytes": found.size, "problems": problems}


def _shown(path: Path) -> str:
    """Write a path on one line."""
    return shown(str(path))


def _sizes(files: int, size: int) -> str:
    """Write a number of files and their bytes."""
    return f"{counted(files, 'file', 'files')}, {size / 1e6:,.1f} MB"
