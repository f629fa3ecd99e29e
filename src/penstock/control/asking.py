"""Asks the engine that runs on a state folder for something, and waits for its answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from penstock.control.aftermath import what_came_of
from penstock.control.failures import error_of
from penstock.control.requests import RequestBox
from penstock.errors import NotRunning, RequestFailed
from penstock.model.duration import SECOND, format_duration
from penstock.store.folder import StateFolder

POLL_S: Final = 0.03
LOOK_S: Final = 0.5  # how often to look whether the engine is still there
EXPIRES_S: Final = 60.0  # a request whose requester has died is taken so long afterwards, and then never
RENEW_S: Final = 15.0  # who waits says so this often

Waits: TypeAlias = Literal["waiting", "taken"]
Told: TypeAlias = Callable[[Waits, float], None]  # for what one waits, and for how many seconds by now


class StillAtWork(KeyboardInterrupt):
    """Somebody stopped waiting for what the engine has begun, and goes on with."""


def ask_running(
    folder: Path, verb: str, body: dict[str, Any], timeout_s: float | None = None, *, told: Told | None = None
) -> dict[str, Any]:
    """Ask the engine that runs on a state folder for something, and wait for its answer.

    Without ``timeout_s`` it is waited for as long as the engine is there: it may be at a long batch. Otherwise what it
    has not taken by then it never will, and what it has taken it goes on with. ``told`` hears of the waiting.
    """
    if StateFolder.owner(folder) is None:
        raise NotRunning(f"no engine runs on {folder}", hint="Start one: penstock run.")
    box = RequestBox(folder)
    number = box.put(verb, body, EXPIRES_S if timeout_s is None else timeout_s)
    try:
        return _PutRequest(box, number, folder, verb, body, timeout_s).answer(told)
    except KeyboardInterrupt:
        if box.withdraw(number):
            raise
        raise StillAtWork from None


class _PutRequest:
    """Waits for the answer to one request."""

    def __init__(
        self, box: RequestBox, number: int, folder: Path, verb: str, body: dict[str, Any], timeout_s: float | None
    ) -> None:
        """Keep what was asked."""
        self.box, self.number, self.folder, self.timeout_s = box, number, folder, timeout_s
        self.verb, self.body = verb, body

    def answer(self, told: Told | None) -> dict[str, Any]:
        """Wait until the request has ended, its time is over, or the engine is gone."""
        began = looked = renewed = time.monotonic()
        while True:
            outcome, now = self.box.outcome(self.number), time.monotonic()
            match outcome.state:
                case "done":
                    return outcome.answer or {}
                case "failed":
                    raise error_of(outcome.answer or {})
                case "lost":
                    raise self._ended()
                case "waiting" | "taken" if self.timeout_s is not None and now - began > self.timeout_s:
                    self._give_up(self.timeout_s)
                case "waiting" if self.timeout_s is None and now - renewed > RENEW_S:
                    self.box.renew(self.number, EXPIRES_S)
                    renewed = now
            if now - looked > LOOK_S:
                looked = now
                self._check_there()
                if told is not None:
                    told("taken" if outcome.state == "taken" else "waiting", now - began)
            time.sleep(POLL_S)

    def _give_up(self, timeout_s: float) -> None:
        """Take the request back, or leave it to the engine; if it has just ended, its answer is read next."""
        after = format_duration(int(timeout_s * SECOND))
        if self.box.withdraw(self.number):
            raise RequestFailed(
                f"the engine did not take the request within {after}; it was withdrawn and nothing was changed",
                hint="An engine that is starting or stopping takes none; try again, or wait for longer with --wait.",
            )
        if self.box.outcome(self.number).state == "taken":
            raise RequestFailed(
                f"the engine has not finished within {after}; it is at work on request {self.number} and goes on",
                hint=f"penstock status --request {self.number} tells what came of it.",
            )

    def _check_there(self) -> None:
        """Give up if the engine is gone; a request that it had not taken is withdrawn."""
        if StateFolder.owner(self.folder) is not None:
            return
        if self.box.withdraw(self.number):
            what = f"the engine on {self.folder} ended before it took the request"
            raise NotRunning(what, detail="Nothing was changed.")
        if self.box.outcome(self.number).state == "taken":
            raise self._ended()

    def _ended(self) -> RequestFailed:
        """Say what came of what an engine was at work on when it ended."""
        stands, hint = what_came_of(self.folder, self.verb, self.body)
        return RequestFailed("the engine ended while it was at work on the request", detail=stands, hint=hint)
