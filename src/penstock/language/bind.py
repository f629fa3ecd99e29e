"""A parsed SELECT and the catalog's names come in; a Query, all names resolved and all text canonical, goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from sqlglot import exp

from penstock.errors import LanguageError, MalformedSQL, UnknownColumn, Unsupported
from penstock.language.bind_aggregates import bind_call
from penstock.language.canonical import conjunction, conjuncts, render, size_of, sizes_of, strip
from penstock.language.cursor import place_of
from penstock.language.joins import From, Names, model_joins, read_from
from penstock.language.limits import MAX_NODES
from penstock.language.literals import quote
from penstock.language.options import NOT_FOR_ROWS, check_options, refuse_options, revises
from penstock.language.parse import check_text
from penstock.language.scope import OWN_COLUMNS, REVISION_COLUMNS, WINDOW_COLUMNS, is_aggregate, path_of, resolve
from penstock.language.spark_window import FIELDS, WHOLE, is_window, mentions_window
from penstock.language.statements import Select
from penstock.language.user_functions import Functions, expand_select
from penstock.language.write import Item, plain_name, write_query
from penstock.model.derived import line_name
from penstock.model.query import Aggregate, Output, Query
from penstock.model.window import RowsWindow

__all__ = ["Names", "bind"]


def bind(select: Select, names: Names, name: str, functions: Functions | None = None, *, asked: bool = False) -> Query:
    """Resolve a SELECT against the catalog and bring it into canonical form; ``functions`` are the users' own.

    A query that is ``asked`` once has a window without SLIDE; bound, it has an evaluation at every microsecond.
    """
    try:
        query = _bind(select, names, name, functions or {}, asked)
    except RecursionError:
        raise MalformedSQL("nested too deeply", text=select.text, place=(0, len(select.text))) from None
    _check_again(query, select)
    return query


def _check_again(query: Query, select: Select) -> None:
    """Refuse a query whose canonical text could not be read again after a restart."""
    try:
        check_text(query.text)
    except MalformedSQL as error:
        what, detail = f"written out, the query is too large: {error.what}", "aliases and functions are written out"
        raise MalformedSQL(what, text=select.text, place=(0, len(select.text)), detail=detail) from None


def _bind(select: Select, names: Names, name: str, functions: Functions, asked: bool) -> Query:
    """Bind clause after clause, in the order SQL evaluates them."""
    text = select.text
    if asked:
        refuse_options(select.options, text)
    options = check_options(select.options, text)
    read, tree = read_from(expand_select(select.expression, functions, text), names, text, asked)
    listed = [_item(node, read) for node in tree.expressions]
    items = [item for item in listed if item is not None]
    keys = _keys(tree, listed, read)
    grouped = tree.args.get("group") is not None
    having = _having(tree, items, keys, read)
    _check_shape(tree, items, having, grouped, text)
    _check_names(items, revises(options), text)
    over = _Placeholders(read, keys)
    _check_rows(read, over, select)
    outputs = tuple(Output(item.name, over.write(item.value)) for item in items)
    having_text = over.write_all(having) if having else None
    return Query(
        name=name,
        text=write_query(read, items, keys, grouped, having, options),
        stream=_feeding(read),
        window=read.window,
        joins=model_joins(read),
        where=conjunction(read.filters, read.canonical_name) if read.filters else None,
        keys=tuple(over.keys),
        aggregates=tuple(over.aggregates),
        outputs=outputs,
        having=having_text,
        grouped=grouped,
        start_aligned=read.start_aligned,
        options=options,
    )


def _feeding(read: From) -> str:
    """Name the stream that a query reads: itself, or its rows as they are numbered."""
    name = read.scope.sources[0].name
    return line_name(name, read.window) if isinstance(read.window, RowsWindow) else name


def _check_rows(read: From, over: _Placeholders, select: Select) -> None:
    """Refuse what has no meaning for a window of rows."""
    if not isinstance(read.window, RowsWindow):
        return
    for clause in select.options:
        if clause.name in NOT_FOR_ROWS and not (clause.name == "late" and str(clause.value).lower() == "count"):
            what = f"option {clause.name} of a query with a window of rows is not available"
            raise Unsupported(what, text=select.text, place=clause.place, hint="Leave it out, or write RANGE.")
    for column in read.window.partition:
        if quote(column) not in over.keys:
            what = f'column "{column}" of PARTITION BY is not in GROUP BY'
            detail, hint = "an answer names the part whose rows it is of", f"Add {column} to GROUP BY."
            place = (0, len(select.text))
            raise LanguageError(what, text=select.text, place=place, detail=detail, hint=hint)


# The SELECT list.


def _item(node: exp.Expr, read: From) -> Item | None:
    """Resolve one output; None for window_start and window_end, which come with every answer."""
    value = strip(node.this if isinstance(node, exp.Alias) else node)
    if _is_window_column(value, read):
        if isinstance(node, exp.Alias):
            what = f"an alias for {value.name.lower()} is not available"
            raise Unsupported(what, text=read.scope.text, place=place_of(node))
        return None
    resolved = resolve(value, read.scope)
    return Item(node.alias if isinstance(node, exp.Alias) else plain_name(resolved), resolved)


def _is_window_column(node: exp.Expr, read: From) -> bool:
    """Say whether a node is a bare window_start or window_end that no source has as a column."""
    path = path_of(node)
    return path is not None and len(path) == 1 and path[0].name.lower() in WINDOW_COLUMNS and not _has(path[0], read)


def _has(name: exp.Expr, read: From) -> bool:
    """Say whether any source has a column of this name."""
    return any(source.find(name.name) for source in read.scope.sources)


def _check_shape(tree: exp.Select, items: list[Item], having: Sequence[exp.Expr], grouped: bool, text: str) -> None:
    """Refuse queries without aggregates or without outputs."""
    values = [item.value for item in items] + list(having)
    if not grouped and not any(is_aggregate(part) for value in values for part in value.walk()):
        what, hint = "queries without an aggregate are not available", "Aggregate, or add GROUP BY."
        raise Unsupported(what, text=text, place=place_of(tree.expressions[0]), hint=hint)
    if not items:
        what = "the query selects nothing besides its window"
        raise LanguageError(what, text=text, place=place_of(tree.expressions[0]))


def _check_names(items: Sequence[Item], revised: bool, text: str) -> None:
    """Refuse two outputs of one name, and one that the answers have themselves."""
    seen = {column: "every answer has a column of that name" for column in OWN_COLUMNS}
    if revised:
        seen |= {column: "an answer that may be revised has a column of that name" for column in REVISION_COLUMNS}
    for item in items:
        if item.name.lower() in seen:
            what = f'two outputs are called "{item.name}"'
            place, detail = place_of(item.value), seen[item.name.lower()]
            raise LanguageError(what, text=text, place=place, detail=detail or None, hint="Add an alias with AS.")
        seen[item.name.lower()] = ""


# GROUP BY.


def _keys(tree: exp.Select, listed: Sequence[Item | None], read: From) -> list[exp.Expr]:
    """Resolve the grouping expressions; equal ones count once."""
    group = tree.args.get("group")
    keys: dict[str, exp.Expr] = {}
    seen: set[str] = set()  # positions and names: the same one again is the same key
    for node in group.expressions if group else []:
        if isinstance(node, exp.Literal | exp.Column):
            if node.name.lower() in seen:
                continue
            seen.add(node.name.lower())
        key = _key(node, listed, read)
        if isinstance(key, exp.Literal | exp.Null | exp.Boolean):
            _complain("grouping by a constant is not available", node, read, Unsupported)
        if any(is_aggregate(part) for part in key.walk()):
            _complain("aggregates are not allowed in GROUP BY", node, read)
        if mentions_window(key):
            _complain("grouping by an expression over the window is not available", node, read, Unsupported)
        keys.setdefault(read.canonical(key), key)
    return list(keys.values())


def _key(node: exp.Expr, listed: Sequence[Item | None], read: From) -> exp.Expr:
    """Resolve one grouping expression: a position, else a column, else an alias, else an expression."""
    if isinstance(node, exp.Literal) and node.name.isdecimal() and not node.is_string:
        return _position(node, listed, read)
    path = path_of(strip(node))
    if path is not None and len(path) == 1 and not _has(path[0], read):
        for item in listed:
            if item is not None and item.name.lower() == path[0].name.lower():
                return item.value.copy()
    return resolve(node, read.scope, "GROUP BY")


def _position(node: exp.Expr, listed: Sequence[Item | None], read: From) -> exp.Expr:
    """Return the output that GROUP BY 1 means."""
    position = int(node.name) if len(node.name) < 6 else 0
    if not 1 <= position <= len(listed):
        _complain(f"GROUP BY {node.name[:20]}: there are {len(listed)} outputs", node, read)
    item = listed[position - 1]
    if item is None:
        _complain("grouping by the window is not available", node, read, Unsupported)
    return item.value.copy()


def _complain(
    what: str, node: exp.Expr, read: From, kind: type[LanguageError] = LanguageError, hint: str | None = None
) -> NoReturn:
    """Raise an error at a node."""
    raise kind(what, text=read.scope.text, place=place_of(node), hint=hint)


# HAVING.


def _having(tree: exp.Select, items: Sequence[Item], keys: Sequence[exp.Expr], read: From) -> list[exp.Expr]:
    """Resolve HAVING; outside aggregates a name is a grouped column, else an alias, else a column."""
    clause = tree.args.get("having")
    if clause is None:
        return []
    grouped = {key.name.lower() for key in keys if isinstance(key, exp.Column)}
    values = {item.name.lower(): item.value for item in items}
    sizes = {name: size_of(value) for name, value in values.items()}
    written = 0

    def step(node: exp.Expr) -> exp.Expr:
        nonlocal written
        path = path_of(node)
        if path is None or len(path) > 1 or isinstance(node.parent, exp.Dot) or _inside_aggregate(node):
            return node
        name = path[0].name.lower()
        if name in values and not (name in grouped and _has(path[0], read)):
            written += sizes[name]
            if written > MAX_NODES:
                _complain(f"expressions of more than {MAX_NODES:,} parts once aliases are written out", node, read)
            return exp.Paren(this=values[name].copy())
        return node

    condition = exp.Paren(this=clause.this.copy()).transform(step, copy=False)
    return [resolve(part, read.scope) for part in conjuncts(condition)]


def _inside_aggregate(node: exp.Expr) -> bool:
    """Say whether a node is part of an aggregate's argument."""
    parent = node.parent
    while parent is not None and not is_aggregate(parent):
        parent = parent.parent
    return parent is not None


