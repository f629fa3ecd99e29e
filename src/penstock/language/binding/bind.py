"""Binds a parsed SELECT to the catalog: resolves every name and writes every expression in canonical text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.errors import LanguageError, MalformedSQL, UnknownColumn, Unsupported
from penstock.language.binding.aggregates import bind_call
from penstock.language.binding.aliases import Aliases
from penstock.language.binding.arrangement import (
    ArrangementChecks,
    grouped_by_outputs,
    is_distinct,
    read_order,
    row_count,
)
from penstock.language.binding.canonical import conjunction, conjuncts, copied, render, size_of, sizes_of, strip
from penstock.language.binding.each_row import bind_each_row, refuse_explode
from penstock.language.binding.joins import From, Names, model_joins, read_from
from penstock.language.binding.keys import Keys, Listed, complain, has_column, read_keys, with_all_keys
from penstock.language.binding.query_text import Arrangement, Item, OrderItem, plain_name, write_name, write_query
from penstock.language.binding.sampling import estimated, kept_rows
from penstock.language.binding.scope import (
    OWN_COLUMNS,
    REVISION_COLUMNS,
    WINDOW_COLUMNS,
    is_aggregate,
    is_grouping,
    path_of,
    resolve,
)
from penstock.language.binding.spark_window import FIELDS, WHOLE, is_window
from penstock.language.functions.sql_functions import Functions, expand_select
from penstock.language.grammar.cursor import place_of
from penstock.language.grammar.literals import quote
from penstock.language.grammar.parse import check_text
from penstock.language.options import NOT_FOR_ROWS, NOT_FOR_SESSIONS, OPTIONS, check_options, refuse_options, revises
from penstock.language.statements import Select
from penstock.model.query import Aggregate, Output, Query, SortKey
from penstock.model.window import EachRow, RowsWindow, SessionWindow

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
    if isinstance(read.window, EachRow):
        return bind_each_row(tree, read, select, name)
    listed = [_item(node, read) for node in tree.expressions]
    tree = with_all_keys(grouped_by_outputs(tree, listed), listed, read)
    items = [item for item in listed if item is not None]
    grouping = read_keys(tree, listed, read)
    keys = grouping.nodes
    grouped = tree.args.get("group") is not None
    having = _having(tree, items, keys, read)
    _check_shape(tree, items, having, grouped, text)
    _check_names(items, revises(options), text)
    _check_sets(grouping, read, revises(options))
    over = _Placeholders(read, keys, bool(grouping.sets), items)
    _check_rows(read, over, select)
    _check_sessions(read, grouping, select)
    refuse_explode(select)
    outputs = tuple(Output(item.name, over.write(item.value)) for item in items)
    having_text = over.write_all(having) if having else None
    arranged, order = _arranged(tree, listed, outputs, over, grouped)
    ArrangementChecks(select.expression, read, options).check(arranged)
    filters = [*read.filters, *kept_rows(options)]
    query = Query(
        name=name,
        text=write_query(read, items, grouping.elements, grouped, having, arranged, options),
        stream=read.feeding,
        window=read.window,
        joins=model_joins(read),
        where=conjunction(filters, read.canonical_name) if filters else None,
        keys=tuple(over.keys),
        aggregates=tuple(over.aggregates),
        outputs=outputs,
        having=having_text,
        grouped=grouped,
        start_aligned=read.start_aligned,
        sets=grouping.sets,
        options=options,
        distinct=arranged.distinct,
        order=order,
        limit=arranged.limit,
        offset=arranged.offset,
    )
    return estimated(query, select, read.scope.sources[0].columns)


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


def _check_sessions(read: From, grouping: Keys, select: Select) -> None:
    """Refuse what has no meaning for sessions, or is not there for them; defaults may be said."""
    if not isinstance(read.window, SessionWindow):
        return
    for clause in select.options:
        if clause.name in NOT_FOR_SESSIONS and str(clause.value).lower() != OPTIONS[clause.name].default:
            what = f"option {clause.name} of a query with sessions is not available"
            raise Unsupported(what, text=select.text, place=clause.place, hint="Leave it out, or write RANGE.")
    if grouping.sets:
        what = "sessions with ROLLUP, CUBE or GROUPING SETS are not available"
        complain(what, grouping.nodes[0], grouping.read, Unsupported, "Write a query for each grouping set.")


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
    if path is None or len(path) != 1 or path[0].name.lower() not in WINDOW_COLUMNS:
        return False
    return not has_column(path[0], read)


def _check_shape(tree: exp.Select, items: list[Item], having: Sequence[exp.Expr], grouped: bool, text: str) -> None:
    """Refuse queries without aggregates or without outputs."""
    values = [item.value for item in items] + list(having)
    if not grouped and not any(is_aggregate(part) for value in values for part in value.walk()):
        what, hint = "queries without an aggregate are not available", "Aggregate, or add GROUP BY."
        raise Unsupported(what, text=text, place=place_of(tree.expressions[0]), hint=hint)
    if not items:
        what = "the query selects nothing besides its window"
        raise LanguageError(what, text=text, place=place_of(tree.expressions[0]))


def _check_sets(grouping: Keys, read: From, revised: bool) -> None:
    """Refuse grouping sets where a subtotal has no meaning: it is revised by no row, and of one part it is the part."""
    parted = isinstance(read.window, RowsWindow) and read.window.partition
    if grouping.sets and (revised or parted):
        with_it = "PARTITION BY" if parted else "late = 'revise'"
        what = f"{with_it} with ROLLUP, CUBE or GROUPING SETS is not available"
        complain(what, grouping.nodes[0], grouping.read, Unsupported, "Write a query for each grouping set.")


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


# HAVING.


def _having(tree: exp.Select, items: Sequence[Item], keys: Sequence[exp.Expr], read: From) -> list[exp.Expr]:
    """Resolve HAVING; outside aggregates a name is a grouped column, else an alias, else a column."""
    clause = tree.args.get("having")
    if clause is None:
        return []
    grouped = {key.name.lower() for key in keys if isinstance(key, exp.Column)}
    condition = Aliases(items, read, grouped).written_out(clause.this)
    return [resolve(part, read.scope) for part in conjuncts(condition)]


# ORDER BY and what belongs to it.


def _arranged(
    tree: exp.Select, listed: Listed, outputs: Sequence[Output], over: _Placeholders, grouped: bool
) -> tuple[Arrangement, tuple[SortKey, ...]]:
    """Read which answer rows of a window are given and in what order, resolved and over placeholders."""
    names = {output.expression: output.name for output in reversed(outputs)}
    items: list[OrderItem] = []
    order: list[SortKey] = []
    for item in read_order(tree, listed, over.read):
        text = over.write(item.value)
        if text not in (key.expression for key in order):  # a second time it orders nothing
            order.append(SortKey(text, item.descending, item.nulls_first))
            items.append(replace(item, output=names.get(text)))
    distinct = is_distinct(tree, outputs, len(over.keys), grouped=grouped, sets=over.in_sets)
    offset = row_count(tree, "offset") or 0
    return Arrangement(distinct, tuple(items), row_count(tree, "limit"), offset), tuple(order)


# Keys and aggregates.


@dataclass(slots=True)
class _Placeholders:
    """Numbers the keys and the distinct aggregates of a query, and writes expressions over them."""

    read: From
    key_nodes: Sequence[exp.Expr]
    in_sets: bool  # ROLLUP, CUBE or GROUPING SETS
    items: Sequence[Item] = ()  # the outputs
    keys: dict[str, int] = field(init=False)
    kinds: set[tuple[type[exp.Expr], int]] = field(init=False)
    sizes: dict[int, int] = field(default_factory=dict)  # of every node of the expression at hand, by its identity
    aggregates: dict[Aggregate, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Number the keys."""
        self.keys = {self.read.canonical(key): number for number, key in enumerate(self.key_nodes)}
        self.kinds = {(type(key), size_of(key)) for key in self.key_nodes if not isinstance(key, exp.Column)}

    def write(self, node: exp.Expr) -> str:
        """Write an expression over `` `k0` `` … and `` `a0` `` …"""
        return render(self._replaced(node))

    def write_all(self, nodes: Sequence[exp.Expr]) -> str:
        """Write a conjunction over the same."""
        return conjunction([self._replaced(node) for node in nodes])

    def _replaced(self, node: exp.Expr) -> exp.Expr:
        """Put placeholders for keys and aggregates, largest first."""
        copy = copied(node)
        self.sizes = sizes_of(copy) if self.kinds else {}
        return copy.transform(self._step, copy=False)

    def _step(self, node: exp.Expr) -> exp.Expr:
        """Replace one key, aggregate or mention of the window; complain about a column that is none."""
        if is_window(node):
            return exp.column(WHOLE, quoted=True)
        if isinstance(node, exp.Dot) and is_window(node.this):
            return exp.column(self._field(node), quoted=True)
        # Writing a node is dear in long chains, so only columns and nodes of a key's own kind and size are compared.
        if isinstance(node, exp.Column) or (self.kinds and (type(node), self.sizes[id(node)]) in self.kinds):
            number = self.keys.get(self.read.canonical(node))
            if number is not None:
                return exp.column(f"k{number}", quoted=True)
        if is_grouping(node):
            return exp.column(self._grouping(node), quoted=True)
        if is_aggregate(node):
            aggregate = bind_call(node, self.read)
            return exp.column(f"a{self.aggregates.setdefault(aggregate, len(self.aggregates))}", quoted=True)
        if isinstance(node, exp.Column):
            hint = self._hidden(node) or f"Add it to GROUP BY, or aggregate it: max({write_name(node.name)})."
            complain(f'column "{node.name}" is neither grouped nor aggregated', node, self.read, hint=hint)
        return node

    def _hidden(self, column: exp.Column) -> str | None:
        """Say so if GROUP BY means a column where it seems to mean the output of that name."""
        for item in self.items:
            if item.value == column and item.name.lower() != column.name.lower() and has_column(item, self.read):
                of = self.read.scope.sources[0]
                name, own = write_name(item.name), write_name(column.name)
                return f"{name} in GROUP BY is a column of {of.kind} {of.name}; write GROUP BY {own} for the output."
        return None

    def _grouping(self, call: exp.Expr) -> str:
        """Return the placeholder of grouping(key) or grouping_id()."""
        if not self.in_sets:
            hint = "Group by ROLLUP, CUBE or GROUPING SETS."
            complain(f"{call.name}() without grouping sets has no meaning", call, self.read, hint=hint)
        named = [self.keys.get(self.read.canonical(argument)) for argument in call.expressions]
        if call.name == "grouping_id" and named in ([], list(range(len(self.keys)))):
            return "g"
        if call.name == "grouping" and len(named) == 1 and named[0] is not None:
            return f"g{named[0]}"
        takes = "one of the grouping expressions" if call.name == "grouping" else "all grouping expressions in order"
        complain(f"{call.name}() takes {takes}", call, self.read)

    def _field(self, node: exp.Dot) -> str:
        """Return the placeholder of window.start or window.end."""
        name = node.expression.name
        if name.lower() not in FIELDS:
            hint = "Write window.start or window.end."
            complain(f'the window has no field "{name}"', node, self.read, UnknownColumn, hint)
        return FIELDS[name.lower()]
