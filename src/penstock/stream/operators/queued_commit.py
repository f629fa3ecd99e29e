"""Holds the rows of one commit that wait for operators, as blocks, and who has come through with which of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.kernel.operator_block import RowBlock, blocks_of
from penstock.kernel.operator_outputs import outputs_table, take_outputs
from penstock.model.arrays import BoolArray
from penstock.share.continuous import column_name, part_name
from penstock.share.operators.calls import OperatorCall
from penstock.share.operators.operated import OperatedQuery
from penstock.spark.kept_rows.commit_folders import TIME
from penstock.spark.kept_rows.taken_rows import TakenRows, numbers_of
from penstock.store.taken_plan import TakenCommit, TakenPlan, TakingQuery


@dataclass(slots=True, eq=False)
class QueuedCommit:
    """The rows of one commit that wait; they are read from the state folder when their turn comes."""

    commit: TakenCommit
    queries: dict[int, OperatedQuery]  # that have not answered, by definition
    arrival_us: int
    blocks: list[RowBlock] | None = None  # None: they are not read yet
    shared: frozenset[str] = frozenset()  # operators of several queries, and those of whose values some are stored
    open: dict[int, int] = field(default_factory=dict)  # blocks that each query is not through with
    is_begun: bool = False  # a step was taken of the blocks that are read

    @property
    def held(self) -> list[RowBlock]:
        """Return the blocks, as far as they are read."""
        return self.blocks or []

    @property
    def operators(self) -> dict[str, OperatorCall]:
        """Return the operators of all queries that wait."""
        return {name: operator for one in self.queries.values() for name, operator in one.operators.items()}

    @property
    def bytes(self) -> int:
        """Return what the blocks hold."""
        return sum(block.bytes for block in self.held)

    def is_through(self, query: int) -> bool:
        """Tell whether a query is through with all blocks."""
        return self.blocks is not None and not self.open.get(query, 0)

    def load(self, rows: TakenRows) -> None:
        """Read the blocks, and what operators had computed of them when other queries were answered."""
        plan, takers = rows.plan(self.commit.plan)
        read = dict.fromkeys(name for one in plan.queued for name in _columns_of(plan, one))
        pieces = [piece for _, piece in rows.pieces(self.commit, [TIME, *read])]
        whole = pa.concat_tables(pieces)
        taken = {
            one.definition: takers.parts[one.part].takes(one.condition, numbers_of(whole, part_name(one.part)))
            for one in plan.queued
        }
        some = np.logical_or.reduce(list(taken.values()))
        kept = whole.filter(pa.array(some))
        self.blocks = blocks_of(self.commit.number, self._columns(plan, kept), numbers_of(kept, TIME))
        self._enter({number: mask[some] for number, mask in taken.items()})
        called = Counter(name for query in self.queries.values() for name in query.operators)
        self.shared = frozenset(name for name, queries in called.items() if queries > 1)
        if (known := rows.outputs(self.commit.number)) is not None:
            take_outputs(self.blocks, self.operators, known)
            self.shared |= self.operators.keys() & set(known.column_names)

    @property
    def is_untouched(self) -> bool:
        """Tell whether the blocks are read, and nothing was computed of them or is being."""
        return self.blocks is not None and not self.is_begun and not any(block.values for block in self.blocks)

    def unload(self) -> None:
        """Let the blocks go: they are read again when their turn comes."""
        self.blocks, self.open = None, {}

    def _columns(self, plan: TakenPlan, rows: pa.Table) -> pa.Table:
        """Name the stored columns as queries read them."""
        found: dict[str, pa.ChunkedArray] = {}
        for one in plan.queued:
            if (query := self.queries.get(one.definition)) is None:
                continue
            types = dict(zip(query.columns, query.types, strict=True))
            shape = plan.shapes[one.shape]
            for name, place in zip(shape.names, shape.columns, strict=True):
                stored = rows[column_name(place)]
                found[name] = stored if stored.type == types[name] else stored.cast(types[name])
        return pa.table(found).combine_chunks()

    def _enter(self, taken: Mapping[int, BoolArray]) -> None:
        """Let the queries into every block that has rows of theirs."""
        self.open, at = dict.fromkeys(self.queries, 0), 0
        for block in self.held:
            upto = at + block.count
            for number, query in self.queries.items():
                if (mine := taken[number][at:upto]).any():
                    block.enter(query, mine)
                    self.open[number] += 1
            at = upto

    def leave(self, query: int) -> None:
        """Let a query go: it has answered, has failed, or is gone."""
        self.queries.pop(query, None)
        self.open.pop(query, None)
        for block in self.held:
            block.leave(query)

    def compact(self, block: RowBlock) -> None:
        """Let a block go of what nobody needs; with one query left, nothing more is stored for others."""
        block.compact(self.shared if len(self.queries) > 1 else ())

    def shared_with_others(self, answered: Mapping[int, OperatedQuery]) -> bool:
        """Tell whether a query that stays needs what operators have computed for others that are answered."""
        used = {name for one in answered.values() for name in one.operators}
        return any(number not in answered and used & one.operators.keys() for number, one in self.queries.items())

    def outputs(self) -> pa.Table:
        """Write what operators have computed."""
        return outputs_table(self.held, self.operators)

    def rows_waiting(self) -> Iterator[tuple[str, int]]:
        """Count the rows that wait for each operator, block by block."""
        for block in self.held:
            for name in {one.waits for one in block.queries.values() if one.waits is not None}:
                yield name, len(block.wanted(name))


def _columns_of(plan: TakenPlan, query: TakingQuery) -> list[str]:
    """Name the stored columns that a query reads, and that which tells its rows."""
    return [part_name(query.part), *(column_name(place) for place in plan.shapes[query.shape].columns)]
