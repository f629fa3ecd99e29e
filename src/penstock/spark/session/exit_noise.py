"""Drops stack traces from the JVM's standard error that say only that Spark was ended.

When a session is stopped, or a Python worker killed, the threads and processes of Spark that were at work print where
they were. An error of ours tells the user what that means.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Final

_JAVA: Final = b'Exception in thread "stream execution thread'
_JAVA_GOES_ON: Final = (b"\tat ", b"\t...", b"Caused by:", b"\tSuppressed:")
_PYTHON: Final = b"Traceback (most recent call last):"
_OF_A_WORKER: Final = b"/pyspark/daemon.py"


def without_dying_words(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Leave out what Spark's own threads and workers print when they are ended; PENSTOCK_SPARK_LOG lets them speak."""
    if "PENSTOCK_SPARK_LOG" in os.environ:
        yield from lines
        return
    java = False
    trace: list[bytes] = []  # of Python, until its last line tells whose it is
    for line in lines:
        java = line.startswith(_JAVA) or (java and line.startswith(_JAVA_GOES_ON))
        if java:
            continue
        if trace or line.startswith(_PYTHON):
            trace.append(line)
            if len(trace) == 1 or line.startswith(b" "):
                continue
            if not any(_OF_A_WORKER in one for one in trace):
                yield from trace
            trace = []
            continue
        yield line
    yield from trace
