"""Windows of rows by definition: rows sorted whole by Spark, then counted one by one; nothing of the engine is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
COLUMNS = "ts TIMESTAMP, k STRING, v INT"


@dataclass(frozen=True)
class Counted:
    """A query: rows, slide, whether rows are counted apart by k, the remainder of v that it takes, and its groups."""

    rows: int
    slide: int
    apart: bool = False
    takes: int | None = None  # v % 3
    by: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        window = f"[{'PARTITION BY k ' if self.apart else ''}ROWS {self.rows} SLIDE {self.slide}]"
        keys = [{"k": "k", "odd": "v % 2"}[key] for key in self.by]
        outputs = [*(f"{key} AS g{i}" for i, key in enumerate(keys)), "count(*) AS n", "sum(v) AS s", "min(v) AS low"]
        where = "" if self.takes is None else f" WHERE v % 3 = {self.takes}"
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join(outputs)} FROM s {window}{where}{grouped}"

    def groups(self, row: Row) -> tuple[Any, ...]:
        return tuple(row["k"] if key == "k" else row["v"] % 2 for key in self.by)


@dataclass
class Stream:
    """What a stream has let through: rows on time, its watermark, and the greatest time seen, in seconds."""

    lateness: float
    on_time: list[Row] = field(default_factory=list)
    watermark: float | None = None
    greatest: float | None = None

    def feed(self, rows: Sequence[Row]) -> None:
        valid = [row for row in rows if row["ts"] is not None]
        self.on_time += [row for row in valid if self.watermark is None or row["ts"] >= self.watermark]
        self.greatest = max([row["ts"] for row in valid] + ([] if self.greatest is None else [self.greatest]))
        reached = self.greatest - self.lateness
        self.watermark = reached if self.watermark is None else max(reached, self.watermark)

    def in_order(self, spark: SparkSession, epoch: datetime) -> list[Row]:
        """Sort all rows on time as windows of rows have them: time, hash, content."""
        if not self.on_time:
            return []
        rows = [(epoch + timedelta(seconds=row["ts"]), row["k"], row["v"]) for row in self.on_time]
        frame = spark.createDataFrame(rows, COLUMNS).orderBy("ts", spark_hash(), "k", "v")
        return [{"ts": ts.timestamp(), "k": k, "v": v} for ts, k, v in frame.collect()]


def spark_hash() -> Any:
    from pyspark.sql import functions as F

    return F.xxhash64("ts", "k", "v")


def expected(query: Counted, rows: Sequence[Row], since: float | None) -> list[tuple[Any, ...]]:
    """Answer a query over sorted rows with ts > since: one tuple for each answer, in the order of results."""
    mine = [row for row in rows if since is None or row["ts"] > since]
    parts = {row["k"] if query.apart else None: None for row in mine}
    found: list[tuple[Any, ...]] = []
    for part in parts:
        counted = [row for row in mine if not query.apart or row["k"] == part]
        for end in range(query.slide, len(counted) + 1, query.slide):
            window = counted[max(0, end - query.rows) : end]
            found += [(end, window[0]["ts"], window[-1]["ts"], *answer) for answer in _answers(query, window)]
    if query.apart:
        found.sort(key=lambda one: (one[2], _sortable(one[3 : 3 + len(query.by)]), one[0]))
    return [one[1:] for one in found]


def _answers(query: Counted, window: Sequence[Row]) -> list[tuple[Any, ...]]:
    taken = [row for row in window if query.takes is None or row["v"] % 3 == query.takes]
    groups = {query.groups(row) for row in taken} if query.by else {()}
    found = []
    for group in sorted(groups, key=_sortable):
        values = [row["v"] for row in taken if query.groups(row) == group]
        found.append((*group, len(values), sum(values) if values else None, min(values) if values else None))
    return found


def _sortable(group: Sequence[Any]) -> tuple[tuple[bool, Any], ...]:
    return tuple((value is not None, value) for value in group)
