"""Signals come in; an event that asks a run to stop goes out, and a second signal ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.cli.exits import INTERRUPTED

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_ASKED: Final = b"stopping after the current batch; once more stops at once\n"
_AT_ONCE: Final = b"stopped at once; the next run goes on from the last commit\n"


@contextmanager
def signalled() -> Iterator[threading.Event]:
    """Turn SIGINT and SIGTERM into an event."""
    ended = threading.Event()

    def asked(*_: object) -> None:
        """Ask to stop; the second time, do. What is committed is safe, and Spark's process ends with this one."""
        os.write(2, _AT_ONCE if ended.is_set() else _ASKED)
        if ended.is_set():
            os._exit(INTERRUPTED)
        ended.set()

    before = [signal.signal(number, asked) for number in SIGNALS]
    try:
        yield ended
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM interrupt as Ctrl-C does, so that a start that is given up leaves nothing behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
