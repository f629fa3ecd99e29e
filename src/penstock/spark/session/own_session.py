"""Clones a given session as the engine's own, in which queries always mean the same.

The given session stays as it is, for the program's own jobs: the engine's is a clone of it with the settings of
``pinned_settings.py``. Frames of the program are planned in their own session, with its settings; their rows go on in
ours.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.types import DataType, StructType

from penstock.errors import EnvironmentProblem
from penstock.spark.session.pinned_settings import REFUSED, VALUES, is_free
from penstock.spark.session.temporary_settings import cloned


def own_session(given: SparkSession) -> SparkSession:
    """Clone a session and pin every setting that may change what a query means."""
    refuse_static(given)
    own = cloned(given, VALUES)
    conf: Any = cast(Any, own)._jconf
    for name in str(conf.getAllConfs().keys().mkString("\n")).split("\n"):
        if name not in VALUES and not is_free(name) and conf.isModifiable(name):
            conf.unsetConf(name)
    return own


def refuse_static(given: SparkSession) -> None:
    """Refuse a session with a setting that changes meaning and cannot be pinned."""
    for name, why in REFUSED.items():
        if (given.conf.get(name, "false") or "").lower() == "true":
            raise EnvironmentProblem(
                f"the Spark session has {name} = true", detail=why, hint="Start Spark without this setting."
            )


# -- frames of the program -------------------------------------------------------------------------------------------


def moved(batch: DataFrame, session: SparkSession) -> DataFrame:
    """Let a batch that Spark hands over, which is planned already, go on in another session."""
    ours = _frame_of_plan()(_handle(session), cast(Any, batch)._jdf.logicalPlan())
    return cast(DataFrame, ClassicFrame(ours, session))


@cache
def _frame_of_plan() -> Any:
    """Look up once how the JVM makes a frame of a plan: each name on the way there is a call of its own."""
    context = SparkContext._active_spark_context
    assert context is not None, "frames are made in a running JVM"
    return cast(Any, context)._jvm.org.apache.spark.sql.classic.Dataset.ofRows


def taken_over(frame: DataFrame, session: SparkSession) -> DataFrame:
    """Plan a frame that is not streaming in its own session, and let its rows go on in another one."""
    theirs: Any = cast(Any, frame)._jdf
    if frame.sparkSession is session:
        return frame
    ours = _handle(session).internalCreateDataFrame(theirs.queryExecution().toRdd(), theirs.schema(), False)
    return cast(DataFrame, ClassicFrame(ours, session))


# -- the active session ----------------------------------------------------------------------------------------------


def made_in(session: SparkSession, rows: Any, schema: Any = None) -> DataFrame:
    """Make a frame of rows, as ``createDataFrame`` does, which by itself would leave this session active."""
    with active(session):
        return session.createDataFrame(rows, schema)


def type_in(session: SparkSession, ddl: str) -> DataType:
    """Read a type, or a list of columns, as a session means it: ``timestamp`` has no one meaning in Spark."""
    with active(session):
        return DataType.fromDDL(ddl)


def schema_in(session: SparkSession, ddl: str) -> StructType:
    """Read a list of columns as a session means it."""
    return cast(StructType, type_in(session, ddl))


@dataclass(slots=True)
class _Theirs:
    """Python's active session of the program: one for all threads, kept aside while any thread has ours."""

    session: SparkSession | None = None
    users: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


_THEIRS = _Theirs()


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread for a while: Spark reads types by the active session's settings."""
    static: Any = cast(Any, session)._jvm.org.apache.spark.sql.classic.SparkSession
    before = static.getActiveSession()
    with _THEIRS.lock:
        if _THEIRS.users == 0:
            _THEIRS.session = SparkSession._activeSession
        _THEIRS.users += 1
    static.setActiveSession(_handle(session))
    try:
        yield
    finally:
        static.setActiveSession(before.get()) if before.isDefined() else static.clearActiveSession()
        with _THEIRS.lock:
            _THEIRS.users -= 1
            if _THEIRS.users == 0:
                SparkSession._activeSession = _THEIRS.session


def _handle(session: SparkSession) -> Any:
    """Return the JVM's session."""
    return cast(Any, session)._jsparkSession
