"""Applies settings to a session for a while, or to a clone of it for good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

from pyspark.sql import SparkSession

# For few rows, compiling a plan that is new takes longer than all the rest. Interpreted plans mean the same.
INTERPRETED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextmanager
def set_for_now(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Plan and run with some settings, then give the session its own back."""
    before = {name: session.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            if known is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, known)


def cloned(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Clone a session, its functions included, so that settings change for the clone alone."""
    clone = SparkSession(session.sparkContext, cast(Any, session)._jsparkSession.cloneSession())
    for name, value in settings.items():
        clone.conf.set(name, value)
    return clone
