"""The public test kit: rows and times as people write them, batches and clock in their hands, mistakes named."""

from __future__ import annotations

import doctest
import importlib.util
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock.testing
from penstock.errors import (
    EnvironmentProblem,
    MalformedSQL,
    PenstockError,
    QueryFailed,
    SourceError,
    StreamEnded,
    UnknownColumn,
    UnknownQuery,
    UnknownStream,
    Unsupported,
    WrongType,
)
from penstock.model.schema import Column, Stream
from penstock.sinks.forms import in_form
from penstock.testing import EPOCH, ManualClock, TestBed, compare, compare_some, run_rows
from penstock.testing.clock import micros, read_instant
from penstock.testing.comparison import MOST_DIFFERENCES
from penstock.testing.values import arrow_rows, inferred_schema, read_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTANT = pa.timestamp("us", tz="UTC")
COUNT = "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]"


@pytest.fixture
def bed(spark: SparkSession) -> Iterator[TestBed]:
    with TestBed(spark) as made:
        made.stream("s", "ts TIMESTAMP, k STRING, x DOUBLE", lateness="5 s")
        yield made


# -- clock and times -----------------------------------------------------------------------------------------------


def test_a_manual_clock_moves_only_when_told_to() -> None:
    clock = ManualClock("2026-01-05 09:30:00")
    assert clock() == clock() == micros(datetime(2026, 1, 5, 9, 30, tzinfo=UTC))
    clock.advance("5 min")
    clock.advance(1.5)
    clock.advance(timedelta(microseconds=1))
    assert clock.now == datetime(2026, 1, 5, 9, 35, 1, 500_001, tzinfo=UTC)
    clock.set("1969-12-31T23:59:59Z")
    assert clock() == -1_000_000
    assert repr(clock) == 'ManualClock("1969-12-31 23:59:59.000000")'


