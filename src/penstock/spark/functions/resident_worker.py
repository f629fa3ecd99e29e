"""Runs users' functions in a process that lives on: it takes steps from the engine one by one, and answers each.

A step is a frame of bytes on the standard input: which function, its arguments, and how it is to be called. The code of
a function comes with its first step. What functions print goes to the standard error, so that answers stay whole. The
process ends with its input, and may take only so much memory more than it has at its start.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final

import pyarrow as pa

from penstock.spark.functions import child_processes
from penstock.spark.functions.udf_worker import UdfWorker
from penstock.spark.functions.users_code import load_code, what_it_raised

HEAD: Final = 8  # bytes that tell how long a frame is
PROGRAM: Final = "from penstock.spark.functions.resident_worker import serve; serve()"
READY: Final = b"ready"


@dataclass(frozen=True, slots=True)
class StepAsked:
    """One step: the function's name, its code if the process has not seen it, and arguments as Arrow arrays."""

    pinned: str
    code: UdfWorker | None
    arguments: list[pa.Array]
    apart: bool  # in children of the process, which tell on which row one ended
    limit_s: float  # for one row, if they run apart


@dataclass(frozen=True, slots=True)
class StepAnswered:
    """What a step computed: values, an error for each row that has none, and the seconds that it took."""

    values: pa.Array
    errors: pa.Array
    seconds: float


def write_frame(to: int, content: bytes) -> None:
    """Write a frame."""
    rest = memoryview(len(content).to_bytes(HEAD, "little") + content)
    while rest:
        rest = rest[os.write(to, rest) :]


def read_frame(file: BinaryIO) -> bytes | None:
    """Read a frame; None: there are no more."""
    head = file.read(HEAD)
    return file.read(int.from_bytes(head, "little")) if len(head) == HEAD else None


def serve() -> None:
    """Take steps until there are no more."""
    child_processes.end_with_parent()  # also in the middle of a step
    answers = os.dup(1)
    os.dup2(2, 1)  # what functions print
    steps = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    _bound_memory(int(os.environ.get("PENSTOCK_WORKER_BYTES", "0")))
    known: dict[str, tuple[UdfWorker, Any]] = {}
    write_frame(answers, READY)
    while (frame := read_frame(steps)) is not None:
        asked: StepAsked = pickle.loads(frame)
        write_frame(answers, pickle.dumps(_answered(asked, known)))


def _answered(asked: StepAsked, known: dict[str, tuple[UdfWorker, Any]]) -> StepAnswered:
    """Run one step."""
    if asked.code is not None:
        known[asked.pinned] = (asked.code, _loaded(asked.code))
    worker, function = known[asked.pinned]
    child_processes.LIMIT_S = asked.limit_s
    began, count = time.perf_counter(), len(asked.arguments[0])
    if isinstance(function, str):
        return StepAnswered(pa.nulls(count, worker.returns), pa.array([function] * count, pa.string()), 0.0)
    values, errors = _called(replace(worker, apart=asked.apart), function, asked.arguments)
    return StepAnswered(values, errors, time.perf_counter() - began)


def _called(worker: UdfWorker, function: Callable[..., Any], arguments: list[pa.Array]) -> tuple[pa.Array, pa.Array]:
    """Call a function on rows, by rows or by arrays."""
    if not worker.vectorised:
        return worker.by_rows(function, arguments)
    return worker.arrays_apart(function, arguments, []) if worker.apart else worker.by_arrays(function, arguments)


def _loaded(worker: UdfWorker) -> Any:
    """Load the code of a function, or say why that failed."""
    try:
        return load_code(worker.pickled, worker.version)
    except BaseException as error:
        return f"{worker.name}() cannot be loaded: {what_it_raised(error)}"


def _bound_memory(more: int) -> None:
    """Refuse this process more memory than it has and so many bytes, where the system can."""
    if not more:
        return
    with contextlib.suppress(Exception):
        import resource

        with open("/proc/self/statm", "rb") as file:
            has = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (has + more, resource.getrlimit(resource.RLIMIT_AS)[1]))
