"""Measures where Spark's own time goes: analysis, optimisation, planning, code generation, tasks, and transfer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql.pandas.conversion import PandasConversionMixin

PHASES: Final = ("analysis", "optimization", "planning")
NANOS: Final = 1e9
MILLIS: Final = 1e3


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage as Spark remembers it."""

    number: int
    ran_ms: int  # its tasks, added up
    wrote_ms: int  # of which, after they ran, they wrote their results
    ended_ms: float  # by the clock


@dataclass(frozen=True, slots=True)
class Collected:
    """Rows that were brought to Python as Arrow: from when to when by the clock, and their bytes there."""

    began_ms: float
    ended_ms: float
    bytes: int


class SparkSteps:
    """Adds up seconds of Spark while it is open, over all that runs in a session's process.

    Phases are those that Spark tracks for each action, heard by a listener; times of code generation are Spark's own
    totals, before and after. Tasks count the time of all cores together, over the stages that Spark remembers (1,000).
    Transfer is what tasks take to write their results, and what passes between the end of a job's last task and the
    moment at which Python holds its rows; what is sent while other tasks of the job run is not in it. ``bytes`` are
    those of the rows, as Python holds them.
    """

    def __init__(self, session: SparkSession) -> None:
        """Listen to a session, and to those of the streaming queries that are started in it meanwhile."""
        self.session = session
        self.seconds: dict[str, float] = {}
        self.bytes = 0
        self._listener, self._collecting = _Listener(), _Collecting()
        self._before: dict[str, float] = {}
        self._stage = -1  # the last one before

    def __enter__(self) -> SparkSteps:
        ensure_callback_server_started(self.session.sparkContext._gateway)  # type: ignore[no-untyped-call]
        self._before, self._stage = self._totals(), max((stage.number for stage in self._stages()), default=-1)
        self.session._jsparkSession.listenerManager().register(self._listener)
        self._collecting.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._collecting.end()
        context: Any = self.session.sparkContext
        context._jsc.sc().listenerBus().waitUntilEmpty()
        self.session._jsparkSession.listenerManager().unregister(self._listener)
        after = self._totals()
        self.seconds = {name: self._listener.millis[name] / MILLIS for name in PHASES}
        self.seconds |= {name: after[name] - self._before[name] for name in after}
        stages, collected = [one for one in self._stages() if one.number > self._stage], self._collecting.every
        self.seconds["tasks"] = sum(stage.ran_ms for stage in stages) / MILLIS
        self.seconds["transfer"] = transfer_ms(stages, collected) / MILLIS
        self.bytes = sum(one.bytes for one in collected)
        self.seconds = {name: round(value, 3) for name, value in self.seconds.items()}

    def _totals(self) -> dict[str, float]:
        """Read what Spark has counted since it began."""
        jvm: Any = self.session.sparkContext._jvm
        sql = jvm.org.apache.spark.sql
        generated = sql.execution.WholeStageCodegenExec.codeGenTime()
        compiled = sql.catalyst.expressions.codegen.CodeGenerator.compileTime()
        return {"generating code": generated / NANOS, "compiling code": compiled / NANOS}

    def _stages(self) -> list[Stage]:
        """List the stages that Spark remembers and has ended."""
        context: Any = self.session.sparkContext
        gateway = context._gateway
        none = gateway.new_array(gateway.jvm.double, 0), gateway.jvm.java.util.ArrayList()
        found = context._jsc.sc().statusStore().stageList(None, False, False, *none)
        each = (found.apply(i) for i in range(found.size()))
        return [
            Stage(
                one.stageId(),
                one.executorRunTime(),
                one.resultSerializationTime(),
                one.completionTime().get().getTime(),
            )
            for one in each
            if one.completionTime().isDefined()
        ]


def _stage(told: Any) -> Stage:
    """Read what Spark tells of a stage that has ended."""
    ended_ms = told.completionTime().get().getTime()
    return Stage(told.stageId(), told.executorRunTime(), told.resultSerializationTime(), ended_ms)


def transfer_ms(stages: Sequence[Stage], collected: Sequence[Collected]) -> float:
    """Add up what results took from the tasks to Python; rows that no stage computed were not sent."""
    ends = [[s.ended_ms for s in stages if one.began_ms <= s.ended_ms <= one.ended_ms] for one in collected]
    after = sum(one.ended_ms - max(own) for one, own in zip(collected, ends, strict=True) if own)
    return after + sum(stage.wrote_ms for stage in stages)


class _Collecting:
    """Notes when rows come to Python as Arrow, as long as it is wanted."""

    def __init__(self) -> None:
        self.every: list[Collected] = []
        self._usual: Callable[..., list[pa.RecordBatch]] = PandasConversionMixin._collect_as_arrow

    def begin(self) -> None:
        """Stand before what PySpark does to collect rows."""
        usual, note = self._usual, self.every.append

        def collect(frame: PandasConversionMixin, *args: Any, **options: Any) -> list[pa.RecordBatch]:
            """Collect rows as ever, and note it."""
            began = time.time()
            found = usual(frame, *args, **options)
            size = sum(batch.nbytes for batch in found)
            note(Collected(began * MILLIS, time.time() * MILLIS, size))
            return found

        PandasConversionMixin._collect_as_arrow = collect  # type: ignore[method-assign, assignment]

    def end(self) -> None:
        """Stand aside again."""
        PandasConversionMixin._collect_as_arrow = self._usual  # type: ignore[method-assign]


class _Listener:
    """Hears of every action that succeeds, and adds up its phases."""

    def __init__(self) -> None:
        self.millis: Counter[str] = Counter()

    def onSuccess(self, name: str, execution: Any, nanos: int) -> None:  # noqa: N802
        """Take the phases of one action; Spark calls this."""
        phases = execution.tracker().phases()
        for phase in PHASES:
            if phases.contains(phase):
                self.millis[phase] += phases.apply(phase).durationMs()

    def onFailure(self, name: str, execution: Any, error: Any) -> None:  # noqa: N802
        """Take nothing of an action that failed; Spark calls this."""

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)
