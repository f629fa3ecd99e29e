"""Measures memory over the batches of one run in a fresh process."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench._apart import run_apart
from bench._measure import Memory, PeakMemory, memory_now
from bench._penstock import Setting, run_penstock
from bench._plain import Source, Window
from penstock.spark.session.embedded import embedded


def memory_apart(source: Source, windows: Sequence[Window]) -> dict[str, Any]:
    """Measure in a process of its own, where no earlier run has made room."""
    asked = {"source": asdict(source) | {"folder": str(source.folder)}, "windows": [asdict(w) for w in windows]}
    return run_apart("bench._memory", asked=asked)


def memory_here(session: SparkSession, source: Source, windows: Sequence[Window]) -> dict[str, Any]:
    """Measure in this process: peaks, and what Python holds after a third of the batches and at the end."""
    seen: list[Memory] = []
    with PeakMemory() as watched:
        run_penstock(session, source, Setting(tuple(windows)), after_group=lambda: seen.append(memory_now()))
    third = seen[max(0, len(seen) // 3 - 1)]
    return {
        "files": source.files,
        "python_peak_bytes": watched.peak.python_bytes,
        "jvm_peak_bytes": watched.peak.jvm_bytes,
        "python_bytes_after_a_third": third.python_bytes,
        "python_bytes_at_the_end": seen[-1].python_bytes,
        "jvm_live_bytes": _live_heap(session),
        "python_bytes_by_batch": [memory.python_bytes for memory in seen],
    }


def _live_heap(session: SparkSession) -> int:
    """Return what the JVM's heap holds after a collection: resident memory shows how lazily it collects instead."""
    jvm: Any = session._jvm
    jvm.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def _main() -> None:
    asked = json.load(sys.stdin)
    source = Source(**(asked["source"] | {"folder": Path(asked["source"]["folder"])}))
    windows = [Window(**window) for window in asked["windows"]]
    print(json.dumps(memory_here(embedded(), source, windows)))


if __name__ == "__main__":
    _main()
