"""Replays the steps of operators that a trace holds under another policy: the same rows come, and others go first.

A step is what it was: so many rows of one block, for those who waited then, and it takes as long. It can run once one
of these has come to it. Workers choose by the engine's own code (:mod:`penstock.schedule.operator_queues`) over costs
and selectivities of the whole trace. A query answers the rows of a commit when all their steps are done and those of
earlier commits are answered, and never while a batch of the stream is under way.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from penstock.schedule.flushing import DueWork, flush_limit
from penstock.schedule.operator_queues import PathFigures, QueueHead, WaitingQuery, next_queue
from penstock.schedule.policy import Manner, Policy
from penstock.schedule.recorded_operators import OperatorRecording
from penstock.sim.operator_costs import CommitOf, OperatorCosts, QueuedAnswer, commit_of, operator_of, recorded_answers

BlockOf = tuple[CommitOf, int]


@dataclass(frozen=True, slots=True)
class ReplayedQueues:
    """What a replay gave, or what ran, in the same words."""

    policy: str
    answers: Sequence[QueuedAnswer]
    peak_bytes: int  # of blocks that wait
    busy_s: float  # of all workers


@dataclass(slots=True)
class _Block:
    """A block with the steps that are left of it, and of each query those that it still has before it, in order."""

    steps: set[int]
    ahead: dict[int, list[int]]
    bytes: int = 0


@dataclass(slots=True)
class _HeldBytes:
    """Counts what blocks hold over time."""

    now: int = 0
    peak: int = 0

    def add(self, more: int) -> None:
        """Take note of bytes that come, or go."""
        self.now += more
        self.peak = max(self.peak, self.now)


@dataclass(slots=True)
class _Open:
    """Queued rows of one commit: who has not answered them, and the blocks that each is not through with."""

    since_us: int
    blocks: dict[BlockOf, int] = field(default_factory=dict)  # bytes that are held
    left: dict[int, int] = field(default_factory=dict)  # query → blocks


def replay_operators(recording: OperatorRecording, policy: Policy, costs: OperatorCosts) -> ReplayedQueues:
    """Take the steps of a recording in the order of a policy."""
    return _OperatorReplay(recording, policy, costs).run()


def live_queues(recording: OperatorRecording) -> ReplayedQueues:
    """Tell what ran in the words of a replay."""
    changes = list[tuple[int, int]]()
    held: dict[CommitOf, dict[int, int]] = defaultdict(dict)
    for one in recording.steps:
        some = held[commit_of(one)]
        if one.block not in some:
            some[one.block] = one.bytes
            changes.append((one.since_us, one.bytes))
        changes.append((one.ended_us, one.bytes_left - some[one.block]))
        some[one.block] = one.bytes_left
    ends: dict[CommitOf, int] = {}
    for answer in recorded_answers(recording):
        ends[answer.commit] = max(ends.get(answer.commit, 0), answer.done_us)
    changes += [(ends[commit], -sum(some.values())) for commit, some in held.items() if commit in ends]
    count = _HeldBytes()
    for _, change in sorted(changes):
        count.add(change)
    names = ", ".join(dict.fromkeys(one.policy for one in recording.steps))
    busy_s = sum(one.ended_us - one.began_us for one in recording.steps) / 1e6
    return ReplayedQueues(f"live: {names}", list(recorded_answers(recording)), count.peak, busy_s)


class _OperatorReplay:
    """One replay."""

    def __init__(self, recording: OperatorRecording, policy: Policy, costs: OperatorCosts) -> None:
        """Begin before the first row comes."""
        self.steps, self.policy, self.costs = recording.steps, policy, costs
        self.figures = PathFigures(list(costs.paths.values()), policy) if costs.paths else None
        self.told = defaultdict[CommitOf, dict[int, QueuedAnswer]](dict)  # by query
        for one in recorded_answers(recording):
            self.told[one.commit][one.query] = one
        self.blocks, self.open = dict[BlockOf, _Block](), dict[CommitOf, _Open]()
        self.waiting = defaultdict[str, list[tuple[int, str, int, int, int]]](list)  # steps by operator, oldest first
        self.queued, self.done, self.come = set[int](), set[int](), set[BlockOf]()
        self.order = defaultdict[tuple[int, str, int], list[CommitOf]](list)  # of a query of a stream
        self.answered, self.held, self.busy_us, self.last = list[QueuedAnswer](), _HeldBytes(), 0, -1

    def run(self) -> ReplayedQueues:
        """Let workers take steps until none is left."""
        arrivals = self._arrivals()
        running, free, now_us = list[tuple[int, int]](), self.costs.slots, 0
        pausing = list[int]()  # when workers that ended a step look for another one
        while arrivals or running or pausing or self._heads():
            while running and running[0][0] <= now_us:
                ended_us, step = heapq.heappop(running)
                heapq.heappush(pausing, ended_us + round(self.costs.pauses_us[step]))
                self._finish(step, ended_us)
            while arrivals and arrivals[-1][0] <= now_us:
                self._come(arrivals.pop()[1])
            while pausing and pausing[0] <= now_us:
                heapq.heappop(pausing)
                free += 1
            if free and (heads := self._heads()):
                step = self._chosen(heads, now_us)
                one = self.steps[step]
                heapq.heappush(running, (now_us + one.ended_us - one.began_us, step))
                self.busy_us, free = self.busy_us + one.ended_us - one.began_us, free - 1
                continue
            soon = [arrivals[-1][0]] if arrivals else []
            soon += [running[0][0]] if running else []
            soon += [pausing[0]] if pausing else []
            now_us = max(now_us, min(soon)) if soon else now_us
        return ReplayedQueues(self.policy.name, self.answered, self.held.peak, self.busy_us / 1e6)

    # -- what comes ----------------------------------------------------------------------------------------------

    def _arrivals(self) -> list[tuple[int, CommitOf]]:
        """Lay the blocks of every commit out; return when each commit comes, the last one first."""
        since: dict[CommitOf, int] = {}
        for place, one in enumerate(self.steps):
            commit, key = commit_of(one), (commit_of(one), one.block)
            since[commit] = one.since_us
            block = self.blocks.setdefault(key, _Block(set(), {}, one.bytes))
            block.steps.add(place)
            for query in one.queries:
                block.ahead.setdefault(query, []).append(place)
        for commit, answers in self.told.items():
            for query, told in answers.items():
                since.setdefault(commit, told.since_us)
                self.order[commit[0], commit[1], query].append(commit)
        for some in self.order.values():
            some.sort(key=lambda commit: commit[2], reverse=True)
        self.open = {commit: _Open(since_us) for commit, since_us in since.items()}
        for key, block in self.blocks.items():
            opened = self.open[key[0]]
            opened.blocks[key] = block.bytes
            for query in block.ahead:
                opened.left[query] = opened.left.get(query, 0) + 1
        return sorted(((since_us, commit) for commit, since_us in since.items()), reverse=True)

    def _come(self, commit: CommitOf) -> None:
        """Let the rows of a commit wait."""
        for key in self.open[commit].blocks:
            self.held.add(self.blocks[key].bytes)
            self.come.add(key)
            self._wait(key)
        self._answer(commit, list(self.told.get(commit, ())), self.open[commit].since_us)

    def _wait(self, key: BlockOf) -> None:
        """Let the steps of a block wait that somebody has come to."""
        (run, stream, commit), place = key
        for ahead in self.blocks[key].ahead.values():
            if ahead and ahead[0] not in self.queued:
                self.queued.add(ahead[0])
                head = (commit, stream, place, run, ahead[0])
                heapq.heappush(self.waiting[operator_of(self.steps[ahead[0]])], head)

    # -- steps ---------------------------------------------------------------------------------------------------

    def _heads(self) -> list[str]:
        """Name the operators that steps wait for."""
        return [name for name, some in self.waiting.items() if some]

    def _chosen(self, names: Sequence[str], now_us: int) -> int:
        """Choose the step that runs next, as the engine does, and take it out."""
        step = self._first(names, now_us)
        assert step is not None
        if self.policy.manner == Manner.FLUSH:
            limit = flush_limit(self._left_work(), now_us / 1e6, self.costs.slots, self._seconds(step))
            due = self._first(names, now_us, limit) if limit < math.inf else None
            step = step if due is None else due
        one = self.steps[step]
        self.last = min(one.queries)
        some = self.waiting[operator_of(one)]
        some.remove(next(head for head in some if head[-1] == step))
        heapq.heapify(some)
        return step

    def _first(self, names: Sequence[str], now_us: int, latest: float = math.inf) -> int | None:
        """Choose among the oldest steps of all operators, of what is due at a time at the latest."""
        steps, heads = list[int](), list[QueueHead]()
        for name in names:
            some = self.waiting[name]
            for head in sorted(some) if latest < math.inf else some[:1]:
                if (queue := self._head(name, head[-1], latest)) is not None:
                    steps.append(head[-1])
                    heads.append(queue)
                    break
        assert self.figures is not None
        return steps[next_queue(self.figures, heads, now_us / 1e6, self.last)] if heads else None

    def _head(self, name: str, step: int, latest: float) -> QueueHead | None:
        """Describe a step as the engine does; None: nobody who waits for it is due at a time at the latest."""
        one = self.steps[step]
        each = zip(one.queries, one.wanted, one.dues_us, strict=True)
        waiting = tuple(WaitingQuery(q, rows, due_us / 1e6) for q, rows, due_us in each if due_us / 1e6 <= latest)
        return QueueHead(name, one.since_us / 1e6, one.bytes / max(1, *one.wanted), waiting) if waiting else None

    def _left_work(self) -> list[DueWork]:
        """List what is left of blocks that have come, query by query as they are due; shared steps count once."""
        found = list[DueWork]()
        for key in self.come:
            counted, ahead_of = set[int](), self.blocks[key].ahead.items()
            for due_us, ahead in sorted((self._due_us(query, left), left) for query, left in ahead_of if left):
                mine = [place for place in ahead if place not in counted]
                counted.update(mine)
                found.append(DueWork(due_us / 1e6, sum(map(self._seconds, mine))))
        return found

    def _due_us(self, query: int, ahead: Sequence[int]) -> int:
        """Return when a query wants the answer that some steps are for."""
        one = self.steps[ahead[0]]
        return one.dues_us[one.queries.index(query)]

    def _seconds(self, step: int) -> float:
        """Return how long a step takes."""
        return (self.steps[step].ended_us - self.steps[step].began_us) / 1e6

    def _finish(self, step: int, now_us: int) -> None:
        """Let the queries of a step go on, and answer what is through."""
        one = self.steps[step]
        key = commit_of(one), one.block
        block, opened, through = self.blocks[key], self.open[commit_of(one)], list[int]()
        self.done.add(step)
        freed = min(opened.blocks[key], one.bytes - one.bytes_left)  # what was computed is held, too
        opened.blocks[key] -= freed
        self.held.add(-freed)
        for query, ahead in block.ahead.items():
            had = bool(ahead)
            ahead[:] = [place for place in ahead if place not in self.done]
            if had and not ahead:
                opened.left[query] -= 1
                through.append(query)
        if not any(block.ahead.values()):
            self.come.discard(key)
        self._wait(key)
        self._answer(commit_of(one), [query for query in through if not opened.left[query]], now_us)

    # -- answers -------------------------------------------------------------------------------------------------

    def _answer(self, commit: CommitOf, queries: Iterable[int], now_us: int) -> None:
        """Answer what is through, each query in the order of its commits."""
        for query in queries:
            order = self.order[commit[0], commit[1], query]
            while order and self._is_through(order[-1], query, now_us):
                self._commit(order.pop(), query, now_us)

    def _is_through(self, commit: CommitOf, query: int, now_us: int) -> bool:
        """Tell whether all steps of a query's rows are done."""
        opened = self.open[commit]
        return opened.since_us <= now_us and not opened.left.get(query, 0)

    def _commit(self, commit: CommitOf, query: int, now_us: int) -> None:
        """Answer the rows of one commit; the last query to do so lets its blocks go."""
        told = self.told[commit].pop(query)
        done_us = self.costs.committed_us(commit, query, now_us)
        self.answered.append(replace(told, done_us=done_us))
        if not any(self.open[commit].left.values()):
            self.held.add(-sum(self.open[commit].blocks.values()))
            self.open[commit].blocks = dict.fromkeys(self.open[commit].blocks, 0)
