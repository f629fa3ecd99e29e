"""Asks the engine that runs on a state folder for something, and waits for its answer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from penstock.control.failures import error_of
from penstock.control.requests import RequestBox
from penstock.errors import NotRunning, RequestFailed
from penstock.store.folder import StateFolder

POLL_S: Final = 0.03
LOOK_S: Final = 0.5  # how often to look whether the engine is still there


class StillAtWork(KeyboardInterrupt):
    """Somebody stopped waiting for what the engine has begun, and goes on with."""


def ask_running(
    folder: Path,
    verb: str,
    body: dict[str, Any],
    timeout_s: float = 30.0,
    *,
    patient: bool = False,
) -> dict[str, Any]:
    """Ask the engine that runs on a state folder for something, and wait for its answer.

    What the engine has not taken after ``timeout_s`` it never will; what it has taken is waited for as long again,
    or with ``patient`` until it ends.
    """
    if StateFolder.owner(folder) is None:
        raise NotRunning(f"no engine runs on {folder}", hint="Start one: penstock run.")
    box = RequestBox(folder)
    number = box.put(verb, body, timeout_s)
    try:
        return _awaited(box, number, folder, timeout_s, patient)
    except KeyboardInterrupt:
        if box.withdraw(number):
            raise
        raise StillAtWork from None


def _awaited(box: RequestBox, number: int, folder: Path, timeout_s: float, patient: bool) -> dict[str, Any]:
    """Wait until a request has ended, its time is over, or the engine is gone."""
    began = looked = time.monotonic()
    while True:
        outcome = box.outcome(number)
        match outcome.state:
            case "done":
                return outcome.answer or {}
            case "failed":
                raise error_of(outcome.answer or {})
            case "lost":
                raise _unknown("the engine has ended")
            case "waiting" if time.monotonic() - began > timeout_s and box.withdraw(number):
                raise _untaken(timeout_s)
            case "taken" if time.monotonic() - began > 2 * timeout_s and not patient:
                raise _unknown(f"the engine has not finished after {2 * timeout_s:g} s")
        if time.monotonic() - looked > LOOK_S:
            looked = time.monotonic()
            _check_there(box, number, folder)
        time.sleep(POLL_S)


def _check_there(box: RequestBox, number: int, folder: Path) -> None:
    """Give up if the engine is gone; a request that it had not taken is withdrawn."""
    if StateFolder.owner(folder) is not None:
        return
    if box.withdraw(number):
        raise NotRunning(f"the engine on {folder} ended before it took the request", detail="Nothing was changed.")
    if box.outcome(number).state == "taken":
        raise _unknown("the engine has ended")


def _unknown(why: str) -> RequestFailed:
    """Say that nobody knows whether a request was carried out."""
    return RequestFailed(
        f"{why}, and it is unknown whether the request was carried out", hint="Look with penstock queries, then decide."
    )


def _untaken(timeout_s: float) -> RequestFailed:
    """Say that the engine did not listen."""
    return RequestFailed(
        f"the engine did not take the request within {timeout_s:g} s; it was withdrawn and nothing was changed",
        hint="An engine that is starting or stopping takes none; try again in a moment.",
    )
