"""Reads the sinks of penstock.yml, by what their kinds say can be set of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode

from penstock.project.document import YamlFile, scalar
from penstock.sinks.registry import SINKS, DeclaredSink, declared_kinds, unknown_kind
from penstock.sinks.settings import FolderForm, SinkSetting, WholeForm, read_text


def read_sinks(reading: YamlFile, node: Node, folder: Path) -> tuple[DeclaredSink, ...]:
    """Read the list of sinks; two of a kind may not write to the same place."""
    found: list[DeclaredSink] = []
    for one in reading.items(node, "sinks"):
        entry = _entry(reading, one)
        if entry is None:
            continue
        kind, key, value = entry
        if kind not in declared_kinds():
            error = unknown_kind(kind)
            reading.complain(error.what, key, detail=error.detail, hint=error.hint)
            continue
        sink = _sink(reading, kind, key, value, folder)
        if sink is not None and any((s.kind, s.leading) == (sink.kind, sink.leading) for s in found):
            reading.complain(_repeated(sink), key)
        elif sink is not None:
            found.append(sink)
    return tuple(found)


def _entry(reading: YamlFile, node: Node) -> tuple[str, Node, Node | None] | None:
    """Read an entry of the list: a kind alone, or a kind and its settings."""
    if isinstance(node, ScalarNode) and isinstance(scalar(node), str) and node.value in declared_kinds():
        return str(node.value), node, None
    if not isinstance(node, MappingNode) or len(node.value) != 1:
        reading.complain("a sink is one kind and its folder", node, hint="Write - parquet: answers.")
        return None
    for kind, (key, value) in reading.entries(node, "a sink").items():
        return kind, key, value
    return None


def _sink(reading: YamlFile, kind: str, key: Node, node: Node | None, folder: Path) -> DeclaredSink | None:
    """Read one sink: None if a mistake leaves nothing to go on with."""
    what, known = f"the {kind} sink", {setting.name: setting for setting in SINKS[kind].settings}
    nodes = _nodes(reading, kind, what, node)
    if nodes is None:
        return None
    values = {name: _value(reading, value, known[name], what, folder) for name, value in nodes.items()}
    given = {name: value for name, value in values.items() if value is not None}
    needed = [setting for setting in known.values() if setting.required]
    for setting in needed:
        if setting.name not in nodes:
            example = "answers" if isinstance(setting.form, FolderForm) else setting.form.help
            reading.complain(f"{what} has no {setting.name}", key, hint=f"Add {setting.name}: {example}.")
    return DeclaredSink(kind, given) if all(setting.name in given for setting in needed) else None


def _nodes(reading: YamlFile, kind: str, what: str, node: Node | None) -> dict[str, Node] | None:
    """Find what is set: the first setting alone, or a mapping with more."""
    leading = SINKS[kind].leading
    if node is None or (leading is None and isinstance(node, ScalarNode) and scalar(node) is None):
        return {}
    if not isinstance(node, ScalarNode):
        names = [setting.name for setting in SINKS[kind].settings]
        return {name: value for name, (_, value) in reading.entries(node, what, names).items()}
    if leading is not None:
        return {leading.name: node}
    reading.complain(f"{what} goes to no place of its own", node, hint=f"Write - {kind}.")
    return None


def _value(reading: YamlFile, node: Node, setting: SinkSetting, what: str, folder: Path) -> Any:
    """Read the value of a setting; None if a mistake leaves nothing to go on with."""
    called = f"the {setting.name} of {what}"
    if isinstance(setting.form, WholeForm):
        return reading.whole(node, f"{setting.name} of {what}", setting.form.least)
    text = reading.words(node, called)
    if text is None:
        return None
    if isinstance(setting.form, FolderForm):
        return folder / text
    try:
        return read_text(setting.form, text)
    except ValueError as error:
        reading.complain(f"{called} {error}", node)
        return None


def _repeated(sink: DeclaredSink) -> str:
    """Say that a sink is there twice."""
    leading = SINKS[sink.kind].leading
    if leading is None:
        return f"there is a second {sink.kind} sink"
    if isinstance(leading.form, FolderForm):
        return f"a second {sink.kind} sink writes into the same folder"
    return f"a second {sink.kind} sink has the same {leading.name}"