@pytest.mark.parametrize(
    "written",
    [
        10,
        10.0,
        "2026-01-05 00:00:10",
        "2026-01-05T00:00:10Z",
        "2026-01-05T01:00:10+01:00",
        datetime(2026, 1, 5, 0, 0, 10),
        datetime(2026, 1, 5, 2, 0, 10, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_an_instant_may_be_written_in_many_ways(written: Any) -> None:
    assert read_instant(written) == EPOCH + timedelta(seconds=10)


@pytest.mark.parametrize("written", ["noon", "", True, None, [], 1e300, float("nan"), "2026-13-01"])
def test_what_is_no_instant_is_said_so(written: Any) -> None:
    with pytest.raises(WrongType, match="is not a time"):
        ManualClock(written)


# -- values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "type_", "read"),
    [
        ("12", pa.int32(), 12),
        (12.0, pa.int64(), 12),
        ("1e3", pa.float64(), 1000.0),
        (3, pa.float64(), 3.0),
        ("TRUE", pa.bool_(), True),
        (1.1, pa.decimal128(12, 2), Decimal("1.1")),
        ("2.50", pa.decimal128(12, 2), Decimal("2.5")),
        ("2026-01-05", pa.date32(), date(2026, 1, 5)),
        (60, pa.timestamp("us"), datetime(2026, 1, 5, 0, 1)),
        ("é", pa.binary(), b"\xc3\xa9"),
        (["1", 2], pa.list_(pa.int32()), [1, 2]),
        ({"a": "1"}, pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": 1}),
        ({"k": 1}, pa.map_(pa.string(), pa.int64()), [("k", 1)]),
        (None, pa.int32(), None),
    ],
)
def test_a_value_is_read_as_its_type_has_it(value: Any, type_: pa.DataType, read: Any) -> None:
    assert read_value(value, type_, EPOCH) == read


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        ("abc", pa.float64()),
        (1.5, pa.int32()),
        (2**40, pa.int32()),
        (True, pa.int32()),
        (True, pa.float64()),
        (1, pa.bool_()),
        ("maybe", pa.bool_()),
        (12, pa.string()),
        (Decimal("1.555"), pa.decimal128(12, 2)),
        ("x", pa.decimal128(12, 2)),
        ("soon", INSTANT),
        ("x", pa.list_(pa.int32())),
        ({"c": 1}, pa.struct([("a", pa.int32())])),
        (5, pa.struct([("a", pa.int32())])),
    ],
)
def test_a_value_of_another_type_is_an_error_that_names_row_and_column(value: Any, type_: pa.DataType) -> None:
    schema = pa.schema([("v", type_)])
    with pytest.raises(WrongType, match=r'row 2 of stream "s": column "v" is .* and cannot hold'):
        arrow_rows([{"v": None}, {"v": value}], schema, 'stream "s"', EPOCH)


def test_rows_are_mappings_tuples_or_arrow() -> None:
    schema = pa.schema([("ts", INSTANT), ("k", pa.string())])
    mappings = arrow_rows([{"ts": 1, "k": "a"}, {"K": "b"}], schema, "s", EPOCH)
    assert mappings.equals(arrow_rows([(1, "a"), (None, "b")], schema, "s", EPOCH))
    assert mappings.equals(arrow_rows(mappings.select(["k", "ts"]), schema, "s", EPOCH))
    assert arrow_rows(mappings.select(["k"]), schema, "s", EPOCH)["ts"].null_count == 2


def test_rows_that_do_not_fit_their_columns_are_named() -> None:
    schema = pa.schema([("ts", INSTANT), ("price", pa.float64())])
    with pytest.raises(UnknownColumn, match='row 2 of stream "s" has a column "prise"') as raised:
        arrow_rows([{"ts": 1}, {"prise": 1.0}], schema, 'stream "s"', EPOCH)
    assert raised.value.detail == "existing columns: ts, price"
    assert raised.value.hint == 'Did you mean "price"?'
    with pytest.raises(WrongType, match='row 1 of stream "s" has 3 values for 2 columns'):
        arrow_rows([(1, 2.0, 3)], schema, 'stream "s"', EPOCH)
    with pytest.raises(WrongType, match='row 1 of stream "s" is 5'):
        arrow_rows([5], schema, 'stream "s"', EPOCH)
    with pytest.raises(UnknownColumn, match='has no column "z"'):
        arrow_rows(pa.table({"z": [1]}), schema, "s", EPOCH)
    with pytest.raises(WrongType, match='column "price" of s is double'):
        arrow_rows(pa.table({"price": ["x"]}), schema, "s", EPOCH)


def test_types_nobody_declared_are_found() -> None:
    rows = [{"ts": 1, "n": 1}, {"x": 1.5, "day": date(2026, 1, 5)}]
    found = inferred_schema(rows, "s", time="ts")
    assert found == pa.schema([("ts", INSTANT), ("n", pa.int64()), ("x", pa.float64()), ("day", pa.date32())])
    with pytest.raises(WrongType, match='column "n" of s holds values of different types'):
        inferred_schema([{"n": 1}, {"n": "a"}], "s")
    with pytest.raises(WrongType, match="has no columns"):
        inferred_schema([], "s")


# -- comparing -----------------------------------------------------------------------------------------------------

ANSWERS = pa.table(
    {
        "window_end": pa.array([EPOCH + timedelta(seconds=s) for s in (10, 20)], INSTANT),
        "k": ["a", None],
        "x": [0.1 + 0.2, float("nan")],
        "d": pa.array([Decimal("1.50"), None], pa.decimal128(12, 2)),
        "st": [{"u": 1, "v": "p"}, None],
    }
)


def test_answers_equal_what_is_expected_of_the_columns_that_are_named() -> None:
    assert compare(ANSWERS, ANSWERS) == []
    assert compare(ANSWERS, [{"window_end": 10, "x": 0.3, "d": 1.5}, {"k": None, "x": "NaN"}]) == []
    assert compare(ANSWERS, [{"window_end": "2026-01-05T01:00:10+01:00", "d": "1.5", "st": {"v": "p"}}, {}]) == []
    assert compare(ANSWERS.slice(0, 0), []) == []


def test_differences_are_said_in_words() -> None:
    first = "row 1 (window_end 2026-01-05T00:00:10.000000Z)"
    differences = compare(ANSWERS, [{"window_end": 11, "x": 0.3000001, "kk": 1}, {"k": "b", "d": "?"}, {"k": "c"}])
    assert differences == [
        'the answers have no column "kk"; existing columns: window_end, k, x, d, st. Did you mean "k"?',
        f"{first}: window_end is 2026-01-05T00:00:10.000000Z, expected 2026-01-05T00:00:11.000000Z",
        f"{first}: x is 0.30000000000000004, expected 0.3000001",
        "row 2 (window_end 2026-01-05T00:00:20.000000Z): k is NULL, expected 'b'",
        "row 2: d is decimal128(12, 2), but the expected value '?' cannot be read as one: this is not a decimal number",
        "row 3 is missing: k 'c'",
    ]
    (more,) = compare(ANSWERS, [{"k": "a"}])
    assert more.startswith("row 2 was not expected: window_end 2026-01-05T00:00:20.000000Z, k NULL, x nan, d NULL")


def test_some_answers_may_be_expected_in_any_order_each_once() -> None:
    assert compare_some(ANSWERS, [{"k": None}, {"window_end": 10, "x": 0.3}]) == []
    assert compare_some(ANSWERS, [{"k": "a"}, {"k": "a", "window_end": 10}])[0].startswith("no answer is k 'a'")
    missing, nearest = compare_some(ANSWERS, [{"k": "a", "x": 9.0}])
    assert missing == "no answer is k 'a', x 9.0"
    assert nearest.startswith("  the nearest: row 1 (window_end 2026-01-05T00:00:10.000000Z): x is 0.3")
    assert compare_some(ANSWERS, [{"kk": 1}])[0].startswith('the answers have no column "kk"')


def test_nested_times_are_written_as_times() -> None:
    times = pa.array([[datetime(2026, 1, 5, tzinfo=UTC)]], pa.list_(INSTANT))
    (told,) = compare(pa.table({"l": times}), [{"l": []}])
    assert told == "row 1: l is [2026-01-05T00:00:00.000000Z], expected []"


def test_many_differences_are_counted() -> None:
    many = pa.table({"n": list(range(100))})
    differences = compare(many, [{"n": -1}] * 100)
    assert len(differences) == MOST_DIFFERENCES + 1
    assert differences[-1] == "… and 80 more"


# -- one query in one call -----------------------------------------------------------------------------------------


def test_the_examples_of_its_page_run(spark: SparkSession) -> None:
    ran = doctest.testmod(penstock.testing)
    assert ran.failed == 0
    assert ran.attempted >= 6


def test_one_query_runs_in_one_call(spark: SparkSession) -> None:
    trades = Stream(
        "trades",
        (
            Column("ms", "bigint"),
            Column("symbol", "string"),
            Column("price", "decimal(10,2)"),
            Column("ts", "timestamp", "timestamp_millis(`ms`)"),
        ),
        time="ts",
        format="csv",
        options={"path": "/nowhere"},
    )
    rows = [{"ms": 1_000, "symbol": "A", "price": "1.10"}, {"ms": 2_000, "symbol": "B", "price": 2}]
    found = run_rows(
        "SELECT sector, sum(price) AS p FROM trades [RANGE 5 s SLIDE 5 s] JOIN listing USING (symbol) GROUP BY sector",
        {"trades": rows},
        streams=[trades],
        tables={"listing": [{"symbol": "A", "sector": 7}, {"symbol": "B"}]},
        table_schemas={"listing": "symbol STRING, sector SMALLINT"},
        cuts=[1, 1],
        spark=spark,
    )
    assert found.schema.field("sector").type == pa.int16()
    assert compare(found, [{"sector": None, "p": 2}, {"sector": 7, "p": "1.1"}]) == []
    with pytest.raises(UnknownColumn, match='has a column "ts"'):  # computed, not given
        run_rows("SELECT count(*) FROM trades [RANGE 5 s SLIDE 5 s]", {"trades": [{"ts": 1}]}, streams=[trades])


def test_several_streams_may_have_rows_and_cuts_of_their_own(spark: SparkSession) -> None:
    rows = {"s": [{"ts": 1}, {"ts": 2}], "other": [{"ts": 1, "x": 1.0}]}
    found = run_rows(COUNT, rows, cuts={"s": [1, 1]}, spark=spark)
    assert found["n"].to_pylist() == [2]
    with pytest.raises(SourceError, match="cuts for 2 streams are given as one list"):
        run_rows(COUNT, rows, cuts=[2], spark=spark)
    with pytest.raises(SourceError, match='cuts for "t", but no rows'):
        run_rows(COUNT, rows, cuts={"t": [2]}, spark=spark)


def test_without_a_flush_only_final_windows_are_answered(spark: SparkSession) -> None:
    rows = {"s": [{"ts": 1}, {"ts": 12}]}
    assert run_rows(COUNT, rows, flush=False, spark=spark).num_rows == 1
    assert run_rows(COUNT, rows, spark=spark).num_rows == 2


def test_a_query_that_fails_on_its_rows_is_an_error(spark: SparkSession) -> None:
    text = "SELECT sum(1 / n) AS x FROM s [RANGE 10 s SLIDE 10 s]"
    with pytest.raises(QueryFailed, match=r'query "ratio" is paused: .*DIVIDE_BY_ZERO'):
        run_rows(text, {"s": [{"ts": 1, "n": 0}]}, name="ratio", spark=spark)


def test_rows_for_a_stream_that_is_not_there_are_an_error(spark: SparkSession) -> None:
    streams = [Stream("trades", (Column("ts", "timestamp"),), "ts")]
    with pytest.raises(UnknownStream, match='no stream "trade"') as raised:
        run_rows(COUNT, {"trade": []}, streams=streams, spark=spark)
    assert raised.value.hint == 'Did you mean "trades"?'


# -- the bed -------------------------------------------------------------------------------------------------------


def test_a_bed_takes_batches_and_tells_counts(bed: TestBed) -> None:
    bed.query("q", COUNT)
    bed.query("by", "SELECT k, max(x) AS x FROM s [RANGE 20 s SLIDE 10 s] GROUP BY k")
    bed.feed("s", [(1, "a", 1.0), (9, "b", 2.0), (16, "a", 3.0)])
    #  0 ──1────────9─10──────16────── 20        lateness 5 s: the watermark is 11, [0, 10) is final
    assert bed.timeline("q") == [(10, 2)]
    bed.feed_in_cuts("s", [{"ts": 8}, {"ts": None}, {"ts": 26.5, "k": "b"}], [1, 0, 2])
    #  8 is late and belongs to no open window of q, but to [0, 20) of by
    assert bed.timeline("q") == [(10, 2), (20, 1)]
    bed.flush()
    assert bed.timeline("q") == [(10, 2), (20, 1), (30, 1)]
    assert [(end, k) for end, k, _ in bed.timeline("by")] == [
        (10, "a"),
        (10, "b"),
        (20, None),
        (20, "a"),
        (20, "b"),
        (30, "a"),
        (30, "b"),
        (40, "b"),
    ]
    assert bed.compare("by", [{"x": 1}, {"x": 2}, {"x": None}, {"x": 3}, {"x": 2}, {"x": 3}, {}, {}]) == []
    counts = bed.counts("s")
    assert (counts.ingested, counts.on_time, counts.late, counts.invalid) == (6, 4, 1, 1)
    assert bed.answers("q")[0]["window_end"] == EPOCH + timedelta(seconds=10)
    assert bed.results("q")["n"].to_pylist() == [2, 1, 1]
    with pytest.raises(StreamEnded, match="was ended"):
        bed.feed("s", [{"ts": 99}])


def test_a_paused_query_says_why(bed: TestBed) -> None:
    bed.query("q", "SELECT sum(CAST(k AS INT)) AS v FROM s [RANGE 10 s SLIDE 10 s]")
    bed.feed("s", [(1, "7", None)])
    assert bed.paused("q") is None
    bed.feed("s", [(2, "x", None)])
    assert "CAST_INVALID_INPUT" in (bed.paused("q") or "")
    assert len(bed.reports("s")) == 1


def test_a_clock_decides_which_rows_are_ahead_of_time(spark: SparkSession) -> None:
    with TestBed(spark, clock=ManualClock(EPOCH)) as bed:
        bed.stream("s", "ts TIMESTAMP", max_ahead="1 min")
        bed.query("q", COUNT)
        bed.feed("s", [(1,), (61,)])
        assert bed.counts("s").invalid == 1
        bed.clock.advance("1 s")
        bed.feed("s", [(61,)])
        assert (bed.counts("s").on_time, bed.counts("s").invalid) == (2, 1)


def test_a_second_bed_goes_on_from_the_state_of_the_first(spark: SparkSession, tmp_path: Path) -> None:
    for first in (1, 11, 21):
        with TestBed(spark, state=tmp_path) as bed:
            bed.stream("s", "ts TIMESTAMP")
            bed.query("q", COUNT)
            bed.feed("s", [(first,), (first + 1,)])
    with TestBed(spark, state=tmp_path) as bed:  # nothing is declared again
        bed.feed("s", [(99,)], number=2)  # the third batch once more
        bed.feed("s", [(31,)])
        assert bed.timeline("q") == [(10, 2), (20, 2), (30, 2)]


def test_a_table_may_get_other_rows(bed: TestBed) -> None:
    bed.table("t", pa.table({"k": ["a"], "w": [1]}))
    bed.query("q", "SELECT w, count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] JOIN t USING (k) GROUP BY w")
    bed.feed("s", [(1, "a", None)])
    bed.table("t", [{"k": "a", "w": 2}])
    bed.feed("s", [(2, "a", None)])
    bed.flush()
    assert bed.timeline("q") == [(10, 1, 1), (10, 2, 1)]


def test_the_session_keeps_its_settings(bed: TestBed, spark: SparkSession) -> None:
    names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode", "spark.sql.shuffle.partitions")
    before = [spark.conf.get(name) for name in names]
    bed.query("q", COUNT)
    bed.feed("s", [{"ts": 1}])
    bed.flush()
    assert [spark.conf.get(name) for name in names] == before


def test_mistakes_with_a_bed_are_named(bed: TestBed) -> None:
    with pytest.raises(UnknownStream, match='no stream "ss"'):
        bed.feed("ss", [])
    with pytest.raises(UnknownQuery, match='no query "q"'):
        bed.results("q")
    with pytest.raises(SourceError, match='batches of 1, 1 rows are not the 3 rows of "s"'):
        bed.feed_in_cuts("s", [{"ts": 1}] * 3, [1, 1])
    with pytest.raises(SourceError, match="batches of 4, -1 rows"):
        bed.feed_in_cuts("s", [{"ts": 1}] * 3, [4, -1])
    with pytest.raises(MalformedSQL):
        bed.stream("r", "ts TIMESTAMP, x")
    with pytest.raises(PenstockError):
        bed.stream("r", "ts TIMESTAMP) USING csv; DROP STREAM s; CREATE TABLE t (a INT")
    with pytest.raises(UnknownColumn, match='no column "at"'):
        bed.stream("r", "ts TIMESTAMP", time="at")
    with pytest.raises(WrongType, match="not a timestamp"):
        bed.stream("r", [Column("ts", "string")])
    assert bed.engine.catalog.stream_names() == ["s"]


def test_pytest_does_not_take_the_bed_for_a_test() -> None:
    assert TestBed.__test__ is False


# -- forms of results, and how a query looks in a notebook -----------------------------------------------------------


def test_results_come_in_the_form_asked_for(bed: TestBed) -> None:
    bed.query("q", COUNT)
    bed.feed("s", [(1, "a", 1.0)])
    bed.flush()
    arrow = bed.engine.results("q")
    assert isinstance(arrow, pa.Table)
    assert bed.engine.results("q", form="rows") == arrow.to_pylist() == bed.answers("q")
    with pytest.raises(Unsupported, match='no form "panda"') as raised:
        bed.engine.results("q", form="panda")  # type: ignore[arg-type]
    assert raised.value.hint == 'Did you mean "pandas"?'


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_data_frame_holds_the_same_answers(package: Any) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed here")
    frame = in_form(ANSWERS, package)
    assert type(frame).__module__.startswith(package)
    assert list(frame.columns) == ANSWERS.column_names
    assert next(iter(frame["k"])) == "a"


def test_a_data_frame_holds_days_of_any_year() -> None:
    if importlib.util.find_spec("pandas") is None:
        pytest.skip("pandas is not installed here")
    days = pa.array([-800_000, 0], pa.int32()).cast(pa.date32())
    frame = in_form(pa.table({"k": ["a", "b"], "day": days}), "pandas")
    assert [list(frame["k"]), list(frame["day"])] == [["a", "b"], ["-0221-09-04", date(1970, 1, 1)]]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_form_whose_package_is_missing_says_how_to_get_it(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(EnvironmentProblem, match=f"{package} cannot be loaded") as raised:
        in_form(ANSWERS, package)
    assert raised.value.hint == f'Run `pip install {package}`, or take form="arrow".'


def test_a_query_shows_itself_in_a_notebook_and_escapes_its_text(bed: TestBed) -> None:
    text = "SELECT count(*) AS `<b>` FROM s [RANGE 20 s SLIDE 10 s] WHERE k < '<script>'"
    shown = bed.query("q", text)._repr_html_()
    assert "<th>query</th><td>q (definition 1)</td>" in shown
    assert "<th>window</th><td>[RANGE 20 s SLIDE 10 s]</td>" in shown
    assert "&lt;b&gt; int64" in shown
    assert "&#x27;&lt;script&gt;&#x27;" in shown
    assert "<script>" not in shown
    assert "<b>" not in shown
