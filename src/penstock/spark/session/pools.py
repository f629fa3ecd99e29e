"""Runs Spark jobs in pools of their own, so that rows and answers need not wait for work that can.

Spark shares its cores among pools by weight where its scheduler's mode is FAIR, as in the embedded session, whose pools
``data/pools.xml`` describes. Elsewhere a pool is a name and nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any, Final

from pyspark.sql import SparkSession

POOL: Final = "spark.scheduler.pool"
INGEST: Final = "penstock-ingest"
EVALUATION: Final = "penstock-evaluation"
BACKGROUND: Final = "penstock-background"


@contextmanager
def in_pool(session: SparkSession | None, pool: str) -> Iterator[None]:
    """Let the jobs that this thread starts run in a pool; afterwards it is as it was."""
    if session is None:  # of a stream without Spark
        yield
        return
    context: Any = session.sparkContext
    before = context.getLocalProperty(POOL)
    context.setLocalProperty(POOL, pool)
    try:
        yield
    finally:
        context.setLocalProperty(POOL, before)


def fair_settings() -> dict[str, str]:
    """Return the settings of a session whose pools have weights."""
    described = resources.files("penstock") / "data" / "pools.xml"
    return {"spark.scheduler.mode": "FAIR", "spark.scheduler.allocation.file": f"file://{described}"}