# Keys and aggregates.


@dataclass(slots=True)
class _Placeholders:
    """Numbers the keys and the distinct aggregates of a query, and writes expressions over them."""

    read: From
    key_nodes: Sequence[exp.Expr]
    keys: dict[str, int] = field(init=False)
    kinds: set[tuple[type[exp.Expr], int]] = field(init=False)
    sizes: dict[int, int] = field(default_factory=dict)  # of every node of the expression at hand, by its identity
    aggregates: dict[Aggregate, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Number the keys."""
        self.keys = {self.read.canonical(key): number for number, key in enumerate(self.key_nodes)}
        self.kinds = {(type(key), size_of(key)) for key in self.key_nodes}

    def write(self, node: exp.Expr) -> str:
        """Write an expression over `` `k0` `` … and `` `a0` `` …"""
        return render(self._replaced(node))

    def write_all(self, nodes: Sequence[exp.Expr]) -> str:
        """Write a conjunction over the same."""
        return conjunction([self._replaced(node) for node in nodes])

    def _replaced(self, node: exp.Expr) -> exp.Expr:
        """Put placeholders for keys and aggregates, largest first."""
        copy = node.copy()
        self.sizes = sizes_of(copy)
        return copy.transform(self._step, copy=False)

    def _step(self, node: exp.Expr) -> exp.Expr:
        """Replace one key, aggregate or mention of the window; complain about a column that is none."""
        if is_window(node):
            return exp.column(WHOLE, quoted=True)
        if isinstance(node, exp.Dot) and is_window(node.this):
            return exp.column(self._field(node), quoted=True)
        # Writing a node is dear in long chains, so only nodes of a key's own kind and size are compared.
        if (type(node), self.sizes[id(node)]) in self.kinds:
            number = self.keys.get(self.read.canonical(node))
            if number is not None:
                return exp.column(f"k{number}", quoted=True)
        if is_aggregate(node):
            aggregate = bind_call(node, self.read)
            return exp.column(f"a{self.aggregates.setdefault(aggregate, len(self.aggregates))}", quoted=True)
        if isinstance(node, exp.Column):
            hint = f"Add it to GROUP BY, or aggregate it: max({node.name})."
            _complain(f'column "{node.name}" is neither grouped nor aggregated', node, self.read, hint=hint)
        return node

    def _field(self, node: exp.Dot) -> str:
        """Return the placeholder of window.start or window.end."""
        name = node.expression.name
        if name.lower() not in FIELDS:
            hint = "Write window.start or window.end."
            _complain(f'the window has no field "{name}"', node, self.read, UnknownColumn, hint)
        return FIELDS[name.lower()]
