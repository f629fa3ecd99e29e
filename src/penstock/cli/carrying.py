"""Carries a request out in the running engine, or in one that it opens for the request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from penstock.cli.locating import Place
from penstock.cli.printing import say, spinning
from penstock.cli.waiting import waiting
from penstock.cli.working import sound_project, starting_spark
from penstock.errors import NotRunning, StateError
from penstock.printable import shown

if TYPE_CHECKING:
    from penstock.engine import Engine


def carry_out(
    place: Place,
    verb: str,
    body: dict[str, Any],
    *,
    wait_s: float | None = None,
    long: str | None = None,
    showing: AbstractContextManager[Any] | None = None,
) -> dict[str, Any]:
    """Let the engine that runs on the folder do it; if none does, open the folder here, which starts Spark.

    ``wait_s`` is how long to wait for it, otherwise as long as the engine is there. ``long`` names what may take long,
    and ``showing`` shows how far it is.
    """
    from penstock.control import ask_running

    while True:
        try:
            with showing or waiting(long or f"waiting for the engine on {place.folder}") as told:
                return ask_running(place.folder, verb, body, wait_s, told=told)
        except NotRunning:
            say(f"no engine runs on {shown(str(place.folder))}; opening it here starts Spark", err=True)
        try:
            return _carried_out_here(place, verb, body, long)
        except _BegunMeanwhile:
            say("an engine has begun to run on it meanwhile, and is asked", err=True)
            showing = None  # shows once


class _BegunMeanwhile(Exception):
    """Somebody else runs an engine on the folder by now."""


def _carried_out_here(place: Place, verb: str, body: dict[str, Any], long: str | None) -> dict[str, Any]:
    """Open the folder and do what is asked."""
    from penstock.control.requests import Request
    from penstock.control.serving import answered
    from penstock.store.folder import StateFolder

    with ExitStack() as stack:
        try:
            engine = stack.enter_context(opened(place))
        except StateError:
            if StateFolder.owner(place.folder) is None:
                raise
            raise _BegunMeanwhile from None
        stack.enter_context(spinning(long or "working"))
        return answered(engine, Request(0, verb, body))


@contextmanager
def opened(place: Place) -> Iterator[Engine]:
    """Open a state folder, with the project's Spark settings and sinks if it has one."""
    from penstock.engine import Engine
    from penstock.project.opening import open_engine

    project = None if place.project is None else sound_project(place.project)
    with starting_spark():
        if project is None:
            engine = Engine(place.folder)
        else:
            engine = open_engine(project, state=place.folder, sinks=project.sinks())
    with engine:
        yield engine
