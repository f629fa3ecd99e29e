"""Binds a window join of two streams: resolves its names and tells keys, condition and outputs apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NoReturn

from sqlglot import exp

from penstock.errors import LanguageError, Unsupported
from penstock.language.binding.canonical import conjunction, conjuncts, render, strip
from penstock.language.binding.joins import Names, unknown_stream
from penstock.language.binding.query_text import Item, plain_name, write_name
from penstock.language.binding.scope import Scope, Source, bound, is_aggregate, resolve, source_number
from penstock.language.functions.sql_functions import Functions, expand_select
from penstock.language.grammar.cursor import place_of
from penstock.language.grammar.dialect import WindowClause, partition_by, window_of
from penstock.language.grammar.literals import quote
from penstock.language.grammar.parse import check_text
from penstock.language.options import OptionClause
from penstock.language.statements import Select
from penstock.model.derived import TIME
from penstock.model.duration import format_duration
from penstock.model.query import Output
from penstock.model.schema import Stream
from penstock.model.stream_join import LEFT, MOST_RETAINED, RIGHT, JoinSide, StreamJoin

MOST_ROWS: Final = "max_rows"  # the one option of a join
_FORM: Final = "Write FROM a [RANGE 5 MIN] JOIN b [RANGE 5 MIN] ON a.k = b.k."
_BEFORE: Final = (LEFT, RIGHT)
_NO_SESSION: Final = "a row that is still to come may make two sessions one"


def is_stream_join(select: Select, names: Names) -> bool:
    """Tell whether a SELECT joins two streams."""
    tables = [select.expression.args["from_"].this, *(j.this for j in select.expression.args.get("joins") or [])]
    return sum(names.stream(table.name) is not None for table in tables) > 1


def bind_stream_join(select: Select, names: Names, functions: Functions) -> tuple[StreamJoin, str]:
    """Resolve a join of two streams against the catalog; return it with its canonical text."""
    text, most_rows = select.text, _most_rows(select.options, select.text)
    tree = expand_select(select.expression, functions, text)
    _refuse_clauses(tree, text)
    found = _Bound(tree, names, text)
    outputs = found.outputs()
    written = found.write(outputs, most_rows)
    check_text(written)
    where = conjunction(found.filters, _naming) if found.filters else None
    read = [*found.filters, *(item.value for item in outputs)]
    left, right = (_side(found, number, read) for number in (0, 1))
    listed = tuple(Output(item.name, render(item.value, _naming)) for item in outputs)
    return StreamJoin(left, right, where, listed, most_rows=most_rows), written


class _Bound:
    """FROM, JOIN, ON and WHERE of a join, with every name resolved: 0 is the left stream, 1 the right one."""

    def __init__(self, tree: exp.Select, names: Names, text: str) -> None:
        """Resolve sources, then conditions."""
        self.tree, self.text = tree, text
        joins = tree.args.get("joins") or []
        tables = [tree.args["from_"].this, joins[0].this]
        self.streams = [_stream(table, names, text) for table in tables]
        if len(joins) > 1:
            hint = (
                "Join two streams first; queries over the stream of pairs may join tables, and it may be joined again."
            )
            raise Unsupported("a join of two streams takes no third source", text=text, place=_at(joins[1]), hint=hint)
        if joins[0].side:
            what, hint = (
                "outer joins of two streams are not available",
                "Leave LEFT out: rows without a partner are left out.",
            )
            raise Unsupported(what, text=text, place=_at(joins[0]), hint=hint)
        self.windows = [_window(table, stream, text) for table, stream in zip(tables, self.streams, strict=True)]
        labels = [table.alias_or_name for table in tables]
        if labels[0].lower() == labels[1].lower():
            hint = "Give one of them an alias, or each."
            raise LanguageError(f'"{labels[1]}" is used twice', text=text, place=place_of(tables[1]), hint=hint)
        listed = zip(self.streams, labels, strict=True)
        self.scope = Scope(
            text, [Source("stream", s.name, label, tuple(c.name for c in s.columns)) for s, label in listed]
        )
        self.pairs: list[tuple[str, str]] = []
        self.filters: list[exp.Expr] = []
        self._conditions(joins[0])

    def _conditions(self, join: exp.Join) -> None:
        """Tell equalities of two columns, which are keys, from all other conditions."""
        for name in join.args.get("using") or []:
            sides = [Scope(self.text, [source]).column([name]) for source in self.scope.sources]
            self.pairs.append((sides[0].name, sides[1].name))
            self.scope.merged.add((1, name.name.lower()))
        where = self.tree.args.get("where")
        for clause, node in (("ON", join.args.get("on")), ("WHERE", where.this if where else None)):
            for part in conjuncts(node):
                condition = resolve(part, self.scope, clause)
                pair = _key(condition)
                self.pairs.append(pair) if pair is not None else self.filters.append(condition)
        if not self.pairs:
            what = "joins of two streams without an equality of two columns are not available"
            raise Unsupported(what, text=self.text, place=_at(join), hint=_FORM)
        self.pairs = sorted(dict.fromkeys(self.pairs))

    def outputs(self) -> list[Item]:
        """Resolve the SELECT list."""
        found: list[Item] = []
        seen: set[str] = set()
        for node in self.tree.expressions:
            value = strip(node.this if isinstance(node, exp.Alias) else node)
            resolved = resolve(value, self.scope)
            if (call := next((part for part in resolved.walk() if is_aggregate(part)), None)) is not None:
                what, hint = (
                    "aggregates in a join of two streams are not available",
                    "Aggregate in a query over the stream of pairs.",
                )
                raise Unsupported(what, text=self.text, place=place_of(call) or place_of(node), hint=hint)
            name = node.alias if isinstance(node, exp.Alias) else plain_name(resolved)
            self._check_name(name, seen, node)
            found.append(Item(name, resolved))
        return found

    def _check_name(self, name: str, seen: set[str], node: exp.Expr) -> None:
        """Refuse two outputs of one name, and one that has the name of the pairs' event time."""
        if name.lower() == TIME:
            what, detail = (
                f'an output is called "{name}"',
                f"the later time of both rows comes with every pair as {TIME}",
            )
            self._refuse(what, node, detail)
        if name.lower() in seen:
            self._refuse(f'two outputs are called "{name}"', node, None)
        seen.add(name.lower())

    def _refuse(self, what: str, node: exp.Expr, detail: str | None) -> NoReturn:
        """Refuse the name of an output."""
        raise LanguageError(what, text=self.text, place=_at(node), detail=detail, hint="Add an alias with AS.")

    def write(self, outputs: Sequence[Item], most_rows: int) -> str:
        """Write the join on one line, which binds to an equal one."""
        labels = [stream.name for stream in self.streams]
        if labels[0].lower() == labels[1].lower():
            labels[1] = f"{labels[1]}_2"

        def name(column: exp.Column) -> str:
            return f"{write_name(labels[source_number(column)])}.{write_name(column.name)}"

        items = [_item(item, render(item.value, name)) for item in outputs]
        sources = [
            f"{write_name(stream.name)} {window_text(window)}"
            for stream, window in zip(self.streams, self.windows, strict=True)
        ]
        if labels[1] != self.streams[1].name:
            sources[1] += f" AS {write_name(labels[1])}"
        keys: list[exp.Expr] = [exp.EQ(this=bound(0, left), expression=bound(1, right)) for left, right in self.pairs]
        text = f"SELECT {', '.join(items)} FROM {sources[0]} JOIN {sources[1]} ON "
        text += conjunction([*keys, *self.filters], name)
        return text if most_rows == MOST_RETAINED else f"{text} WITH ({MOST_ROWS} = {most_rows})"


