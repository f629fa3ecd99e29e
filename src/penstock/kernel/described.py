"""Describes the columns of stored partials in their schema's metadata, for readers without Penstock."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from penstock.errors import StateError
from penstock.evaluate.components.numbers import ROWS
from penstock.share.layout import Layout, Member
from penstock.share.locate import ByArithmetic, ByDivision, BySearch, Locating
from penstock.share.partial_schema import component_name, key_name
from penstock.store.arrow_files import ABOUT

RECENT: Final = 8  # layouts whose descriptions are remembered: one describes many batches, of every stream

_recent: list[tuple[Layout, bytes]] = []


def about(layout: Layout) -> bytes:
    """Return the description as the metadata of an Arrow schema has it."""
    for known, told in list(_recent):
        if known is layout:
            return told
    told = json.dumps(described(layout), ensure_ascii=False).encode()
    _recent[:] = [*_recent[1 - RECENT :], (layout, told)]
    return told


def check_described(partials: pa.Table, layout: Layout, stream: str) -> None:
    """Refuse partials that another plan of the same queries made: their columns mean something else."""
    told = (partials.schema.metadata or {}).get(ABOUT)
    if told is None or told == about(layout) or _columns(json.loads(told)) == _columns(described(layout)):
        return
    what = f'the stored partials of stream "{stream}" were made with another strategy of sharing'
    raise StateError(what, hint="Use the strategy that the state folder was begun with, or start with an empty one.")


def _columns(told: dict[str, Any]) -> list[Any]:
    """Return what must be equal for columns to mean the same; how a batch found its slices may differ."""
    groupings = [{name: value for name, value in one.items() if name != "label"} for one in told["groupings"]]
    return [groupings, told["components"]]


def described(layout: Layout) -> dict[str, Any]:
    """Say what each column of a layout's partials is."""
    components = {}
    for number, component in enumerate(layout.components):
        if component != ROWS and component.source == component:  # the others are read from their source's columns
            for position, part in enumerate(component.columns):
                components[component_name(number, position)] = f"{component}{part}"
    late = layout.marks_late
    return {
        "catalog_version": layout.plan.version,
        "time": layout.time,
        "late_rows": "in column late" if late is None else f"label is 1 more than a multiple of {late.step}",
        "groupings": [_grouping(layout, member) for member in layout.members],
        "components": components,
    }


def _grouping(layout: Layout, member: Member) -> dict[str, Any]:
    """Describe the rows of one grouping."""
    grouping = member.grouping
    return {
        "grouping": member.number,
        "tree": layout.plan.trees[member.tree].name,
        "label": _label(layout.locating[member.tree]),
        "keys": {key_name(slot): key for slot, key in zip(member.slots, grouping.keys, strict=True)},
        "conditions": [str(condition) for condition in grouping.conditions],
        "signed": member.signed,
    }


def _label(way: Locating) -> str:
    """Say how a label tells the slice."""
    match way:
        case ByDivision(granule=granule):
            return f"start of a granule of {granule.step} µs"
        case BySearch():
            return "position among the edges in the commit"
        case ByArithmetic():
            return "start of the slice"
