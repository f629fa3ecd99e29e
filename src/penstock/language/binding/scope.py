"""Resolves names in expressions to columns of the query's stream and tables, or suggests the nearest name.

A resolved column is a Column whose ``table`` is the number of its source: 0 is the stream, the tables follow in the
order they are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NoReturn

from sqlglot import exp

from penstock.errors import AmbiguousColumn, LanguageError, UnknownColumn, Unsupported, nearest
from penstock.language.binding.canonical import copied, strip
from penstock.language.binding.functions import (
    AGGREGATES,
    GROUPINGS,
    NO_PARENTHESES,
    classify,
    signature_of,
)
from penstock.language.binding.growth import check_growth
from penstock.language.grammar.cursor import place_of, placed
from penstock.language.grammar.literals import quote

WINDOW_COLUMNS: Final = ("window_start", "window_end")
SINK_COLUMNS: Final = ("query_name", "query_version")  # what sinks add to every answer
OWN_COLUMNS: Final = (*WINDOW_COLUMNS, *SINK_COLUMNS, "#definition")  # no output has the name of one of these
REVISION_COLUMNS: Final = ("revision", "op")  # what answers that may be revised have besides
_LISTED: Final = 20
_ALLOWED: Final = "allowed"
_AGGREGATES: Final = "aggregates"
# Spark makes such a map of constants once, where a key that is there twice fails for all queries and not for one.
_PREPARED: Final = frozenset({"map_from_arrays", "map_from_entries", "str_to_map"})


@dataclass(frozen=True, slots=True)
class Source:
    """A stream or table of a query: its catalog name, what the query calls it, and its columns."""

    kind: Literal["stream", "table"]
    name: str
    label: str
    columns: tuple[str, ...]

    def find(self, column: str) -> str | None:
        """Return a column's catalog spelling."""
        wanted = column.lower()
        return next((name for name in self.columns if name.lower() == wanted), None)


@dataclass(slots=True)
class Scope:
    """The sources that names can refer to; ``merged`` are columns that USING made one with an earlier source's."""

    text: str
    sources: list[Source]
    merged: set[tuple[int, str]] = field(default_factory=set)  # number of the source, name in lower case

    def column(self, path: Sequence[exp.Expr]) -> exp.Expr:
        """Resolve a dotted path to a column, with the rest as fields of a struct."""
        head = path[0].name.lower()
        for number, source in enumerate(self.sources):
            if len(path) > 1 and source.label.lower() == head and (found := source.find(path[1].name)):
                return _fields(bound(number, found, path[:2]), path[2:])
        matches = [(n, found) for n, source in enumerate(self.sources) if (found := source.find(head))]
        matches = [(n, found) for n, found in matches if (n, head) not in self.merged]
        if len(matches) == 1:
            return _fields(bound(*matches[0], path[:1]), path[1:])
        if matches:
            self._ambiguous(path[0], [self.sources[n].label for n, _ in matches])
        self._unknown(path)

    def _ambiguous(self, name: exp.Expr, labels: list[str]) -> NoReturn:
        """Raise for a column that several sources have."""
        what = f'column "{name.name}" is in {", ".join(f"{label!r}" for label in labels)}'.replace("'", '"')
        hint = f"Write {labels[0]}.{name.name}."
        raise AmbiguousColumn(what, text=self.text, place=place_of(name), hint=hint)

    def _unknown(self, path: Sequence[exp.Expr]) -> NoReturn:
        """Raise for a column that no source has."""
        owner = next((s for s in self.sources if s.label.lower() == path[0].name.lower()), None)
        searched = [owner] if owner and len(path) > 1 else self.sources
        name = path[1] if owner and len(path) > 1 else path[0]
        if name.name.lower() in WINDOW_COLUMNS:
            self._window_column(name)
        if len(path) == 1 and (is_function(name) or name.name.lower() == "localtimestamp"):
            classify(name.name, self.text, place_of(name))  # which refuses them all
        if len(searched) == 1:
            what = f'{searched[0].kind} "{searched[0].name}" has no column "{name.name}"'
        else:
            what = f'no column "{name.name}" in ' + ", ".join(f'"{s.name}"' for s in searched)
        known = [column for source in searched for column in source.columns]
        hint = _dotted(path, known) or nearest(name.name, known)
        detail = None if hint else "existing columns: " + ", ".join(known[:_LISTED]) + (", …" * (len(known) > _LISTED))
        raise UnknownColumn(what, text=self.text, place=place_of(name), detail=detail, hint=hint)

    def _window_column(self, name: exp.Expr) -> NoReturn:
        """Raise for window_start and window_end used as columns."""
        what = f'"{name.name.lower()}" inside an expression is not available'
        hint = "window_start and window_end come with every answer."
        raise Unsupported(what, text=self.text, place=place_of(name), hint=hint)


def _dotted(path: Sequence[exp.Expr], known: Sequence[str]) -> str | None:
    """Say how a column is written whose name holds the dots of a path."""
    written = [".".join(part.name.lower() for part in path[:end]) for end in range(len(path), 1, -1)]
    written += [".".join(part.name.lower() for part in path[1:end]) for end in range(len(path), 2, -1)]
    found = next((name for one in written for name in known if name.lower() == one), None)
    return None if found is None else f"A name with a dot stands in backquotes: {quote(found)}."


def is_function(name: exp.Expr) -> bool:
    """Say whether a name that is no column's is a function that Spark calls without parentheses."""
    return not name.args.get("quoted") and name.name.lower() in NO_PARENTHESES


