"""Lets workers take the steps of all streams' operators, each in a process of its own, chosen by the engine's policy.

A slot is a thread with a process that lives on. It takes one step at a time, which one policy chooses among those of
all streams that are at work.
What comes through is committed by whoever notices it while no batch is under way, or else by the batch.
"""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.evaluate.typed import Definition
from penstock.schedule.operator_queues import OperatorPolicy
from penstock.share.explain.operators import OperatorsPlan
from penstock.share.operators.calls import OperatorCall
from penstock.spark.functions.resident_worker import StepAnswered
from penstock.spark.functions.udf_worker import UdfWorker
from penstock.stream.operators.answering import answer_what_is_through
from penstock.stream.operators.operator_queues import OperatorQueues, OperatorStep
from penstock.stream.operators.operator_work import BegunStep
from penstock.stream.operators.standing import operators_standing
from penstock.stream.operators.step_choice import StepChoice
from penstock.stream.operators.worker_process import WorkerLimits, WorkerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.stream.pipeline import Pipeline

LOOK_S: Final = 0.02  # between two looks, while something waits
IDLE_S: Final = 30.0  # without a stream at work, after which processes end


class OperatorSlots:
    """The workers of one engine."""

    def __init__(
        self,
        policy: OperatorPolicy | None = None,
        refusal: str | None = None,
        slots: int | None = None,
        limits: WorkerLimits | None = None,
    ) -> None:
        """Begin without processes; they start with the first step. A ``refusal`` says why there is none at all."""
        self.refusal = refusal
        self.policy = OperatorPolicy() if policy is None else policy
        self.slots = max(1, (os.cpu_count() or 2) // 2) if slots is None else slots
        self.limits = WorkerLimits() if limits is None else limits
        self.processes: list[WorkerProcess] = []
        self._changed = threading.Condition()
        self._pipelines: list[Pipeline] = []
        self._threads: list[threading.Thread] = []
        self._code: dict[str, UdfWorker] = {}
        self._choice, self._closed = StepChoice(), False

    # -- streams -------------------------------------------------------------------------------------------------

    def join(self, pipeline: Pipeline) -> None:
        """Take the steps of a stream from now on."""
        with self._changed:
            self._pipelines = [*(p for p in self._pipelines if p is not pipeline), pipeline]
        self.wake()

    def leave(self, pipeline: Pipeline) -> None:
        """Take no more steps of a stream; what waits, waits in the state folder."""
        with self._changed:
            self._pipelines = [p for p in self._pipelines if p is not pipeline]
            self._changed.notify_all()
        with pipeline.memory:  # a commit that a slot is making is made
            pass

    def wake(self) -> None:
        """Look at once: rows are queued. The first ones let threads start."""
        with self._changed:
            if not self._closed and any(p.continuous.operators.commits for p in self._pipelines):
                self._threads = [one for one in self._threads if one.is_alive()]
                while len(self._threads) < self.slots:
                    name = f"penstock-operators-{len(self._threads)}"
                    self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
                    self._threads[-1].start()
            self._changed.notify_all()

    def finish(self, pipeline: Pipeline, stopped: Callable[[], bool] = lambda: False) -> None:
        """Wait until nothing of a stream waits, or until somebody stops it; what failed meanwhile is raised."""
        if not pipeline.continuous.operators.commits:
            return
        joined = pipeline in self._pipelines
        self.join(pipeline)
        try:
            while not stopped():
                with pipeline.step():
                    pipeline.make_sound()
                    answer_what_is_through(pipeline)
                if not pipeline.continuous.operators.commits:
                    return
                with self._changed:
                    self._changed.wait(LOOK_S)
        finally:
            if not joined:
                self.leave(pipeline)

    def standing(self, pipeline: Pipeline, definitions: Iterable[Definition]) -> OperatorsPlan | None:
        """Tell how the operators of a stream stand, for its queries of now."""
        queues = pipeline.continuous.operators
        return operators_standing(queues, definitions, queues.policy(self.policy.current()))

    def close(self) -> None:
        """End all processes; a step that runs is given up."""
        with self._changed:
            self._closed, self._pipelines, threads = True, [], list(self._threads)
            processes = list(self.processes)
            self._changed.notify_all()
        for process in processes:
            process.close()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    # -- a slot --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Take step after step, until there is no stream at work for a while."""
        process = WorkerProcess(self.limits)
        self.processes.append(process)
        try:
            while (found := self._next()) is not None:
                pipeline, step = found
                try:
                    begun = BegunStep.of(step, pipeline.stream.name)
                    answer = self._ran(process, step)
                    step.queues.finish(step, answer)
                    pipeline.observing.operators([begun.ended(answer.seconds)])
                    self._answer(pipeline)
                except BaseException as error:
                    step.queues.give_back(step)
                    if not self._closed:
                        pipeline.failure = error
                with self._changed:
                    self._changed.notify_all()
        finally:
            self.processes.remove(process)
            process.stop()

    def _next(self) -> tuple[Pipeline, OperatorStep] | None:
        """Wait for a step; None: there is no stream at work any more."""
        idle_since = time.monotonic()
        while True:
            with self._changed:
                pipelines = list(self._pipelines)
                if self._closed or (not pipelines and time.monotonic() - idle_since > IDLE_S):
                    self._threads = [one for one in self._threads if one is not threading.current_thread()]
                    return None
            if (found := self._chosen([p for p in pipelines if p.failure is None and not p.half_done])) is not None:
                return found
            waits = any(p.continuous.operators.commits for p in pipelines)
            with self._changed:
                self._changed.wait(LOOK_S if waits else 1.0)

    def _chosen(self, pipelines: Sequence[Pipeline]) -> tuple[Pipeline, OperatorStep] | None:
        """Choose a step among those of all streams; where there is none, commit what has come through."""
        streams = {pipeline.continuous.operators: pipeline for pipeline in pipelines}

        def failed(queues: OperatorQueues, error: BaseException) -> None:
            streams[queues].failure = error

        policy = self.policy.current()
        for queues in streams:
            policy = queues.policy(policy)
        step = self._choice.next_step(list(streams), policy, failed, self.slots)
        if step is not None:
            return streams[step.queues], step
        for pipeline in pipelines:
            try:
                self._answer(pipeline)
            except BaseException as error:
                pipeline.failure = error
        return None

    def _answer(self, pipeline: Pipeline) -> None:
        """Commit what has come through, unless a step of the stream is under way, after which somebody looks again."""
        if pipeline.continuous.operators.through() and pipeline.memory.acquire(blocking=False):
            try:
                in_batch = pipeline.committer.order.under_way.since_us is not None
                is_sound = not pipeline.half_done and pipeline.failure is None
                if is_sound and not in_batch and pipeline in self._pipelines:
                    answer_what_is_through(pipeline)
            finally:
                pipeline.memory.release()

    def _ran(self, process: WorkerProcess, step: OperatorStep) -> StepAnswered:
        """Run a step in a slot's process."""
        operator, sent = step.operator, step.sent
        if not len(sent[0]):
            return StepAnswered(pa.nulls(0, operator.returns), pa.array([], pa.string()), 0.0)
        return process.run(self.worker_of(operator), operator.function.pinned, sent)

    def worker_of(self, operator: OperatorCall) -> UdfWorker:
        """Return the code of a function as processes run it."""
        function = operator.function
        if function.pinned not in self._code:
            code = function.python
            assert code is not None
            pickled = base64.b64decode(code.pickled)
            self._code[function.pinned] = UdfWorker(
                function.name, pickled, code.version, code.vectorised, operator.returns
            )
        return self._code[function.pinned]


def why_not_here(session: SparkSession) -> str | None:
    """Say why functions stay in Spark's own workers, if they do."""
    master = str(session.sparkContext.master)
    if master == "local" or master.startswith("local["):
        return None
    return f"operators run beside a local Spark alone, and this one's master is {master}"
