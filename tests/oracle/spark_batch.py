"""The oracle of meanings: plain Spark batch SQL of one query alone, on the rows of each of its windows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
INSTANT = pa.timestamp("us", tz="UTC")
WINDOWS = ((10, 10), (20, 10), (15, 10), (5, 10), (30, 15))  # range and slide in seconds

# Interpreted, in one partition: compiling and shuffling would take most of the time for a few rows.
SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass(frozen=True)
class Meaning:
    """One query in parts, so that both engines can be asked for the same."""

    name: str
    select: str
    where: str | None = None
    keys: tuple[str, ...] = ()
    having: str | None = None
    range_s: int = 10
    slide_s: int = 10

    @property
    def text(self) -> str:
        return f"SELECT {self.select} FROM r [RANGE {self.range_s} s SLIDE {self.slide_s} s]{self.clauses(self.keys)}"

    def clauses(self, keys: tuple[str, ...]) -> str:
        parts = [f" WHERE {self.where}" if self.where else "", f" GROUP BY {', '.join(keys)}" if keys else ""]
        return "".join([*parts, f" HAVING {self.having}" if self.having else ""])


@dataclass(frozen=True)
class Expected:
    """What Spark says: the answers of windows up to the first that fails, and the end of that one."""

    table: pa.Table  # window_end and the query's columns, by window and key
    failed: datetime | None


class SparkBatch:
    """Answers queries over one table of rows; batch mode, one query at a time."""

    def __init__(self, spark: SparkSession, rows: pa.Table, seconds: int, harmless: int) -> None:
        """Keep rows of so many seconds from the start; those of the first harmless seconds fail no query."""
        self.spark, self.seconds, self.harmless = spark.newSession(), seconds, harmless
        for name, value in SETTINGS.items():
            self.spark.conf.set(name, value)
        self.spark.createDataFrame(rows).coalesce(1).createOrReplaceTempView("batch_rows")

    def ends(self, query: Meaning) -> list[datetime]:
        """List the ends of a query's windows from the first to the last that holds a row."""
        last = self.seconds - 1 + query.range_s
        return instants(*range(query.slide_s, last + 1, query.slide_s))

    def answers(self, query: Meaning, *, may_fail: bool) -> Expected:
        """Answer all windows at once; where one may fail, those before it, then one by one up to it."""
        if not may_fail:
            return Expected(self._windows(query, self.ends(query)), None)
        (limit,) = instants(self.harmless)
        answered = [self._windows(query, [end for end in self.ends(query) if end <= limit])]
        for end in self.ends(query):
            if end <= limit:
                continue
            try:
                answered.append(self._one_window(query, end))
            except (PySparkException, Py4JJavaError):
                return Expected(pa.concat_tables(answered), end)
        return Expected(pa.concat_tables(answered), None)

    def _windows(self, query: Meaning, ends: list[datetime]) -> pa.Table:
        """Copy every row into the windows that hold it, and group by the windows' ends."""
        listed = ", ".join(_literal(end) for end in ends)
        held = f"ts >= window_end - INTERVAL {query.range_s} SECONDS AND ts < window_end"
        copies = f"SELECT *, explode(array({listed})) AS window_end FROM batch_rows WHERE ts < {_literal(ends[-1])}"
        source = f"(SELECT * FROM ({copies}) WHERE {held})"
        keys = ("window_end", *query.keys)
        order = ", ".join(keys)
        answers = self._run(f"SELECT window_end, {query.select} FROM {source}{query.clauses(keys)} ORDER BY {order}")
        if query.keys:
            return answers
        # Grouping gives no empty window; HAVING may have dropped others, which asking once more does not bring back.
        known = set(answers["window_end"].to_pylist())
        missing = [self._one_window(query, end) for end in ends if end not in known]
        return pa.concat_tables([answers, *missing]).sort_by("window_end")

    def _one_window(self, query: Meaning, end: datetime) -> pa.Table:
        """Answer one window from its rows alone."""
        start = _literal(end - timedelta(seconds=query.range_s))
        rows = f"(SELECT * FROM batch_rows WHERE ts >= {start} AND ts < {_literal(end)})"
        order = f" ORDER BY {', '.join(query.keys)}" if query.keys else ""
        answers = self._run(f"SELECT {query.select} FROM {rows}{query.clauses(query.keys)}{order}")
        return answers.add_column(0, "window_end", pa.array([end] * len(answers), INSTANT))

    def _run(self, sql: str) -> pa.Table:
        """Run a statement; nullability is not part of a type here."""
        table = self.spark.sql(sql).toArrow()
        return table.cast(pa.schema([pa.field(f.name, f.type) for f in table.schema]))


def seconds_of(answers: pa.Table) -> list[int]:
    """Write window ends as seconds from the start."""
    return [round((end - START).total_seconds()) for end in answers["window_end"].to_pylist()]


def instants(*seconds: float) -> list[datetime]:
    """Write seconds from the start as instants."""
    return [START + timedelta(seconds=s) for s in seconds]


def _literal(instant: datetime) -> str:
    return f"TIMESTAMP '{instant.isoformat()}'"


def rows_at(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
    """Make a table of rows whose ``ts`` is given in seconds from the start."""
    timed = [{**row, "ts": START + timedelta(seconds=row["ts"])} for row in rows]
    return pa.Table.from_pylist(timed, schema)
