"""Lists what a stream holds in files, and for which queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.model.derived import is_line
from penstock.store.answers import DiskAnswerLog
from penstock.stream.accounting.holding import Holding
from penstock.stream.accounting.in_memory import fed_by, of_answers, queries_fed, queries_of

if TYPE_CHECKING:
    from penstock.stream.runner import StreamRunner


def commits(runner: StreamRunner) -> Iterator[Holding]:
    """List the partials of commits, for all queries over windows."""
    every = [one.id for one in runner.catalog.definitions(runner.stream.name) if not one.query.is_continuous]
    yield Holding(runner.pipeline.commits.bytes_kept(), every or queries_of(runner))


def answers(runner: StreamRunner) -> Iterator[Holding]:
    """List the log of answers."""
    if isinstance(runner.pipeline.answers, DiskAnswerLog):
        yield from of_answers(runner)


def spread(runner: StreamRunner) -> Iterator[Holding]:
    """List the partials that the executors keep, for the queries that group as they do."""
    state, layout = runner.pipeline.executor_state, runner.pipeline.layout
    if state is not None and state.store.groupings and layout is not None:
        away = [k for tree in layout.plan.trees for k in tree.lanes if not runner.pipeline.synopsis.keeps(k)]
        users = {one.id for tree in layout.plan.trees for k in away for one in tree.lanes.get(k, ())}
        yield Holding(sum(file.size for entry in list(state.store.entries) for file in entry.files), sorted(users))


def waiting(runner: StreamRunner) -> Iterator[Holding]:
    """List the rows that wait for the watermark, for the queries over windows of rows."""
    numbering = [fed for fed in fed_by(runner) if is_line(fed.stream.name)]
    yield Holding(runner.pipeline.intake.waiting.held()[1], [n for fed in numbering for n in queries_of(fed)])


def joining(runner: StreamRunner) -> Iterator[Holding]:
    """List the rows that joins of two streams wait with."""
    pairing = [fed for fed in fed_by(runner) if fed.retained]
    users = [number for fed in pairing for number in queries_of(fed)]
    yield Holding(runner.pipeline.intake.joining.held_bytes(), users or queries_fed(runner))


def kept(runner: StreamRunner) -> Iterator[Holding]:
    """List the rows that are kept for questions and queries to come, for those who ask for it."""
    asking = [one.id for one in runner.catalog.definitions(runner.stream.name) if one.typed.rows_us]
    yield Holding(runner.pipeline.intake.past.retained.folders.bytes_held(), asking or queries_of(runner))


def keys(runner: StreamRunner) -> Iterator[Holding]:
    """List the keys of rows that are remembered to tell duplicates."""
    if (duplicates := runner.pipeline.intake.duplicates) is not None:
        yield Holding(duplicates.folders.bytes_held(), queries_of(runner))


def queued(runner: StreamRunner) -> Iterator[Holding]:
    """List the files of rows that wait for expensive functions, for the queries that wait."""
    for held, waiting in runner.pipeline.continuous.operators.in_files():
        yield Holding(held, waiting)


def taken(runner: StreamRunner) -> Iterator[Holding]:
    """List the rows that continuous queries took, by what each has taken since the engine's start.

    Beside them lies what operators have computed for queries that still wait.
    """
    mine = [one.id for one in runner.catalog.definitions(runner.stream.name) if one.query.is_continuous]
    shares, _ = runner.pipeline.continuous.figures.read()
    weights = [shares[number].bytes if number in shares else 0.0 for number in mine]
    rows, queues = runner.pipeline.continuous.rows, runner.pipeline.continuous.operators
    held = max(0.0, rows.folders.bytes_held() - sum(size for size, _ in queues.in_files()))
    yield Holding(held, mine or queries_fed(runner), weights or None)
    if stored := rows.outputs_bytes():
        waiting = {number for _, queries in queues.held() for number in queries}
        yield Holding(stored, sorted(waiting) or queries_of(runner))
