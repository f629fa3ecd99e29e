"""Writes one stream's answers to one sink, and retries a sink that fails."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.errors import PenstockError, SinkError, StateError
from penstock.model.instants import Clock
from penstock.sinks.protocol import Progressing, Sink, SinkWriter

SHORTEST_US: Final = 1_000_000  # pause before the second attempt; each further one is twice as long
LONGEST_US: Final = 60_000_000
FAILING: Final = "failing"  # in a sink's record: what is wrong, since when, after how many attempts
LOG: Final = logging.getLogger("penstock")

Tables = Sequence[pa.Table]
Numbered = tuple[int, Tables]  # a commit and its answers
Missed = Callable[[int], Iterator[Numbered]]  # the answers after a commit, from the log


@dataclass(frozen=True, slots=True)
class Failing:
    """Why a sink gets no answers now, and when it is tried again; times are microseconds since the epoch."""

    error: PenstockError
    since_us: int
    attempts: int
    next_try_us: int


class Outlet:
    """Writes to one sink; what it raises stays here."""

    def __init__(self, name: str, sink: Sink, stream: str, memory: Progressing, missed: Missed, clock: Clock) -> None:
        """Prepare; :meth:`attempt` opens the sink and gives it what it missed."""
        self.name, self.sink, self.stream, self.memory = name, sink, stream, memory
        self.failing: Failing | None = None
        self._missed, self._clock = missed, clock
        self._writer: SinkWriter | None = None
        self._given = -1  # the number of the last answers that the open writer was given
        self._kept_since = 0.0  # when it was given the first answers that it does not hold for good
        self._abandoned = False

    @property
    def taken(self) -> int:
        """Return the number of the last answers that the sink holds for good."""
        writer = self._writer  # whoever asks for the status holds no lock
        return int(str(self.memory.read().get("delivered", -1))) if writer is None else writer.delivered

    def deliver(self, number: int, tables: Tables) -> None:
        """Give answers, or if the sink has failed and it is time, all that it missed."""
        if self._writer is None:
            self.attempt()
        elif number > self._given:
            self._guarded(lambda writer: self._give(writer, number, tables))

    def deliver_from_log(self, number: int) -> None:
        """Give the answers of a commit, and all other ones that the sink has not, from the log."""
        if self._writer is None:
            self.attempt()
        elif number > self._given:
            self._guarded(self._catch_up)

    def is_to_be_tried(self, now_us: int | None = None) -> bool:
        """Tell whether the sink is not open, and it is not too early to open it."""
        now = self._clock() if now_us is None else now_us
        return self._writer is None and (self.failing is None or now >= self.failing.next_try_us)

    def attempt(self, now_us: int | None = None) -> None:
        """Open a sink that has failed and give it what it missed, unless it is too early."""
        if self.is_to_be_tried(now_us):
            self._guarded(self._catch_up)

    def forget_writer(self) -> None:
        """Let the sink be opened anew at its next turn, and be given from the log what it does not hold for good."""
        self._writer = None

    def abandon(self) -> None:
        """Give the sink nothing more than what it is being given; any thread may say so."""
        self._abandoned = True

    @property
    def keeps_back(self) -> bool:
        """Tell whether the sink has been given answers that it does not hold for good yet."""
        writer = self._writer
        return writer is not None and writer.delivered < self._given

    @property
    def is_to_be_rolled(self) -> bool:
        """Tell whether the sink has kept answers back for as long as it says, and no others have come."""
        longest = float(getattr(self.sink, "roll_seconds", math.inf))
        return self.keeps_back and time.monotonic() - self._kept_since >= longest

    def catch_up(self) -> None:
        """Give a sink what it missed of the log while it was open: a step that failed may have passed it over."""
        if self._writer is not None:
            self._guarded(self._catch_up)

    def roll(self) -> None:
        """Make everything visible; a sink that has failed is tried once more."""
        self.attempt(self.failing.next_try_us if self.failing else None)
        if self._writer is not None:
            self._guarded(lambda writer: writer.roll())

    def _catch_up(self, writer: SinkWriter) -> None:
        """Deliver from the log, in order."""
        for number, tables in self._missed(self._given):
            if self._abandoned:
                return
            self._give(writer, number, tables)

    def _give(self, writer: SinkWriter, number: int, tables: Tables) -> None:
        """Give answers, and remember that they were given."""
        if writer.delivered >= self._given:
            self._kept_since = time.monotonic()
        writer.deliver(number, tables)
        self._given = number

    def _guarded(self, act: Callable[[SinkWriter], None]) -> None:
        """Do something with the writer; what fails is kept, and the writer opened anew next time."""
        try:
            act(writer := self._writer or self._opened())
        except BaseException as error:
            self._writer = None
            if isinstance(error, StateError) or not isinstance(error, Exception):
                raise  # the state folder is everybody's, and so is the end of the process
            self._fail(error)
        else:
            self._writer = writer
            self._recovered()

    def _opened(self) -> SinkWriter:
        """Open a writer, which goes on behind what the sink holds for good."""
        writer = self.sink.open(self.stream, self.memory)
        self._given = writer.delivered
        return writer

    def _fail(self, error: Exception) -> None:
        """Keep the error and choose when to try again."""
        now, before = self._clock(), self.failing
        attempts = before.attempts + 1 if before else 1
        pause = min(LONGEST_US, SHORTEST_US << min(attempts - 1, 10))
        worded = error if isinstance(error, PenstockError) else _worded(self.name, error)
        if isinstance(worded, SinkError):
            pause = max(pause, math.ceil(worded.wait_s * 1_000_000))
        self.failing = Failing(worded, before.since_us if before else now, attempts, now + pause)
        times = "" if attempts == 1 else f" (attempt {attempts})"
        self._record_failing()
        self._log(
            logging.ERROR, f"sink {self.name} fails{times}: {worded.what}; next attempt in {pause // 1_000_000} s"
        )

    def _recovered(self) -> None:
        """Forget a failure that is over."""
        if self.failing is not None:
            attempts, self.failing = self.failing.attempts, None
            self._record_failing()
            self._log(logging.WARNING, f"sink {self.name} has caught up, after {attempts} failed attempts")

    def _record_failing(self) -> None:
        """Write down whether the sink fails, for a status that no engine is asked for."""
        known = {name: value for name, value in self.memory.read().items() if name != FAILING}
        if (failing := self.failing) is not None:
            told = {"what": failing.error.what, "since_us": failing.since_us, "attempts": failing.attempts}
            known |= {FAILING: told}
        self.memory.write(known)

    def _log(self, level: int, text: str) -> None:
        """Log something about the sink."""
        event = "sink failed" if level == logging.ERROR else "sink recovered"
        LOG.log(level, text, extra={"event": event, "sink": self.name, "stream": self.stream})


def _worded(name: str, error: Exception) -> SinkError:
    """Word what a sink raised."""
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return SinkError(f"sink {name} failed: {reason}")
