"""Expands ROLLUP, CUBE and GROUPING SETS into lists of grouping sets, ordered as Spark orders them.

Several elements mean every combination of their sets: GROUP BY a, ROLLUP (b) is GROUPING SETS ((a, b), (a)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from math import prod
from typing import Final

from sqlglot import exp

from penstock.errors import LanguageError
from penstock.language.grammar.cursor import place_of
from penstock.language.grammar.limits import MAX_SETS

WORDS: Final[dict[type[exp.Expr], str]] = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE", exp.GroupingSets: "GROUPING SETS"}
Write = Callable[[exp.Expr], str]
Leaves = tuple[exp.Expr, ...]


def is_analytic(node: exp.Expr) -> bool:
    """Say whether an element of GROUP BY is ROLLUP, CUBE or GROUPING SETS."""
    return type(node) in WORDS


def leaves_of(element: exp.Expr) -> Iterator[exp.Expr]:
    """List the grouping expressions of an element, as they are written."""
    if is_analytic(element) or isinstance(element, exp.Tuple):
        for part in element.expressions:
            yield from leaves_of(part)
    else:
        yield element


def write_element(element: exp.Expr, write: Write) -> str:
    """Write an element of GROUP BY; ``write`` writes a grouping expression."""
    if not is_analytic(element) and not isinstance(element, exp.Tuple):
        return write(element)
    listed = ", ".join(write_element(part, write) for part in element.expressions)
    word = WORDS.get(type(element))
    return f"{word} ({listed})" if word else f"({listed})"


def sets_of(elements: Sequence[exp.Expr], text: str) -> list[Leaves] | None:
    """List the grouping sets of all elements; None: none of them is ROLLUP, CUBE or GROUPING SETS."""
    analytic = [element for element in elements if is_analytic(element)]
    if not analytic:
        return None
    if prod(_count(element) for element in elements) > MAX_SETS:
        what, detail = "too many grouping sets", f"at most {MAX_SETS:,}"
        raise LanguageError(what, text=text, place=place_of(analytic[0]), detail=detail, hint="List the ones you need.")
    combined = product(*(_sets(element) for element in elements))
    return [tuple(leaf for part in parts for leaf in part) for parts in combined]


def _count(element: exp.Expr) -> int:
    """Count an element's sets without listing them."""
    match element:
        case exp.Rollup():
            return len(element.expressions) + 1
        case exp.Cube():
            return 1 << min(len(element.expressions), 62)
        case exp.GroupingSets():
            return sum(_count(part) for part in element.expressions)
    return 1


def _sets(element: exp.Expr) -> list[Leaves]:
    """List the sets of one element, the finest first."""
    parts = [tuple(leaves_of(part)) for part in element.expressions] if is_analytic(element) else []
    match element:
        case exp.Rollup():
            chosen: Iterator[Sequence[Leaves]] = (parts[:length] for length in range(len(parts), -1, -1))
        case exp.Cube():
            chosen = (some for length in range(len(parts), -1, -1) for some in combinations(parts, length))
        case exp.GroupingSets():
            return [one for part in element.expressions for one in _sets(part)]
        case _:
            return [tuple(leaves_of(element))]
    return [tuple(leaf for part in some for leaf in part) for some in chosen]