def _side(found: _Bound, number: int, read: Sequence[exp.Expr]) -> JoinSide:
    """Describe one side, with the columns that expressions read of it."""
    columns = {c.name for node in read for c in node.find_all(exp.Column) if source_number(c) == number}
    keys = tuple(pair[number] for pair in found.pairs)
    return replace(found.windows[number], keys=keys, columns=tuple(sorted(columns)))


def window_text(side: JoinSide) -> str:
    """Write the window of one side."""
    if side.rows:
        return f"[{partition_by(side.partition)}ROWS {side.rows}]"
    return f"[RANGE {format_duration(side.range_us)}]"


def _naming(column: exp.Column) -> str:
    """Name a column by its side."""
    return quote(_BEFORE[source_number(column)] + column.name)


def _item(item: Item, text: str) -> str:
    """Write one output, with an alias unless it is a column of that name."""
    plain = isinstance(item.value, exp.Column) and item.value.name == item.name
    return text if plain else f"{text} AS {write_name(item.name)}"


def _key(condition: exp.Expr) -> tuple[str, str] | None:
    """Return the columns that an equality equates, the left stream's first; None: it is another condition."""
    if not isinstance(condition, exp.EQ):
        return None
    sides = [strip(condition.this), strip(condition.expression)]
    if not all(isinstance(side, exp.Column) for side in sides):
        return None
    sides.sort(key=source_number)  # type: ignore[arg-type]
    return (sides[0].name, sides[1].name) if [source_number(side) for side in sides] == [0, 1] else None  # type: ignore[arg-type]


