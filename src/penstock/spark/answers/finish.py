"""Computes output columns and HAVING in one Spark job, and says on which rows they failed.

All requests of a batch go through one Spark job. Requests whose tables have the same columns share one DataFrame,
requests with the same expressions share one program, and outputs of the same place and type share one column: the
plan grows with what differs, not with the number of queries.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from penstock.evaluate.finishing import Finished, FinishRequest
from penstock.spark.functions.register import WATCHED
from penstock.spark.job.attempt import GUARDS_KEPT, attempt_struct
from penstock.spark.messages import RAISED
from penstock.spark.session.own_session import made_in
from penstock.spark.session.pools import EVALUATION, in_pool
from penstock.spark.session.temporary_settings import cloned

ROWS_PER_TASK: Final = 50_000

SETTINGS: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    **GUARDS_KEPT,
    **WATCHED,
}

# Names that no key or aggregate has.
REQUEST: Final = "#request"
ROW: Final = "#row"
PROGRAM: Final = "#program"
HAVING: Final = "#having"

SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Program:
    """What requests with the same columns, outputs and HAVING have in common."""

    layout: pa.Schema
    outputs: tuple[str, ...]
    having: str | None


@dataclass(frozen=True, slots=True)
class FinishPlan:
    """The programs (outputs and HAVING) that one job evaluates, numbered, and the columns of each one's outputs."""

    numbers: dict[Program, int]
    columns: dict[Program, list[str]]


def finish(session: SparkSession, requests: Sequence[FinishRequest]) -> list[Finished]:
    """Evaluate all requests in one Spark job; after a failure, one more small job per failed request says why."""
    with in_pool(session, EVALUATION):
        return _finished(cloned(session, SETTINGS), requests)


def _finished(own: SparkSession, requests: Sequence[FinishRequest]) -> list[Finished]:
    """Evaluate all requests in a session of their own."""
    try:
        answers = _run(own, requests) if requests else []
    except SPARK_ERRORS as error:
        return _one_by_one(own, requests, error)
    return [_explained(own, request, answer) for request, answer in zip(requests, answers, strict=True)]


def _one_by_one(session: SparkSession, requests: Sequence[FinishRequest], error: Exception) -> list[Finished]:
    """Find the requests that Spark cannot plan or start, and let only these fail."""
    if len(requests) > 1:
        return [finish(session, [request])[0] for request in requests]
    try:
        session.range(1).toArrow()
    except SPARK_ERRORS:
        raise error from None  # Spark itself is broken: no request is to blame
    return [_all_failed(requests[0], error)]


def _all_failed(request: FinishRequest, error: Exception) -> Finished:
    """Charge an error to every row of a request; the types of its outputs are not known."""
    count = request.table.num_rows
    table = pa.table([pa.nulls(count)] * len(request.outputs), names=_names(request))
    expressions = ", ".join((*request.outputs, *filter(None, [request.having])))
    nowhere = np.zeros(count, dtype=bool)
    return Finished(table, nowhere, ~nowhere, f"{_brief(error)} In: {expressions}")


