"""Shows that a command waits for an engine, for what, and since when; defines --wait."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from penstock.cli.printing import say, unmarked
from penstock.errors import PenstockError
from penstock.model.duration import SECOND

if TYPE_CHECKING:
    from penstock.control.asking import Waits

FIRST_LINE_S: Final = 5.0
LINE_EVERY_S: Final = 30.0
_MINUTES: Final = re.compile(r"(?<=[0-9])\s*m\Z")  # in windows m is not taken: it might be months
_WORDS: Final = {
    "waiting": "the engine is busy, and takes the request next",
    "taken": "the engine is at work on the request; what changes queries waits for the end of a batch",
}


def _read_wait(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Read the words of --wait."""
    from penstock.language.duration import parse_duration

    try:
        return None if value is None else parse_duration(_MINUTES.sub(" min", value)) / SECOND
    except PenstockError as error:
        raise click.BadParameter(f"{error.what}; write 5m or 30s", ctx, param) from None


wait_option: Final = click.option(
    "--wait",
    "wait_s",
    metavar="TIME",
    callback=_read_wait,
    help="Wait at most so long, such as 5m; by default as long as the engine runs.",
)


@contextmanager
def waiting(what: str) -> Iterator[Callable[[Waits, float], None]]:
    """Show on a terminal what is waited for; elsewhere a line now and then."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False).status(unmarked(what)) as status:
        yield lambda state, seconds: status.update(unmarked(f"{what} ({seconds:.0f} s): {_WORDS[state]}"))


class _Lines:
    """Writes a line after a few seconds, and then now and then."""

    def __init__(self) -> None:
        """Wait for the first."""
        self.next_s = FIRST_LINE_S

    def __call__(self, state: Waits, seconds: float) -> None:
        """Write one if it is time."""
        if seconds >= self.next_s:
            self.next_s = seconds + LINE_EVERY_S
            say(f"waiting since {seconds:.0f} s: {_WORDS[state]}", err=True)
