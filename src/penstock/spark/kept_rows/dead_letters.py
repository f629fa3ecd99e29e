"""Writes the invalid rows of a batch to Parquet files (dead letters), each with its reason.

Rows of files are read once more: as the files have them, with all their columns, and each with the name of its file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.errors import StateError
from penstock.language.grammar.literals import write_string
from penstock.model.duration import format_duration
from penstock.model.schema import Column, Stream
from penstock.spark.job.literals import longs, quoted
from penstock.spark.job.writer import Bounds
from penstock.spark.kept_rows.commit_folders import make_durable
from penstock.spark.sources.computed_columns import doubtful_columns, inputs_of, why_not_computed
from penstock.spark.sources.frames import FILE, RECORD
from penstock.store.faults import reached
from penstock.store.files import MEND
from penstock.store.invalid import FLOOR, Invalid

REASON: Final = "__reason"  # why a row is invalid
DETAIL: Final = "__detail"
NO_TIME: Final = "no time"
AHEAD: Final = "ahead of the clock"
FAILED: Final = "failed expression"
TOO_EARLY: Final = "too early"
_TIME: Final = "__t"


def micros_of(time: str) -> str:
    """Write a row's time in microseconds since the epoch."""
    return f"unix_micros(cast({quoted(time)} as timestamp))"


def is_valid(micros: str, ahead_us: int) -> str:
    """Write whether a time in microseconds is one that counts; never NULL.

    The bound changes with every batch: read by a position that depends on the row, it stays out of the generated code.
    """
    bound = f"element_at({longs([ahead_us, FLOOR])}, IF({micros} IS NULL, 2, 1))"
    return f"coalesce({micros} < {bound} AND {micros} > {FLOOR}L, false)"


def keep_aside(
    batch: DataFrame, whole: Callable[[], DataFrame | None], stream: Stream, judged: Bounds, told: Invalid, folder: Path
) -> None:
    """Write a batch's invalid rows with their reasons; the same batch again replaces its files.

    ``whole`` reads them once more from their files, if they came from any; where these have changed meanwhile, the
    batch's own rows are kept, with the columns that are in use.
    """
    try:
        rows = whole()
        kept = 0 if rows is None else _write(_explained(rows, stream, judged), folder)
    except StateError:
        raise
    except Exception:  # a file that is gone: the batch may have more luck, and otherwise says so itself
        kept = 0
    if kept != told.rows:
        _write(_explained(batch, stream, judged), folder)


def example_of(batch: DataFrame, time: Column, folder: Path | None) -> str:
    """Say of a time that failed how it is computed, what Spark says, and which file it is from if that is known."""
    why = why_not_computed(batch, time)
    text = f"{time.name} = {time.expression}" + ("" if why is None else f": {why.split('. ', 1)[0]}")
    files = [] if folder is None else _files_of_failed(folder)
    return f"{text}, in {files[0]}" if files else text


def _explained(rows: DataFrame, stream: Stream, judged: Bounds) -> DataFrame:
    """Choose the invalid rows and add why they are."""
    doubtful = doubtful_columns(rows.sparkSession, stream.columns)
    invalid = rows.select("*", F.expr(micros_of(stream.time)).alias(_TIME))
    invalid = invalid.where(~F.expr(is_valid(_TIME, judged.ahead_us)))
    cases = [f"WHEN {_TIME} > {FLOOR}L THEN '{AHEAD}'", f"WHEN {_TIME} IS NOT NULL THEN '{TOO_EARLY}'"]
    by = f"cast((cast({_TIME} as decimal(20, 0)) - {judged.clock_us}BD) / 1000000BD as decimal(30, 6))"
    about_ahead = f"concat({by}, ' s ahead of the clock; max_ahead is {format_duration(stream.max_ahead_us)}')"
    details = [f"WHEN {_TIME} > {FLOOR}L THEN {about_ahead}"]
    for column in doubtful:
        if column.name == stream.time:
            inputs = quoted(inputs_of(column.name))
            cases.append(f"WHEN {inputs} IS NOT NULL THEN '{FAILED}'")
            text = write_string(f"{column.name} = {column.expression} failed for ")
            details.append(f"WHEN {inputs} IS NOT NULL THEN concat({text}, to_json({inputs}))")
    if RECORD in rows.columns:
        details.append(f"WHEN {RECORD} IS NOT NULL THEN 'the record does not parse'")
    told = [
        F.expr(f"CASE {' '.join(cases)} ELSE '{NO_TIME}' END").alias(REASON),
        F.expr(f"CASE {' '.join(details)} END").alias(DETAIL),
        *(F.col(name) if name in rows.columns else F.lit(None).cast("string").alias(name) for name in (FILE, RECORD)),
    ]
    hidden = {inputs_of(c.name) for c in doubtful} | {FILE, RECORD}
    return invalid.select(*(F.col(quoted(c)) for c in rows.columns if c not in hidden), *told)


def _write(invalid: DataFrame, folder: Path) -> int:
    """Write rows to a folder of their own; return how many there are."""
    reached("invalid.before")
    invalid.coalesce(1).write.mode("overwrite").parquet(str(folder.absolute()))
    try:
        make_durable(folder, "invalid")
        files = list(folder.glob("*.parquet"))
    except OSError as error:
        raise StateError(f"cannot write {folder}: {error.strerror}", hint=MEND) from error
    reached("invalid.after")
    return sum(pq.read_metadata(file).num_rows for file in files)


def _files_of_failed(folder: Path) -> list[str]:
    """List the files of rows whose time failed."""
    told = pq.read_table(folder, columns=[REASON, FILE]).to_pylist()
    return [row[FILE] for row in told if row[REASON] == FAILED and row[FILE] is not None]
