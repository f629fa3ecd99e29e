"""Measures where Spark's own time goes: analysis, optimisation, planning, code generation, and the tasks."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

PHASES: Final = ("analysis", "optimization", "planning")
NANOS: Final = 1e9
MILLIS: Final = 1e3


class SparkSteps:
    """Adds up seconds of Spark while it is open, over all that runs in a session's process.

    Phases are those that Spark tracks for each action, heard by a listener; times of code generation are Spark's own
    totals, before and after. Tasks count the time of all cores together, over the stages that Spark remembers (1,000).
    """

    def __init__(self, session: SparkSession) -> None:
        """Listen to a session, and to those of the streaming queries that are started in it meanwhile."""
        self.session = session
        self.seconds: dict[str, float] = {}
        self._listener = _Listener()
        self._before: dict[str, float] = {}
        self._stage = -1  # the last one before

    def __enter__(self) -> SparkSteps:
        ensure_callback_server_started(self.session.sparkContext._gateway)  # type: ignore[no-untyped-call]
        self._before, self._stage = self._totals(), max((number for number, _ in self._stages()), default=-1)
        self.session._jsparkSession.listenerManager().register(self._listener)
        return self

    def __exit__(self, *_: object) -> None:
        context: Any = self.session.sparkContext
        context._jsc.sc().listenerBus().waitUntilEmpty()
        self.session._jsparkSession.listenerManager().unregister(self._listener)
        after = self._totals()
        self.seconds = {name: self._listener.millis[name] / MILLIS for name in PHASES}
        self.seconds |= {name: after[name] - self._before[name] for name in after}
        self.seconds["tasks"] = sum(millis for number, millis in self._stages() if number > self._stage) / MILLIS
        self.seconds = {name: round(value, 3) for name, value in self.seconds.items()}

    def _totals(self) -> dict[str, float]:
        """Read what Spark has counted since it began."""
        jvm: Any = self.session.sparkContext._jvm
        sql = jvm.org.apache.spark.sql
        generated = sql.execution.WholeStageCodegenExec.codeGenTime()
        compiled = sql.catalyst.expressions.codegen.CodeGenerator.compileTime()
        return {"generating code": generated / NANOS, "compiling code": compiled / NANOS}

    def _stages(self) -> list[tuple[int, int]]:
        """List the stages that Spark remembers, and for how many milliseconds the tasks of each ran."""
        context: Any = self.session.sparkContext
        gateway = context._gateway
        none = gateway.new_array(gateway.jvm.double, 0), gateway.jvm.java.util.ArrayList()
        found = context._jsc.sc().statusStore().stageList(None, False, False, *none)
        return [(found.apply(i).stageId(), found.apply(i).executorRunTime()) for i in range(found.size())]


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
