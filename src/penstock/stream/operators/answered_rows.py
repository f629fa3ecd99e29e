"""Stores the rows that have gone through the operators of their queries, each once for all that are answered together.

They are rows of a commit like those that the shared pass takes. Which queries take a row is told by a number that
stands for the set of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.evaluate.typed import Definition
from penstock.kernel.takers import KnownFragments, Takers, fragments_table
from penstock.language.options import is_exploded
from penstock.model.arrays import Int64Array
from penstock.share.continuous import column_name, part_name
from penstock.share.operators.operated import OperatedQuery
from penstock.spark.kept_rows.commit_folders import TIME
from penstock.spark.kept_rows.taken_rows import LATE, TakenRows
from penstock.store.taken_plan import RowShape, TakenCommit, TakenPlan, TakingQuery


@dataclass(frozen=True, slots=True, eq=False)
class AnsweredBlock:
    """The rows of one block that some queries take: by query, the rows and their outputs."""

    times: Int64Array
    judged_us: int | None  # rows before this time were late
    taken: Mapping[int, tuple[Int64Array, Sequence[pa.Array]]]  # by definition


@dataclass(slots=True)
class _DistinctOutputs:
    """The distinct outputs of some queries."""

    places: dict[tuple[str, pa.DataType], int] = field(default_factory=dict)

    def place(self, text: str, type_: pa.DataType) -> int:
        """Number an output."""
        return self.places.setdefault((text, type_), len(self.places))


class AnsweredRows:
    """The plan of the queries that are answered now, and the sets of them that took a row so far."""

    def __init__(self, queries: Sequence[OperatedQuery]) -> None:
        """Plan for some queries; nothing is stored before they have rows."""
        self.queries = {one.definition.id: one for one in queries}
        self.number: int | None = None  # of the first commit with rows
        self.takers = Takers(1)
        self._columns, self._sets = _DistinctOutputs(), dict[bytes, int]()
        self._shapes = {one.definition.id: self._shape(one) for one in queries}
        self._order = {number: place for place, number in enumerate(self.queries)}

    def covers(self, queries: Sequence[int]) -> bool:
        """Tell whether all of some queries are of this plan."""
        return self.queries.keys() >= set(queries)

    def store(
        self, rows: TakenRows, number: int, blocks: Sequence[AnsweredBlock], queued: TakenCommit | None
    ) -> TakenCommit | None:
        """Store the rows of blocks for a commit that is about to be made; None: nobody takes any.

        ``queued`` is the commit that brought them, if they are of one.
        """
        tables = [table for block in blocks if (table := self._table(block)) is not None]
        if not tables:
            return None
        rows.forget(number)
        found = pa.concat_tables([table for table, _ in tables])
        added = pa.concat_tables([new for _, new in tables])
        if self.number is None:
            self.number = number
            rows.begin_plan(self._plan(number), self.takers)
        rows.write(found, number)
        rows.add_fragments(self.number, number, added)
        last_us = int(np.max(found[TIME].to_numpy()))
        judged_us, past = (None, False) if queued is None else (queued.judged_us, queued.past)
        commit = TakenCommit(number, self.number, found.num_rows, judged_us, last_us, past)
        rows.add(commit)
        return commit

    def _table(self, block: AnsweredBlock) -> tuple[pa.Table, pa.Table] | None:
        """Write the rows of one block that somebody takes, in the order of their times, and the sets that are new."""
        count = len(block.times)
        bits = np.zeros((count, len(self._order)), np.bool_)
        for number, (places, _) in block.taken.items():
            bits[places, self._order[number]] = True
        chosen = np.flatnonzero(bits.any(axis=1))
        if not len(chosen):
            return None
        chosen = chosen[np.argsort(block.times[chosen], kind="stable")]
        fragments, added = self._fragments(bits[chosen])
        times = block.times[chosen]
        late = np.zeros(len(times), np.bool_) if block.judged_us is None else times < block.judged_us
        columns = self._outputs(block, chosen, count)
        named = {column_name(place): column for place, column in enumerate(columns)}
        return pa.table({**named, part_name(0): fragments, LATE: late, TIME: times}), added

    def _outputs(self, block: AnsweredBlock, chosen: Int64Array, count: int) -> list[pa.Array]:
        """Write each distinct output of the rows whose queries have it, and NULL of the others."""
        pieces: dict[int, list[tuple[Int64Array, pa.Array]]] = {}
        for number, (places, outputs) in block.taken.items():
            for place, values in zip(self._shapes[number].columns, outputs, strict=True):
                pieces.setdefault(place, []).append((places, values))
        return [_scattered(pieces.get(p, ()), chosen, count, type_) for (_, type_), p in self._columns.places.items()]

    def _fragments(self, bits: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> tuple[Int64Array, pa.Table]:
        """Number the sets of queries that rows have; those that are new come as they are stored."""
        packed = np.packbits(bits, axis=1)
        keys = [row.tobytes() for row in packed]
        new = [key for key in dict.fromkeys(keys) if key not in self._sets]
        self._sets |= {key: len(self._sets) + 1 + place for place, key in enumerate(new)}
        members = [np.flatnonzero(np.unpackbits(np.frombuffer(key, np.uint8))[: bits.shape[1]]) for key in new]
        starts = np.concatenate([[0], np.cumsum([len(one) for one in members])]).astype(np.int64)
        listed = np.concatenate([np.empty(0, np.int32), *members]).astype(np.int32)
        numbers = np.array([self._sets[key] for key in new], np.int64)
        learned = KnownFragments(numbers, starts, listed)
        self.takers.parts[0].learn(learned)
        return np.array([self._sets[key] for key in keys], np.int64), fragments_table(0, learned)

    def _shape(self, query: OperatedQuery) -> RowShape:
        """Say which columns a query's outputs are."""
        definition: Definition = query.definition
        names = tuple(output.name for output in definition.query.outputs)
        places = tuple(self._columns.place(one.text, one.compiled.type) for one in query.outputs)
        return RowShape(names, places, is_exploded(definition.query))

    def _plan(self, number: int) -> TakenPlan:
        """Describe the plan as it is stored."""
        shapes = list(dict.fromkeys(self._shapes.values()))
        queries = [TakingQuery(d, shapes.index(self._shapes[d]), 0, place) for d, place in self._order.items()]
        return TakenPlan(number, tuple(shapes), tuple(queries), (len(queries),))


def _scattered(
    pieces: Sequence[tuple[Int64Array, pa.Array]], chosen: Int64Array, count: int, type_: pa.DataType
) -> pa.Array:
    """Put values where their rows are; of several for one row, which are the same, one."""
    at, whole, before = np.full(count, -1, np.int64), [pa.nulls(0, type_)], 0
    for places, values in pieces:
        at[places] = before + np.arange(len(places))
        whole.append(values)
        before += len(places)
    wanted = at[chosen]
    return pa.concat_arrays(whole).take(pa.array(wanted, mask=wanted < 0))
