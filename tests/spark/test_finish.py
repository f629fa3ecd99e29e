"""Spark finishes answers: one job for all requests, failures charged to their row and request, types kept."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from penstock.evaluate.finishing import FinishRequest
from penstock.spark.answers.finish import finish
from penstock.spark.job.attempt import attempt, attempt_struct

UTC = dt.UTC
TABLE = pa.table({"k0": ["a", "b", None], "a0": pa.array([1, 0, None]), "a1": pa.array([0.0, 2.0, 3.0])})

FAILING = [
    "1 / `zero`",
    "`int` + 1",
    "`long` * 2",
    "cast(`text` AS int)",
    "cast(`text` AS date)",
    "cast(`long` AS int)",
    "`list`[5]",
    "element_at(`list`, 0)",
    "make_date(2020, 13, `zero`)",
    "to_timestamp(`text`, 'yyyy')",
    "timestampadd(YEAR, `int`, timestamp'2020-01-01')",
    "timestamp_millis(`long`)",
    "transform(`list`, x -> x / `zero`)",
    "aggregate(`list`, 0, (s, x) -> s + x + `int`)",
    "to_json(named_struct('a', 1 / `zero`))",
    "sequence(1, 10, `zero` - 1)",
    "map(`text`, 1, `text`, 2)",
    "raise_error('boom')",
    "format_string('%d', `text`)",
    "regexp_extract(`text`, concat('(', `text`), 1)",
    "months_between(`text`, `text`)",  # the cast occurs twice: a common subexpression
    "`zero` + 1 / 0",  # a constant that fails while it is folded
    "1 / `zero` BETWEEN 1 AND 2",  # rewritten into a projection below
    "nullif(1 / `zero`, 3)",
]


@pytest.fixture(params=["generated", "interpreted"])
def own(request: pytest.FixtureRequest, spark: SparkSession) -> SparkSession:
    generated = request.param == "generated"
    settings = {
        "spark.sql.codegen.factoryMode": "CODEGEN_ONLY" if generated else "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": str(generated).lower(),
        "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
    }
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    return session


def _request(table: pa.Table, outputs: tuple[str, ...], having: str | None = None) -> FinishRequest:
    return FinishRequest(table, outputs, having)


def _select(session: SparkSession, *columns: Column) -> dict[str, object]:
    """Evaluate columns on one awkward row, in a job of its own."""
    row = session.sql("SELECT 0 zero, 2147483647 int, 9223372036854775807 long, 'abc' text, array(1, 2) list")
    found: dict[str, object] = row.coalesce(1).select(*columns).toArrow().to_pylist()[0]
    return found


def test_what_raises_is_null_when_attempted(own: SparkSession) -> None:
    columns = [attempt_struct(F.expr(text)).alias(text) for text in FAILING]
    assert _select(own, *columns) == dict.fromkeys(FAILING)


def test_attempts_that_share_a_failing_part_are_all_null(own: SparkSession) -> None:
    columns = [attempt(F.expr(f"1 / `zero` + {i}")).alias(str(i)) for i in range(3)]
    assert _select(own, *columns) == {"0": None, "1": None, "2": None}


def test_a_null_value_differs_from_a_failure(own: SparkSession) -> None:
    texts = ["NULL + `zero`", "1 / `zero`", "`zero`"]
    columns = [attempt_struct(F.expr(text)).alias(text) for text in texts]
    assert _select(own, *columns) == {"NULL + `zero`": {"v": None}, "1 / `zero`": None, "`zero`": {"v": 0}}


def test_guards_hold_within_an_attempt(own: SparkSession) -> None:
    guarded = "`zero` <> 0 AND 1 / `zero` > 1 AND 1 / `zero` < 5"
    assert _select(own, attempt_struct(F.expr(guarded)).alias("x")) == {"x": {"v": False}}


def test_attempts_can_be_aggregated(spark: SparkSession) -> None:
    frame = spark.range(4).agg(F.sum(attempt(F.expr("12 div (id - 1)"))).alias("n"))
    assert frame.toArrow().to_pylist() == [{"n": -12 + 12 + 6}]


def test_requests_with_different_columns_are_finished_together(spark: SparkSession) -> None:
    other = pa.table({"a0": pa.array([dt.datetime(2020, 1, 1, 5, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC"))})
    first, second, third = finish(
        spark,
        [
            _request(TABLE, ("upper(`k0`)", "`a0` + 1")),
            _request(other, ("date_trunc('day', `a0`)",)),
            _request(TABLE, ("round(`a1`, 1)", "`a0` * 2"), "`a1` > 1"),
        ],
    )
    assert first.table.to_pydict() == {"o0": ["A", "B", None], "o1": [2, 1, None]}
    assert second.table.to_pydict() == {"o0": [dt.datetime(2020, 1, 1, tzinfo=UTC)] * 2}
    assert third.table.to_pydict() == {"o0": [None, 2.0, 3.0], "o1": [None, 0, None]}
    assert third.keep.tolist() == [False, True, True]
    assert not any(answer.failed.any() or answer.reason for answer in (first, second, third))


def test_all_requests_take_one_job(spark: SparkSession) -> None:
    context = spark.sparkContext
    requests = [
        _request(pa.table({"a0": pa.array(range(20_000), type_)}), (f"`a0` + {i}", "hex(`a0`)"), f"`a0` > {i}")
        for i, type_ in enumerate([pa.int64(), pa.int32(), pa.int64(), pa.int16()])
    ]
    context.setJobGroup("finish-once", "")
    try:
        answers = finish(spark, requests)
        jobs = context.statusTracker().getJobIdsForGroup("finish-once")
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert len(jobs) <= 1
    for i, answer in enumerate(answers):
        assert answer.table["o0"].to_pylist() == [None] * (i + 1) + [n + i for n in range(i + 1, 20_000)]


def test_an_empty_request_takes_no_rows_from_its_neighbours(spark: SparkSession) -> None:
    requests = [_request(table, ("`a0` + 1",)) for table in (TABLE, TABLE.slice(0, 0), TABLE)]
    assert [answer.table["o0"].to_pylist() for answer in finish(spark, requests)] == [[2, 1, None], [], [2, 1, None]]


def test_no_requests_give_no_answers(spark: SparkSession) -> None:
    assert finish(spark, []) == []


def test_having_is_evaluated_before_the_outputs(spark: SparkSession) -> None:
    [answer] = finish(spark, [_request(TABLE, ("`a0` / `a1`",), "`a1` <> 0")])
    assert answer.keep.tolist() == [False, True, True]
    assert answer.failed.tolist() == [False, False, False]
    assert answer.table["o0"].to_pylist() == [None, 0.0, None]


def test_a_failed_output_leaves_the_others_of_its_row(spark: SparkSession) -> None:
    [answer] = finish(spark, [_request(TABLE, ("`a1` / `a0`", "`k0`"))])
    assert answer.failed.tolist() == [False, True, False]
    assert answer.table.to_pydict() == {"o0": [0.0, None, None], "o1": ["a", "b", None]}
    assert answer.reason == "[DIVIDE_BY_ZERO] Division by zero. In: `a1` / `a0`"


def test_a_failed_having_drops_and_names_its_row(spark: SparkSession) -> None:
    [answer] = finish(spark, [_request(TABLE, ("`k0`",), "1 / `a1` > 0.4")])
    assert (answer.keep.tolist(), answer.failed.tolist()) == ([False, True, False], [True, False, False])
    assert answer.reason == "[DIVIDE_BY_ZERO] Division by zero. In: 1 / `a1` > 0.4"


def test_guards_hold_in_both_branches_of_a_disjunction(spark: SparkSession) -> None:
    table = pa.table({"a0": pa.array([0, 2]), "a1": pa.array([5, 5])})
    text = "(`a0` <> 0 AND `a1` / `a0` > 1) OR (`a1` = 1 AND `a1` / `a0` > 1)"
    [answer] = finish(spark, [_request(table, (text,))])
    assert answer.table["o0"].to_pylist() == [False, True]
    assert not answer.failed.any()


def test_a_request_that_cannot_be_planned_fails_alone(spark: SparkSession) -> None:
    good, bad = finish(spark, [_request(TABLE, ("`a0`",)), _request(TABLE, ("nosuch(`a0`)",))])
    assert good.table["o0"].to_pylist() == [1, 0, None]
    assert not good.failed.any()
    assert bad.failed.all()
    assert not bad.keep.any()
    assert bad.reason is not None
    assert bad.reason.startswith("[UNRESOLVED_ROUTINE] Cannot resolve routine `nosuch`")


def test_values_of_every_type_come_back_as_they_were(spark: SparkSession) -> None:
    values = {
        "a0": pa.array([dt.datetime(2020, 1, 1, 1, 2, 3, 456789, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        "a1": pa.array([dt.datetime(2020, 1, 1, 1, 2, 3, 456789), None], pa.timestamp("us")),
        "a2": pa.array([dt.date(1969, 12, 31), None], pa.date32()),
        "a3": pa.array([Decimal("1.23"), None], pa.decimal128(10, 2)),
        "a4": pa.array([b"\x00\xff", None], pa.binary()),
        "a5": pa.array([{"x": 1, "y": "q"}, None], pa.struct([("x", pa.int64()), ("y", pa.string())])),
        "a6": pa.array([[1, None], None], pa.list_(pa.int64())),
        "a7": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
        "a8": pa.array([float("-inf"), None], pa.float64()),
        "a9": pa.array([True, None], pa.bool_()),
    }
    outputs = tuple(f"`{name}`" for name in values)
    [answer] = finish(spark, [_request(pa.table(values), outputs, "`a9` OR `a9` IS NULL")])
    for value, column in zip(values.values(), answer.table.columns, strict=True):
        assert column.to_pylist() == value.to_pylist()
        assert pa.types.is_nested(value.type) or column.type == value.type


def test_a_nested_value_without_nulls_may_be_dropped(spark: SparkSession) -> None:
    outputs = ("named_struct('x', 1)", "array(named_struct('y', `a1`))", "map('z', 1)")
    [answer] = finish(spark, [_request(TABLE, outputs, "`a1` > 2")])
    assert answer.table.to_pylist()[2] == {"o0": {"x": 1}, "o1": [{"y": 3.0}], "o2": [("z", 1)]}
    assert answer.table.to_pylist()[0] == {"o0": None, "o1": None, "o2": None}


def test_the_callers_session_keeps_its_settings(spark: SparkSession) -> None:
    name = "spark.sql.subexpressionElimination.enabled"
    before = spark.conf.get(name)
    finish(spark, [_request(TABLE, ("`a0`",))])
    assert spark.conf.get(name) == before
