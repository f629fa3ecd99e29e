"""The oracle: DuckDB over plain rows, window by window, and a model of the stream's time in a few lines of Python."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from tests.oracle.cases import Case, QuerySpec


@dataclass(frozen=True)
class Moment:
    """The stream's time after a batch."""

    watermark: int | None
    first: int | None
    last: int | None


def moments(batches: list[pa.Table], lateness_us: int) -> list[Moment]:
    """Follow the watermark from batch to batch."""
    found, watermark, first, last = [], None, None, None
    for batch in batches:
        times = batch["ts"].drop_null().cast(pa.int64()).to_pylist()
        if times:
            first = min([*times] if first is None else [*times, first])
            last = max([*times] if last is None else [*times, last])
            watermark = last - lateness_us
        found.append(Moment(watermark, first, last))
    return found


def answered_ends(query: QuerySpec, case: Case) -> list[int]:
    """List the window ends a query that is there from the first batch answers."""
    times = [t for batch in case.batches for t in batch["ts"].drop_null().cast(pa.int64()).to_pylist()]
    ends: list[int] = []
    before: int | None = None
    for moment in moments(case.batches, case.lateness_us):
        if moment.watermark is None:
            continue
        start = moment.first if before is None or ends == [] else before
        assert start is not None
        low = max(start, before) if before is not None else start
        end = low + 1 + (query.offset_us - low - 1) % query.slide_us
        while end <= moment.watermark:
            ends.append(end)
            end += query.slide_us
        before = moment.watermark
    if case.flush and before is not None:
        held = [_last_holding(query, t) for t in times]
        last = max([h for h in held if h is not None], default=before)
        low = max(before, min(times)) if not ends else before
        end = low + 1 + (query.offset_us - low - 1) % query.slide_us
        while end <= max(last, before):
            ends.append(end)
            end += query.slide_us
    return ends


def _last_holding(query: QuerySpec, ts: int) -> int | None:
    end = ts + query.range_us - (ts + query.range_us - query.offset_us) % query.slide_us
    return end if end > ts else None


class Oracle:
    """Answers queries from plain rows."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.db = duckdb.connect()
        self.db.execute("SET TimeZone = 'UTC'")
        rows = _with_watermarks(case)
        self.db.register("rows_", rows)
        self.db.execute("CREATE TABLE s AS SELECT *, row_number() OVER () AS rid FROM rows_")
        self.db.register("t_", case.table)
        self.db.execute("CREATE TABLE t AS SELECT * FROM t_")

    def answers(self, query: QuerySpec, ends: list[int]) -> list[dict[str, Any]]:
        """Answer a query for the window ends given, ordered by window and group."""
        if not ends:
            return []
        self.db.register("ends_", pa.table({"e": pa.array(sorted(ends), pa.int64())}))
        return self.db.sql(self._sql(query)).to_arrow_table().to_pylist()

    def _sql(self, query: QuerySpec) -> str:
        join = {None: "", "inner": "JOIN t ON s.k = t.k", "left": "LEFT JOIN t ON s.k = t.k"}[query.joined]
        where = f"WHERE {query.where}" if query.where else ""
        taken = f"SELECT s.*, {'t.w, t.flag, t.cap' if query.joined else '1 AS one'} FROM s {join} {where}"
        within = f"r.us >= w.e - {query.range_us} AND r.us < w.e AND w.e > r.watermark"
        keys = [_local(k) for k in query.keys]
        columns = [f"{k} AS key{i}" for i, k in enumerate(keys)]
        columns += [f"{_duck(a)} AS agg{i}" for i, a in enumerate(query.aggregates)]
        columns += [f"{m} AS mag{i}" for i, a in enumerate(query.aggregates) if (m := _magnitude(_local(a)))]
        having = f"HAVING {_duck(query.having)}" if query.having else ""
        how = "JOIN" if keys else "LEFT JOIN"
        order = ", ".join(["w.e", *(f"{k} ASC NULLS FIRST" for k in keys)])
        return (
            f"SELECT w.e AS window_end, {', '.join(columns)} FROM ends_ w {how} ({taken}) r ON {within} "
            f"GROUP BY {', '.join(['w.e', *keys])} {having} ORDER BY {order}"
        )


def _with_watermarks(case: Case) -> pa.Table:
    """Give every row the watermark of its batch: it enters the windows that were not final then."""
    tables, before = [], -(2**62)
    for batch, moment in zip(case.batches, moments(case.batches, case.lateness_us), strict=True):
        us = batch["ts"].cast(pa.int64())
        batch = batch.append_column("us", us).append_column("watermark", pa.array([before] * len(batch), pa.int64()))
        tables.append(batch)
        before = before if moment.watermark is None else moment.watermark
    return pa.concat_tables(tables)


def _magnitude(text: str) -> str | None:
    """Write Σ|x| for a sum or average of doubles: what its digits are measured by."""
    found = re.fullmatch(r"(sum|avg)\((x[^)]*)\)", text)
    return f"sum(abs({found[2]}))" if found else None


def _local(text: str) -> str:
    return text.replace("s.k", "k")


def _duck(text: str) -> str:
    """Write a Spark aggregate as DuckDB does; an outer join's empty row is not counted."""
    text = _local(text)
    text = re.sub(r"count\((\w+), (\w+)\)", r"count(CASE WHEN \1 IS NOT NULL AND \2 IS NOT NULL THEN 1 END)", text)
    text = text.replace("count(*)", "count(rid)").replace(
        "sum(CASE WHEN b THEN 1 ELSE 0 END)", "sum(CASE WHEN rid IS NULL THEN NULL WHEN b THEN 1 ELSE 0 END)"
    )
    return text.replace("stddev(", "stddev_samp(")
