"""Holds the queues of one stream's operators: rows that wait, steps that workers take, and answers that come of them.

A block of rows is *written* with the commit that took it, *ready* once that commit is made, *running* while a worker
has it, *done* when no query of it waits for an operator, *committed* with the commit that stores what it answers, and
*taken* when sinks have that. Only the first and the last but one are durable writes; what lies between is in memory,
and is done again after a crash, of which nothing was delivered.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.kernel.operator_block import FAILED_ARGUMENT, RowBlock
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.instants import Clock
from penstock.schedule.flushing import DueWork
from penstock.schedule.operator_queues import PathFigures, QueueHead, WaitingQuery, operator_policy_named
from penstock.schedule.policy import Head, Policy
from penstock.share.operators.calls import OperatorCall
from penstock.spark.functions.resident_worker import StepAnswered
from penstock.spark.kept_rows.taken_rows import TakenRows
from penstock.store.taken_plan import TakenCommit
from penstock.stream.batch_job import BEFORE_ALL_TIME
from penstock.stream.operators.estimates import OperatorEstimates
from penstock.stream.operators.gates import Gates
from penstock.stream.operators.left_work import LeftWork, due_s
from penstock.stream.operators.queued_commit import QueuedCommit
from penstock.stream.overload.memory_cap import MemoryCap
from penstock.stream.overload.queue_cap import StreamQueue
from penstock.stream.overload.stages import BLOCKS, CHAIN
from penstock.stream.query_windows import QueryWindows

HELD_BYTES: Final = 64 << 20  # of blocks in memory; all others are read when these have gone through
CHAIN_POLICY: Final = operator_policy_named("Chain")
GUESSED: Final = 2.0  # bytes of a row in memory for one in its file, before any was read
REFRESH_US: Final = 250_000  # between two looks at what paths cost


@dataclass(slots=True, eq=False)
class OperatorStep:
    """One operator on some rows of one block: what a worker does at a time."""

    queues: OperatorQueues
    operator: OperatorCall
    block: RowBlock
    places: Int64Array
    arguments: list[pa.Array]
    failed: BoolArray  # rows whose arguments could not be computed
    policy: str  # by which it was chosen

    @property
    def sent(self) -> list[pa.Array]:
        """Return the arguments that a worker gets."""
        if not self.failed.any():
            return self.arguments
        return [one.filter(pa.array(~self.failed)) for one in self.arguments]


@dataclass(frozen=True, slots=True, eq=False)
class WaitingBlock:
    """A block at the head of an operator's queue, as a policy looks at it."""

    queues: OperatorQueues
    block: RowBlock
    queue: QueueHead
    head: Head
    policy: str


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
        self._left = LeftWork()
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
                self.answered(queued, [number])

    def answered(self, queued: QueuedCommit, queries: Iterable[int]) -> None:
        """Let queries go that have answered the rows of a commit."""
        for number in queries:
            queued.leave(number)
        for block in queued.held:
            self._left.changed(block)
            queued.compact(block)
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
                queued.commit.rows if queued.blocks is None else sum(block.count for block in queued.blocks)
                for queued in self.commits.values()
            )

    @property
    def oldest(self) -> int | None:
        """Return the first commit with rows that wait; None: nothing waits."""
        with self.lock:
            return min(self.commits, default=None)

    def held_back(self, query: int) -> int | None:
        """Return the time by which rows were late that may still come through for a query; None: none of its wait."""
        with self.lock:
            waiting = (one.commit for one in self.commits.values() if query in one.queries and not one.commit.past)
            found = next(waiting, None)
            return None if found is None else BEFORE_ALL_TIME if found.judged_us is None else found.judged_us

    def waiting_rows(self) -> dict[str, int]:
        """Count the rows that wait for each operator, as far as they are in memory."""
        found: dict[str, int] = {}
        with self.lock:
            for queued in self.commits.values():
                for name, rows in queued.rows_waiting():
                    found[name] = found.get(name, 0) + rows
        return found

    # -- steps ---------------------------------------------------------------------------------------------------

    def heads(self, policy: Policy, latest: float = math.inf) -> list[WaitingBlock]:
        """List the blocks at the heads of all queues, of what is due at a time at the latest."""
        with self.lock:
            now_us = self.clock()
            if self._figures is None or now_us - self._figures[1] > REFRESH_US:
                self.drop_gone()
            self._load_more()
            found = list[tuple[RowBlock, QueueHead]]()
            for name in self._heads:
                if (block := self._head(name, latest)) is not None:
                    found.append((block, self._described(name, block, latest)))
            if not found:
                return []
            figures = self._paths(policy, now_us)
            ranked = ((block, queue, figures.head(queue, now_us / 1e6)) for block, queue in found)
            return [WaitingBlock(self, *one, policy.name) for one in ranked]

    def left_work(self, policy: Policy) -> list[DueWork]:
        """List what is left to be done of all blocks, and when it is due."""
        with self.lock:
            if not self._blocks:
                return []
            return list(self._left.of(self._blocks.values(), self._paths(policy, self.clock()), self._arrived))

    def seconds_of(self, waiting: WaitingBlock) -> float:
        """Return how long a step on a block would take."""
        with self.lock:
            operator = waiting.queue.operator
            return len(waiting.block.wanted(operator)) * self.estimates.seconds(operator)

    def _arrived(self, commit: int) -> int:
        """Return when the rows of a commit came."""
        return self.commits[commit].arrival_us

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
            self._row_bytes = max(self._row_bytes, queued.bytes / max(1, queued.commit.rows))
            self._operators |= queued.operators
            for block in queued.held:
                self._blocks[block.key] = block
                for number in list(block.queries):
                    self._advance(queued, block, number)
                queued.compact(block)
            held += queued.bytes

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
        self._left.changed(block)
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

    def _head(self, operator: str, latest: float) -> RowBlock | None:
        """Return the oldest block that waits for an operator for somebody whose answer is due at a time at the latest.

        Those for which nobody waits any more leave.
        """
        queue = self._heads[operator]
        while queue:
            block = self._blocks.get(queue[0])
            if block is not None and block.waiting(operator):
                break
            self._waiting.discard((operator, heapq.heappop(queue)))
        for key in sorted(queue) if latest < math.inf else queue[:1]:
            block = self._blocks.get(key)
            if block is not None and self._those_waiting(operator, block, latest):
                return block
        return None

    def _those_waiting(self, operator: str, block: RowBlock, latest: float) -> tuple[WaitingQuery, ...]:
        """List the queries that wait with a block for an operator, and are due at a time at the latest."""
        arrival_us = self.commits[block.commit].arrival_us
        every = ((one, due_s(one.query.definition, arrival_us)) for one in block.waiting(operator))
        return tuple(
            WaitingQuery(one.query.definition.id, int(one.rows.sum()), due) for one, due in every if due <= latest
        )

    def _paths(self, policy: Policy, now_us: int) -> PathFigures:
        """Return what the policy knows of all paths, as of a moment ago."""
        known = self._figures
        if known is None or known[0].policy != policy or now_us - known[1] > REFRESH_US:
            queries = {n: one for queued in self.commits.values() for n, one in queued.queries.items()}
            known = self._figures = PathFigures([self.estimates.path(one) for one in queries.values()], policy), now_us
        return known[0]

    def _described(self, operator: str, block: RowBlock, latest: float) -> QueueHead:
        """Describe what stands at the head of an operator's queue."""
        arrival_us = self.commits[block.commit].arrival_us
        waiting = self._those_waiting(operator, block, latest)
        return QueueHead(operator, arrival_us / 1e6, block.bytes / max(1, block.count), waiting)

    def take(self, chosen: WaitingBlock) -> OperatorStep | None:
        """Take what was chosen out of its queue, to be run; None: nobody waits for it any more."""
        with self.lock:
            name, block = chosen.queue.operator, chosen.block
            if (name, block.key) not in self._waiting or self._blocks.get(block.key) is not block:
                return None
            asking = {one.query for one in chosen.queue.waiting}
            if asking.isdisjoint(one.query.definition.id for one in block.waiting(name)):
                return None
            self._waiting.discard((name, block.key))
            self._heads[name].remove(block.key)
            heapq.heapify(self._heads[name])
            block.running.add(name)
            self.commits[block.commit].is_begun = True
            operator, places = self._operators[name], block.wanted(name, asking)
            arguments, failed = block.arguments(operator, places)
            return OperatorStep(self, operator, block, places, arguments, failed, chosen.policy)

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
            queued.compact(block)
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
