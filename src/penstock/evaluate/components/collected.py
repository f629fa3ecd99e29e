"""Collects the values of rows in their order, up to a bound: what lists and joined strings are read from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.components.component import Column, Written
from penstock.evaluate.components.ranked import offered, one_or_none, plain_values, ranks_of, spread_ranks
from penstock.evaluate.components.reading import whole
from penstock.evaluate.components.row_runs import RowColumn, RowRuns, lists_of, one_rank
from penstock.evaluate.components.states import State

MOST_COLLECTED: Final = 10_000  # values of one group in one window; a state holds one more, which tells that
BYTES_EACH: Final = 200  # of a value with what it is ordered by, about


@dataclass(frozen=True, slots=True)
class Collected:
    """Values in order, each with what it is ordered by."""

    items: list[tuple[Any, Any]]  # the rank (time, hash, the value's own), and the value

    @property
    def values(self) -> list[Any]:
        """List the values."""
        return [value for _, value in self.items]

    @property
    def too_many(self) -> bool:
        """Tell whether there are more values than are kept."""
        return len(self.items) > MOST_COLLECTED

    @property
    def nbytes(self) -> int:
        """Return about how much memory they take."""
        return BYTES_EACH * len(self.items)


class CollectedValues(State):
    """The values that are not NULL, by time, then by a hash of the row, whose columns are in ``more``, then by value.

    Rows of one time and hash differ in nothing that is collected but the value itself, so their order is complete.
    """

    __slots__ = ()
    kind: ClassVar = "collected"

    @property
    def _listed(self) -> tuple[str, ...]:
        """Leave out the columns of the row."""
        return (self.argument or "*",)

    def lift_state(self, value: Written, time: str) -> str:
        """Sort the values of rows, and keep one more than may be asked for."""
        return f"slice(sort_array(collect_list({self._item(value, time)})), 1, {MOST_COLLECTED + 1})"

    def _item(self, value: Written, time: str) -> str:
        """Write a value with what it is ordered by; NULL of a row that is not collected."""
        assert self.argument is not None
        x, row = value(self.argument), ", ".join(value(column) for column in self.more)
        return offered(f"named_struct('t', {time}, 'h', xxhash64({row}), 'x', {x})", [f"({x}) IS NOT NULL"])

    def row_texts(self, value: Written, time: str) -> list[str]:
        """Write what a row offers, in a list of one or none."""
        return [one_or_none(self._item(value, time))]

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Sort the values of each run."""
        column = columns[0]
        items = column.array.flatten()
        wanted = np.asarray(pc.list_value_length(column.array).to_numpy(zero_copy_only=False)) > 0
        rank = column.kept(self, lambda: spread_ranks(_ranked(items), wanted))
        inside = wanted[runs.order]
        rows, owner = runs.order[inside], runs.owner[inside]
        order = np.lexsort((rank[rows], owner))
        rows, owner = rows[order], owner[order]
        kept = np.arange(len(owner)) - np.searchsorted(owner, owner) <= MOST_COLLECTED
        listed = items.take(pa.array((np.cumsum(wanted) - 1)[rows[kept]]))
        return [lists_of(listed, np.bincount(owner[kept], minlength=len(runs)))]

    def read_states(self, column: Column) -> Iterator[Collected | None]:
        """Read lists of values."""
        lists = whole(column)
        items = lists.flatten()
        fields = [pc.struct_field(items, [place]) for place in range(3)]
        listed = [plain_values(field) for field in fields]
        ranks = zip(*(ranks_of(field, values) for field, values in zip(fields, listed, strict=True)), strict=True)
        each = zip(ranks, listed[-1], strict=True)
        return (Collected(list(islice(each, n))) if n else None for n in pc.list_value_length(lists).to_pylist())

    def merge(self, states: Sequence[Collected]) -> Collected:
        """Put lists together in order; each of them is in order already, which sorting makes use of."""
        items = sorted(chain.from_iterable(state.items for state in states), key=itemgetter(0))
        return Collected(items[: MOST_COLLECTED + 1])


def _ranked(items: pa.Array) -> Any:
    """Rank items by time, hash and value."""
    return one_rank([RowColumn(pc.struct_field(items, [place])).ranks for place in range(3)])
