"""Takes the window out of a SELECT with GROUP BY window(…) or session_window(…), as Spark users write it.

Spark aligns the starts of windows: they begin at every t ≡ startTime (mod slide), so they end at startTime + range.
What refers to the window, ``window``, ``window.start`` or the call itself, becomes a marked column; of sessions the
same with ``session_window``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NoReturn

from sqlglot import exp

from penstock.errors import InvalidWindow, LanguageError, UnknownColumn, Unsupported
from penstock.language.binding.canonical import copied, strip
from penstock.language.binding.scope import path_of
from penstock.language.duration import parse_duration
from penstock.language.grammar.cursor import place_of, placed
from penstock.language.grammar.dialect import check_slides, window_of
from penstock.language.grammar.limits import LONGEST_WINDOW_US
from penstock.model.schema import Stream
from penstock.model.window import SessionWindow, Window

CALL: Final = "window"
SESSION_CALL: Final = "session_window"
FIELDS: Final = {"start": "ws", "end": "we"}  # of the window's struct, and their placeholders
WHOLE: Final = "w"


def is_window(node: exp.Expr) -> bool:
    """Say whether a node is a marked column that stands for the window."""
    return isinstance(node, exp.Column) and bool(node.meta.get("window"))


def mentions_window(node: exp.Expr) -> bool:
    """Say whether the window occurs in an expression."""
    return any(is_window(part) for part in node.walk())


def take_window(
    tree: exp.Select, stream: Stream, taken: Collection[str], text: str
) -> tuple[exp.Select, Window | None]:
    """Take window(…) out of GROUP BY; ``taken`` are the columns of all sources, in lower case."""
    group = tree.args.get("group")
    found = [
        (number, call) for number, key in enumerate(group.expressions if group else []) if (call := _call(key, tree))
    ]
    if not found:
        return tree, None
    if len(found) > 1:
        raise LanguageError("two windows in GROUP BY", text=text, place=place_of(found[1][1]))
    number, call = found[0]
    window = _window(call, tree, stream, text)
    copy = copied(tree)
    copy.args["group"].set("expressions", [k for n, k in enumerate(copy.args["group"].expressions) if n != number])
    reading = _Marking(window, tree, stream, call_of(window) not in taken, text)
    copy.set("expressions", [reading.marked(item) for item in copy.expressions])
    if having := copy.args.get("having"):
        having.set("this", reading.marked(having.this))
    if order := copy.args.get("order"):
        for key in order.expressions:
            key.set("this", reading.marked(key.this))
    return copy, window


class _Marking:
    """Puts marked columns where the window is meant."""

    def __init__(self, window: Window, tree: exp.Select, stream: Stream, by_name: bool, text: str) -> None:
        """Keep what a mention is compared with; ``by_name``: no source has a column called window."""
        self.window, self.tree, self.stream, self.by_name, self.text = window, tree, stream, by_name, text

    def marked(self, node: exp.Expr) -> exp.Expr:
        """Mark all mentions in an expression."""
        whole = exp.Paren(this=node).transform(self._step, copy=False)
        return whole.this.pop() if isinstance(whole, exp.Paren) else whole

    def _step(self, node: exp.Expr) -> exp.Expr:
        """Mark one mention."""
        if _is_call(node):
            if _window(node, self.tree, self.stream, self.text) != self.window:
                what = "this window is not the one of GROUP BY"
                raise LanguageError(what, text=self.text, place=place_of(node))
            return self._mark(node)
        path = path_of(node)
        if path is None or not self.by_name or path[0].name.lower() != call_of(self.window) or len(path) > 2:
            return node
        if len(path) == 1:
            return self._mark(node)
        return placed(exp.Dot(this=self._mark(path[0]), expression=copied(path[1])), place_of(node) or (0, 1))

    def _mark(self, node: exp.Expr) -> exp.Column:
        """Build the marked column, standing where it was written."""
        column = exp.Column(this=exp.Identifier(this=call_of(self.window)))
        column.meta.update(bound=True, window=True)
        return placed(column, place_of(node) or (0, 1))


def call_of(window: Window) -> str:
    """Name the function that a window is written with."""
    return SESSION_CALL if isinstance(window, SessionWindow) else CALL


def _is_call(node: exp.Expr) -> bool:
    """Say whether a node is a call of window() or session_window()."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in (CALL, SESSION_CALL)


