"""Runs the continuous queries of one plan over batches, and finds who takes their rows and whose expressions fail."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.typed import Condition, Definition
from penstock.kernel.row_order import in_order
from penstock.kernel.takers import Learned, Takers
from penstock.language.options import is_exploded
from penstock.model.arrays import Int64Array
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.share.continuous import ContinuousPlan, part_name
from penstock.share.operators.operated import OperatedQuery
from penstock.share.plan import condition_of
from penstock.spark.job.continuous_job import FAILURES, HASH, MOST_FAILING, ContinuousJob
from penstock.spark.job.counted_rows import SentTimes
from penstock.spark.job.writer import Bounds
from penstock.spark.kept_rows.commit_folders import TIME
from penstock.spark.kept_rows.taken_rows import numbers_of
from penstock.spark.session.temporary_settings import INTERPRETED, set_for_now
from penstock.store.taken_plan import RowShape, TakenPlan, TakingQuery
from penstock.stream.figures.row_figures import DividedRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

YOUNG: Final = 3  # batches for which a plan is new, and not worth generated code while batches are small


@dataclass(frozen=True, slots=True)
class FailedQuery:
    """A query that fails on a row, and the time of the first such row; None: which row it is must be found out."""

    definition: Definition
    first_us: int | None


class RunningPlan:
    """The job of a plan, and what is known of its fragments."""

    def __init__(
        self, plan: ContinuousPlan, families: ConditionGroupMemory, divided: Mapping[int, OperatedQuery]
    ) -> None:
        """Write the job; nothing of the plan is stored before it has rows. ``divided`` queries queue theirs."""
        self.divided_queries = frozenset(divided)
        self.expensive = tuple(sorted({o.function.pinned for q in divided.values() for o in q.operators.values()}))
        self.plan, self.job = plan, ContinuousJob(plan, families)
        self.number: int | None = None  # of the first commit with rows
        self.age = 0
        self.takers = Takers(len(self.job.parts))

    def few(self, batch: DataFrame, tables: Mapping[str, DataFrame], bounds: Bounds, *, young: bool) -> pa.Table:
        """Run the job over a batch and have its rows here, in their order."""
        return _ordered(self._sent(self.job.taken(batch, tables, bounds, hashed=True), young=young))

    def few_of_all(
        self, batch: DataFrame, tables: Mapping[str, DataFrame], bounds: Bounds, *, young: bool
    ) -> tuple[pa.Table, SentTimes]:
        """Run the job over a batch, all of whose rows are sent; tell their times beside those that somebody takes."""
        rows = self._sent(self.job.every(batch, tables, bounds), young=young)
        taken = np.zeros(rows.num_rows, np.bool_)
        for numbers in self.fragments(rows).values():
            taken |= numbers > 0
        return _ordered(rows.filter(pa.array(taken))), SentTimes(rows[TIME])

    def _sent(self, frame: DataFrame, *, young: bool) -> pa.Table:
        """Run a job, without generated code while its plan is new."""
        settings = INTERPRETED if young and self.age < YOUNG else {}
        self.age += 1
        with set_for_now(frame.sparkSession, settings):
            return frame.toArrow()

    def many(self, batch: DataFrame, tables: Mapping[str, DataFrame], bounds: Bounds) -> DataFrame:
        """Describe the same for executors, which write the rows."""
        self.age += 1
        return self.job.taken(batch, tables, bounds)

    def fragments(self, rows: pa.Table) -> dict[int, Int64Array]:
        """Read the fragments of rows, by part."""
        return {part: numbers_of(rows, part_name(part)) for part in range(len(self.takers.parts))}

    def learn(self, rows: pa.Table) -> Learned:
        """Work out who takes rows."""
        return self.takers.learn(self.job.writer.cells, self.fragments(rows))

    def failed(self, rows: pa.Table, learned: Learned) -> list[FailedQuery]:
        """List the queries that fail on some of the rows: their conditions, or what they answer of a row they take."""
        conditions = self.plan.conditions
        doubted = {conditions[place] for place in learned.failed}
        found = [FailedQuery(d, None) for d in self.plan.definitions if condition_of(d) in doubted]
        return found or self._failed_answers(rows)

    def _failed_answers(self, rows: pa.Table) -> list[FailedQuery]:
        """List the queries that take a row of which something that they answer could not be computed."""
        if FAILURES not in rows.column_names:
            return []
        flags, times, found = numbers_of(rows, FAILURES), numbers_of(rows, TIME), dict[int, FailedQuery]()
        if not flags.any():
            return []
        for place, text in enumerate(self.job.tried_texts):
            hit = np.flatnonzero((flags >> min(place, MOST_FAILING)) & 1)
            for one in self.plan.users(text) if len(hit) else ():
                part, condition = self.place_of(one)
                mine = hit[self.takers.parts[part].takes(condition, self._of_part(rows, part)[hit])]
                if len(mine):
                    first = int(times[mine].min())
                    before = found.get(one.id)
                    if before is None or before.first_us is None or first < before.first_us:
                        found[one.id] = FailedQuery(one, first)
        return list(found.values())

    def _of_part(self, rows: pa.Table, part: int) -> Int64Array:
        """Read the fragments of rows in one part."""
        return numbers_of(rows, part_name(part))

    def place_of(self, definition: Definition) -> tuple[int, int]:
        """Return the part of a query's condition, and its place in it."""
        return self._places[condition_of(definition)]

    @cached_property
    def _query_places(self) -> Int64Array:
        """Find the part and the place in it of every query's condition, once."""
        return np.array([self.place_of(one) for one in self.plan.definitions], np.int64).reshape(-1, 2)

    @cached_property
    def _numbers(self) -> tuple[int, ...]:
        """List the queries by their definitions."""
        return tuple(one.id for one in self.plan.definitions)

    @cached_property
    def _places(self) -> Mapping[Condition, tuple[int, int]]:
        """Find each condition in the parts, once."""
        conditions = self.plan.conditions
        return {
            conditions[number]: (part, place)
            for part, cells in enumerate(self.job.parts)
            for place, number in enumerate(cells.conditions)
        }

    def divided(self, rows: pa.Table, size: int) -> DividedRows:
        """Divide rows that are stored, and their bytes, among the queries."""
        part, condition = self._query_places.T
        wide = [len(one.conditions) for one in self.job.parts]
        users = [np.bincount(condition[part == number], minlength=most) for number, most in enumerate(wide)]
        counts, shares = np.zeros(len(part), np.int64), np.zeros(len(part))
        for number, (rows_of, shares_of) in enumerate(self.takers.divided(self.fragments(rows), users)):
            mine = part == number
            counts[mine], shares[mine] = rows_of[condition[mine]], shares_of[condition[mine]]
        counts[[one.id in self.divided_queries for one in self.plan.definitions]] = 0  # they have answered nothing yet
        return DividedRows(self._numbers, counts, shares, size)

    def record(self, number: int) -> TakenPlan:
        """Describe the plan as it is stored, for the commit that is its first."""
        shapes: dict[RowShape, int] = {}
        queries = []
        for one in self.plan.definitions:
            names = tuple(output.name for output in one.query.outputs)
            shape = RowShape(names, self.plan.columns[one.id], is_exploded(one.query))
            queued, place = one.id in self.divided_queries, shapes.setdefault(shape, len(shapes))
            queries.append(TakingQuery(one.id, place, *self.place_of(one), queued))
        sizes = tuple(len(part.conditions) for part in self.job.parts)
        return TakenPlan(number, tuple(shapes), tuple(queries), sizes, self.expensive)


def _ordered(rows: pa.Table) -> pa.Table:
    """Put rows into the order of their times and hashes; of the same ones, into the order in which they came."""
    ordered = in_order(rows, TIME, HASH)
    if ordered is None:
        order = np.lexsort((numbers_of(rows, HASH), numbers_of(rows, TIME)))
        ordered = rows.take(pa.array(order))
    return ordered.drop_columns([HASH])


def is_of(running: RunningPlan | None, definitions: Sequence[Definition], divided: Collection[int] = ()) -> bool:
    """Tell whether a plan has just these queries, and queues the rows of just those that are divided."""
    if running is None or running.divided_queries != frozenset(divided):
        return False
    return [d.id for d in running.plan.definitions] == [d.id for d in definitions]
