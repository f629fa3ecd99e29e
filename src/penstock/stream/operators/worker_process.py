"""Holds a process that runs steps of operators, and starts another one when it is lost."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.spark.functions.child_processes import ROW_S, readable_within
from penstock.spark.functions.resident_worker import HEAD, PROGRAM, StepAnswered, StepAsked, write_frame
from penstock.spark.functions.udf_worker import UdfWorker

LIMIT_S: Final = 60.0  # for a step,
STARTING_S: Final = 60.0  # and for a process to start
APART: Final = 2  # times that a step is taken again
MORE_BYTES: Final = 2 << 30  # of memory that functions may take


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What a process may take."""

    seconds: float = LIMIT_S  # for a step; in children, for a row
    bytes: int = MORE_BYTES


class WorkerLost(Exception):
    """A process ended, or did not answer in time, and why."""


class WorkerProcess:
    """One process; it is started when it is needed."""

    def __init__(self, limits: WorkerLimits) -> None:
        """Begin without a process."""
        self.limits = limits
        self.lost = 0  # processes, so far
        self._process: subprocess.Popen[bytes] | None = None
        self._known = set[str]()  # functions whose code the process has
        self._closed = False

    def run(self, worker: UdfWorker, pinned: str, arguments: list[pa.Array]) -> StepAnswered:
        """Run a step; if the process is lost over it, again in another one, row by row in children of it.

        The rows at which a child ends have an error of their own then, and all others their values.
        """
        rows = len(arguments[0])
        limit_s, why = self.limits.seconds + ROW_S * rows, ""
        for apart in (False, *[True] * APART):
            try:
                return self._asked(
                    worker, pinned, arguments, 3 * limit_s + STARTING_S if apart else limit_s, apart=apart
                )
            except WorkerLost as lost:
                why = f"{worker.name}() {lost}"
        return StepAnswered(pa.nulls(rows, worker.returns), pa.array([why] * rows, pa.string()), 0.0)

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        self._known = set()
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def kill(self) -> None:
        """Kill the process, from any thread; whoever waits for it notices, and starts another one."""
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """Kill the process, from any thread, and let no other one start."""
        self._closed = True
        self.kill()

    def _asked(
        self, worker: UdfWorker, pinned: str, arguments: list[pa.Array], limit_s: float, *, apart: bool
    ) -> StepAnswered:
        """Ask the process for a step, and wait for what comes of it."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        code = None if pinned in self._known else worker
        asked = StepAsked(pinned, code, arguments, apart, self.limits.seconds)
        try:
            write_frame(process.stdin.fileno(), pickle.dumps(asked))
            found: StepAnswered = pickle.loads(self._frame(process, limit_s))
        except BrokenPipeError:
            raise self._gone(process) from None
        self._known.add(pinned)
        return found

    def _started(self) -> subprocess.Popen[bytes]:
        """Return the process, a new one if there is none."""
        if self._closed:
            raise WorkerLost("was given up as the engine was closed")
        if self._process is None:
            paths = [path or os.getcwd() for path in sys.path]
            told = {"PYTHONPATH": os.pathsep.join(paths), "PENSTOCK_WORKER_BYTES": str(self.limits.bytes)}
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **told},
                start_new_session=True,  # an interrupt from the keyboard is for the engine
            )
            self._frame(self._process, STARTING_S)
        return self._process

    def _frame(self, process: subprocess.Popen[bytes], limit_s: float) -> bytes:
        """Read what the process says next, within a time."""
        assert process.stdout is not None
        held, until, source = bytearray(), time.monotonic() + limit_s, process.stdout.fileno()
        while True:
            if len(held) >= HEAD and len(held) >= (end := HEAD + int.from_bytes(held[:HEAD], "little")):
                return bytes(held[HEAD:end])
            if not readable_within(source, max(0.0, until - time.monotonic())):
                self._forget()
                raise WorkerLost(f"did not return within {limit_s:g} s")
            more = os.read(source, 1 << 20)
            if not more:
                raise self._gone(process)
            held += more

    def _gone(self, process: subprocess.Popen[bytes]) -> WorkerLost:
        """Say how a process ended."""
        code = process.wait()
        how = f"with exit code {code}" if code >= 0 else f"by signal {signal.Signals(-code).name}"
        self._forget()
        return WorkerLost(f"ended its process, {how}")

    def _forget(self) -> None:
        """Let go of a process that is lost."""
        self.lost += 1
        self.stop()
