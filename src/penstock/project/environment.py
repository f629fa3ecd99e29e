"""Puts environment variables into penstock.yml, and lays the settings of a profile over the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.resolver import Resolver

from penstock.errors import nearest
from penstock.project.document import YamlFile

PROFILE: Final = "PENSTOCK_PROFILE"  # the variable that names the profile
PROFILES: Final = "profiles"
# $${ is ${ as it stands; ${NAME}, and ${NAME:-default} for where it is not set or empty.
_VARIABLE: Final = re.compile(r"\$(?P<as_is>\$)?\{(?P<name>[^}:]*)(?::-(?P<default>[^}]*))?\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def with_profile(reading: YamlFile, root: MappingNode, wanted: str) -> MappingNode:
    """Lay the settings of the profile that is asked for over the others, and leave profiles out."""
    kept = [(key, value) for key, value in root.value if key.value != PROFILES]
    base = MappingNode(root.tag, kept, root.start_mark, root.end_mark)
    found = next((value for key, value in root.value if key.value == PROFILES), None)
    profiles = {} if found is None else reading.entries(found, PROFILES)
    if not wanted:
        return base
    if wanted not in profiles:
        listed = f"profiles: {', '.join(profiles)}" if profiles else None
        hint = nearest(wanted, profiles) or f"Declare it under {PROFILES}."
        reading.complain(f'there is no profile "{wanted}"', found or (0, 1), detail=listed, hint=hint)
        return base
    chosen = profiles[wanted][1]
    if isinstance(chosen, MappingNode):
        return _over(base, chosen)
    reading.entries(chosen, f'profile "{wanted}"')
    return base


def _over(below: MappingNode, above: MappingNode) -> MappingNode:
    """Lay a mapping over another: what both have as mappings is laid over in turn, all else is replaced."""
    merged = {key.value: (key, value) for key, value in below.value}
    for key, value in above.value:
        under = merged.get(key.value, (key, None))[1]
        both = isinstance(under, MappingNode) and isinstance(value, MappingNode)
        merged[key.value] = (key, _over(under, value) if both else value)
    return MappingNode(below.tag, list(merged.values()), below.start_mark, below.end_mark)


def fill_in(reading: YamlFile, root: Node, variables: Mapping[str, str]) -> None:
    """Put the values of environment variables into all values; one that is not set is a mistake."""
    for node in _scalars(root):
        if "${" in node.value:
            _fill_in(reading, node, variables)


def _fill_in(reading: YamlFile, node: ScalarNode, variables: Mapping[str, str]) -> None:
    """Put them into one value, which may be a number then, or true; in braces YAML wants it in quotes."""
    node.value = _VARIABLE.sub(lambda match: _value(reading, node, match, variables), node.value)
    resolver: Any = Resolver()
    node.tag, node.style = resolver.resolve(ScalarNode, node.value, (True, False)), None


def _value(reading: YamlFile, node: Node, match: re.Match[str], variables: Mapping[str, str]) -> str:
    """Return what stands for one variable."""
    name, default = match["name"], match["default"]
    if match["as_is"]:
        return match[0][1:]
    if not _NAME.match(name):
        reading.complain(
            f"{match[0]} names no environment variable", node, hint="Write ${NAME}, or $${ for a plain ${."
        )
        return ""
    if default is not None:
        return variables.get(name) or default
    if name not in variables:
        hint = f"Set it, or say what else to take: ${{{name}:-…}}."
        reading.complain(f"the environment variable {name} is not set", node, hint=hint)
    return variables.get(name, "")


def _scalars(node: Node) -> Iterator[ScalarNode]:
    """List all values, but not the keys."""
    if isinstance(node, ScalarNode):
        yield node
    elif isinstance(node, MappingNode):
        for _, value in node.value:
            yield from _scalars(value)
    elif isinstance(node, SequenceNode):
        for value in node.value:
            yield from _scalars(value)
