"""Answers one-time queries as of the watermark from what is stored, or says what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock.errors import NotStored, QueryFailed
from penstock.evaluate.typed import Definition, TypedQuery
from penstock.evaluate.windows.due import EndRuns
from penstock.kernel.answering import Answering, Due
from penstock.kernel.defect_bisection import answer_apart
from penstock.kernel.pending import Pending
from penstock.kernel.revisions import sorted_answers
from penstock.kernel.synopsis import Synopsis
from penstock.model.duration import format_duration
from penstock.model.instants import format_instant
from penstock.model.schema import Table
from penstock.model.window import Window
from penstock.share.layout import Layout, lay_out
from penstock.share.plan import SESSIONS, LaneKey, Tree, condition_of, plan_queries
from penstock.spark.answers.finish import finish
from penstock.store.answers import DEFINITION
from penstock.stream.defect_isolation import log_defect
from penstock.stream.query_windows import NEVER

if TYPE_CHECKING:
    from penstock.stream.pipeline import Pipeline

SHORTER: Final = "Ask for a shorter range, add retain to a query over the same rows, or retain_rows to the stream."
CREATED: Final = "Create a query that asks for this, or give the stream retain_rows; what comes from then on is kept."
ASKED: Final = 0  # the number of a definition that is in no catalog
MOST_EDGES: Final = 100_000  # edges before the watermark at which a window's end is looked for


class OneTimeQueries:
    """Answers one-time queries over one stream."""

    def __init__(self, pipeline: Pipeline, tables: Mapping[str, Table]) -> None:
        """Read what a pipeline stores."""
        self.pipeline, self.tables = pipeline, tables
        self.progress, self.synopsis = pipeline.progress, pipeline.synopsis

    def answer(self, typed: TypedQuery) -> pa.Table:
        """Answer for the window that ends at the watermark, or for the last one that partials make up."""
        stream, watermark = self.pipeline.stream.name, self.progress.clock.watermark_us
        if watermark is None:
            raise NotStored(f'stream "{stream}" has had no row yet', hint="Ask again when rows have come.")
        asked, layout = Definition(ASKED, typed), self.pipeline.layout
        there = self.pipeline.stream.known_since_us(typed.columns)
        since = max(us for us in (self.pipeline.intake.past.kept_since_us, there) if us is not None)
        has_rows = since <= watermark - typed.query.window.length
        missing: list[str] = []
        for tree in layout.plan.trees if layout is not None else ():
            if tree.space == SESSIONS:  # they keep no slices
                continue
            end = self._end_in(tree, asked, watermark, missing)
            if end is not None and (end == watermark or not has_rows):
                lane = LaneKey(tree.space, asked.query.keys, condition_of(asked))
                return self._finished(asked, self.synopsis, lane, end)
        if has_rows:
            return self._from_rows(asked, watermark)
        raise self._not_stored(asked, missing)

    # -- from partials -------------------------------------------------------------------------------------------

    def _end_in(self, tree: Tree, asked: Definition, watermark_us: int, missing: list[str]) -> int | None:
        """Find the last end whose window a tree's slices make up; say what is missing if there is none."""
        lane = LaneKey(tree.space, asked.query.keys, condition_of(asked))
        if lane not in tree.lanes:
            missing.append("no query stores partials of these rows by these keys")
            return None
        members = tree.lanes[lane]
        holders = self.progress.holders(members)
        held = holders.since(asked)
        if held == NEVER:
            missing.append(f"no query over these rows keeps {', '.join(holders.lacking(asked)).replace('`', '')}")
            return None
        since = self._stored_since(held, members)
        for end in self._edges(lane, watermark_us):
            start = end - asked.query.window.length
            if start < since:
                missing.append(f"its partials are stored since {_written(since)} only")
                return None
            if self.progress.slicings.is_edge(lane, start):
                return end
        missing.append("no run of stored slices is exactly as long as the window")
        return None

    def _stored_since(self, held_us: int | None, members: Sequence[Definition]) -> int:
        """Return from when a lane is whole: what no query of it needs any more is gone."""
        floors = [self.progress.windows.floor_of(d) for d in members]
        floor = min((f for f in floors if f is not None), default=-NEVER)
        if held_us is None:
            first = self.progress.clock.first_us
            return -NEVER if first is None or floor <= first else floor
        return max(floor, held_us)

    def _edges(self, lane: LaneKey, watermark_us: int) -> Iterator[int]:
        """List the times up to the watermark that no stored slice reaches over, latest first."""
        _, slicing = self.progress.slicings.cuts_of(lane)[-1]
        time = watermark_us
        for _ in range(MOST_EDGES):
            time = slicing.edge_at_or_before(time)
            if self.progress.slicings.is_edge(lane, time):
                yield time
            time -= 1

    def _finished(self, asked: Definition, synopsis: Synopsis, lane: LaneKey, end_us: int) -> pa.Table:
        """Merge and finish one window."""
        if not synopsis.keeps(lane):
            return self._from_executors(asked, lane, end_us)
        answering = Answering(synopsis, lambda requests: finish(self.pipeline.session, requests))
        tables, failures = answer_apart(answering, [Due(asked, lane, np.array([end_us], np.int64))])
        for defect in (failure.defect for failure in failures if failure.defect is not None):
            log_defect(defect, ())
        if failures:
            raise QueryFailed(failures[0].reason, hint="Change the expression so that it has a value for these rows.")
        return sorted_answers([t.drop_columns([DEFINITION]) for t in tables], asked.typed.schema)

    def _from_executors(self, asked: Definition, lane: LaneKey, end_us: int) -> pa.Table:
        """Let the executors answer one window of a grouping that they keep."""
        executor_state, layout = self.pipeline.executor_state, self.pipeline.layout
        assert executor_state is not None
        assert layout is not None
        if not executor_state.may_have([asked]):
            what = "these groups are kept by the executors, which compute no grouping sets and not every function"
            what += ", and put no groups in order"
            raise QueryFailed(what, hint="Select only keys and aggregates.")
        due = Pending(asked, lane, EndRuns.listed(np.array([end_us], np.int64)))
        answered = executor_state.answer([due], layout, self.progress.clock.number)
        if answered.failures:
            raise QueryFailed(
                answered.failures[0].reason, hint="Change the expression so that it has a value for these rows."
            )
        plain = [table.drop_columns([DEFINITION]) for table in executor_state.taken_back(answered.parts)]
        return sorted_answers(plain, asked.typed.schema, executor_state.order_of(asked))

    # -- from rows that are kept ---------------------------------------------------------------------------------

    def _from_rows(self, asked: Definition, end_us: int) -> pa.Table:
        """Compute the window that ends at the watermark from rows."""
        length_us = asked.query.window.length
        window = Window(length_us, length_us, end_us % length_us)
        alone = replace(asked, typed=replace(asked.typed, query=replace(asked.query, window=window)))
        plan = plan_queries([alone], "shared paired", 0)
        layout: Layout = lay_out(plan, self.pipeline.stream.time, None, self.pipeline.intake.doubtful)
        rows = self.pipeline.intake.past.kept_rows(end_us - length_us, end_us)
        computed = self.pipeline.computing.of_the_past(rows, layout, self.tables, end_us)
        synopsis = Synopsis("fast")
        synopsis.prepare(layout)
        arrived = synopsis.ingest(computed.layout, computed.partials, computed.bounds.edges)
        if arrived.failures:
            raise QueryFailed(
                "an expression of the question failed on a row", hint="Guard it, for example with try_divide."
            )
        return self._finished(alone, synopsis, layout.plan.trees[0].lane_key(alone), end_us)

    def _not_stored(self, asked: Definition, missing: list[str]) -> NotStored:
        """Say what is missing to answer."""
        stream, length = self.pipeline.stream.name, format_duration(asked.query.window.length)
        reason = missing[0] if missing else "no query stores partials of this stream"
        kept = self.pipeline.intake.past.kept_since_us
        rows = "its rows are not kept" if kept == NEVER else f"its rows are kept since {_written(kept)} only"
        return NotStored(
            f'what is stored of stream "{stream}" cannot answer this for the last {length}',
            detail=f"{reason}; {rows}",
            hint=SHORTER if reason.startswith("its partials") else CREATED,
        )


def _written(time_us: int) -> str:
    """Write a time for people."""
    if abs(time_us) >= NEVER:
        return "the first row"
    return format_instant(time_us)
