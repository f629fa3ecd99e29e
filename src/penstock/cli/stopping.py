"""Turns signals into an event that asks a run to stop; a second signal ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from penstock.cli.exits import INTERRUPTED

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last one: the terminal was closed
_ASKED: Final = b"stopping after the current batch; once more stops at once\n"
_AT_ONCE: Final = b"stopped at once; the next run goes on from the last commit\n"


@contextmanager
def signalled() -> Iterator[threading.Event]:
    """Turn SIGINT, SIGTERM and SIGHUP into an event; those that are ignored, as under nohup, stay so."""
    ended = threading.Event()

    def asked(*_: object) -> None:
        """Ask to stop; the second time, do. What is committed is safe, and Spark's process ends with this one."""
        with suppress(OSError):  # of a terminal that is gone
            os.write(2, _AT_ONCE if ended.is_set() else _ASKED)
        if ended.is_set():
            os._exit(INTERRUPTED)
        ended.set()

    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, asked) for number in heard}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt as Ctrl-C does, so that a start that is given up leaves nothing behind."""
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signal.default_int_handler) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
