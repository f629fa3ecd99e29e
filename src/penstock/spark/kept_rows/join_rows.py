"""Keeps a stream's valid rows, by commit, as long as joins of two streams may need them.

What was not taken yet is in memory too. The rows are written before their commit, so a restart finds all that was
committed, and what a crash left without a commit is forgotten.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.kernel.join_index import COMMIT, JUDGED, PLACE, TIME
from penstock.model.arrays import Int64Array
from penstock.model.schema import Stream
from penstock.model.stream_join import JoinNeeds, code_name
from penstock.spark.job.literals import quoted
from penstock.spark.kept_rows.commit_folders import CommitFolders, CommitSpan
from penstock.spark.kept_rows.dead_letters import is_valid, micros_of
from penstock.store.files import damaged

ALL_TIME = 1 << 62
WRITTEN_AGAIN_FROM: Final = 50_000  # rows: fewer are left as they are
GROWN: Final = 4  # times as many rows as are needed: they are written again without the others


@dataclass(frozen=True, slots=True)
class LastRows:
    """Rows that a join needs, however old they are, besides all since a time."""

    ids: Int64Array
    first_us: int  # the time of the oldest
    since_us: int


class JoinRows:
    """The rows of one stream that joins wait with; streams in several threads may ask for them."""

    def __init__(self, session: SparkSession, folder: Path, stream: Stream) -> None:
        """Open the folder; after a crash call :meth:`forget_after` first."""
        self.session, self.stream = session, stream
        self.folders = CommitFolders(folder, "joining")
        self._fresh: dict[int, pa.Table] = {}  # by commit, until all joins have taken them
        self._kept_for: dict[Hashable, tuple[int, int]] = {}  # join → last commit taken, and the first time it needs
        self._last_rows: dict[Hashable, LastRows] = {}  # of joins that need some rows of any time, before that time
        self._looked_at = 0  # rows, when they were written again
        self._lock = threading.RLock()

    def keep(self, batch: DataFrame, number: int, watermark_us: int, ahead_us: int, needs: JoinNeeds) -> None:
        """Write the valid rows of a batch whose keys some join may find: one Spark job."""
        types = {column.name: column.type for column in self.stream.columns}
        codes = [hash_of(keys, types) for keys in needs.keys]
        found = " OR ".join("(" + " AND ".join(f"{quoted(k)} IS NOT NULL" for k in keys) + ")" for keys in needs.keys)
        valid = batch.select(
            *(F.col(quoted(name)) for name in needs.columns), F.expr(micros_of(self.stream.time)).alias(TIME)
        )
        found = "true" if needs.whole else found
        rows = valid.where(is_valid(TIME, ahead_us)).where(found).select("*", *codes).toArrow()
        if needs.whole:
            rows = rows.append_column(PLACE, pa.array(np.arange(rows.num_rows, dtype=np.int64)))
        for name, value in ((JUDGED, watermark_us), (COMMIT, number)):
            rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.int64()), rows.num_rows))
        times = rows[TIME]
        rows = rows.drop_columns([TIME]).append_column(TIME, times)  # last: its footer tells what may go
        with self._lock:
            self.folders.compact(self.session, "", written_here=COMMIT, most=ALL_TIME)
            self.folders.write(rows, number)
            self._fresh[number] = rows

    def between(self, after: int, upto: int) -> pa.Table | None:
        """Return the rows of commits after one up to another; None: there are none."""
        with self._lock:
            found = [self._of(span) for span in self.folders.spans if span.last > after and span.first <= upto]
        if not found:
            return None
        rows = pa.concat_tables(found, promote_options="default")
        wanted = pc.and_(pc.greater(rows[COMMIT], after), pc.less_equal(rows[COMMIT], upto))
        return rows.filter(wanted)

    def _of(self, span: CommitSpan) -> pa.Table:
        """Return the rows of a folder, which may be in memory."""
        if span.first == span.last and span.first in self._fresh:
            return self._fresh[span.first]
        tables = []
        for path in sorted(self.folders.path(span).glob("*.parquet")):
            try:
                tables.append(pq.ParquetFile(path).read())
            except (OSError, pa.ArrowInvalid) as error:
                raise damaged(path, error) from error
        return pa.concat_tables(tables, promote_options="default")

    def expect(self, join: Hashable) -> None:
        """Keep all rows until a join has told what it needs: at a restart, others may tell first."""
        with self._lock:
            self._kept_for.setdefault(join, (-1, -ALL_TIME))

    def keep_for(self, join: Hashable, taken: int, since_us: int) -> None:
        """Note that a join has taken the commits up to one, and needs rows since a time of those; let go of others."""
        with self._lock:
            self._kept_for[join] = taken, since_us
            self._let_go()

    def keep_last(self, join: Hashable, taken: int, last: LastRows) -> None:
        """Note the same of a join that needs some older rows as well; all others go where they are many."""
        with self._lock:
            self._last_rows[join] = last
            self._kept_for[join] = taken, min(last.since_us, last.first_us)
            self._let_go()
            self._write_again()

    def leave(self, join: Hashable) -> None:
        """Forget what a join needed that is gone."""
        with self._lock:
            self._last_rows.pop(join, None)
            self._kept_for.pop(join, None)
            self._let_go()

    def expire_all(self) -> None:
        """Delete all rows: no join reads the stream."""
        with self._lock:
            self._fresh.clear()
            self.folders.remove(self.folders.spans)

    def forget_after(self, number: int) -> None:
        """Forget the rows of commits that never were."""
        with self._lock:
            self.folders.forget_after(number)
            self._fresh = {n: rows for n, rows in self._fresh.items() if n <= number}

    def held_bytes(self) -> int:
        """Return how many bytes the files take."""
        with self._lock:
            return sum(map(self.folders.bytes_in, self.folders.spans))

    def fresh_bytes(self) -> int:
        """Return how much memory the rows take that some join has not taken yet."""
        return sum(rows.nbytes for rows in list(self._fresh.values()))

    def _write_again(self) -> None:
        """Write the folders again that all joins have taken, without rows that none needs, once these are many."""
        taken = min(number for number, _ in self._kept_for.values())
        known = {join: since_us for join, (_, since_us) in self._kept_for.items()}
        since = known | {join: last.since_us for join, last in self._last_rows.items()}
        spans = [span for span in self.folders.spans if span.last <= taken]
        held = sum(map(self.folders.rows_in, spans))
        if len(spans) < 2 or held < max(WRITTEN_AGAIN_FROM, GROWN * self._looked_at):
            return
        rows = pa.concat_tables([self._of(span) for span in spans], promote_options="default")
        times = np.asarray(rows[TIME].to_numpy(), np.int64)
        wanted = times >= min(since.values())
        if PLACE not in rows.column_names:
            return
        ids = row_ids(rows)
        for last in self._last_rows.values():
            wanted |= np.isin(ids, last.ids)
        self._looked_at = int(wanted.sum())
        if 0 < self._looked_at <= held // GROWN:
            self.folders.replace(spans, rows.filter(pa.array(wanted)))
            self.folders.delete(spans)

    def _let_go(self) -> None:
        """Delete files that no join needs, and let go of rows in memory that all have taken."""
        if not self._kept_for:
            return
        taken = min(number for number, _ in self._kept_for.values())
        since_us = min(time for _, time in self._kept_for.values())
        self._fresh = {n: rows for n, rows in self._fresh.items() if n > taken}
        self.folders.remove([span for span in self.folders.passed(since_us)[1] if span.last <= taken])


def row_ids(rows: pa.Table) -> Int64Array:
    """Number rows by their commit and their place in it; those of before there were places are never written again."""
    places = rows[PLACE].fill_null(-1)
    commits = np.asarray(rows[COMMIT].to_numpy(), np.int64)
    return (commits << 32) + np.asarray(places.to_numpy(), np.int64)


def hash_of(keys: tuple[str, ...], types: dict[str, str]) -> Column:
    """Hash the keys of a row; equal ones have equal hashes, −0.0 that of 0.0 and every NaN the same."""
    texts = []
    for key in keys:
        name, floating = quoted(key), types[key].lower() in ("double", "float")
        plain = f"CASE WHEN isnan({name}) THEN CAST('NaN' AS DOUBLE) ELSE CAST({name} AS DOUBLE) + 0.0D END"
        texts.append(plain if floating else name)
    return F.expr(f"xxhash64({', '.join(texts)})").alias(code_name(keys))