def _run(session: SparkSession, requests: Sequence[FinishRequest]) -> list[Finished]:
    """Plan the requests together, run the job, and take its rows apart."""
    plan, layouts = FinishPlan({}, {}), dict[pa.Schema, list[int]]()
    for number, request in enumerate(requests):
        plan.numbers.setdefault(_program(request), len(plan.numbers))
        layouts.setdefault(_layout(request.table), []).append(number)
    frames = [_frame(session, plan, layout, requests, members) for layout, members in layouts.items()]
    united = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    row_count = sum(request.table.num_rows for request in requests)
    answers = _in_order(united.coalesce(1 + row_count // ROWS_PER_TASK).toArrow())
    offsets = np.cumsum([0, *(request.table.num_rows for request in requests)])
    return [
        take_finished(answers.slice(start, request.table.num_rows), request, plan.columns[_program(request)])
        for start, request in zip(offsets, requests, strict=False)
    ]


def _layout(table: pa.Table) -> pa.Schema:
    """Return names and types alone."""
    return pa.schema([(field.name, field.type) for field in table.schema])


def _program(request: FinishRequest) -> Program:
    """Return what a request has in common with others."""
    return Program(_layout(request.table), request.outputs, request.having)


def _frame(
    session: SparkSession,
    plan: FinishPlan,
    layout: pa.Schema,
    requests: Sequence[FinishRequest],
    members: Sequence[int],
) -> DataFrame:
    """Evaluate all requests of one layout: HAVING first, then the outputs where it holds."""
    tables = [_numbered(requests[i].table, layout, i, plan.numbers[_program(requests[i])]) for i in members]
    source = _load(session, pa.concat_tables(tables))
    programs = list(dict.fromkeys(_program(requests[i]) for i in members))
    having = [f"WHEN {plan.numbers[p]} THEN {p.having}" for p in programs if p.having is not None]
    tested = attempt_struct(_switch(having)) if having else F.lit(None).cast("struct<v:boolean>")
    columns = _output_columns(source, plan, programs)
    return source.withColumn(HAVING, tested).select(REQUEST, ROW, HAVING, *columns)


def _numbered(table: pa.Table, layout: pa.Schema, request: int, program: int) -> pa.Table:
    """Add the numbers that tell rows apart."""
    count = table.num_rows
    columns = [*table.columns, pa.array(np.full(count, request, np.int32)), pa.array(np.arange(count))]
    return pa.table(
        [*columns, pa.array(np.full(count, program, np.int32))], names=[*layout.names, REQUEST, ROW, PROGRAM]
    )


def _load(session: SparkSession, table: pa.Table) -> DataFrame:
    """Make a DataFrame in which timestamps with a zone stay instants, and those without stay without."""
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    # In one chunk, because Spark reads no further than an empty one.
    return made_in(session, table.combine_chunks(), schema)


def _output_columns(source: DataFrame, plan: FinishPlan, programs: Sequence[Program]) -> list[Column]:
    """Make one column for all outputs that have the same place and type, whichever program they belong to."""
    types = iter(_types(source, [text for program in programs for text in program.outputs]))
    branches: dict[tuple[int, DataType], list[str]] = {}
    for program in programs:
        plan.columns[program] = []
        for place, text in enumerate(program.outputs):
            type_ = next(types)
            plan.columns[program].append(_column_name(place, type_))
            value = text if program.having is None else f"CASE WHEN `{HAVING}`.v THEN {text} END"
            branches.setdefault((place, type_), []).append(f"WHEN {plan.numbers[program]} THEN {value}")
    return [
        attempt_struct(_of_type(_switch(cases), type_)).alias(_column_name(place, type_))
        for (place, type_), cases in branches.items()
    ]


def _types(source: DataFrame, texts: Sequence[str]) -> list[DataType]:
    """Ask Spark for the types of expressions, all at once."""
    fields = ", ".join(f"'{i}', {text}" for i, text in enumerate(texts))
    struct = source.select(F.expr(f"named_struct({fields})")).schema.fields[0].dataType
    return [_nullable(field.dataType) for field in cast(StructType, struct).fields]


def _column_name(place: int, type_: DataType) -> str:
    """Name the column of all outputs at one place and of one type."""
    return f"#o{place} {type_.json()}"


def _switch(branches: Sequence[str]) -> Column:
    """Choose by the row's program; as one text, because a column costs Python and the JVM many round trips."""
    return F.expr(f"CASE `{PROGRAM}` {' '.join(branches)} END")


def _of_type(column: Column, type_: DataType) -> Column:
    """Make the parts of a nested value nullable."""
    return column.cast(type_) if isinstance(type_, ArrayType | MapType | StructType) else column


def _nullable(type_: DataType) -> DataType:
    """Let every nested part be null, since Arrow refuses a part without nulls inside one that is null."""
    match type_:
        case ArrayType():
            return ArrayType(_nullable(type_.elementType))
        case MapType():
            return MapType(_nullable(type_.keyType), _nullable(type_.valueType))
        case StructType():
            return StructType([StructField(field.name, _nullable(field.dataType)) for field in type_.fields])
    return type_


def _in_order(answers: pa.Table) -> pa.Table:
    """Put rows in the order of requests and of their rows."""
    order = np.lexsort((answers[ROW].to_numpy(), answers[REQUEST].to_numpy()))
    return answers if (np.diff(order) == 1).all() else answers.take(order)


def take_finished(rows: pa.Table, request: FinishRequest, columns: Sequence[str]) -> Finished:
    """Read values and failures of one request: what HAVING drops is null and cannot fail.

    A row that HAVING keeps and whose output failed is in both masks; its other outputs have their values.
    """
    failed, keep = np.zeros(rows.num_rows, dtype=bool), np.ones(rows.num_rows, dtype=bool)
    if request.having is not None:
        having = rows[HAVING].combine_chunks()
        failed = _mask(having.is_null())
        keep = _mask(pc.fill_null(pc.struct_field(having, "v"), False))
    values = []
    for column in columns:
        attempted = rows[column].combine_chunks()
        failed = failed | (keep & _mask(attempted.is_null()))
        values.append(pc.struct_field(attempted, "v"))
    return Finished(pa.table(values, names=_names(request)), keep, failed, None)


def _names(request: FinishRequest) -> list[str]:
    """Name the output columns."""
    return [f"o{place}" for place in range(len(request.outputs))]


def _mask(array: pa.Array) -> Mask:
    """Return booleans without nulls as numpy."""
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask


def _explained(session: SparkSession, request: FinishRequest, answer: Finished) -> Finished:
    """Add the reason of the first failure, found by evaluating its row once more without catching."""
    if not answer.failed.any():
        return answer
    at = int(answer.failed.argmax())
    nulls = [not column[at].is_valid for column in answer.table.columns]
    failing = [text for text, null in zip(request.outputs, nulls, strict=True) if null]
    candidates = failing if answer.keep[at] else [cast(str, request.having)]
    row = _load(session, request.table.slice(at, 1))
    reason = next(filter(None, (_failure(row, text) for text in candidates)), "An expression failed.")
    return Finished(answer.table, answer.keep, answer.failed, reason)


def _failure(row: DataFrame, text: str) -> str | None:
    """Say how an expression fails on a row, if it does."""
    try:
        row.select(F.expr(text).alias("value")).toArrow()
    except SPARK_ERRORS as error:
        return f"{_brief(error)} In: {text}"
    return None


def _brief(error: Exception) -> str:
    """Keep an error's class and first sentence."""
    message = str(error)
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        message = cause.toString()
    lines = message.strip().removeprefix(RAISED).split(" SQLSTATE: P0001")[0].splitlines() or [type(error).__name__]
    sentence = re.match(r".*?\.(?=\s|$)", lines[0])
    return sentence.group() if sentence else lines[0]
