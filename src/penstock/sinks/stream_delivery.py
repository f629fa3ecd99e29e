"""Delivers all that one stream answers: windows by numbers of answers, rows of continuous queries by commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.errors import SinkError
from penstock.sinks.delivery import Delivery, raise_lacking
from penstock.sinks.outlet import Failing, Tables
from penstock.sinks.row_delivery import RowDelivery, RowLog
from penstock.sinks.sink_thread import SinkThread


class CurrentRows:
    """The log that has the rows now: it is made anew after a step that failed."""

    def __init__(self) -> None:
        """Begin without rows."""
        self.log: RowLog | None = None

    def for_sinks(self, after: int) -> Iterator[tuple[int, Callable[[], Tables], int]]:
        """Give the commits after a number that have rows."""
        yield from () if self.log is None else self.log.for_sinks(after)


class StreamDelivery:
    """The sinks of one stream; those of rows are opened when there are rows."""

    def __init__(self, answers: Delivery, open_rows: Callable[[RowLog], RowDelivery]) -> None:
        """Begin with answers alone; ``open_rows`` opens the sinks for rows."""
        self.answers, self._open_rows = answers, open_rows
        self.current, self.rows = CurrentRows(), list[RowDelivery]()

    @property
    def each(self) -> list[Delivery]:
        """List what is open."""
        return [self.answers, *self.rows]

    @property
    def threads(self) -> list[SinkThread]:
        """List the threads of the sinks for answers."""
        return self.answers.threads

    @property
    def failing(self) -> dict[str, Failing]:
        """Return the sinks that get nothing now, by name."""
        return {name: failing for one in self.each for name, failing in one.failing.items()}

    def keep_rows(self, log: RowLog, *, there: bool) -> None:
        """Take rows from a log from now on; if some are there, sinks are given what they lack of them."""
        self.current.log = log
        if there and not self.rows:
            self.rows.append(self._open_rows(self.current))

    def deliver_rows(self, number: int) -> None:
        """Leave the rows of a commit for the sinks."""
        if not self.rows:
            self.rows.append(self._open_rows(self.current))
        for one in self.rows:
            one.deliver_rows(number)

    def rows_taken(self) -> int:
        """Return the last commit whose rows every sink holds for good."""
        return min((one.taken() for one in self.rows), default=1 << 62)

    def catch_up(self) -> None:
        """Let the sinks be given what they lack."""
        for one in self.each:
            one.catch_up()

    def retry(self) -> None:
        """Let the sinks that have failed be tried."""
        for one in self.each:
            one.retry()

    def look_after(self) -> None:
        """Let sinks be tried that have failed, and others be rolled in time."""
        for one in self.each:
            one.look_after()

    def roll_soon(self) -> None:
        """Let what sinks have collected be made visible."""
        for one in self.each:
            one.roll_soon()

    def wait(self) -> None:
        """Wait until every sink has been given all there is, or fails."""
        for one in self.each:
            one.wait()

    def roll(self) -> None:
        """Make everything visible, and raise if a sink lacks something."""
        lacking: list[SinkError] = []
        for one in self.each:
            try:
                one.roll()
            except SinkError as error:
                lacking.append(error)
        raise_lacking(lacking)

    def let_through(self, *, always: bool = True) -> None:
        """Do not wait for sinks that are too far behind; False: wait again."""
        for one in self.each:
            one.let_through(always=always)

    def abandon(self) -> None:
        """End the threads."""
        for one in self.each:
            one.abandon()