def _stream(table: exp.Table, names: Names, text: str) -> Stream:
    """Find one of the two streams."""
    stream = names.stream(table.name)
    if stream is not None:
        return stream
    if names.table(table.name) is not None:
        what, hint = "a join of two streams takes no table", "Join the table in queries over the stream of pairs."
        raise Unsupported(what, text=text, place=place_of(table.this), hint=hint)
    raise unknown_stream(table, names, text)


def _window(table: exp.Table, stream: Stream, text: str) -> JoinSide:
    """Describe one side by how long a row waits for others, or refuse the form of its window."""
    clause = window_of(table)
    if clause is None:
        what = f'"{table.alias_or_name}" has no range in a join of two streams'
        raise Unsupported(what, text=text, place=place_of(table.this), hint=_FORM)
    if clause.kind == "SESSION":
        what = "SESSION windows in a join of two streams are not available"
        raise Unsupported(what, text=text, place=clause.place, detail=_NO_SESSION, hint="Write [RANGE 5 MIN].")
    if clause.slide is not None or clause.offset_us:
        word = "SLIDE" if clause.slide is not None else "OFFSET"
        what, detail = f"a join of two streams has no {word}", "a pair is there as soon as its later row is"
        raise Unsupported(what, text=text, place=clause.place, detail=detail, hint=f"Leave {word} out.")
    if clause.kind == "RANGE":
        return JoinSide(stream.name, (), clause.length)
    return JoinSide(stream.name, (), 0, rows=clause.length, partition=_partition(clause, stream, text))


def _partition(clause: WindowClause, stream: Stream, text: str) -> tuple[str, ...]:
    """Find the columns of PARTITION BY, each once."""
    columns = {column.name.lower(): column.name for column in stream.columns}
    for name in clause.partition:
        if name.lower() not in columns:
            what, hint = f'no column "{name}" in "{stream.name}"', f"Its columns are {', '.join(columns.values())}."
            raise LanguageError(what, text=text, place=clause.place, hint=hint)
    return tuple(dict.fromkeys(columns[name.lower()] for name in clause.partition))


def _refuse_clauses(tree: exp.Select, text: str) -> None:
    """Refuse clauses that aggregate."""
    for name, word in (("group", "GROUP BY"), ("having", "HAVING")):
        clause = tree.args.get(name)
        if clause is not None:
            what, hint = (
                f"{word} in a join of two streams is not available",
                "Write it in a query over the stream of pairs.",
            )
            first = next(iter(clause.find_all(exp.Column)), tree.expressions[0])
            raise Unsupported(what, text=text, place=_at(first), hint=hint)


def _most_rows(clauses: Sequence[OptionClause], text: str) -> int:
    """Read the one option there is."""
    most = MOST_RETAINED
    for number, clause in enumerate(clauses):
        if clause.name != MOST_ROWS:
            what, hint = f'a join of two streams has no option "{clause.name[:40]}"', f"Its one option is {MOST_ROWS}."
            raise LanguageError(what, text=text, place=clause.place, hint=hint)
        if number or not isinstance(clause.value, int) or clause.value <= 0:
            what = f"option {MOST_ROWS} is given once, as a whole number above 0"
            raise LanguageError(what, text=text, place=clause.place)
        most = clause.value
    return most


def _at(node: exp.Expr) -> tuple[int, int]:
    """Return where a node stands, or the beginning."""
    return place_of(node) or (0, 1)
