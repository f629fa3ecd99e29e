"""Takes a block of queued rows through the operators of its queries: what each computed, and who waits for whom.

A block is at most some thousand rows of one commit. Its state is in memory alone: rows lie in the state folder, and a
step that was not committed is taken again after a restart. A query takes a row if all of its conjuncts hold. A row on
which one of them failed is the query's failure only if no other conjunct rules the row out, so that the order in which
operators run changes no answer. Rows that nobody takes any more and columns that nobody reads any more leave the block,
so that what waits for the next operator is what the one before it let through.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.expressions.compile import Compiled
from penstock.evaluate.expressions.operators import Evaluated
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.caps import BLOCK_ROWS
from penstock.share.operators.calls import OperatorCall
from penstock.share.operators.operated import OperatedExpression, OperatedQuery

WORTH_IT: Final = 0.125  # the part of a block's rows that nobody takes any more, from which on they leave
FAILED_ARGUMENT: Final = "an argument of {}() could not be computed"

Chosen = Callable[[OperatedQuery, Sequence[int]], int]  # which conjunct is next, by its place


class OperatorValues:
    """What one operator has computed for the rows of a block, and on which of them it failed."""

    def __init__(self, rows: int, type_: pa.DataType) -> None:
        """Begin with nothing computed."""
        self.done, self.failed = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
        self.errors: dict[int, str] = {}
        self._type, self._pieces = type_, list[tuple[Int64Array, pa.Array]]()

    def add(self, places: Int64Array, values: pa.Array, errors: Mapping[int, str]) -> None:
        """Take the values of some rows; ``errors`` are by the place in the block."""
        self._pieces.append((places, values))
        self.done[places] = True
        self.failed[list(errors)] = True
        self.errors |= errors

    @property
    def bytes(self) -> int:
        """Return the size of the values."""
        return sum(values.nbytes for _, values in self._pieces)

    def keep(self, kept: BoolArray) -> None:
        """Let go of all but some rows."""
        places, old = np.flatnonzero(kept), self.errors
        done = self.done[places]
        values = self.array.take(pa.array(places[done]))
        self._pieces = [(np.flatnonzero(done), values)] if len(values) else []
        self.done, self.failed = done, self.failed[places]
        self.errors = {new: old[row] for new, row in enumerate(places.tolist()) if row in old}

    @property
    def array(self) -> pa.Array:
        """Return the values of all rows, NULL where none was computed."""
        if not self._pieces:
            return pa.nulls(len(self.done), self._type)
        if len(self._pieces) > 1:
            values = [values for _, values in self._pieces]
            self._pieces = [(np.concatenate([places for places, _ in self._pieces]), pa.concat_arrays(values))]
        places, values = self._pieces[0]
        at = np.full(len(self.done), -1, np.int64)
        at[places] = np.arange(len(places))
        return values.take(pa.array(at, mask=at < 0))


@dataclass(slots=True, eq=False)
class QueryInBlock:
    """How far one query has come with a block."""

    query: OperatedQuery
    rows: BoolArray  # that no conjunct has ruled out so far
    left: list[int]  # conjuncts that were not looked at
    doubtful: BoolArray  # rows on which a conjunct failed
    waits: str | None = None  # for an operator; None: nothing more is to be computed
    reasons: dict[int, str] = field(default_factory=dict)  # why, by row


@dataclass(frozen=True, slots=True)
class Passed:
    """How many rows a conjunct let through of those that it saw."""

    query: int  # its definition
    conjunct: int
    rows: int
    passed: int


class RowBlock:
    """Some rows of a commit, with all that was computed of them."""

    def __init__(self, commit: int, place: int, rows: pa.Table, times: Int64Array, numbers: Int64Array) -> None:
        """Hold rows, which are the ``place``-th block of their commit; ``numbers`` tell them apart in it."""
        self.commit, self.place, self.rows, self.times, self.numbers = commit, place, rows, times, numbers
        self.values: dict[str, OperatorValues] = {}
        self.queries: dict[int, QueryInBlock] = {}
        self.running = set[str]()  # operators that a worker is computing
        self.measure()

    @property
    def key(self) -> tuple[int, int]:
        """Return what blocks are put in order by."""
        return self.commit, self.place

    @property
    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.times)

    def measure(self) -> None:
        """Find out anew what the rows hold, and what was computed of them."""
        values = sum(known.bytes for known in self.values.values())
        self.bytes = self.rows.nbytes + self.times.nbytes + self.numbers.nbytes + values

    def enter(self, query: OperatedQuery, taken: BoolArray) -> None:
        """Let a query in, with the rows that its gate has taken."""
        left = list(range(len(query.conjuncts)))
        known = QueryInBlock(query, taken.copy(), left, np.zeros(len(taken), np.bool_))
        self.queries[query.definition.id] = known

    def leave(self, number: int) -> None:
        """Let a query go; what it alone waited for is computed no more."""
        self.queries.pop(number, None)

    def waiting(self, operator: str) -> list[QueryInBlock]:
        """List the queries that wait for an operator."""
        return [one for one in self.queries.values() if one.waits == operator]

    def wanted(self, operator: str, queries: Collection[int] | None = None) -> Int64Array:
        """List the rows that an operator has to compute for those who wait, or for some of them."""
        rows = np.zeros(self.count, np.bool_)
        for one in self.waiting(operator):
            if queries is None or one.query.definition.id in queries:
                rows |= one.rows
        if (known := self.values.get(operator)) is not None:
            rows &= ~known.done
        return np.flatnonzero(rows)

    def of(self, operator: OperatorCall) -> OperatorValues:
        """Return what an operator has computed."""
        if operator.column not in self.values:
            self.values[operator.column] = OperatorValues(self.count, operator.returns)
        return self.values[operator.column]

    def arguments(self, operator: OperatorCall, places: Int64Array) -> tuple[list[pa.Array], BoolArray]:
        """Compute the arguments of some rows; tell the rows on which that failed."""
        failed, found = np.zeros(len(places), np.bool_), []
        for argument in operator.arguments:
            one = self.evaluated(argument, places)
            found.append(one.array)
            if one.failed is not None:
                failed |= one.failed
        return found, failed

    def evaluated(self, compiled: Compiled, places: Int64Array) -> Evaluated:
        """Compute an expression of some rows."""
        at = pa.array(places)
        columns: dict[str, pa.Array | Evaluated] = {}
        for name in compiled.names:
            if name in self.values:
                known = self.values[name]
                columns[name] = Evaluated(known.array.take(at), known.failed[places])
            else:
                columns[name] = self.rows[name].combine_chunks().take(at)
        return compiled.operation(columns, len(places))

    def advance(self, one: QueryInBlock, chosen: Chosen) -> list[Passed]:
        """Take a query as far as the values that are there allow; it then waits for an operator, or for none."""
        passed = list[Passed]()
        while one.left and one.rows.any():
            place = chosen(one.query, one.left)
            conjunct = one.query.conjuncts[place]
            one.waits = self._missing(one, conjunct)
            if one.waits is not None:
                return passed
            passed.append(self._look_at(one, place, conjunct))
        one.waits = next((m for o in one.query.outputs if (m := self._missing(one, o)) is not None), None)
        return passed

    def _missing(self, one: QueryInBlock, expression: OperatedExpression) -> str | None:
        """Name the first operator that has not computed all rows which a query needs."""
        read = [name for name in expression.needs if name in expression.compiled.names]
        return self._first_missing(one, read) if one.rows.any() else None

    def _first_missing(self, one: QueryInBlock, names: Iterable[str]) -> str | None:
        """Name the first of some operators, or of those that they need, that has not computed all rows of a query."""
        for name in names:
            if not self._has(name, one):
                return self._first_missing(one, one.query.operators[name].reads) or name
        return None

    def _has(self, operator: str, one: QueryInBlock) -> bool:
        """Tell whether an operator has computed all rows that a query takes so far."""
        known = self.values.get(operator)
        return known is not None and not bool((one.rows & ~known.done).any())

    def _look_at(self, one: QueryInBlock, place: int, conjunct: OperatedExpression) -> Passed:
        """Rule out the rows for which a conjunct does not hold."""
        places = np.flatnonzero(one.rows)
        found = self.evaluated(conjunct.compiled, places)
        holds = np.asarray(pc.fill_null(found.array, False).to_numpy(zero_copy_only=False), np.bool_)
        if found.failed is not None and found.failed.any():
            holds = holds | found.failed
            one.doubtful[places[found.failed]] = True
            self._remember(one, conjunct, places[found.failed])
        one.rows[places[~holds]] = False
        one.left.remove(place)
        return Passed(one.query.definition.id, place, len(places), int(holds.sum()))

    def _remember(self, one: QueryInBlock, expression: OperatedExpression, places: Iterable[int]) -> None:
        """Remember why an expression failed on rows."""
        for row in places:
            known = (self.values[name] for name in expression.needs if name in self.values)
            told = (found.errors[row] for found in known if row in found.errors)
            one.reasons.setdefault(int(row), next(told, f"{expression.told} cannot be computed"))

    # -- what leaves ---------------------------------------------------------------------------------------------

    def compact(self, shared: Collection[str]) -> None:
        """Let go of rows that nobody takes any more, and of columns and values that nobody reads any more.

        Values of ``shared`` operators stay: they may have to be stored for those who have not answered. So do errors,
        which are told when a query fails. While a worker computes some of the rows, all stay.
        """
        if not self.running:
            self._let_go(shared)
        self.measure()

    def _let_go(self, shared: Collection[str]) -> None:
        """Let go of what nobody needs."""
        taken = np.zeros(self.count, np.bool_)
        for one in self.queries.values():
            taken |= one.rows
        if self.count - int(taken.sum()) > WORTH_IT * self.count:
            self.keep(taken)
        read = set[str]()
        for one in self.queries.values():
            for place in one.left:
                self._note_read(one, one.query.conjuncts[place].compiled.names, read)
            for output in one.query.outputs:
                self._note_read(one, output.compiled.names, read)
        self.rows = self.rows.select([name for name in self.rows.column_names if name in read])
        stay = {n: known.failed.any() or n in read or n in shared for n, known in self.values.items()}
        self.values = {name: known for name, known in self.values.items() if stay[name]}

    def _note_read(self, one: QueryInBlock, names: Iterable[str], read: set[str]) -> None:
        """Note the columns that a query reads, and those that operators which have yet to run for it read."""
        for name in names if one.rows.any() else ():
            read.add(name)
            if name in one.query.operators and not self._has(name, one):
                for argument in one.query.operators[name].arguments:
                    self._note_read(one, argument.names, read)

    def keep(self, kept: BoolArray) -> None:
        """Let go of all but some rows."""
        places = np.flatnonzero(kept)
        self.rows = self.rows.take(pa.array(places))
        self.times, self.numbers = self.times[places], self.numbers[places]
        for known in self.values.values():
            known.keep(kept)
        for one in self.queries.values():
            one.rows, one.doubtful, old = one.rows[places], one.doubtful[places], one.reasons
            one.reasons = {new: old[row] for new, row in enumerate(places.tolist()) if row in old}

    # -- what comes of it ----------------------------------------------------------------------------------------

    def answer(self, one: QueryInBlock) -> tuple[Int64Array, list[pa.Array], int | None]:
        """Return the rows that a query takes, its outputs, and the first row on which it failed, if there is one."""
        places, found = np.flatnonzero(one.rows), list[pa.Array]()
        if not len(places):
            return places, [pa.nulls(0, output.compiled.type) for output in one.query.outputs], None
        failed = one.doubtful[places].copy()
        for output in one.query.outputs:
            made = self.evaluated(output.compiled, places)
            found.append(made.array)
            if made.failed is not None and made.failed.any():
                failed |= made.failed
                self._remember(one, output, places[made.failed])
        if not failed.any():
            return places, found, None
        bad = places[failed]
        return places, found, int(bad[np.argmin(self.times[bad])])


def blocks_of(commit: int, rows: pa.Table, times: Int64Array) -> list[RowBlock]:
    """Cut the rows of a commit into blocks, each with rows of its own, so that they free memory when they go."""
    found = []
    for place, at in enumerate(range(0, len(times), BLOCK_ROWS)):
        numbers = np.arange(at, min(at + BLOCK_ROWS, len(times)))
        mine = rows if len(numbers) == len(times) else rows.take(pa.array(numbers))
        found.append(RowBlock(commit, place, mine, times[numbers], numbers))
    return found
