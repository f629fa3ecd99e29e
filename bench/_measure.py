"""Measures runs: median times, peak memory, the machine, and whether targets are met."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import psutil
import pyarrow as pa
import pyspark

import penstock

SAMPLE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Target:
    """A figure and what it should be."""

    name: str
    value: float
    target: str
    met: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes of this process and of the JVM it started."""

    python_bytes: int
    jvm_bytes: int


@dataclass(slots=True)
class Figures:
    """What a benchmark found out so far."""

    measurements: dict[str, Any] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)

    def expect(self, name: str, value: float, sign: Literal["<=", ">="], bound: float) -> None:
        """Compare a figure with its target."""
        met = value <= bound if sign == "<=" else value >= bound
        self.targets.append(Target(name, round(value, 3), f"{sign} {bound:g}", met))

    def expect_true(self, name: str, met: bool) -> None:
        """Note whether a claim held."""
        self.targets.append(Target(name, float(met), "holds", met))


class Progress:
    """Prints what is going on, with the time since the start, to standard error."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def __call__(self, text: str) -> None:
        print(f"[{time.perf_counter() - self._began:6.1f} s] {text}", file=sys.stderr, flush=True)


def interleave(
    runs: Mapping[str, Callable[[], float]], repetitions: int, say: Callable[[str], None]
) -> dict[str, list[float]]:
    """Repeat all runs, each time in the other order, so that a slow minute of the machine hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for repetition in range(repetitions):
        names = list(runs)[:: 1 if repetition % 2 == 0 else -1]
        for name in names:
            seconds[name].append(runs[name]())
            say(f"run {repetition + 1} of {repetitions}: {name}: {seconds[name][-1]:.2f} s")
    return seconds


def timing(seconds: Sequence[float], rows: int) -> dict[str, Any]:
    """Sum up the times of one run."""
    middle = statistics.median(seconds)
    return {
        "median_seconds": round(middle, 4),
        "rows_per_second": round(rows / middle),
        "seconds": [round(s, 4) for s in seconds],
    }


class PeakMemory:
    """Watches the memory of this process and its JVM while a ``with`` block runs."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="peak-memory", daemon=True)
        self.peak = Memory(0, 0)

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._watcher.join()
        self._look()

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self._look()

    def _look(self) -> None:
        now = memory_now(self._process)
        self.peak = Memory(max(now.python_bytes, self.peak.python_bytes), max(now.jvm_bytes, self.peak.jvm_bytes))


def memory_now(process: psutil.Process | None = None) -> Memory:
    """Read the resident memory of a process and of its JVM."""
    process = process or psutil.Process()
    jvm = 0
    for child in process.children(recursive=True):
        try:
            if child.name().startswith("java"):
                jvm += child.memory_info().rss
        except psutil.Error:
            continue  # it ended meanwhile
    return Memory(process.memory_info().rss, jvm)


def machine() -> dict[str, Any]:
    """Describe where and with what the benchmark runs."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        "java": _java_version(),
        "pyspark": pyspark.__version__,
        "pyarrow": pa.__version__,
        "penstock": penstock.__version__,
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _java_version() -> str | None:
    gateway: Any = pyspark.SparkContext._gateway
    return None if gateway is None else str(gateway.jvm.System.getProperty("java.version"))


def as_json(host: Mapping[str, Any], figures: Figures) -> dict[str, Any]:
    """Put the figures in the form that files keep; Java's version is known once Spark runs."""
    return {
        "machine": {**host, "java": host.get("java") or _java_version()},
        "measurements": figures.measurements,
        "targets": [asdict(target) for target in figures.targets],
    }


def saving(path: Path | None) -> Callable[[Figures], None]:
    """Return what writes the figures known so far to a file, if one is named; the machine is described now."""
    host = machine()
    return (lambda figures: write_json(path, host, figures)) if path is not None else (lambda figures: None)


def write_json(path: Path, host: Mapping[str, Any], figures: Figures) -> None:
    """Write the figures to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(as_json(host, figures), indent=2) + "\n", encoding="utf-8")
