"""Binds a SELECT without a window: a continuous query, which answers each row that it takes.

Its keys are the distinct expressions that it answers, and its outputs are some of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

from sqlglot import exp

from penstock.errors import LanguageError, UnknownColumn, Unsupported, nearest
from penstock.language.binding.canonical import conjunction, strip
from penstock.language.binding.joins import From, model_joins
from penstock.language.binding.query_text import Arrangement, Item, plain_name, write_name, write_query
from penstock.language.binding.scope import SINK_COLUMNS, bound, is_aggregate, path_of, resolve
from penstock.language.grammar.cursor import place_of
from penstock.language.options import NOT_FOR_EACH_ROW, check_options
from penstock.language.statements import Select
from penstock.model.query import Output, Query

COLUMNS: Final = ("event_time", "commit", "ordinal", "late", "queries", *SINK_COLUMNS)  # that every answer has


def bind_each_row(tree: exp.Select, read: From, select: Select, name: str) -> Query:
    """Bind a SELECT whose stream has no window."""
    _refuse_groups(tree, read)
    options = check_options(select.options, select.text)
    _check_options(select)
    items = [item for node in tree.expressions for item in _items(node, read)]
    _check_names(items, read, next((node for node in tree.expressions if _is_star(node)), None))
    keys: dict[str, int] = {}
    places = [keys.setdefault(read.canonical(item.value), len(keys)) for item in items]
    return Query(
        name=name,
        text=write_query(read, items, [], False, [], Arrangement(), options),
        stream=read.scope.sources[0].name,
        window=read.window,
        joins=model_joins(read),
        where=conjunction(read.filters, read.canonical_name) if read.filters else None,
        keys=tuple(keys),
        aggregates=(),
        outputs=tuple(Output(item.name, f"`k{place}`") for item, place in zip(items, places, strict=True)),
        having=None,
        grouped=True,
        options=options,
    )


def refuse_explode(select: Select) -> None:
    """Refuse the option of continuous queries where there is a window."""
    for clause in select.options:
        if clause.name == "explode" and str(clause.value).lower() == "true":
            what = "option explode of a query with a window is not available"
            detail, hint = "its answers are its own already", "Leave it out."
            raise Unsupported(what, text=select.text, place=clause.place, detail=detail, hint=hint)


def _refuse_groups(tree: exp.Select, read: From) -> None:
    """Refuse whatever puts several rows together: without a window nobody knows when they are all there."""
    for clause, what in (("group", "GROUP BY"), ("having", "HAVING"), ("distinct", "SELECT DISTINCT")):
        if (node := tree.args.get(clause)) is not None:
            named = node if clause == "distinct" else next(iter(node.iter_expressions()), node)
            _refuse(f"{what} without a window is not available", named, read)
    for clause, what in (("order", "ORDER BY"), ("limit", "LIMIT"), ("offset", "OFFSET")):
        if (node := tree.args.get(clause)) is not None:
            _refuse(f"{what} without a window is not available", node, read)


def _refuse(what: str, node: exp.Expr, read: From) -> NoReturn:
    """Raise for what needs a window."""
    source = read.scope.sources[0].name
    hint = f"Write {source} [RANGE 1 MIN SLIDE 1 MIN]."
    detail = "a query without a window answers each row by itself"
    place = place_of(node) or (0, len("SELECT"))
    raise Unsupported(what, text=read.scope.text, place=place, detail=detail, hint=hint)


def _check_options(select: Select) -> None:
    """Refuse options that have no meaning for rows by themselves; their defaults may be said."""
    for clause in select.options:
        if (clause.name == "late" and str(clause.value).lower() == "revise") or clause.name in NOT_FOR_EACH_ROW:
            what = f"option {clause.name} of a query without a window is not available"
            raise Unsupported(what, text=select.text, place=clause.place, hint="Leave it out.")


# The SELECT list.


def _items(node: exp.Expr, read: From) -> Iterator[Item]:
    """Resolve one output; a star is all columns of the stream and its tables, or of one of them."""
    if isinstance(node, exp.Star):
        yield from _star(range(len(read.scope.sources)), read)
    elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Star):
        yield from _star([_source(node, read)], read)
    else:
        value = strip(node.this if isinstance(node, exp.Alias) else node)
        for part in value.walk():
            if is_aggregate(part):
                _refuse("an aggregate without a window is not available", part, read)
        resolved = resolve(value, read.scope)
        for part in resolved.walk():
            if is_aggregate(part):
                _refuse("an aggregate without a window is not available", part, read)
        yield Item(node.alias if isinstance(node, exp.Alias) else plain_name(resolved), resolved)


def _star(numbers: Sequence[int], read: From) -> Iterator[Item]:
    """List the columns of some sources; a column that USING made one with another's is listed once."""
    for number in numbers:
        for column in read.scope.sources[number].columns:
            if (number, column.lower()) not in read.scope.merged or len(numbers) == 1:
                yield Item(column, bound(number, column))


def _source(node: exp.Dot, read: From) -> int:
    """Find the source that a star is about."""
    path = path_of(node.this)
    label = path[0].name if path is not None and len(path) == 1 else ""
    labels = [source.label for source in read.scope.sources]
    for number, known in enumerate(labels):
        if known.lower() == label.lower():
            return number
    what, hint = f'there is no stream or table "{label}" in the query', nearest(label, labels)
    raise UnknownColumn(what, text=read.scope.text, place=place_of(node.this), hint=hint)


def _is_star(node: exp.Expr) -> bool:
    """Tell whether an output is all columns, of the stream or of one source."""
    return isinstance(node.expression if isinstance(node, exp.Dot) else node, exp.Star)


def _check_names(items: Sequence[Item], read: From, star: exp.Expr | None) -> None:
    """Refuse two outputs of one name, and one that the answers have themselves."""
    seen = {column: "every answer of a query without a window has a column of that name" for column in COLUMNS}
    for item in items:
        if item.name.lower() in seen:
            what, detail = f'two outputs are called "{item.name}"', seen[item.name.lower()] or None
            place = place_of(item.value) or place_of(star) or (0, len("SELECT"))
            hint = "Name the columns, and add an alias with AS."
            if star is not None and place_of(item.value) is None:
                alias = f"{write_name(item.name)} AS {write_name(item.name + '_of_row')}"
                hint = f"Write the columns out in place of *, this one with another name: {alias}."
            raise LanguageError(what, text=read.scope.text, place=place, detail=detail, hint=hint)
        seen[item.name.lower()] = ""
