"""Gives a program the rows of a continuous query as they are committed, from a place on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from penstock.stream.continuous.query_rows import BEFORE_ALL, Place, QueryRows

LOOK_S = 0.05  # how soon a new commit is seen


class Subscription(Iterator[pa.Table]):
    """The rows of a query, a table for each commit that has some; it waits for more while the stream runs.

    ``place`` tells which row was given last: another subscription goes on after it, also after a restart. It also has
    the definition that the query had at first: rows of the past that a later one takes again are not given once more.
    """

    def __init__(
        self, rows: Callable[[], QueryRows], runs: Callable[[], bool], edition: int, after: Place | None = None
    ) -> None:
        """Begin after a place, or with the oldest row that is kept."""
        self._rows, self._runs, self._edition = rows, runs, edition
        last = BEFORE_ALL if after is None else after
        self.place: Place = (int(last[0]), int(last[1]), edition)
        self._ended = False

    def __next__(self) -> pa.Table:
        """Return the rows of the next commit that has some; wait for it while the stream runs."""
        while not self._ended:
            last = not self._runs()  # asked before looking: what came until then is seen
            for table in self._rows().after(self.place):
                self.place = (table["commit"][-1].as_py(), table["ordinal"][-1].as_py(), self._edition)
                return table
            if last:
                break
            time.sleep(LOOK_S)
        raise StopIteration

    def close(self) -> None:
        """Wait for nothing more; any thread may say so."""
        self._ended = True
