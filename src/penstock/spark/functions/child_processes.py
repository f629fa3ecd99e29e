"""Runs users' code on many items in child processes, and tells on which item a process ended.

Users' code may end its process, or never return. In a child of Spark's worker that costs the item it was at, not the
job. The code travels by value, as udf_worker.py does.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

LIMIT_S = 60.0  # for one item,
ROW_S = 0.1  # and for each row that is part of it
MOST_ENDS = 20  # of children over the items of one array: then the rest is given up
HEAD = 8  # bytes that tell how long a result is


@dataclass(frozen=True)
class Lost:
    """Nothing came of an item."""

    why: str
    hung: bool = False


def in_children(work: Callable[[int], Iterator[bytes]], count: int, rows: int = 1) -> list[bytes | Lost]:
    """Return what ``work``, begun at some item, makes of each; after one that is lost, a new child goes on.

    ``rows``: of an item, at most.
    """
    found: list[bytes | Lost] = []
    ends = 0
    while len(found) < count:
        results, lost = _in_child(work(len(found)), count - len(found), LIMIT_S + ROW_S * rows)
        found += results
        if lost is not None:
            ends += 1
            found += [lost] * (count - len(found) if lost.hung or ends == MOST_ENDS else 1)
    return found


def readable_within(file: int, limit_s: float) -> bool:
    """Tell whether something can be read of a pipe in time, or its end; ``select`` takes no file beyond the 1,024th."""
    poller = select.poll()
    poller.register(file, select.POLLIN)
    return bool(poller.poll(limit_s * 1000))


def _in_child(work: Iterator[bytes], count: int, limit_s: float) -> tuple[list[bytes], Lost | None]:
    """Let a child do work; return what it made of its items, and how it ended if that was before the last one."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # threads that are not to be in the child wait for work, and hold no lock
        child = os.fork()
    if child == 0:
        _live(work, reader, writer)
    os.close(writer)
    results: list[bytes] = []
    held, hung, over = bytearray(), False, False
    while len(results) < count and not hung and not over:
        hung = not readable_within(reader, limit_s)
        more = b"" if hung else os.read(reader, 1 << 20)
        over = not more
        held += more
        while len(held) >= HEAD and len(held) >= (end := HEAD + int.from_bytes(held[:HEAD], "little")):
            results.append(bytes(held[HEAD:end]))
            del held[:end]
    os.close(reader)
    how = _ended(child, patience_s=1.0 if over and not hung else 0.0)
    if len(results) >= count:
        return results, None
    return results, Lost(f"did not return within {limit_s:g} s", hung=True) if hung else Lost(
        f"ended its process, {how}"
    )


def _live(work: Iterator[bytes], reader: int, writer: int) -> None:
    """Do work and hand on what comes of it; never return."""
    code = 1
    try:
        os.close(reader)
        end_with_parent()
        for result in work:
            rest = memoryview(len(result).to_bytes(HEAD, "little") + result)
            while rest:
                rest = rest[os.write(writer, rest) :]
        code = 0
    finally:
        os._exit(code)


def end_with_parent() -> None:
    """Ask the system to end this process with its parent, where it can: a task that is given up leaves nothing."""
    with contextlib.suppress(Exception):
        import ctypes

        system: Any = ctypes.CDLL(None)
        system.prctl(1, int(signal.SIGKILL))


def _ended(child: int, patience_s: float) -> str:
    """See to it that a child ends, and say how it did."""
    until = time.monotonic() + patience_s
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() >= until:
            os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            break
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(status)
    return f"with exit code {code}" if code >= 0 else f"by signal {signal.Signals(-code).name}"
