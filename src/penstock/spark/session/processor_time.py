"""Reads how much processor time Spark's Java process has had, where it is one of this machine's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from pyspark import SparkContext

_TICKS: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def spark_seconds() -> float | None:
    """Return the processor seconds of the Java process that this one started; None: nobody can tell."""
    process = getattr(SparkContext._gateway, "proc", None)
    try:
        told = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split() if process is not None else []
        return (int(told[11]) + int(told[12])) / _TICKS  # user and system, behind the name
    except (OSError, ValueError, IndexError):
        return None
