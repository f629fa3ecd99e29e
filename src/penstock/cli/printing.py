"""Prints what commands say, so that no text that others wrote can steer the terminal.

Lines that are put together from names, values and messages pass each of them through :func:`penstock.printable.shown`
first: here line ends stay.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click

from penstock.printable import block, shown


def say(text: object, *, err: bool = False, own: str = "") -> None:
    """Print lines for people; ``own`` goes before them as it is, for colours and for a screen to be cleared."""
    click.echo(own + block(str(text)), err=err)


def say_json(value: object, *, indent: int | None = None) -> None:
    """Print JSON for programs, all of it in ASCII: the data stays as it is, and a terminal too."""
    click.echo(json.dumps(value, indent=indent))


def spinning(what: str) -> AbstractContextManager[Any]:
    """Show on a terminal what is going on."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True, highlight=False).status(unmarked(what))


def unmarked(text: str) -> Any:
    """Write a text for rich, in which [red] and [link=…] are words."""
    from rich.text import Text

    return Text(shown(text))