def _call(key: exp.Expr, tree: exp.Select) -> exp.Expr | None:
    """Return the call of window() that a grouping expression is: written there, by position or by alias."""
    key, items = strip(key), tree.expressions
    if _is_call(key):
        return key
    item: exp.Expr | None = None
    if isinstance(key, exp.Literal) and not key.is_string and key.name.isdecimal() and len(key.name) < 6:
        item = items[int(key.name) - 1] if 1 <= int(key.name) <= len(items) else None
    elif (path := path_of(key)) is not None and len(path) == 1:
        aliases = (i for i in items if isinstance(i, exp.Alias) and i.alias.lower() == path[0].name.lower())
        item = next(aliases, None)
    value = strip(item.this if isinstance(item, exp.Alias) else item) if item is not None else None
    return value if value is not None and _is_call(value) else None


# The arguments.


def _window(call: exp.Expr, tree: exp.Select, stream: Stream, text: str) -> Window:
    """Read window(ts, range [, slide [, startTime]]) or session_window(ts, gap)."""
    table, arguments = tree.args["from_"].this, call.expressions
    if (bracket := window_of(table)) is not None:
        what, hint = "a second window, beside the one in brackets", "Leave one of them out."
        raise LanguageError(what, text=text, place=place_of(call) or bracket.place, hint=hint)
    if call.name.lower() == SESSION_CALL:
        return _session(call, table.alias_or_name, stream, text)
    if not 2 <= len(arguments) <= 4:
        _wrong(f"window() takes a column and up to three durations, found {len(arguments)} arguments", call, text)
    _check_time(arguments[0], table.alias_or_name, stream, text)
    lengths = [_length(argument, text, signed=number == 2) for number, argument in enumerate(arguments[1:])]
    range_us, slide_us, start_us = [*lengths, *[lengths[0], 0][len(lengths) - 1 :]]
    if slide_us > range_us:
        hint = f"Write {table.name} [RANGE … SLIDE …] for windows with gaps between them."
        _wrong("the slide of window() must be at most its range", arguments[2], text, hint)
    check_slides(range_us, slide_us, text, place_of(call))
    if abs(start_us) >= slide_us:
        _wrong("the start time of window() must be less than its slide", arguments[3], text)
    return Window(range_us, slide_us, (start_us + range_us) % slide_us)


def _session(call: exp.Expr, label: str, stream: Stream, text: str) -> SessionWindow:
    """Read session_window(ts, gap); a gap that depends on the row is refused."""
    if len(call.expressions) != 2:
        found = len(call.expressions)
        _wrong(f"session_window() takes a column and a duration, found {found} arguments", call, text)
    _check_time(call.expressions[0], label, stream, text, SESSION_CALL)
    return SessionWindow.of(_length(call.expressions[1], text, False, SESSION_CALL))


def _check_time(node: exp.Expr, label: str, stream: Stream, text: str, called: str = CALL) -> None:
    """Refuse a first argument that is not the stream's event time."""
    names = [part.name.lower() for part in path_of(strip(node)) or []]
    if names in ([stream.time.lower()], [label.lower(), stream.time.lower()]):
        return
    if len(names) == 1 and names[0] not in (column.name.lower() for column in stream.columns):
        what = f'stream "{stream.name}" has no column "{names[0]}"'
        raise UnknownColumn(what, text=text, place=place_of(node), hint=f'Its event time is "{stream.time}".')
    what, hint = f"{called}() over anything but the event time is not available", f"Write {called}({stream.time}, …)."
    raise Unsupported(what, text=text, place=place_of(node), hint=hint)


def _length(node: exp.Expr, text: str, signed: bool, called: str = CALL) -> int:
    """Read a duration in a string, or an INTERVAL; only the start time may be less than nothing."""
    node = strip(node)
    if isinstance(node, exp.Interval):
        unit = node.args.get("unit")
        written = f"{node.this.name} {unit.name if unit else ''}".strip()
    elif isinstance(node, exp.Literal) and node.is_string:
        written = node.name.strip()
    else:
        _wrong(f"{called}() takes durations such as '12 minutes'", node, text)
    negative = signed and written.startswith("-")
    try:
        length_us = parse_duration(written[1:] if negative else written)
    except InvalidWindow as error:
        raise InvalidWindow(error.what, text=text, place=place_of(node), detail=error.detail, hint=error.hint) from None
    if length_us <= 0 and not signed:
        _wrong(f"the durations of {called}() must be longer than zero", node, text)
    if length_us > LONGEST_WINDOW_US:
        _wrong("the lengths of a window must be at most 100 years", node, text)
    return -length_us if negative else length_us


def _wrong(what: str, node: exp.Expr, text: str, hint: str | None = None) -> NoReturn:
    """Raise an InvalidWindow at a node."""
    raise InvalidWindow(what, text=text, place=place_of(node), hint=hint)
