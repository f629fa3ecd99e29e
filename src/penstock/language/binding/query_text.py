"""Writes a bound query as canonical text, which users read and which binds to an equal query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from penstock.language.binding.canonical import Naming, conjunction, copied, render
from penstock.language.binding.functions import NO_PARENTHESES
from penstock.language.binding.grouping_sets import write_element
from penstock.language.binding.joins import From
from penstock.language.binding.scope import source_number
from penstock.language.binding.spark_window import SESSION_CALL, call_of, is_window
from penstock.language.grammar.dialect import Penstock, partition_by
from penstock.language.grammar.literals import is_plain_word, quote, shortened
from penstock.language.grammar.readings import RESERVED
from penstock.language.options import OptionClause, Value
from penstock.model.duration import format_duration
from penstock.model.window import EachRow, RowsWindow, SessionWindow

_NO_NAMES: Final = RESERVED | NO_PARENTHESES  # words that stand in backquotes where they are names


@dataclass(frozen=True, slots=True)
class Item:
    """One output: its name and its resolved expression."""

    name: str
    value: exp.Expr


@dataclass(frozen=True, slots=True)
class OrderItem:
    """One expression of ORDER BY, resolved; ``output`` names the output that it is."""

    value: exp.Expr
    descending: bool
    nulls_first: bool
    output: str | None = None


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What DISTINCT, ORDER BY, LIMIT and OFFSET say."""

    distinct: bool = False
    order: tuple[OrderItem, ...] = ()
    limit: int | None = None
    offset: int = 0


def write_name(name: str) -> str:
    """Write a name, in backquotes only where it needs them."""
    keyword = name.upper() in Penstock.Tokenizer.KEYWORDS and name.lower() != "window"
    reserved = keyword or name.lower() in _NO_NAMES
    return name if is_plain_word(name) and not reserved else quote(name)


def plain_name(value: exp.Expr) -> str:
    """Name an output that has no alias: a column's or field's own name, or the expression's text."""
    if isinstance(value, exp.Dot):
        return str(value.expression.name)
    return shortened(render(value, lambda column: column.name))


def write_query(
    read: From,
    items: Sequence[Item],
    elements: Sequence[exp.Expr],
    grouped: bool,
    having: Sequence[exp.Expr],
    arranged: Arrangement,
    options: Sequence[tuple[str, Value]],
) -> str:
    """Write the whole SELECT on one line."""
    labels = _labels(read)
    window = _window_name(read, labels)
    bare = _naming(labels, window, always=bool(read.joins))
    parts = ["SELECT", *(["DISTINCT"] if arranged.distinct else [])]
    parts.append(", ".join(_item(item, bare) for item in items))
    unwritten = read.start_aligned or isinstance(read.window, EachRow)
    parts += ["FROM", write_name(labels[0]), *([] if unwritten else [_window_clause(read)])]
    parts += _joins(read, labels)
    if read.filters:
        parts += ["WHERE", conjunction(read.filters, bare)]
    if grouped:
        by_function = [_window_call(read, labels)] if read.start_aligned else []
        written = [write_element(one, lambda key: render(key, bare)) for one in elements]
        parts += ["GROUP BY", ", ".join([*by_function, *written])]
    if having:
        # An alias may have a column's name, and HAVING would take the alias: a qualified name is never an alias.
        parts += ["HAVING", conjunction(having, _naming(labels, window, always=True))]
    parts += _arrangement(arranged, _naming(labels, window, always=True))
    if options:
        parts.append(f"WITH ({', '.join(str(OptionClause(*option)) for option in options)})")
    return " ".join(parts)


def _arrangement(arranged: Arrangement, naming: Naming) -> list[str]:
    """Write ORDER BY, LIMIT and OFFSET; an output stands there by its name, which comes before a column's."""
    parts = []
    if arranged.order:
        parts += ["ORDER BY", ", ".join(_sort_key(item, naming) for item in arranged.order)]
    if arranged.limit is not None:
        parts += ["LIMIT", str(arranged.limit)]
    return [*parts, "OFFSET", str(arranged.offset)] if arranged.offset else parts


def _sort_key(item: OrderItem, naming: Naming) -> str:
    """Write one expression of ORDER BY."""
    text = render(item.value, naming) if item.output is None else write_name(item.output)
    return write_direction(text, item.descending, item.nulls_first)


def write_direction(text: str, descending: bool, nulls_first: bool) -> str:
    """Write how rows are sorted by an expression, without what Spark takes for granted."""
    text += " DESC" if descending else ""
    return text if nulls_first != descending else f"{text} NULLS {'FIRST' if nulls_first else 'LAST'}"


def _window_clause(read: From) -> str:
    """Write the window in brackets."""
    window = read.window
    if isinstance(window, RowsWindow):
        return f"[{partition_by(window.partition)}ROWS {window.length} SLIDE {window.slide}]"
    return f"[RANGE {format_duration(window.length)}]" if read.asked else str(window)


def _window_call(read: From, labels: Sequence[str]) -> str:
    """Write window(ts, range, slide, startTime), without what Spark takes for granted."""
    window = read.window
    time = f"{write_name(labels[0])}.{write_name(read.time)}" if read.joins else write_name(read.time)
    if isinstance(window, SessionWindow):
        return f"{SESSION_CALL}({time}, '{format_duration(window.gap_us)}')"
    start_us = (window.offset - window.length) % window.slide
    lengths = [window.length, window.slide, start_us]
    if not start_us:
        lengths = lengths[: 1 if window.slide == window.length else 2]
    written = [f"'{format_duration(length)}'" for length in lengths]
    return f"{call_of(window)}({', '.join([time, *written])})"


def _window_name(read: From, labels: Sequence[str]) -> str:
    """Name the window of GROUP BY: by its name, unless some source has a column of that name."""
    called = call_of(read.window)
    taken = any(source.find(called) for source in read.scope.sources)
    return _window_call(read, labels) if taken else called


def _item(item: Item, naming: Naming) -> str:
    """Write one output, with an alias unless it is a column of that name."""
    text = render(item.value, naming)
    if isinstance(item.value, exp.Column) and item.value.name == item.name:
        return text
    return f"{text} AS {write_name(item.name)}"


def _labels(read: From) -> list[str]:
    """Call every source by its own name; a second one of the same name gets a number."""
    labels: list[str] = []
    taken = {source.name.lower() for source in read.scope.sources}
    for source in read.scope.sources:
        label, number = source.name, 2
        while label.lower() in (other.lower() for other in labels) or (label != source.name and label.lower() in taken):
            label, number = f"{source.name}_{number}", number + 1
        labels.append(label)
    return labels


def _naming(labels: Sequence[str], window: str, always: bool) -> Naming:
    """Name columns for people, with their source where it is needed or asked for."""

    def name(column: exp.Column) -> str:
        if is_window(column):
            return window
        own = write_name(column.name)
        if not always and not isinstance(column.parent, exp.Dot):
            return own
        return f"{write_name(labels[source_number(column)])}.{own}"

    return name


def _joins(read: From, labels: Sequence[str]) -> list[str]:
    """Write the joins with ON."""
    parts = []
    naming = _naming(labels, call_of(read.window), always=True)
    for number, joined in enumerate(read.joins, 1):
        source, label = read.scope.sources[number], labels[number]
        alias = "" if label == source.name else f" AS {write_name(label)}"
        keys = [exp.EQ(this=copied(other), expression=copied(own)) for other, own in joined.pairs]
        word = "LEFT JOIN" if joined.kind == "left" else "JOIN"
        parts.append(f"{word} {write_name(source.name)}{alias} ON {conjunction(keys, naming)}")
    return parts
