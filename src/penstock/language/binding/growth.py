"""Refuses expressions whose calls could make a value far too long.

Spark allocates what ``repeat(x, 2000000000)`` asks for and dies of it, and with it every query of the process. So a
count must be written as a number that is small enough, and the growth of nested calls, multiplied, is limited.
"""

from __future__ import annotations

import math
import re
from typing import Final, NoReturn

from sqlglot import exp

from penstock.errors import LanguageError, Unsupported
from penstock.language.grammar.cursor import place_of
from penstock.language.grammar.limits import MAX_GROWTH, MAX_REPETITIONS

# Which argument says how long the result is.
_COUNTED: Final = {"repeat": 1, "array_repeat": 1, "lpad": 1, "rpad": 1, "array_insert": 1, "space": 0}
# How many times longer than its argument a result can be.
_LONGER: Final = {
    "hex": 4, "base64": 2, "url_encode": 9, "encode": 4, "quote": 2, "to_json": 6, "upper": 3, "ucase": 3, "lower": 3,
    "lcase": 3, "initcap": 3,
}  # fmt: skip
# Which argument is put in, perhaps once for every character.
_INSERTED: Final = {"replace": 2, "regexp_replace": 2, "concat_ws": 0, "array_join": 1}
_FORMATS: Final = frozenset({"format_string", "printf"})
_WIDTH: Final = re.compile(r"[0-9]{5,}")


def check_growth(tree: exp.Expr, text: str) -> None:
    """Refuse an expression whose calls could make a value too long."""
    nodes = list(tree.bfs())[::-1]  # children before their parents
    factors = {id(node): _factor(node, text) for node in nodes if isinstance(node, exp.Anonymous)}
    if math.prod(factors.values()) <= MAX_GROWTH:  # whatever stands within what
        return
    reached: dict[int, int] = {}
    for node in nodes:
        inner = max((reached[id(child)] for child in node.iter_expressions()), default=1)
        reached[id(node)] = inner * factors.get(id(node), 1)
        if reached[id(node)] > MAX_GROWTH:
            what = f"calls within calls make a value more than {MAX_GROWTH:,} times longer"
            raise LanguageError(what, text=text, place=place_of(node))


def _factor(call: exp.Anonymous, text: str) -> int:
    """Say how many times longer a call's result can be than its longest argument."""
    name, arguments = call.name.lower(), call.expressions
    if name in _COUNTED and len(arguments) > _COUNTED[name]:
        return _count(call, arguments[_COUNTED[name]], text)
    if name == "sequence":
        return _sequence(call, text)
    if name in _FORMATS and arguments:
        return _format(call, arguments[0], text)
    if name in _INSERTED and len(arguments) > _INSERTED[name]:
        inserted = arguments[_INSERTED[name]]
        return 1 + len(inserted.name) if isinstance(inserted, exp.Literal) else 2
    return _LONGER.get(name, 1)


def _count(call: exp.Anonymous, argument: exp.Expr, text: str) -> int:
    """Read a count, which is a number as it stands."""
    count = _number(argument)
    if count is None:
        what = f"{call.name.lower()}() with a count that is not a number is not available"
        hint = f"Write the count as a number up to {MAX_REPETITIONS:,}."
        raise Unsupported(what, text=text, place=place_of(argument) or place_of(call), hint=hint)
    if abs(count) > MAX_REPETITIONS:
        _too_many(call, argument, text)
    return max(1, abs(count))


def _sequence(call: exp.Anonymous, text: str) -> int:
    """Read the length of a sequence between two numbers."""
    ends = [_number(argument) for argument in call.expressions]
    if len(ends) < 2 or len(ends) > 3 or None in ends:
        what, hint = "sequence() of unknown length is not available", "Write its ends and its step as numbers."
        raise Unsupported(what, text=text, place=place_of(call), hint=hint)
    start, stop, step = (*(end or 0 for end in ends), 1)[:3]
    length = abs(stop - start) // max(1, abs(step)) + 1
    if length > MAX_REPETITIONS:
        _too_many(call, call, text)
    return length


def _format(call: exp.Anonymous, pattern: exp.Expr, text: str) -> int:
    """Check the widths in a format, which is a string as it stands."""
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        what, hint = f"{call.name.lower()}() with a computed format is not available", "Write the format as a string."
        raise Unsupported(what, text=text, place=place_of(pattern) or place_of(call), hint=hint)
    if _WIDTH.search(pattern.name):
        _too_many(call, pattern, text)
    widths = [int(digits) for digits in re.findall("[0-9]+", pattern.name)]
    return max([1, *widths])


def _number(node: exp.Expr) -> int | None:
    """Read a whole number, its sign and casts included."""
    if isinstance(node, exp.Cast):
        return _number(node.this)
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    digits = node.name.rstrip("LSY")
    return int(digits) if digits.isdecimal() and len(digits) <= 40 else None


def _too_many(call: exp.Anonymous, node: exp.Expr, text: str) -> NoReturn:
    """Raise for a count beyond the limit."""
    what = f"{call.name.lower()}() makes at most {MAX_REPETITIONS:,} repetitions"
    raise LanguageError(what, text=text, place=place_of(node) or place_of(call))
