"""Lists what a stream holds in the driver's memory, and for which queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from penstock.evaluate.typed import Definition
from penstock.share.plan import LaneKey
from penstock.sinks.sink_thread import SinkThread
from penstock.store.answer_files import LargeTables
from penstock.store.answer_parts import DEFINITION
from penstock.store.answers import DiskAnswerLog
from penstock.stream.accounting.holding import Holding

if TYPE_CHECKING:
    from penstock.stream.runner import StreamRunner


def fed_by(runner: StreamRunner) -> list[StreamRunner]:
    """List the streams that one feeds directly."""
    return [cast("StreamRunner", one) for one in runner.targets.followers]


def queries_of(runner: StreamRunner) -> list[int]:
    """List the queries that a stream runs for: its own, or those over the streams that it feeds."""
    found = [one.id for one in runner.catalog.definitions(runner.stream.name)]
    return found or queries_fed(runner)


def queries_fed(runner: StreamRunner) -> list[int]:
    """List the queries over the streams that a stream feeds."""
    return [number for fed in fed_by(runner) for number in queries_of(fed)]


def partials(runner: StreamRunner) -> Iterator[Holding]:
    """List the lanes of partials, each for the queries that it answers."""
    sizes, users = runner.pipeline.synopsis.bytes_by_lane(), _users_by_lane(runner)
    for key, size in sizes.items():
        yield Holding(size, [one.id for one in users.get(key, ())])


def groups(runner: StreamRunner) -> Iterator[Holding]:
    """List the keys of the groups of each grouping, for the queries that group by them."""
    users: dict[object, set[int]] = {}
    for key, mine in _users_by_lane(runner).items():
        users.setdefault((key.tree, key.keys), set()).update(one.id for one in mine)
    for grouping, size in runner.pipeline.synopsis.bytes_by_grouping().items():
        yield Holding(size, sorted(users.get(grouping, ())))


def _users_by_lane(runner: StreamRunner) -> Mapping[LaneKey, tuple[Definition, ...]]:
    """Return the queries of each lane in force."""
    layout = runner.pipeline.layout
    return {} if layout is None else {k: tuple(v) for tree in layout.plan.trees for k, v in tree.lanes.items()}


def windows(runner: StreamRunner) -> Iterator[Holding]:
    """List the final windows that are not answered yet, those of backfills too."""
    committer = runner.pipeline.committer
    for unanswered in (committer.unanswered, committer.past):
        for item in list(unanswered.items.values()):
            for one in item.members:
                yield Holding(one.ends.firsts.nbytes + one.ends.counts.nbytes, [one.definition.id])


def said(runner: StreamRunner) -> Iterator[Holding]:
    """List the last answers that are remembered to tell changes and revisions."""
    committer = runner.pipeline.committer
    for by_query in (committer.said.bytes_by_query(), committer.corrections.revisions.bytes_by_query()):
        for number, size in by_query.items():
            yield Holding(size, [number])


def unsent(runner: StreamRunner) -> Iterator[Holding]:
    """List the answers that wait in memory for a sink; several sinks wait with the same tables."""
    waiting: dict[int, list[pa.Table]] = {}
    for thread in runner.delivery.threads:
        waiting |= _waiting_of(thread)
    for tables in waiting.values():
        yield from map(_by_query, tables)


def _waiting_of(thread: SinkThread) -> dict[int, list[pa.Table]]:
    """Return the tables that one sink has still to take, by their number."""
    return {number: list(tables) for number, tables in thread.waiting() if not isinstance(tables, LargeTables)}


def _by_query(table: pa.Table) -> Holding:
    """Divide a table of answers by the rows of each query."""
    if DEFINITION not in table.column_names:
        return Holding(table.nbytes, [])
    counted = table[DEFINITION].value_counts()
    return Holding(table.nbytes, counted.field(0).to_pylist(), counted.field(1).to_pylist())


def logged(runner: StreamRunner) -> Iterator[Holding]:
    """List the answers of an engine without a state folder, which keeps them in memory."""
    if not isinstance(runner.pipeline.answers, DiskAnswerLog):
        yield from of_answers(runner)


def of_answers(runner: StreamRunner) -> Iterator[Holding]:
    """List the answers that are kept, part by part, each for the queries in it."""
    for size, runs in runner.pipeline.answers.sizes():
        yield Holding(size, [number for first, last in runs for number in range(first, last + 1)])


def joined(runner: StreamRunner) -> Iterator[Holding]:
    """List the rows that wait for those of another stream, for the queries over their pairs."""
    yield Holding(runner.pipeline.intake.joining.fresh_bytes(), queries_fed(runner))
    for held, sharers in runner.rows_in_memory():
        yield Holding(held / sharers, queries_of(runner))


def queued(runner: StreamRunner) -> Iterator[Holding]:
    """List the rows that wait for expensive functions, for the queries that wait."""
    for held, waiting in runner.pipeline.continuous.operators.held():
        yield Holding(held, waiting)


def takers(runner: StreamRunner) -> Iterator[Holding]:
    """List what tells who takes which rows, for the queries of each plan."""
    for plan, known in runner.pipeline.continuous.rows.plans_in_memory():
        yield Holding(known.nbytes, [query.definition for query in plan.queries])


def figures(runner: StreamRunner) -> Iterator[Holding]:
    """List the figures of the stream's queries."""
    table = runner.pipeline.given.settings.figures.of(runner.stream.name).table
    yield Holding(table.nbytes, queries_of(runner))
