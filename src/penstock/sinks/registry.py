"""Lists the kinds of sinks, and makes a sink of a kind and its settings.

A new kind is a file with its class and a line in ``SINKS``: see docs/extending.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import SinkError, nearest
from penstock.sinks.settings import SinkSetting, TextForm, read_text, settings_of

if TYPE_CHECKING:  # the command line lists kinds for --help, and loads none of them
    from penstock.sinks.protocol import Sink


@dataclass(frozen=True, slots=True)
class SinkKind:
    """Where a kind of sink is, and what the command line wants after its name."""

    place: str | type  # "module:Class", imported on first use, or the class itself
    where: str = ""  # the name of its first setting, such as FOLDER; empty: it needs none
    for_programs: bool = False  # True: of no use but to a program that holds it

    @property
    def sink(self) -> type:
        """Return the class."""
        if isinstance(self.place, type):
            return self.place
        module, _, name = self.place.partition(":")
        found: type = getattr(import_module(module), name)
        return found

    @property
    def settings(self) -> tuple[SinkSetting, ...]:
        """List what can be set."""
        return settings_of(self.sink)

    @property
    def leading(self) -> SinkSetting | None:
        """Return the setting that may be written right after the kind; None: there is none."""
        return self.settings[0] if self.where else None


SINKS: Final[dict[str, SinkKind]] = {
    "parquet": SinkKind("penstock.sinks.parquet:ParquetSink", "FOLDER"),
    "jsonl": SinkKind("penstock.sinks.jsonl:JsonLinesSink", "FOLDER"),
    "delta": SinkKind("penstock.sinks.delta.sink:DeltaSink", "FOLDER"),
    "postgres": SinkKind("penstock.sinks.postgres.sink:PostgresSink", "DATABASE"),
    "webhook": SinkKind("penstock.sinks.webhook.sink:WebhookSink", "URL"),
    "terminal": SinkKind("penstock.sinks.terminal:TerminalSink"),
    "memory": SinkKind("penstock.sinks.memory:MemorySink", for_programs=True),
}


@dataclass(frozen=True, slots=True)
class DeclaredSink:
    """A sink as penstock.yml or the command line asks for it: its kind, and the settings that are given."""

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def leading(self) -> Any:
        """Return the setting that tells two sinks of a kind apart; None: nothing does."""
        setting = SINKS[self.kind].leading
        return None if setting is None else self.settings[setting.name]

    def make(self) -> Sink:
        """Make the sink."""
        sink: Sink = SINKS[self.kind].sink(**self.settings)
        return sink

    def shown(self) -> dict[str, str]:
        """Return its kind and where it writes, for reports; secrets stay out."""
        setting = SINKS[self.kind].leading
        if setting is None or (isinstance(setting.form, TextForm) and setting.form.secret):
            return {"kind": self.kind}
        return {"kind": self.kind, setting.name: str(self.leading)}


def declared_kinds() -> tuple[str, ...]:
    """List the kinds that text can ask for."""
    return tuple(name for name, kind in SINKS.items() if not kind.for_programs)


def unknown_kind(kind: str) -> SinkError:
    """Say that there is no such kind of sink, and which ones there are."""
    kinds = declared_kinds()
    return SinkError(
        f'there is no kind of sink "{kind}"', detail=f"kinds: {', '.join(kinds)}", hint=nearest(kind, kinds)
    )


def declared_by(text: str) -> DeclaredSink:
    """Read a sink as the command line has it: a kind alone, or a kind, a colon and its first setting."""
    kind, colon, where = text.partition(":")
    known = SINKS[kind] if kind in declared_kinds() else None
    if known is None or bool(colon) != bool(known.where) or bool(where) != bool(colon):
        raise SinkError(f"write {written_kinds()}", hint=None if known else nearest(kind, declared_kinds()))
    if (setting := known.leading) is None:
        return DeclaredSink(kind)
    try:
        return DeclaredSink(kind, {setting.name: read_text(setting.form, where)})
    except ValueError as error:
        raise SinkError(f"{setting.name} {error}") from None


def written_kinds() -> str:
    """Say how every kind is written on the command line: ``parquet:FOLDER, jsonl:FOLDER or terminal``."""
    return in_words(f"{kind}:{SINKS[kind].where}" if SINKS[kind].where else kind for kind in declared_kinds())


def in_words(names: Iterable[str]) -> str:
    """Write alternatives as people do."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