def bound(number: int, name: str, path: Sequence[exp.Expr] = ()) -> exp.Column:
    """Build a resolved column, standing where it was written."""
    column = exp.Column(this=exp.Identifier(this=name, quoted=True), table=exp.Identifier(this=str(number)))
    column.meta["bound"] = True
    places = [p for part in path if (p := place_of(part))]
    return placed(column, (places[0][0], places[-1][1])) if places else column


def source_number(column: exp.Column) -> int:
    """Return which source a resolved column belongs to."""
    return int(column.table)


def _fields(column: exp.Column, path: Sequence[exp.Expr]) -> exp.Expr:
    """Access the fields of a struct."""
    value: exp.Expr = column
    for part in path:
        value = exp.Dot(this=value, expression=exp.Identifier(this=part.name, quoted=True))
    return value


def path_of(node: exp.Expr) -> list[exp.Expr] | None:
    """Return the names of a dotted path that begins with an unresolved column."""
    names: list[exp.Expr] = []
    while isinstance(node, exp.Dot):
        names.append(node.expression)
        node = node.this
    if not isinstance(node, exp.Column) or node.meta.get("bound"):
        return None
    return [node.this, *reversed(names)]


def bare_all(node: exp.Expr) -> exp.Expr | None:
    """Return the word ALL that stands alone and without quotes, which GROUP BY may mean as such; else None."""
    path = path_of(strip(node))
    if path is None or len(path) != 1 or path[0].args.get("quoted") or path[0].name.lower() != "all":
        return None
    return path[0]


def resolve(node: exp.Expr, scope: Scope, without_aggregates: str | None = None) -> exp.Expr:
    """Return a copy with every column resolved and every function allowed.

    ``without_aggregates`` names the clause in which an aggregate is an error.
    """

    def step(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Star) or (isinstance(part, exp.Dot) and isinstance(part.expression, exp.Star)):
            _star(part, scope.text)
        if (path := path_of(part)) is not None:
            return scope.column(path)
        if isinstance(part, exp.Anonymous):
            _function(part, scope.text, without_aggregates)
            if part.name.lower() == "struct":
                _name_fields(part, scope)
        return part

    resolved: exp.Expr = _bare(node).transform(step, copy=False)
    check_growth(resolved, scope.text)
    return resolved


def _name_fields(call: exp.Anonymous, scope: Scope) -> None:
    """Write struct(a, a + 1) as named_struct('a', a, 'col2', a + 1): Spark would take our own names of columns."""
    named: list[exp.Expr] = []
    for number, value in enumerate(call.expressions, 1):
        path = path_of(value)
        own = value.expression if isinstance(value, exp.Dot) else value  # a field, or the window of GROUP BY
        other = own.name if isinstance(value, exp.Dot | exp.Column) else f"col{number}"
        name = (path[-1].name if len(path) > 1 else scope.column(path).name) if path else other
        named += [exp.Literal.string(name), value]
    call.set("this", "named_struct")
    call.set("expressions", named)


def _bare(node: exp.Expr) -> exp.Expr:
    """Copy a tree without its parentheses, which its shape already says."""
    copy = copied(strip(node))
    for paren in reversed(list(copy.find_all(exp.Paren))):
        paren.replace(paren.this)
    return copy


def _star(node: exp.Expr, text: str) -> None:
    """Refuse a star that is not the one of count(*)."""
    call = node.parent
    if isinstance(call, exp.Anonymous) and isinstance(node, exp.Star):
        if call.name.lower() == "count" and len(call.expressions) == 1:
            return
        raise LanguageError('only count takes "*"', text=text, place=place_of(node))
    raise Unsupported("SELECT * is not available", text=text, place=place_of(node), hint="Name the columns.")


def _function(call: exp.Anonymous, text: str, without_aggregates: str | None) -> None:
    """Check a function against the lists and give it its one name."""
    place = place_of(call)
    if call.meta.get(_ALLOWED):
        if is_aggregate(call) and without_aggregates:
            raise LanguageError(f"aggregates are not allowed in {without_aggregates}", text=text, place=place)
        return
    head = (place[0], place[0] + len(call.name)) if place else None
    kind = classify(call.name, text, head)
    if call.name.lower() in _PREPARED and call.find(exp.Column) is None:
        what, hint = f"{call.name.lower()}() of constants is not available", "Write map(key, value, …)."
        raise Unsupported(what, text=text, place=head, hint=hint)
    if kind != "scalar" and without_aggregates:
        what = "aggregates are" if kind == "aggregate" else f"{call.name.lower()}() is"
        raise LanguageError(f"{what} not allowed in {without_aggregates}", text=text, place=place)
    name = call.name.lower()
    call.set("this", name)
    for argument in call.expressions:
        if isinstance(argument, exp.Distinct) and (kind != "aggregate" or not signature_of(name).distinct):
            raise Unsupported(f"{name}(DISTINCT …) is not available", text=text, place=place_of(argument))


def allow(call: exp.Anonymous, *, aggregates: bool = False) -> exp.Anonymous:
    """Mark the call of a function that is in no list, because a user registered it; say whether it aggregates."""
    call.meta[_ALLOWED] = True
    call.meta[_AGGREGATES] = aggregates
    return call


def is_aggregate(node: exp.Expr) -> bool:
    """Say whether a node is an aggregate call."""
    return isinstance(node, exp.Anonymous) and (node.name.lower() in AGGREGATES or bool(node.meta.get(_AGGREGATES)))


def is_grouping(node: exp.Expr) -> bool:
    """Say whether a node is a call of grouping() or grouping_id()."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in GROUPINGS
