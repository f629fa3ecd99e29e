"""Drops the streams and tables of a state folder that are gone from penstock.yml, once nobody reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.errors import PenstockError
from penstock.language.statements import Drop
from penstock.model.derived import MADE, PAIRS
from penstock.project.folder import SETTINGS_FILE, Project

if TYPE_CHECKING:
    from penstock.engine import Engine


def drop_former_sources(project: Project, engine: Engine) -> list[str]:
    """Drop them, and say so; one that is put back as it was goes on where it stopped."""
    return [
        *_drop("stream", [one.item.name for one in project.settings.streams], engine),
        *_drop("table", [one.item.name for one in project.settings.tables], engine),
    ]


def _drop(kind: Literal["stream", "table"], declared: list[str], engine: Engine) -> list[str]:
    """Drop those that are not declared; what a program registered, or a query makes, is in no settings."""
    known = {name.lower() for name in declared}
    changes = []
    for name in _entered(kind, engine):
        if name.lower() in known:
            continue
        try:
            if kind == "stream" and engine.catalog.definitions(name) == ():
                engine.stream(name).delivery.roll()  # sinks may lack answers of a run that died
            engine.execute(str(Drop(kind, name)))
        except PenstockError as error:
            edited = kind == "stream" and len(engine.catalog.leaving(name)) == len(engine.catalog.definitions(name)) > 0
            why = "edited queries have windows over it that are not final" if edited else error.what
            changes.append(f'{kind} "{name}" is gone from {SETTINGS_FILE}, and stays: {why}')
        else:
            changes.append(f'{kind} "{name}" is gone')
    return changes


def _entered(kind: Literal["stream", "table"], engine: Engine) -> list[str]:
    """List the streams or tables that statements have entered."""
    catalog = engine.catalog
    names = catalog.stream_names() if kind == "stream" else catalog.table_names()
    items = {name: catalog.stream(name) if kind == "stream" else catalog.table(name) for name in names}
    return [name for name, item in items.items() if item is not None and item.format not in (None, PAIRS, *MADE)]
