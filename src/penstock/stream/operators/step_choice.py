"""Chooses the step that a worker takes next among the operators of all streams, by the engine's one policy.

All that waits is looked at together, as if it were the queues of one stream: a block of one stream goes before an older
one of another if the policy says so. Streams are looked at one after the other, each under its own lock, so what was
chosen may have gone meanwhile; then it is chosen again.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence

from penstock.schedule.flushing import flush_limit
from penstock.schedule.operator_queues import next_head
from penstock.schedule.policy import Manner, Policy
from penstock.stream.operators.operator_queues import OperatorQueues, OperatorStep, WaitingBlock

Failed = Callable[[OperatorQueues, BaseException], None]


class StepChoice:
    """Who goes first in one engine; it remembers who was served last, for policies by which queries take turns."""

    def __init__(self) -> None:
        """Begin with nobody served."""
        self._choosing, self._last = threading.Lock(), -1

    def next_step(
        self, streams: Sequence[OperatorQueues], policy: Policy, failed: Failed, workers: float = 1.0
    ) -> OperatorStep | None:
        """Choose a step and take it out; None: nothing can run now. A stream that fails is told, and left out."""
        left = list(streams)

        def fail(queues: OperatorQueues, error: BaseException) -> None:
            left.remove(queues)
            failed(queues, error)

        with self._choosing:
            while (found := self._chosen(left, policy, fail, workers)) is not None:
                try:
                    step = found.queues.take(found)
                except BaseException as error:
                    fail(found.queues, error)
                    continue
                if step is not None:
                    self._last = min(one.query for one in found.queue.waiting)
                    return step
        return None

    def _chosen(
        self, streams: list[OperatorQueues], policy: Policy, fail: Failed, workers: float
    ) -> WaitingBlock | None:
        """Choose among the heads of all queues; of what is due soonest alone, if it would be late otherwise."""
        found = self._first(streams, policy, fail)
        if found is None or policy.manner != Manner.FLUSH:
            return found
        work = [one for queues in streams for one in queues.left_work(policy)]
        limit = flush_limit(work, found.head.now, workers, found.queues.seconds_of(found))
        return self._first(streams, policy, fail, limit) or found

    def _first(
        self, streams: list[OperatorQueues], policy: Policy, fail: Failed, latest: float = math.inf
    ) -> WaitingBlock | None:
        """Choose among what is due at a time at the latest."""
        heads = list[WaitingBlock]()
        for queues in list(streams):
            try:
                heads += queues.heads(policy, latest)
            except BaseException as error:
                fail(queues, error)
        if not heads:
            return None
        queries = [min(waiting.query for waiting in one.queue.waiting) for one in heads]
        return heads[next_head(policy, [one.head for one in heads], queries, self._last)]
