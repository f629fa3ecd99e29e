"""Guesses which column of a data set is event time, how to compute it, and how late rows come."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.language.grammar.literals import quote
from penstock.language.stream_options import computed_name
from penstock.model.duration import DAY, HOUR, MINUTE, SECOND
from penstock.project.guessed_data import DataSet

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATENESSES: Final = (
    0, SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE,
    HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY,
)  # fmt: skip
FORMATS: Final = (  # of texts that are no ISO times, for Python's parser and for Spark's
    ("%d.%m.%Y %H:%M:%S", "dd.MM.yyyy HH:mm:ss"),
    ("%d.%m.%Y %H:%M", "dd.MM.yyyy HH:mm"),
    ("%m/%d/%Y %H:%M:%S", "MM/dd/yyyy HH:mm:ss"),
    ("%m/%d/%Y %H:%M", "MM/dd/yyyy HH:mm"),
    ("%d/%m/%Y %H:%M:%S", "dd/MM/yyyy HH:mm:ss"),
    ("%d/%m/%Y %H:%M", "dd/MM/yyyy HH:mm"),
    ("%Y%m%d%H%M%S", "yyyyMMddHHmmss"),
)
UNITS: Final = (  # of numbers: Spark's function, how many of them a second has
    ("timestamp_seconds", 1),
    ("timestamp_millis", 1_000),
    ("timestamp_micros", 1_000_000),
)
EARLIEST_S: Final = 631_152_000  # 1990: a number is a time if all its values are between these
LATEST_S: Final = 4_102_444_800  # 2100
_LIKELY: Final = re.compile(r"(?i)(^|_)(event_?time|ts|time(stamp)?|datetime|at|when|date|day|ms|epoch)($|_)")
_BEST: Final = re.compile(r"(?i)^(event_?time|ts|timestamp|time)$")

Kind = Literal["time", "date", "number", "text"]


@dataclass(frozen=True, slots=True)
class GuessedTime:
    """A column of event time, and what is known of its values."""

    column: str
    kind: Kind
    expression: str | None  # that computes it; None: it is one
    first: datetime
    last: datetime
    lateness_us: int
    form: str | int = 0  # how a test writes one: the format of texts, or how many units a second has
    computed: str = "ts"  # what a column is called that is computed

    @property
    def name(self) -> str:
        """Return the name of the column that streams take their time from."""
        return self.column if self.expression is None else self.computed

    def written(self, instant: datetime) -> str:
        """Write an instant as a row of the data has it, in YAML."""
        match self.kind:
            case "number":
                return str(round((instant - EPOCH).total_seconds() * int(self.form)))
            case "text":
                return f"'{instant.strftime(str(self.form))}'"
            case "date":
                return instant.strftime("%Y-%m-%d")
        return instant.strftime("%Y-%m-%d %H:%M:%S")


def guess_time(data: DataSet) -> GuessedTime | None:
    """Choose the most likely column of event time; None if there is none."""
    found = [time for name in data.rows.column_names if (time := _time(data, name)) is not None]
    best = max(found, key=lambda time: _likely(data, time), default=None)
    free = computed_name([*data.rows.column_names, *data.partitions])
    return None if best is None else replace(best, computed=free)


def is_time(data: DataSet, name: str) -> bool:
    """Tell a column that holds times, in whatever form."""
    return _time(data, name) is not None


def _likely(data: DataSet, time: GuessedTime) -> tuple[int, ...]:
    """Rate a column: times before numbers, good names before others, those in order before others."""
    named = 2 * bool(_BEST.search(time.column)) + bool(_LIKELY.search(time.column))
    kinds: tuple[Kind, ...] = ("date", "number", "text", "time")
    filled = data.rows.column(time.column).null_count == 0
    return (filled, named > 0, kinds.index(time.kind), named, -time.lateness_us)


def _time(data: DataSet, name: str) -> GuessedTime | None:
    """Read a column as times in microseconds, if that is what it holds."""
    column = data.rows.column(name)
    if column.null_count == len(column):
        return None
    type_ = column.type
    if pa.types.is_timestamp(type_):
        return _described(name, "time", None, column.cast(pa.timestamp("us"), safe=False), 0)
    if pa.types.is_date(type_):
        return _described(name, "date", f"CAST({quote(name)} AS TIMESTAMP)", column.cast(pa.timestamp("us")), 0)
    if (pa.types.is_integer(type_) or pa.types.is_floating(type_)) and _LIKELY.search(name):
        return _of_numbers(name, column)
    return _of_texts(name, column) if pa.types.is_string(type_) else None


def _of_numbers(name: str, column: pa.ChunkedArray) -> GuessedTime | None:
    """Read numbers since 1970, in the unit in which they all are times of our days; seconds may have fractions."""
    least, most = (pc.min_max(column)[key].as_py() for key in ("min", "max"))
    for function, per_second in UNITS[:1] if pa.types.is_floating(column.type) else UNITS:
        if EARLIEST_S * per_second <= least <= most <= LATEST_S * per_second:
            us = pc.multiply(column, 1_000_000 // per_second).cast(pa.int64(), safe=False)
            times = us.cast(pa.timestamp("us"))
            return _described(name, "number", f"{function}({quote(name)})", times, per_second)
    return None


def _of_texts(name: str, column: pa.ChunkedArray) -> GuessedTime | None:
    """Read texts in one of the usual formats."""
    for python, spark in FORMATS:
        times = pc.strptime(column, python, "us", error_is_null=True)
        if times.null_count == column.null_count:
            return _described(name, "text", f"to_timestamp({quote(name)}, '{spark}')", times, python)
    return None


def _described(name: str, kind: Kind, expression: str | None, times: pa.ChunkedArray, form: str | int) -> GuessedTime:
    """Tell what is known of times: the first, the last, and how far behind a later one they come."""
    us = times.cast(pa.int64()).drop_null().to_numpy()
    behind = int((np.maximum.accumulate(us) - us).max())
    lateness = next((one for one in LATENESSES if one >= behind), LATENESSES[-1])
    first, last = (EPOCH + timedelta(microseconds=int(one)) for one in (us.min(), us.max()))
    return GuessedTime(name, kind, expression, first, last, lateness, form)
