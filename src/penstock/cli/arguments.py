"""Defines the arguments and options that several commands have: the project, sinks, strategies, --until."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from penstock.errors import PenstockError, ProjectError
from penstock.model.duration import SECOND
from penstock.model.instants import EPOCH
from penstock.model.strategy import STRATEGY_NAMES


def _choose_profile(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Let what reads penstock.yml find the profile."""
    if value is not None:
        os.environ["PENSTOCK_PROFILE"] = value


profile_option: Final = click.option(
    "--profile",
    metavar="NAME",
    expose_value=False,
    is_eager=True,
    callback=_choose_profile,
    help="Take the settings under profiles: NAME of penstock.yml over the others (or PENSTOCK_PROFILE).",
)
_project: Final = click.argument("project", type=click.Path(path_type=Path), default=".", required=False)


def project_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the project's folder and profile."""
    return _project(profile_option(command))


json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
strategy_option: Final = click.option(
    "--strategy",
    type=click.Choice(STRATEGY_NAMES),
    help="How queries share; by default as penstock.yml says, otherwise by cost (weave).",
)


@dataclass(frozen=True, slots=True)
class Until:
    """When a run ends: at a time of the streams, or after some seconds by the clock."""

    event_us: int | None = None
    seconds: float | None = None


def read_until(ctx: click.Context, param: click.Parameter, value: str | None) -> Until | None:
    """Read the words of --until: an ISO timestamp or a duration."""
    from penstock.language.duration import parse_duration

    if value is None:
        return None
    try:
        instant = datetime.fromisoformat(value.strip())
    except ValueError:
        try:
            return Until(seconds=parse_duration(value) / SECOND)
        except PenstockError as error:
            raise click.BadParameter(f"{error.what}; write '10 min' or 2026-01-05T15:00:00", ctx, param) from None
    aware = instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant
    return Until(event_us=(aware - EPOCH) // timedelta(microseconds=1))


def read_size(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check the words of an option that is a number of bytes."""
    from penstock.model.caps import SIZES

    try:
        SIZES[param.name or ""](value)
    except ProjectError as error:
        raise click.BadParameter(error.what.partition(": ")[2], ctx, param) from None
    return value


def query_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a query from the files of the project."""
    folder = Path(ctx.params.get("project") or ".")
    names = {path.stem for path in (folder / "queries").rglob("*.sql")} if folder.is_dir() else set()
    return sorted(name for name in names if name.startswith(incomplete) and name.isprintable())


def styled(text: str, **style: Any) -> str:
    """Colour text, unless the user wants none; what is not a terminal gets none anyhow."""
    return text if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else click.style(text, **style)


def paragraphs(texts: Iterable[str]) -> str:
    """Print texts with an empty line between two."""
    return "\n\n".join(texts)
