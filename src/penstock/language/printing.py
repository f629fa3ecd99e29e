"""Writes parsed statements and catalog entries as text that parses to the same again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlglot import exp

from penstock.errors import Unsupported
from penstock.language.binding.canonical import copied, render
from penstock.language.binding.grouping_sets import write_element
from penstock.language.binding.query_text import write_direction, write_name
from penstock.language.binding.scope import bare_all, is_function, path_of
from penstock.language.grammar.dialect import window_of
from penstock.language.grammar.literals import is_plain_word, quote, word_set, write_string
from penstock.language.grammar.readings import RESERVED
from penstock.language.stream_options import write_own
from penstock.model.duration import format_duration
from penstock.model.function import Function
from penstock.model.schema import Column, Stream, Table

# Words that are no calls when a parenthesis follows them.
_NOT_CALLS: Final = (RESERVED | word_set("extract interval")) - word_set("left right like ilike rlike regexp")


def write_expression(tree: exp.Expr) -> str:
    """Write an expression whose names are not resolved."""
    root = exp.Paren(this=copied(tree))
    return render(root.transform(_spelled, copy=False), lambda column: column.name)


def _spelled(node: exp.Expr) -> exp.Expr:
    """Put names the way the language spells them: paths with dots, odd functions in backquotes."""
    path = path_of(node)
    if path is not None:
        parts = ["*" if isinstance(part, exp.Star) else write_name(part.name) for part in path]
        if len(path) == 1 and is_function(path[0]):
            parts = [path[0].name]  # a function, unless some source has a column of that name
        column = exp.Column(this=exp.Identifier(this=".".join(parts)))
        column.meta["bound"] = True  # spelled: not to be spelled again
        return column
    if isinstance(node, exp.Anonymous) and (not is_plain_word(node.name) or node.name.lower() in _NOT_CALLS):
        node.set("this", quote(node.name))
    return node


def write_select(tree: exp.Select) -> str:
    """Write a SELECT as it was parsed, on one line."""
    parts = ["SELECT", *(["DISTINCT"] if tree.args.get("distinct") else [])]
    parts.append(", ".join(_item(item) for item in tree.expressions))
    parts += ["FROM", _source(tree.args["from_"].this) + "".join(_join(join) for join in tree.args.get("joins") or [])]
    if where := tree.args.get("where"):
        parts += ["WHERE", write_expression(where.this)]
    if group := tree.args.get("group"):
        parts += ["GROUP BY", _keys(group.expressions)]
    if having := tree.args.get("having"):
        parts += ["HAVING", write_expression(having.this)]
    if order := tree.args.get("order"):
        parts += ["ORDER BY", ", ".join(_sort_key(key) for key in order.expressions)]
    for clause in ("limit", "offset"):
        if count := tree.args.get(clause):
            parts += [clause.upper(), count.expression.name]
    return " ".join(parts)


def _keys(keys: Sequence[exp.Expr]) -> str:
    """Write GROUP BY's list; ALL alone has no quotes, with which it would be a name."""
    if len(keys) == 1 and bare_all(keys[0]) is not None:
        return "ALL"
    return ", ".join(write_element(key, write_expression) for key in keys)


def _sort_key(key: exp.Expr) -> str:
    """Write one expression of ORDER BY."""
    descending, nulls_first = bool(key.args.get("desc")), bool(key.args.get("nulls_first"))
    return write_direction(write_expression(key.this), descending, nulls_first)


def _item(node: exp.Expr) -> str:
    """Write one output and its alias."""
    if isinstance(node, exp.Alias):
        return f"{write_expression(node.this)} AS {write_name(node.alias)}"
    return write_expression(node)


def _source(table: exp.Expr) -> str:
    """Write a stream or table with its window and alias."""
    window = window_of(table)
    parts = [
        write_name(table.name),
        *([str(window)] if window else []),
        *(["AS", write_name(table.alias)] * bool(table.alias)),
    ]
    return " ".join(parts)


def _join(join: exp.Join) -> str:
    """Write one join; one that says neither ON nor USING is written with a comma."""
    on, using = join.args.get("on"), join.args.get("using")
    if on is None and not using and not join.side:
        return f", {_source(join.this)}"
    text = f" {'LEFT JOIN' if join.side else 'JOIN'} {_source(join.this)}"
    if on is not None:
        return f"{text} ON {write_expression(on)}"
    return f"{text} USING ({', '.join(write_name(column.name) for column in using)})" if using else text


# Streams, tables, functions.


def write_stream(stream: Stream, head: str = "CREATE STREAM") -> str:
    """Write the statement that creates a stream."""
    options = {**stream.options, **write_own(stream)}
    time = write_name(stream.time)
    late = f" AS {time} - INTERVAL {write_string(format_duration(stream.lateness_us))}" if stream.lateness_us else ""
    text = _created(head, "stream", stream, options)
    return f"{text} WATERMARK FOR {time}{late}"


def write_table(table: Table, head: str = "CREATE TABLE") -> str:
    """Write the statement that creates a table."""
    return _created(head, "table", table, table.options)


def _created(head: str, kind: str, item: Stream | Table, options: Mapping[str, str]) -> str:
    """Write name, columns, format and options."""
    if item.format is None:
        what = f'{kind} "{item.name}" is a DataFrame or table of the program; no statement creates it'
        raise Unsupported(what, hint=f"DESCRIBE {kind.upper()} {write_name(item.name)} shows its columns.")
    text = f"{head} {write_name(item.name)}"
    if item.columns:
        text += f" ({', '.join(write_column(column) for column in item.columns)})"
    text += f" USING {'.'.join(write_name(part) for part in item.format.split('.'))}"
    return text + (f" OPTIONS ({', '.join(write_option(*pair) for pair in options.items())})" if options else "")


def write_column(column: Column) -> str:
    """Write one column."""
    computed = f" GENERATED ALWAYS AS ({column.expression})" if column.expression else ""
    return f"{write_name(column.name)} {column.type}{computed}"


def write_option(key: str, value: str) -> str:
    """Write one option of a source."""
    bare = bool(key) and all(is_plain_word(part) for part in key.split("."))
    return f"{key if bare else write_string(key)} = {write_string(value)}"


def write_function(function: Function, head: str = "CREATE FUNCTION") -> str:
    """Write the statement that creates a function."""
    return write_definition(
        head, function.name, [(p.name, p.type) for p in function.parameters], function.returns, function.body
    )


def write_definition(
    head: str, name: str, parameters: Sequence[tuple[str, str]], returns: str | None, body: str
) -> str:
    """Write the parts of a function's definition."""
    listed = ", ".join(f"{write_name(own)} {type_}" for own, type_ in parameters)
    given = f" RETURNS {returns}" if returns else ""
    return f"{head} {write_name(name)}({listed}){given} RETURN {body}"
