"""Finds which expression of a query failed on a row, and explains it with Spark's message."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.evaluate.typed import Definition
from penstock.language.binding.columns_read import names_in
from penstock.model.derived import NUMBER
from penstock.model.function import with_plain_names
from penstock.model.instants import format_instant
from penstock.model.query import Query
from penstock.spark.job.attempting_writer import NOT_COMPUTED
from penstock.spark.job.literals import quoted
from penstock.spark.job.partials import PartialsJob
from penstock.spark.messages import message_of
from penstock.spark.sources.computed_columns import why_not_computed


def explain_failure(
    batch: DataFrame, frames: Mapping[str, DataFrame], job: PartialsJob, definition: Definition, ts_us: int
) -> str:
    """Say which expression of a query failed on the row of a time, in Spark's words."""
    query = definition.query
    time = F.unix_micros(F.col(quoted(job.layout.time)).cast("timestamp"))
    rows = job.joined(batch, frames)
    when = format_instant(ts_us) if job.layout.time != NUMBER else "a window of rows"
    # A function that never returns is charged with the rows that came with the one it failed on.
    for where, told in ((time == ts_us, f"on a row of {when}"), (time >= ts_us, f"on a row since {when}")):
        some = rows.where(where)
        for text in _expressions(query):
            try:
                asked = F.expr(job.writer.guarded(text)).alias("x")
                some.select(asked).where("x IS NOT NULL OR x IS NULL").toArrow()
            except Exception as error:
                message, place = message_of(error), text
                if message == NOT_COMPUTED:
                    message, place = _of_computed(some, job, text)
                return with_plain_names(f"{message.split('. ', 1)[0]} in {place}, {told}")
    return f"an expression failed on a row of {when}"


def _of_computed(rows: DataFrame, job: PartialsJob, text: str) -> tuple[str, str]:
    """Say which of the computed columns that an expression reads failed, and how."""
    for column in job.layout.doubtful:
        if column.name in names_in(text) and (why := why_not_computed(rows, column)) is not None:
            return why, f"column {quoted(column.name)} = {column.expression}"
    return NOT_COMPUTED, text


def _expressions(query: Query) -> list[str]:
    """List a query's row expressions in the order they are computed; arguments only of rows that WHERE takes."""
    joined = [key for join in query.joins for key in join.stream_keys]
    inside = [*query.keys, *(a for aggregate in query.aggregates for a in aggregate.arguments)]
    if query.where is None:
        return [*joined, *inside]
    return [*joined, query.where, *(f"IF({query.where}, {text}, NULL)" for text in inside)]
