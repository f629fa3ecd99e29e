"""Shows users what a continuous query has answered: its rows in the order of commits, then of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import StateError
from penstock.evaluate.typed import Definition
from penstock.spark.kept_rows.taken_rows import TakenRows, numbers_of
from penstock.store.taken_plan import TakenCommit
from penstock.stream.continuous.row_answers import answers_of_query
from penstock.stream.pipeline import Pipeline

# A commit, the ordinal of a row in it, and the number of the newest definition whose past is among the rows.
Place = tuple[int, int] | tuple[int, int, int]


class QueryRows:
    """The rows that the definitions of one query have answered."""

    def __init__(
        self,
        pipeline: Pipeline,
        definitions: Sequence[Definition],
        until_us: Mapping[int, int] | None = None,
        edition: int | None = None,
    ) -> None:
        """Take all definitions with the same columns; the last one is the query as it is.

        ``until_us`` tells from when on a later definition has answered the rows of an earlier one, too. Of definitions
        later than an ``edition``, rows of the past are left out.
        """
        self.pipeline, self.definitions, self.last = pipeline, definitions, definitions[-1]
        self.until_us = until_us or {}
        self.edition = self.last.id if edition is None else edition

    def newest(self, limit: int | None = None, since_us: int | None = None) -> pa.Table:
        """Return the rows that are kept, at most so many of the newest, of a time or later."""
        found, rows = list[pa.Table](), 0
        for commit in reversed(self._commits(-1)):
            if limit is not None and rows >= limit:
                break
            table = self._of(commit, since_us)
            found.insert(0, table)
            rows += table.num_rows
        whole = pa.concat_tables([self.last.typed.schema.empty_table(), *found])
        return whole if limit is None else whole.slice(max(0, whole.num_rows - limit))

    def after(self, place: Place) -> Iterator[pa.Table]:
        """Read the rows after a place, a commit's at a time; raise if some of them are gone."""
        if place[0] < self._log.expired and place[:2] != BEFORE_ALL:
            what = f'rows of query "{self.last.name}" after commit {place[0]} are kept no longer'
            hint = "Begin with after=None, and give the query a longer keep."
            raise StateError(what, detail=f"Rows up to commit {self._log.expired} are gone.", hint=hint)
        for commit in self._commits(place[0] - 1):
            table = self._of(commit, None)
            if commit.number == place[0]:
                table = table.filter(pa.array(_after(table, place[1])))
            if table.num_rows:
                yield table

    @property
    def _log(self) -> TakenRows:
        """Return the rows of the stream as they are stored now."""
        return self.pipeline.continuous.rows

    def _commits(self, after: int) -> list[TakenCommit]:
        """List the commits that hold."""
        last = self.pipeline.progress.clock.number
        return [commit for commit in self._log.commits(after) if commit.number <= last]

    def _of(self, commit: TakenCommit, since_us: int | None) -> pa.Table:
        """Read the rows of one commit in their order."""
        kept = self._kept_since()
        floor = max((time for time in (since_us, kept) if time is not None), default=None)
        tables = [t for d in self.definitions for t in self._said_by(d, commit, floor)]
        if not tables:
            return self.last.typed.schema.empty_table()
        whole = pa.concat_tables(tables)
        times, ordinals = numbers_of(whole, "event_time"), numbers_of(whole, "ordinal")
        return whole.take(pa.array(np.lexsort((ordinals, times))))

    def _said_by(self, definition: Definition, commit: TakenCommit, floor: int | None) -> Iterator[pa.Table]:
        """Read the rows of one commit that a definition took, but for those that a later one took again."""
        if commit.past and definition.id > self.edition:
            return
        until_us = self.until_us.get(definition.id)
        for table in answers_of_query(self._log, definition, commit, floor):
            yield table if until_us is None else table.filter(_before(table, until_us))

    def _kept_since(self) -> int | None:
        """Return the time before which rows have expired."""
        watermark = self.pipeline.progress.clock.watermark_us
        return None if watermark is None else watermark - self.last.typed.keep_us


BEFORE_ALL: Place = (-1, -1)


def _before(table: pa.Table, time_us: int) -> pa.ChunkedArray:
    """Tell the rows that happened before a time."""
    return pc.less(table["event_time"].cast(pa.int64()), time_us)


def _after(table: pa.Table, ordinal: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell the rows of a commit that stand after one of them, in the order of their times."""
    ordinals = numbers_of(table, "ordinal")
    at = np.flatnonzero(ordinals == ordinal)
    return np.arange(len(ordinals)) > (int(at[0]) if len(at) else -1)
