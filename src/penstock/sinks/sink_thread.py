"""Runs one sink in a thread of its own, so that neither its stream nor another sink waits for it.

A stream leaves answers here that are in its log already, and the thread gives them to the sink in order. Beyond a bound
of memory only the number of their commit is kept, and the sink gets them from the log.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.sinks.outlet import Outlet, Tables

HELD_BYTES: Final = 64 << 20  # of answers that wait in memory for one sink; those beyond are read from the log
IDLE_S: Final = 5.0  # without work, after which the thread ends; the next work starts another one
LOOK_S: Final = 0.2  # between two looks of one who waits: a user can break off in between


@dataclass(frozen=True, slots=True)
class LoggedAnswers:
    """Answers of one number, which are in the log, and how much they are."""

    number: int
    named: Callable[[], Tables]  # writes them as sinks get them
    rows: int
    bytes: int  # in memory
    tables: Tables = ()  # those that are in memory


@dataclass(frozen=True, slots=True)
class _SinkTask:
    """Something to be done with the sink, and the answers that the backlog loses by it."""

    do: Callable[[], None]
    rows: int = 0
    bytes: int = 0
    number: int = -1
    tables: Tables = ()


class SinkThread:
    """Does the work of one sink, one piece after the other."""

    def __init__(self, outlet: Outlet, stream: str) -> None:
        """Prepare; the thread starts with the first piece of work."""
        self.outlet = outlet
        self.backlog = 0  # answers that the sink has not been given yet
        self.holds, self.held_seconds = 0, 0.0  # how often, and how long, its stream waited for it
        self._name = f"penstock-sink-{stream}-{outlet.name}"
        self._changed = threading.Condition()
        self._works: deque[_SinkTask] = deque()  # the first of them is being done
        self.held_bytes = 0  # of answers that wait
        self._running = self._abandoned = False
        self._failure: BaseException | None = None  # that ended the thread: a sink's own failure does not

    def give(self, answers: LoggedAnswers) -> None:
        """Leave a commit's answers for the sink."""
        outlet, number, named = self.outlet, answers.number, answers.named
        if self.held_bytes + answers.bytes <= HELD_BYTES:
            held = answers.rows, answers.bytes, number, answers.tables
            self._put(_SinkTask(lambda: outlet.deliver(number, named()), *held))
        else:
            self._put(_SinkTask(lambda: outlet.deliver_from_log(number), answers.rows))

    def attempt(self, now_us: int | None = None) -> None:
        """Let the sink be opened if it is not and its time has come; nobody waits for it."""
        self.raise_failure()
        if not self._works and self.outlet.is_to_be_tried(now_us):
            self._put(_SinkTask(lambda: self.outlet.attempt(now_us)))

    def catch_up(self) -> None:
        """Let the sink be given what it missed of the log."""
        self._put(_SinkTask(self.outlet.catch_up))

    def roll(self) -> None:
        """Let all that was given so far be made visible; :meth:`wait` tells when it is."""
        self._put(_SinkTask(self.outlet.roll))

    @property
    def busy(self) -> bool:
        """Tell whether there is something to do."""
        return bool(self._works)

    def waiting(self) -> list[tuple[int, Tables]]:
        """List the answers in memory that the sink has not taken, by their number."""
        with self._changed:
            return [(work.number, work.tables) for work in self._works if work.bytes]

    def hold(self, most: int, let_through: Callable[[], bool]) -> None:
        """Let a stream wait while more answers than ``most`` are left, unless it is to be let through."""
        if self.backlog > most and not let_through():
            self.holds += 1
            began = time.monotonic()
            self._wait(lambda: self.backlog <= most or let_through())
            self.held_seconds += time.monotonic() - began
        self.raise_failure()

    def wait(self) -> None:
        """Wait until nothing is left to be done; raise what ended the thread."""
        self._wait(lambda: not self._works)
        self.raise_failure()

    def _wait(self, done: Callable[[], bool]) -> None:
        """Wait for something, and look now and then, so that a user can break off."""
        with self._changed:
            while not done() and not self._abandoned:
                self._changed.wait(LOOK_S)

    def raise_failure(self) -> None:
        """Raise what ended the thread: the state folder's failure, or a defect."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Leave all work undone, but for what is being done, as when the process ends."""
        self.outlet.abandon()
        with self._changed:
            self._abandoned = True
            while len(self._works) > 1:
                self._works.pop()
            while self._running:
                self._changed.notify_all()
                self._changed.wait(LOOK_S)

    def _put(self, work: _SinkTask) -> None:
        """Add a piece of work, and start the thread if there is none."""
        self.raise_failure()
        with self._changed:
            if self._abandoned:
                return
            self._works.append(work)
            self.backlog, self.held_bytes = self.backlog + work.rows, self.held_bytes + work.bytes
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._changed.notify_all()

    def _run(self) -> None:
        """Do what there is to do, until there was nothing for a while."""
        while (work := self._next()) is not None:
            try:
                work.do()
            except BaseException as error:
                self._end(error)
                return
            with self._changed:
                self._works.popleft()
                self.backlog, self.held_bytes = self.backlog - work.rows, self.held_bytes - work.bytes
                self._changed.notify_all()

    def _next(self) -> _SinkTask | None:
        """Wait for work; None: there is none, and the thread is to end."""
        with self._changed:
            if not self._works and not self._abandoned:
                self._changed.wait_for(lambda: self._works or self._abandoned, IDLE_S)
            if self._works and not self._abandoned:
                return self._works[0]
            self._running = False
            self._changed.notify_all()
            return None

    def _end(self, error: BaseException) -> None:
        """End with a failure that is not the sink's: the stream is told, and what is left stays in the log."""
        self.outlet.forget_writer()
        with self._changed:
            self._failure, self._running = error, False
            self._works.clear()
            self.backlog = self.held_bytes = 0
            self._changed.notify_all()
