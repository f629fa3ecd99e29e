"""Prints what commands say, so that no text that others wrote can steer the terminal.

Lines that are put together from names, values and messages pass each of them through :func:`penstock.printable.shown`
first: here line ends stay.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import click

from penstock.model.instants import format_instant
from penstock.printable import block, shown

# Keys of commands' JSON that are instants; other ones that end in _us are lengths of time.
INSTANTS: Final = frozenset(
    {"clock_us", "watermark_us", "since_us", "until_us", "next_end_us", "first_end_us", "ends_us"}
)


def say(text: object, *, err: bool = False, own: str = "") -> None:
    """Print lines for people; ``own`` goes before them as it is, for colours and for a screen to be cleared."""
    click.echo(own + block(str(text)), err=err)


def say_json(value: object, *, indent: int | None = None) -> None:
    """Print JSON for programs, all of it in ASCII: the data stays as it is, and a terminal too."""
    click.echo(json.dumps(_with_iso(value), indent=indent))


def _with_iso(value: Any) -> Any:
    """Put ISO times beside instants in microseconds: ``watermark`` beside ``watermark_us``."""
    if isinstance(value, list | tuple):
        return [_with_iso(one) for one in value]
    if not isinstance(value, dict):
        return value
    told = {name: _with_iso(one) for name, one in value.items()}
    for name in [name for name in told if name in INSTANTS and name[: -len("_us")] not in told]:
        us = told[name]
        told[name[: -len("_us")]] = format_instant(us) if isinstance(us, int) else None
    return told


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
