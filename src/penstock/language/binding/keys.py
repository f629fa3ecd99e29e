"""Resolves GROUP BY into the query's distinct keys and the grouping sets made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from sqlglot import exp

from penstock.errors import LanguageError, Unsupported
from penstock.language.binding.canonical import copied, strip
from penstock.language.binding.grouping_sets import is_analytic, leaves_of, sets_of
from penstock.language.binding.joins import From
from penstock.language.binding.query_text import Item
from penstock.language.binding.scope import bare_all, is_aggregate, is_function, is_grouping, path_of, resolve
from penstock.language.binding.spark_window import mentions_window
from penstock.language.grammar.cursor import in_backquotes, place_of, placed

Listed = Sequence[Item | None]


@dataclass(slots=True)
class Keys:
    """The keys of a query, found one after the other."""

    listed: Listed  # the outputs
    read: From
    found: dict[str, exp.Expr] = field(default_factory=dict)  # by canonical text
    places: dict[str, int] = field(default_factory=dict)  # by position or name: the same one again is the same key
    elements: list[exp.Expr] = field(default_factory=list)  # of GROUP BY, resolved
    sets: tuple[tuple[int, ...], ...] = ()  # the keys of each grouping set; none: all keys

    @property
    def nodes(self) -> list[exp.Expr]:
        """List the keys in order."""
        return list(self.found.values())

    def place(self, node: exp.Expr) -> int:
        """Return the number of the key that a grouping expression is."""
        name = node.name.lower() if isinstance(node, exp.Literal | exp.Column) else None
        if name is not None and name in self.places:
            return self.places[name]
        key = _key(node, self.listed, self.read)
        _check(key, node, self.read)
        text = self.read.canonical(key)
        self.found.setdefault(text, key)
        place = list(self.found).index(text)
        if name is not None:
            self.places[name] = place
        return place

    def resolved(self, element: exp.Expr) -> exp.Expr:
        """Put keys in place of the grouping expressions of an element."""
        if is_analytic(element) or isinstance(element, exp.Tuple):
            return type(element)(expressions=[self.resolved(part) for part in element.expressions])
        return copied(self.nodes[self.place(element)])


def read_keys(tree: exp.Select, listed: Listed, read: From) -> Keys:
    """Resolve GROUP BY; equal keys count once."""
    keys, group = Keys(listed, read), tree.args.get("group")
    written = list(group.expressions) if group else []
    for element in written:
        for leaf in leaves_of(element):
            keys.place(leaf)
    sets = sets_of(written, read.scope.text)
    if sets is None:
        keys.elements = keys.nodes
        return keys
    if not keys.found:
        complain("grouping sets without a grouping expression are not available", written[0], read, Unsupported)
    keys.sets = tuple(tuple(sorted({keys.place(leaf) for leaf in one})) for one in sets)
    keys.elements = [keys.resolved(element) for element in written]
    return keys


def with_all_keys(tree: exp.Select, listed: Listed, read: From) -> exp.Select:
    """Write GROUP BY ALL as the positions of all outputs that it means: those without aggregates, but no constants."""
    group = tree.args.get("group")
    if group is None or len(group.expressions) != 1 or not _is_all(group.expressions[0], listed, read):
        return tree
    node, copy = group.expressions[0], tree.copy()
    plain = [place for place, item in enumerate(listed, 1) if item is not None and not _aggregates(item.value)]
    keys = [place for place in plain if (item := listed[place - 1]) is not None and item.value.find(exp.Column)]
    if plain and not keys:
        complain("grouping by a constant is not available", node, read, Unsupported)
    written = [placed(exp.Literal.number(place), place_of(node) or (0, 1)) for place in keys]
    copy.set("group", exp.Group(expressions=written) if written else None)
    return copy


def _is_all(node: exp.Expr, listed: Listed, read: From) -> bool:
    """Tell GROUP BY ALL from the name of a column or an output."""
    name = bare_all(node)
    if name is None:
        return False
    return not has_column(name, read) and all(item is None or item.name.lower() != "all" for item in listed)


def _aggregates(value: exp.Expr) -> bool:
    """Tell whether an output aggregates."""
    return any(is_aggregate(part) or is_grouping(part) for part in value.walk())


def _check(key: exp.Expr, node: exp.Expr, read: From) -> None:
    """Refuse what cannot be grouped by."""
    if isinstance(key, exp.Literal | exp.Null | exp.Boolean):
        hint = in_backquotes(key.name) if isinstance(key, exp.Literal) and has_column(key, read) else None
        complain("grouping by a constant is not available", node, read, Unsupported, hint)
    if any(is_aggregate(part) for part in key.walk()):
        complain("aggregates are not allowed in GROUP BY", node, read)
    if mentions_window(key):
        complain("grouping by an expression over the window is not available", node, read, Unsupported)


def _key(node: exp.Expr, listed: Listed, read: From) -> exp.Expr:
    """Resolve one grouping expression: a position, else a column, else an alias, else an expression."""
    if isinstance(node, exp.Literal) and node.name.isdecimal() and not node.is_string:
        return _position(node, listed, read)
    path = path_of(strip(node))
    if path is not None and len(path) == 1 and not has_column(path[0], read):
        for item in listed:
            if item is not None and item.name.lower() == path[0].name.lower():
                _refuse_function(path[0], read)
                return copied(item.value)
    return resolve(node, read.scope, "GROUP BY")


def _refuse_function(name: exp.Expr, read: From) -> None:
    """Refuse the name of a function that Spark calls without parentheses, and before it looks at aliases."""
    if is_function(name):
        what, hint = f"{name.name.lower()}() is not available", f"The output stands in backquotes: `{name.name}`."
        complain(what, name, read, Unsupported, hint)


def _position(node: exp.Expr, listed: Listed, read: From) -> exp.Expr:
    """Return the output that GROUP BY 1 means."""
    position = int(node.name) if len(node.name) < 6 else 0
    if not 1 <= position <= len(listed):
        complain(f"GROUP BY {node.name[:20]}: there are {len(listed)} outputs", node, read)
    item = listed[position - 1]
    if item is None:
        complain("grouping by the window is not available", node, read, Unsupported)
    return copied(item.value)


def has_column(name: exp.Expr | Item, read: From) -> bool:
    """Say whether any source has a column of this name."""
    return any(source.find(name.name) for source in read.scope.sources)


def complain(
    what: str, node: exp.Expr, read: From, kind: type[LanguageError] = LanguageError, hint: str | None = None
) -> NoReturn:
    """Raise an error at a node."""
    raise kind(what, text=read.scope.text, place=place_of(node), hint=hint)
