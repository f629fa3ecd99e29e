"""Describes what can be set of a sink, once for Python, penstock.yml and the command line.

The parameters of a sink's constructor are its settings: a parameter that is annotated with one of the forms below can
be set by text too. Its name, type and default are those that Python sees; a form adds the check and the help.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias, assert_never, get_type_hints

REQUIRED: Final = inspect.Parameter.empty
SINK_BACKLOG: Final = 10_000_000  # answers that wait for a sink, beyond which its stream waits for it


@dataclass(frozen=True, slots=True)
class FolderForm:
    """A folder; in penstock.yml it is relative to the project."""

    help: str


@dataclass(frozen=True, slots=True)
class WholeForm:
    """A whole number of at least so much."""

    help: str
    least: int = 1


@dataclass(frozen=True, slots=True)
class TextForm:
    """Text such as an address; ``check`` says what is wrong with it, or None, and a ``secret`` is shown nowhere."""

    help: str
    check: Callable[[str], str | None] = lambda text: None
    secret: bool = False


SettingForm: TypeAlias = FolderForm | WholeForm | TextForm


@dataclass(frozen=True, slots=True)
class SinkSetting:
    """One setting of a kind of sink."""

    name: str
    form: SettingForm
    default: Any = REQUIRED

    @property
    def required(self) -> bool:
        """Tell whether a sink cannot be without it."""
        return self.default is REQUIRED


def read_text(form: SettingForm, text: str) -> Any:
    """Read a setting from text, or say with a ValueError what it must be."""
    match form:
        case FolderForm():
            return Path(text)
        case WholeForm():
            if not (text.isascii() and text.isdigit()) or int(text) < form.least:
                raise ValueError(f'must be a whole number of at least {form.least}, not "{text}"')
            return int(text)
        case TextForm():
            if (wrong := form.check(text)) is not None:
                raise ValueError(wrong)
            return text
    assert_never(form)


def chosen_names(text: str) -> frozenset[str]:
    """Read names of queries with commas between them, in lower case; none: all queries."""
    return frozenset(filter(None, map(str.strip, text.lower().split(","))))


@cache
def settings_of(sink: type) -> tuple[SinkSetting, ...]:
    """List the settings of a class of sinks; the first one, if it is required, may be written right after the kind."""
    constructor: Any = sink.__init__  # type: ignore[misc]  # the class itself is asked
    hints = get_type_hints(constructor, include_extras=True)
    return tuple(
        SinkSetting(parameter.name, form, parameter.default)
        for parameter in inspect.signature(constructor).parameters.values()
        for form in getattr(hints.get(parameter.name), "__metadata__", ())
        if isinstance(form, SettingForm)
    )
