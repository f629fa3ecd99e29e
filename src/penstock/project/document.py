"""Parses a YAML file into nodes with places, and collects every problem in it.

Only plain YAML is read: mappings, lists and scalars. Tags, anchors and aliases are refused before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, Event, NodeEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from penstock.errors import ProjectError, nearest
from penstock.project.problems import Problem

DEEPEST: Final = 20
MOST_PROBLEMS: Final = 100  # of one file; nobody reads more
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_WHOLE: Final = re.compile(r"[-+]?(0|[1-9][0-9_]*)\Z")
_NUMBER: Final = re.compile(r"[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9]+)([eE][-+]?[0-9]+)?\Z")
_SPECIAL: Final = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}
_PREFIX: Final = "tag:yaml.org,2002:"

Place = tuple[int, int]
Entries = dict[str, tuple[ScalarNode, Node]]


@dataclass(slots=True)
class YamlFile:
    """One file while it is read: its name, its text, and the problems so far."""

    file: str
    text: str
    problems: list[Problem] = field(default_factory=list)

    def complain(self, what: str, at: Node | Place, *, detail: str | None = None, hint: str | None = None) -> None:
        """Note a mistake at a node or place."""
        place = place_of(at) if isinstance(at, Node) else at
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(
                Problem(ProjectError(what, text=self.text, place=place, detail=detail, hint=hint), self.file)
            )

    def root(self) -> Node | None:
        """Compose the document, or note why it is none."""
        control = _CONTROL.search(self.text)
        if control is not None:
            self.complain(f"the text holds the control character U+{ord(control[0]):04X}", control.span())
            return None
        try:
            if self._refused():
                return None
            node: Node | None = yaml.compose(self.text, Loader=_LOADER)
        except yaml.YAMLError as error:
            self._malformed(error)
            return None
        return node

    def _refused(self) -> bool:
        """Look at the events, which build nothing, for what is not plain YAML."""
        depth = 0
        for event in yaml.parse(self.text, Loader=_LOADER):
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            what = f"nested more than {DEEPEST} levels deep" if depth > DEEPEST else _not_plain(event)
            if what is not None:
                self.complain(what, (event.start_mark.index, max(event.end_mark.index, event.start_mark.index + 1)))
                return True
        return False

    def _malformed(self, error: yaml.YAMLError) -> None:
        """Word an error of the YAML reader."""
        mark = getattr(error, "problem_mark", None)
        at = mark.index if mark is not None else int(getattr(error, "position", 0))
        what = getattr(error, "problem", None) or getattr(error, "reason", None) or "this is not YAML"
        tab = "\t" in self.text[self.text.rfind("\n", 0, at) + 1 : at + 1]
        hint = "YAML is indented with spaces, not with tabs." if tab else None
        context = getattr(error, "context", None)
        self.complain(f"malformed YAML: {what}", (at, at + 1), detail=context, hint=hint)

    # -- what a node should be -----------------------------------------------------------------------------------

    def entries(
        self, node: Node, what: str, known: Iterable[str] | None = None, former: Collection[str] = ()
    ) -> Entries:
        """Read a mapping with text keys; ``known`` are the keys it may have, if they are limited.

        Keys that were called otherwise in the version before, ``former``, hold as well, and are not told of.
        """
        if not isinstance(node, MappingNode):
            self.complain(f"{what} must be a mapping, not {shape_of(node)}", node, hint=_keys_hint(known))
            return {}
        found: Entries = {}
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self.complain(f"a key of {what} must be text", key)
                continue
            if key.value in seen:
                self.complain(f'"{key.value}" is given twice in {what}', key)
            elif known is not None and key.value not in known and key.value not in former:
                self._unknown(key, what, known)
            else:
                found[key.value] = (key, value)
            seen.add(key.value)
        return found

    def _unknown(self, key: ScalarNode, what: str, known: Iterable[str]) -> None:
        """Note a key that does not exist."""
        self.complain(
            f'{what} has no setting "{key.value}"',
            key,
            detail=f"settings: {', '.join(known)}",
            hint=nearest(key.value, known),
        )

    def items(self, node: Node, what: str) -> list[Node]:
        """Read a list."""
        if not isinstance(node, SequenceNode):
            self.complain(f"{what} must be a list, not {shape_of(node)}", node, hint="Begin each entry with a dash.")
            return []
        return list(node.value)

    def words(self, node: Node, what: str) -> str | None:
        """Read text; a number or truth value counts as its text."""
        if not isinstance(node, ScalarNode) or _kind(node) == "null" or not node.value.strip():
            self.complain(f"{what} must be text, not {shape_of(node)}", node)
            return None
        return str(node.value).lower() if _kind(node) == "bool" else str(node.value)

    def choice(self, node: Node, what: str, known: Iterable[str]) -> str | None:
        """Read one of several words."""
        word = self.words(node, what)
        if word is None or word in known:
            return word
        self.complain(
            f'{what} cannot be "{word}"', node, detail=f"it can be {', '.join(known)}", hint=nearest(word, known)
        )
        return None

    def truth(self, node: Node, what: str) -> bool | None:
        """Read true or false."""
        if isinstance(node, ScalarNode) and isinstance(found := scalar(node), bool):
            return found
        self.complain(f"{what} must be true or false, not {shape_of(node)}", node)
        return None

    def whole(self, node: Node, what: str, least: int = 0) -> int | None:
        """Read a whole number of at least so much."""
        found = scalar(node) if isinstance(node, ScalarNode) else None
        if isinstance(found, int) and not isinstance(found, bool) and found >= least:
            return found
        self.complain(f"{what} must be a whole number of at least {least}, not {shape_of(node)}", node)
        return None


def place_of(node: Node) -> Place:
    """Return where a node stands."""
    start, end = node.start_mark.index, node.end_mark.index
    return start, max(end, start + 1)


def shape_of(node: Node) -> str:
    """Name what a node is, for messages."""
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    if _kind(node) == "null" or not node.value.strip():
        return "nothing"
    shown = node.value if len(node.value) <= 40 else node.value[:37] + "..."
    return f'"{shown}"'


def value_of(node: Node) -> Any:
    """Return a node as Python values; what is no number, truth or null stays text, instants too."""
    if isinstance(node, MappingNode):
        return {str(value_of(key)): value_of(value) for key, value in node.value}
    if isinstance(node, SequenceNode):
        return [value_of(item) for item in node.value]
    return scalar(node)


def scalar(node: Node) -> Any:
    """Return a scalar's value; ``0x1f``, ``010`` and ``12:30`` are text here, whatever YAML 1.1 makes of them."""
    text = str(node.value)
    match _kind(node):
        case "null":
            return None
        case "bool":
            return text.lower() in ("yes", "true", "on")
        case "int" if _WHOLE.match(text) and len(text) <= 60:
            return int(text.replace("_", ""))
        case "float" if text.lower() in _SPECIAL:
            return float(_SPECIAL[text.lower()])
        case "float" | "str" if not getattr(node, "style", None) and _NUMBER.match(text) and len(text) <= 400:
            return float(text.replace("_", ""))
        case _:
            return text


def options_of(reading: YamlFile, node: Node, what: str) -> Mapping[str, str]:
    """Read a mapping of names to scalars, all as text."""
    found = {key: reading.words(value, f'{what} "{key}"') for key, (_, value) in reading.entries(node, what).items()}
    return {key: value for key, value in found.items() if value is not None}


def _kind(node: Node) -> str:
    """Return the short name of the type that YAML gives a scalar."""
    return str(node.tag).removeprefix(_PREFIX)


def _keys_hint(known: Iterable[str] | None) -> str | None:
    """Name the keys that a mapping may have."""
    return None if known is None else f"Its settings are {', '.join(known)}."


def _not_plain(event: Event) -> str | None:
    """Say what is wrong with an event that plain YAML has not."""
    if isinstance(event, AliasEvent):
        return "YAML aliases are not available"
    if isinstance(event, NodeEvent) and event.anchor is not None:
        return "YAML anchors are not available"
    tag = getattr(event, "tag", None)
    if tag is not None and tag != "!":
        return f'the YAML tag "{tag[:60]}" is not available'
    return None
