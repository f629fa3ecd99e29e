"""Loads joined tables as broadcastable frames, and reads them again only when their files change."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import SourceError
from penstock.model.query import Join
from penstock.model.schema import Table
from penstock.spark.job.literals import quoted
from penstock.spark.session.own_session import taken_over
from penstock.spark.sources.reading import read_batch, table_version
from penstock.spark.sources.unreadable import worded

LOG: Final = logging.getLogger("penstock")


@dataclass(slots=True)
class _Loaded:
    """One join's side of a table, at one version."""

    version: str
    frame: DataFrame
    table: Table  # as it was when it was read


class LookupTables:
    """Keeps each joined table in memory at its current version."""

    def __init__(self, session: SparkSession) -> None:
        """Start with nothing loaded."""
        self.session = session
        self._frames: dict[str, DataFrame] = {}
        self._told: set[str] = set()  # tables of whose times in nanoseconds users know
        self._loaded: dict[str, _Loaded] = {}
        self._loading = threading.Lock()  # batches and backfills of several streams read tables
        self._owner = uuid.uuid4().hex

    def register(self, name: str, frame: DataFrame) -> None:
        """Take a table of the program itself."""
        if frame.isStreaming:
            hint = "Give a DataFrame that is not streaming, or enter it with create_stream."
            raise SourceError(f'table "{name}" cannot be a streaming DataFrame', hint=hint)
        self._frames[name] = frame
        for join_id in [j for j in self._loaded if j.rpartition("#")[0] == name]:
            self._loaded.pop(join_id).frame.unpersist()

    def current(
        self, joins: tuple[Join, ...], tables: Mapping[str, Table]
    ) -> tuple[dict[str, DataFrame], dict[str, str]]:
        """Return each join's frame and version, reading what has changed since the last batch."""
        with self._loading:
            return self._current(joins, tables)

    def _current(
        self, joins: tuple[Join, ...], tables: Mapping[str, Table]
    ) -> tuple[dict[str, DataFrame], dict[str, str]]:
        """Return each join's frame and version; one thread at a time."""
        frames, versions = {}, {}
        for join in joins:
            table = tables[join.table]
            version = table_version(table)
            loaded = self._loaded.get(join.id)
            if loaded is None or (loaded.version, loaded.table) != (version, table):
                if loaded is not None:
                    loaded.frame.unpersist()
                loaded = self._loaded[join.id] = _Loaded(version, self._prepare(join, table, version), table)
            frames[join.id], versions[join.id] = loaded.frame, version
        return frames, versions

    def _prepare(self, join: Join, table: Table, version: str) -> DataFrame:
        """Name columns after the join, add its keys and number the rows of each key from 0.

        To Spark's cache, which all sessions share, two reads of one folder are the same whatever its files: the plan
        says which version it reads, and for whom, or it would find rows that another engine once read.
        """
        frame = self._frames.get(table.name)
        if frame is None:
            frame = read_batch(self.session, table, lambda text: self._tell(table, text))
        else:
            frame = taken_over(frame, self.session)
        keys = [f"{join.id}.@{i}" for i in range(len(join.table_keys))]
        columns = [F.col(quoted(c.name)).alias(f"{join.id}.{c.name}") for c in table.columns]
        keyed = frame.select(*columns, *(F.expr(k).alias(n) for k, n in zip(join.table_keys, keys, strict=True)))
        names = ", ".join(quoted(k) for k in keys)
        present = " AND ".join(f"{quoted(k)} IS NOT NULL" for k in keys)  # NULL never equals anything
        number = F.expr(f"row_number() OVER (PARTITION BY {names} ORDER BY {names}) - 1")
        mine = keyed.where(present).where(F.lit(f"{join.id} {version} {self._owner}").isNotNull())
        prepared = mine.select("*", number.alias(f"{join.id}.#")).persist()
        try:
            prepared.count()
        except Exception as error:
            prepared.unpersist()
            raise worded(f'table "{table.name}": ', error) from None
        return prepared

    def _tell(self, table: Table, text: str) -> None:
        """Tell users of something about a table, once."""
        if table.name not in self._told:
            self._told.add(table.name)
            LOG.warning(text, extra={"event": "report"})
