"""Defines a bound query: every name is resolved and every expression is canonical Spark SQL.

Canonical text is what makes sharing a matter of equality: two expressions that mean the same over the same
columns are the same string. A stream's column ``price`` is written `` `price` ``; a column of a joined table is
written as one quoted name, `` `listing#1f0c.r2000` `` (the join's id, a dot, the column).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.model.window import EachRow, Window

JoinKind = Literal["inner", "left"]
Parameter = float | str | tuple[float, ...]  # a constant of an aggregate: one, or several numbers


@dataclass(frozen=True, slots=True)
class Join:
    """One table joined to the stream by equality; ``id`` is the same for the same table and keys in every query."""

    id: str
    table: str
    kind: JoinKind
    stream_keys: tuple[str, ...]  # over the stream and the joins before this one
    table_keys: tuple[str, ...]  # over the table's own bare columns, `symbol`


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate call: function in lower case, canonical arguments; ``count(*)`` has none.

    ``parameters`` are constants: percentages (several of them as a tuple), numbers of items, accuracies, whether NULLs
    are ignored. ``row`` are the stream's columns, for aggregates that depend on the order of rows.
    """

    function: str
    arguments: tuple[str, ...]
    parameters: tuple[Parameter, ...] = ()
    distinct: bool = False
    row: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Print the call as SQL writes it."""
        constants = [_written(p) for p in self.parameters]
        before = {"top": 0, "percentile": 1}.get(self.function, len(self.arguments))
        listed = [*self.arguments[:before], *constants, *self.arguments[before:]]
        return f"{self.function}({'DISTINCT ' * self.distinct}{', '.join(listed) or '*'})"


def _written(parameter: Parameter) -> str:
    """Write a constant as SQL does."""
    if isinstance(parameter, tuple):
        return f"array({', '.join(map(str, parameter))})"
    if isinstance(parameter, str):
        return "'" + parameter.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(parameter).upper() if isinstance(parameter, bool) else str(parameter)


@dataclass(frozen=True, slots=True)
class Output:
    """One answer column: its name, and its expression over placeholders.

    `` `k0` `` … are keys, `` `a0` `` … aggregates, `` `w` `` Spark's window, `` `ws` `` its start, `` `we` `` its end,
    `` `g` `` the grouping_id() of a row and `` `g0` `` … the grouping() of each key.
    """

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class SortKey:
    """One expression of ORDER BY, over the same placeholders."""

    expression: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class Query:
    """A query over one stream: aggregates over a window, or columns of each row that it takes."""

    name: str
    text: str  # canonical text of the SELECT; it binds to an equal query
    stream: str
    window: Window
    joins: tuple[Join, ...]
    where: str | None
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    outputs: tuple[Output, ...]
    having: str | None
    grouped: bool  # False: an empty window still answers one row
    start_aligned: bool = False  # written as GROUP BY window(…), whose struct the outputs may name
    sets: tuple[tuple[int, ...], ...] = ()  # of ROLLUP and the like: the keys of each grouping set; none: all keys
    options: tuple[tuple[str, str | int], ...] = ()  # those that are not the default, sorted
    distinct: bool = False  # of equal answer rows of a window, one is given
    order: tuple[SortKey, ...] = ()  # of a window's answer rows; ties by group
    limit: int | None = None  # rows of a window's answer, after those that OFFSET leaves out
    offset: int = 0

    @property
    def expressions(self) -> tuple[str, ...]:
        """List what is computed of an answer row: the outputs, then what only ORDER BY names."""
        outputs = [output.expression for output in self.outputs]
        if not self.order:
            return tuple(outputs)
        return (*outputs, *dict.fromkeys(k.expression for k in self.order if k.expression not in outputs))

    @property
    def chooses_rows(self) -> bool:
        """Tell whether it depends on a window's other groups whether a group is answered."""
        return self.distinct or self.limit is not None or self.offset > 0

    @property
    def arranges_rows(self) -> bool:
        """Tell whether a window's answer rows are put in order, or chosen."""
        return self.chooses_rows or bool(self.order)

    @property
    def is_continuous(self) -> bool:
        """Tell whether the query has no window: its keys are the expressions that it answers of each row."""
        return isinstance(self.window, EachRow)

    def __str__(self) -> str:
        """Print the query's canonical text."""
        return self.text
