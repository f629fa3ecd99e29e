"""Tells how far streams are while they run: on a terminal a line that is renewed, elsewhere one every few seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.moments import moment
from penstock.cli.printing import say
from penstock.model.counts import counted
from penstock.model.duration import SECOND
from penstock.printable import shown

if TYPE_CHECKING:
    from penstock.stream.pipeline import Pipeline

PERIOD_S: Final = 0.25
LINE_EVERY_S: Final = 5.0  # where there is no terminal
LONG_US: Final = 3 * SECOND  # after so long in one batch, people are told that it is being worked on


@contextmanager
def progressing(pipelines: Sequence[Pipeline], *, lines: bool = False) -> Iterator[None]:
    """Show rows, rows per second, answers and watermark while work goes on."""
    if not sys.stderr.isatty():
        with _saying(pipelines, lines):
            yield
        return
    from rich.console import Console

    done, told = threading.Event(), telling(pipelines)
    with Console(stderr=True, highlight=False).status("reading") as status:
        watcher = threading.Thread(target=_watch, args=(done, status, told), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


@contextmanager
def _saying(pipelines: Sequence[Pipeline], lines: bool) -> Iterator[None]:
    """Say every few seconds how far the work is, unless its log tells or it is over before."""
    done, told = threading.Event(), telling(pipelines)

    def say_on() -> None:
        while not done.wait(LINE_EVERY_S):
            say(told(), err=True)

    watcher = threading.Thread(target=say_on, daemon=True)
    if lines:
        watcher.start()
    try:
        yield
    finally:
        done.set()
        if lines:
            watcher.join()


def _watch(done: threading.Event, status: Any, told: Callable[[], str]) -> None:
    """Renew the line until the work is done."""
    while not done.wait(PERIOD_S):
        status.update(told())


def telling(pipelines: Sequence[Pipeline]) -> Callable[[], str]:
    """Return what words the progress since now."""
    began, before = time.monotonic(), sum(p.progress.clock.counts.ingested for p in pipelines)

    def tell() -> str:
        rows = sum(p.progress.clock.counts.ingested for p in pipelines) - before
        answers = sum(p.metrics.answers for p in pipelines)
        pace = rows / max(time.monotonic() - began, 1e-3)
        earlier = f" ({before:,} in runs before)" if before else ""
        far = f"{rows:,} rows{earlier}, {pace:,.0f} rows/s, {answers:,} answers, watermark {watermark(pipelines)}"
        return far + "".join(f"; {words}" for words in map(at_work, pipelines) if words)

    return tell


def at_work(pipeline: Pipeline) -> str:
    """Say for how long a stream has been at work on a batch, if that is long."""
    since_us = pipeline.committer.order.under_way.since_us
    spent_us = 0 if since_us is None else pipeline.clock() - since_us
    name = shown(pipeline.stream.name)
    return f"{name} at work on a batch for {spent_us // SECOND} s" if spent_us >= LONG_US else ""


def watermark(pipelines: Sequence[Pipeline]) -> str:
    """Write the least watermark of all streams that have one, and how many have none yet."""
    known = [us for p in pipelines if (us := p.progress.clock.watermark_us) is not None]
    if not known:
        return "none yet"
    without = len(pipelines) - len(known)
    return moment(min(known)) + (f" ({counted(without, 'stream has', 'streams have')} none yet)" if without else "")
