"""Checks that Spark's checkpoint of a stream belongs to the stream's last commit."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.errors import StateError
from penstock.store.commits import Commit
from penstock.store.files import damaged


def checkpoint_id(checkpoint: Path) -> str | None:
    """Return the id that Spark gave a checkpoint; None: Spark has not used it yet."""
    path = checkpoint / "metadata"
    try:
        return str(json.loads(path.read_text(encoding="utf-8").splitlines()[-1])["id"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise damaged(path, error) from error


def check_checkpoint(checkpoint: Path, last: Commit | None, stream: str) -> None:
    """Refuse a checkpoint that is another state's, or that is not where the commits are.

    Spark writes a batch's offsets before we commit it, and its own mark of the batch after: so the checkpoint knows
    the last committed batch, and has finished none beyond it. Batches that came another way left no checkpoint.
    """
    found, batch = checkpoint_id(checkpoint), -1 if last is None else last.batch
    finished = max(_numbers(checkpoint / "commits"), default=-1)
    if last is None or not last.source:
        if finished > batch and batch < 0:
            raise _refused(stream, f"it has read batch {finished}, but there is no commit of it")
        return
    if found is None:
        raise _refused(stream, f"there is no checkpoint at {checkpoint}, but batches up to {batch} were read with one")
    if last.checkpoint is not None and found != last.checkpoint:
        raise _refused(stream, f"its id is {found}, but the commits were made with {last.checkpoint}")
    if batch not in _numbers(checkpoint / "offsets"):
        raise _refused(stream, f"it does not know batch {batch}, the last that was committed")
    if finished > batch:
        raise _refused(stream, f"it has read batch {finished}, but the last committed batch is {batch}")
    _check_position(checkpoint / "offsets" / str(batch), last)


def _check_position(path: Path, last: Commit) -> None:
    """Compare the source's position with what the commit recorded of it."""
    try:
        told = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error
    if told != last.source:
        raise damaged(path, "the commit recorded another position of the source")


def _numbers(folder: Path) -> set[int]:
    """List the batches that a log of Spark's has a file for."""
    try:
        return {int(path.name) for path in folder.iterdir() if path.name.isdigit()}
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise damaged(folder, error) from error


def _refused(stream: str, detail: str) -> StateError:
    """Word the error for a checkpoint that does not fit."""
    what = f'the state of stream "{stream}" and its Spark checkpoint do not belong together'
    hint = "Restore the whole state folder from a backup: checkpoint/ is part of it. Or start with an empty one."
    return StateError(what, detail=detail, hint=hint)
