"""Holds the queues of one stream's operators: rows that wait, steps that workers take, and answers that come of them.

A block of rows is *written* with the commit that took it, *ready* once that commit is made, *running* while a worker
has it, *done* when no query of it waits for an operator, *committed* with the commit that stores what it answers, and
*taken* when sinks have that. Only the first and the last but one are durable writes; what lies between is in memory,
and is done again after a crash, of which nothing was delivered.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.evaluate.typed import Definition
from penstock.kernel.operator_block import FAILED_ARGUMENT, RowBlock
from penstock.language.options import option_us
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.instants import Clock
from penstock.schedule.operator_queues import PathFigures, QueueHead, WaitingQuery, next_queue, operator_policy_named
from penstock.schedule.policy import Policy
from penstock.share.operators.calls import OperatorCall
from penstock.spark.functions.resident_worker import StepAnswered
from penstock.spark.kept_rows.taken_rows import TakenRows
from penstock.store.taken_plan import TakenCommit
from penstock.stream.operators.estimates import OperatorEstimates
from penstock.stream.operators.gates import Gates
from penstock.stream.operators.queued_commit import QueuedCommit
from penstock.stream.overload.memory_cap import MemoryCap
from penstock.stream.overload.queue_cap import StreamQueue
from penstock.stream.overload.stages import BLOCKS, CHAIN
from penstock.stream.query_windows import QueryWindows

HELD_BYTES: Final = 64 << 20  # of blocks in memory; all others are read when these have gone through
CHAIN_POLICY: Final = operator_policy_named("Chain")
GUESSED: Final = 2.0  # bytes of a row in memory for one in its file, before any was read
REFRESH_US: Final = 250_000  # between two looks at what paths cost
DUE_US: Final = 60_000_000  # after its arrival a row's answer is due, unless its query says otherwise


@dataclass(slots=True, eq=False)
class OperatorStep:
    """One operator on some rows of one block: what a worker does at a time."""

    queues: OperatorQueues
    operator: OperatorCall
    block: RowBlock
    places: Int64Array
    arguments: list[pa.Array]
    failed: BoolArray  # rows whose arguments could not be computed

    @property
    def sent(self) -> list[pa.Array]:
        """Return the arguments that a worker gets."""
        if not self.failed.any():
            return self.arguments
        return [one.filter(pa.array(~self.failed)) for one in self.arguments]


class OperatorQueues:
    """What waits for the operators of one stream; threads of workers and the stream's own share it."""

    def __init__(
        self,
        rows: TakenRows,
        windows: QueryWindows,
        gates: Gates,
        catalog: Catalog,
        clock: Clock,
        memory: MemoryCap,
        cap: StreamQueue,
    ) -> None:
        """Begin with nothing that waits; ``windows`` tell up to which commit each query has answered.

        Where ``memory`` runs short, blocks are read one commit at a time; above some share of ``cap``, the policy is
        Chain.
        """
        self.memory, self.cap = memory, cap
        self.rows, self.gates, self.catalog, self.clock, self.windows = rows, gates, catalog, clock, windows
        self.lock = threading.RLock()
        self.commits: dict[int, QueuedCommit] = {}  # in order
        self.estimates = OperatorEstimates()
        self._heads: dict[str, list[tuple[int, int]]] = {}  # blocks that wait for each operator, the oldest first
        self._waiting = set[tuple[str, tuple[int, int]]]()
        self._blocks: dict[tuple[int, int], RowBlock] = {}
        self._operators: dict[str, OperatorCall] = {}
        self._figures: tuple[PathFigures, int] | None = None
        self._last = -1  # the query that was served last
        self.steps = 0  # that workers have done
        self._row_bytes = 0.0  # the most that a row has taken as part of a block

    # -- what comes and goes -------------------------------------------------------------------------------------

    def enqueue(self, commit: TakenCommit, arrival_us: int) -> None:
        """Let the rows of a commit wait that queries have queued."""
        plan = self.rows.plan(commit.plan)[0]
        answered = self.windows.operated
        wanted = [one.definition for one in plan.queued if answered.get(one.definition, -1) < commit.number]
        queries = {n: found for n in wanted if (found := self.gates.queued(n, plan.expensive)) is not None}
        if queries:
            with self.lock:
                self.commits[commit.number] = QueuedCommit(commit, queries, arrival_us)
                self._figures = None

    def recover(self, number: int) -> None:
        """Let all wait again that was not answered by a commit."""
        now = self.clock()
        for commit in self.rows.commits():
            if commit.number <= number:
                self.enqueue(commit, now)

    def drop_gone(self) -> None:
        """Let go of the rows of queries that were dropped."""
        with self.lock:
            waiting = {n: one.definition.name for queued in self.commits.values() for n, one in queued.queries.items()}
            self.let_go([n for n, name in waiting.items() if not self.catalog.has("query", name)])

    def let_go(self, queries: Iterable[int]) -> None:
        """Let go of all that waits of some queries."""
        for number in queries:
            for queued in list(self.commits.values()):
                queued.leave(number)
                self._end_if_over(queued)

    def answered(self, queued: QueuedCommit, queries: Iterable[int]) -> None:
        """Let queries go that have answered the rows of a commit."""
        for number in queries:
            queued.leave(number)
        self._end_if_over(queued)

    def _end_if_over(self, queued: QueuedCommit) -> None:
        """Forget a commit that nobody waits for."""
        if queued.queries or queued.commit.number not in self.commits:
            return
        del self.commits[queued.commit.number]
        for block in queued.held:
            self._blocks.pop(block.key, None)
        self.rows.remove_outputs(queued.commit.number)

    # -- what stands where ---------------------------------------------------------------------------------------

    @property
    def queue_bytes(self) -> int:
        """Return the bytes of blocks that are in memory."""
        return sum(held for held, _ in self.held())

    @property
    def stored_bytes(self) -> float:
        """Return the bytes of all rows that wait, in files and of blocks in memory."""
        return sum(held for held, _ in (*self.held(), *self.in_files()))

    @property
    def bytes_to_read(self) -> float:
        """Return about how many bytes of blocks are read next, where none is in memory."""
        with self.lock:
            waiting = [queued.commit for queued in self.commits.values()]
            if not waiting or any(queued.blocks is not None for queued in self.commits.values()):
                return 0.0
        return self._row_bytes * waiting[0].rows or GUESSED * self.rows.share_of_bytes(waiting[0])

    def in_files(self) -> list[tuple[float, list[int]]]:
        """List the bytes of files with rows that wait commit by commit, and the queries that wait for them."""
        with self.lock:
            waiting = [(queued.commit, list(queued.queries)) for queued in self.commits.values()]
        return [(self.rows.share_of_bytes(commit), queries) for commit, queries in waiting]

    def held(self) -> list[tuple[int, list[int]]]:
        """List the bytes of blocks in memory commit by commit, and the queries that wait for them."""
        with self.lock:
            return [(queued.bytes, list(queued.queries)) for queued in self.commits.values() if queued.bytes]

    @property
    def queue_rows(self) -> int:
        """Return how many rows wait, at most: not all of a commit that was not read yet need be of operators."""
        with self.lock:
            return sum(
                queued.commit.rows if queued.blocks is None else sum(block.rows.num_rows for block in queued.blocks)
                for queued in self.commits.values()
            )

    @property
    def oldest(self) -> int | None:
        """Return the first commit with rows that wait; None: nothing waits."""
        with self.lock:
            return min(self.commits, default=None)

    def waiting_rows(self) -> dict[str, int]:
        """Count the rows that wait for each operator, as far as they are in memory."""
        found: dict[str, int] = {}
        with self.lock:
            for queued in self.commits.values():
                for name, rows in queued.rows_waiting():
                    found[name] = found.get(name, 0) + rows
        return found

    # -- steps ---------------------------------------------------------------------------------------------------

    def next_step(self, policy: Policy) -> OperatorStep | None:
        """Choose the next step by a policy; None: nothing can run now."""
        with self.lock:
            if self._figures is None or self.clock() - self._figures[1] > REFRESH_US:
                self.drop_gone()
            self._load_more()
            names = [name for name in self._heads if self._head(name) is not None]
            if not names:
                return None
            now_us = self.clock()
            figures = self._paths(policy, now_us)
            heads = [self._described(name) for name in names]
            place = next_queue(figures, heads, now_us / 1e6, self._last)
            self._last = min(one.query for one in heads[place].waiting)
            return self._step(names[place])

    def policy(self, chosen: Policy) -> Policy:
        """Return the policy that holds: Chain while too much waits, and otherwise what is chosen."""
        return CHAIN_POLICY if self.cap.is_active(CHAIN) else chosen

    def drop_copies(self) -> bool:
        """Let go of blocks that nothing was computed of, but for the oldest: they are read again in their turn."""
        with self.lock:
            loaded = [queued for queued in self.commits.values() if queued.blocks is not None]
            dropped = [one for one in loaded[1:] if one.is_untouched]
            for queued in dropped:
                for block in queued.held:
                    self._blocks.pop(block.key, None)
                queued.unload()
            return bool(dropped)

    def _load_more(self) -> None:
        """Read blocks that wait in files, while there is room for more."""
        held, most = self.queue_bytes, self._most_copies()
        for queued in list(self.commits.values()):
            if queued.blocks is not None:
                continue
            if held and held + self._row_bytes * queued.commit.rows > most:
                return
            queued.load(self.rows)
            held += queued.bytes
            self._row_bytes = max(self._row_bytes, queued.bytes / max(1, queued.commit.rows))
            self._operators |= queued.operators
            for block in queued.held:
                self._blocks[block.key] = block
                for number in list(block.queries):
                    self._advance(queued, block, number)

    def _most_copies(self) -> float:
        """Return how many bytes of blocks may be in memory; the oldest may in any case, or nothing would go on."""
        if self.memory.is_active(BLOCKS):
            return 0.0
        if not self.cap.cap.is_set:
            return HELD_BYTES
        return min(HELD_BYTES, self.cap.cap.bytes - sum(held for held, _ in self.in_files()))

    def _advance(self, queued: QueuedCommit, block: RowBlock, number: int) -> None:
        """Take a query as far through a block as it comes now."""
        one = block.queries[number]
        self.estimates.note_passed(block.advance(one, self.estimates.chosen))
        if one.waits is None:
            queued.open[number] -= 1
        elif one.waits not in block.running:
            self._wait(one.waits, block)

    def _wait(self, operator: str, block: RowBlock) -> None:
        """Let a block stand in the queue of an operator."""
        if (operator, block.key) not in self._waiting:
            self._waiting.add((operator, block.key))
            heapq.heappush(self._heads.setdefault(operator, []), block.key)

    def _head(self, operator: str) -> RowBlock | None:
        """Return the oldest block that waits for an operator; those for which nobody waits any more leave."""
        queue = self._heads[operator]
        while queue:
            block = self._blocks.get(queue[0])
            if block is not None and block.waiting(operator):
                return block
            self._waiting.discard((operator, heapq.heappop(queue)))
        return None

    def _paths(self, policy: Policy, now_us: int) -> PathFigures:
        """Return what the policy knows of all paths, as of a moment ago."""
        known = self._figures
        if known is None or known[0].policy != policy or now_us - known[1] > REFRESH_US:
            queries = {n: one for queued in self.commits.values() for n, one in queued.queries.items()}
            known = self._figures = PathFigures([self.estimates.path(one) for one in queries.values()], policy), now_us
        return known[0]

    def _described(self, operator: str) -> QueueHead:
        """Describe the head of an operator's queue."""
        block = self._head(operator)
        assert block is not None
        arrival_us = self.commits[block.commit].arrival_us
        waiting = tuple(
            WaitingQuery(
                one.query.definition.id, int(one.rows.sum()), (arrival_us + _due_us(one.query.definition)) / 1e6
            )
            for one in block.waiting(operator)
        )
        return QueueHead(operator, arrival_us / 1e6, block.rows.nbytes / max(1, block.rows.num_rows), waiting)

    def _step(self, name: str) -> OperatorStep:
        """Take the head of a queue out, to be run."""
        block, operator = self._head(name), self._operators[name]
        assert block is not None
        self._waiting.discard((name, heapq.heappop(self._heads[name])))
        block.running.add(name)
        places = block.wanted(name)
        arguments, failed = block.arguments(operator, places)
        return OperatorStep(self, operator, block, places, arguments, failed)

    def finish(self, step: OperatorStep, answer: StepAnswered) -> None:
        """Take what a worker has computed."""
        name, block = step.operator.column, step.block
        with self.lock:
            self.steps += 1
            block.running.discard(name)
            self._take(step, answer)
            sent = len(step.places) - int(step.failed.sum())
            self.estimates.note_step(name, sent, answer.seconds)
            queued = self.commits.get(block.commit)
            if queued is None or self._blocks.get(block.key) is not block:
                return  # everybody has gone meanwhile
            for one in block.waiting(name):
                self._advance(queued, block, one.query.definition.id)
            if block.waiting(name):  # who came to it while it ran wants other rows
                self._wait(name, block)

    def give_back(self, step: OperatorStep) -> None:
        """Let a step wait again that could not be taken."""
        with self.lock:
            step.block.running.discard(step.operator.column)
            if self._blocks.get(step.block.key) is step.block:
                self._wait(step.operator.column, step.block)

    def _take(self, step: OperatorStep, answer: StepAnswered) -> None:
        """File values and errors with their rows."""
        known, places = step.block.of(step.operator), step.places[~step.failed]
        told = answer.errors.to_pylist() if answer.errors.null_count < len(answer.errors) else ()
        known.add(places, answer.values, {int(places[at]): why for at, why in enumerate(told) if why is not None})
        if step.failed.any():
            lost, why = step.places[step.failed], FAILED_ARGUMENT.format(step.operator.function.name)
            known.add(lost, pa.nulls(len(lost), step.operator.returns), {int(row): why for row in lost})

    # -- what has come through -----------------------------------------------------------------------------------

    def through(self) -> list[tuple[QueuedCommit, list[int]]]:
        """List what can be answered: of each query the commits that it is through with, up to the first it is not."""
        found, held_up = list[tuple[QueuedCommit, list[int]]](), set[int]()
        with self.lock:
            for queued in self.commits.values():
                ready = [n for n in queued.queries if n not in held_up and queued.is_through(n)]
                held_up |= queued.queries.keys() - set(ready)
                if ready:
                    found.append((queued, ready))
        return found

    def forget_others(self, queries: Collection[int]) -> None:
        """Forget what is known of queries of which no row is stored any more."""
        with self.lock:
            for number in [n for n in self.windows.operated if n not in queries]:
                del self.windows.operated[number]
            waiting = {name for queued in self.commits.values() for name in queued.operators}
            self.estimates.forget_others(waiting | self.gates.operators(), queries)


def _due_us(definition: Definition) -> int:
    """Return how soon after its arrival a row's answer is due."""
    return option_us(definition.query, "deadline") or DUE_US
