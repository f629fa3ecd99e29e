"""DataFrames of a program as streams: those that keep state are refused, all others go on with any columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from penstock.engine import Engine
from penstock.errors import SourceError
from penstock.spark.sources import stateful

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "ts TIMESTAMP, k STRING, v INT, w INT"
Made = Callable[["DataFrame", "DataFrame", "DataFrame"], "DataFrame"]  # of a stream, another one, and a table


def with_state(frame: DataFrame, kind: int, method: str, *more: object) -> DataFrame:
    """A state for each key, planned as the methods of PySpark do, which ask for pandas before they look at anything."""
    struct = frame.schema
    called: Any = UserDefinedFunction(lambda *columns: columns, struct, "kept", kind)
    column = called(*(frame[name] for name in frame.columns))
    grouped, session = cast(Any, frame.groupBy("k")), cast(Any, frame.sparkSession)
    told = [session._jsparkSession.parseDataType(struct.json()) if one is STRUCT else one for one in more]
    return cast("DataFrame", ClassicFrame(getattr(grouped._jgd, method)(column._jc, *told), frame.sparkSession))


STRUCT = object()  # stands for the frame's own columns
PANDAS = PythonEvalType.SQL_GROUPED_MAP_PANDAS_UDF_WITH_STATE
ROWS = PythonEvalType.SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_UDF
STATEFUL: dict[str, tuple[Made, str]] = {
    "aggregation": (lambda a, b, t: a.groupBy("k", "ts").agg(F.sum("v").alias("v")), "an aggregation"),
    "window": (
        lambda a, b, t: a.groupBy(F.window("ts", "1 minute")).count().select(F.col("window.end").alias("ts"), "count"),
        "an aggregation",
    ),
    "session window": (
        lambda a, b, t: (
            a.groupBy(F.session_window("ts", "5 s").alias("s"), "k").count().select(F.col("s.end").alias("ts"))
        ),
        "an aggregation",
    ),
    "below": (lambda a, b, t: a.groupBy("ts", "k").count().where("k = 'x'").join(t, "k"), "an aggregation"),
    "distinct": (lambda a, b, t: a.distinct(), r"a deduplication \(distinct, dropDuplicates\)"),
    "dropDuplicates": (lambda a, b, t: a.dropDuplicates(["k"]), r"a deduplication \(distinct, dropDuplicates\)"),
    "within watermark": (lambda a, b, t: a.dropDuplicatesWithinWatermark(["k"]), "dropDuplicatesWithinWatermark"),
    "limit": (lambda a, b, t: a.limit(10), "a limit"),
    "offset": (lambda a, b, t: a.offset(10), "an offset"),
    "join": (lambda a, b, t: a.join(b.select("k", "w"), "k"), "a join of two streams"),
    "outer join": (lambda a, b, t: a.join(b.select("k", "w"), "k", "left"), "a join of two streams"),
    "transformWithState": (
        lambda a, b, t: with_state(a, ROWS, "transformWithStateInPySpark", STRUCT, "append", "none", None, ""),
        r"a state for each group \(transformWithState\)",
    ),
    "applyInPandasWithState": (
        lambda a, b, t: with_state(a, PANDAS, "applyInPandasWithState", STRUCT, STRUCT, "append", "NoTimeout"),
        r"a state for each group \(applyInPandasWithState\)",
    ),
}


def read(spark: SparkSession, folder: Path) -> DataFrame:
    return (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .json(str(folder))
        .withWatermark("ts", "1 second")
    )


@pytest.mark.parametrize("named", STATEFUL)
def test_a_frame_that_keeps_state_is_refused_with_the_operator(spark: SparkSession, tmp_path: Path, named: str) -> None:
    made, operator = STATEFUL[named]
    frame = made(read(spark, tmp_path), read(spark, tmp_path), spark.range(3).select(F.lit("x").alias("k")))
    with Engine(spark=spark) as engine:
        with pytest.raises(SourceError, match=operator) as raised:
            engine.create_stream("s", frame, time="ts")
        assert "cannot change when queries come that need other columns" in (raised.value.detail or "")
        assert raised.value.hint
        assert engine.catalog.stream_names() == []


def test_the_operators_are_named_as_spark_names_them(spark: SparkSession) -> None:
    found: Any = cast(Any, spark)._jvm.java.lang.Class.forName
    for name in (*stateful.STATEFUL, *stateful.JOINS):
        assert found(f"org.apache.spark.sql.catalyst.plans.logical.{name}").getSimpleName() == name


def write(folder: Path, number: int) -> None:
    folder.mkdir(exist_ok=True)
    rows = [f'{{"ts": "2026-01-01T10:0{number}:0{i}Z", "k": "x{i % 2}", "v": {i}, "w": 1}}' for i in range(5)]
    (folder / f"{number}.json").write_text("\n".join(rows))


def test_a_frame_without_state_goes_on_with_other_columns(interpreted: SparkSession, tmp_path: Path) -> None:
    """Filtered, exploded, joined with a static aggregate, computed by Python, and united: all at once."""
    one, other, state = tmp_path / "one", tmp_path / "other", tmp_path / "state"
    static = interpreted.createDataFrame([("x0", 1), ("x1", 2), ("x1", 3)], "k STRING, w INT")
    names = static.groupBy("k").agg(F.max("w").alias("most")).limit(5)
    twice = F.udf(lambda v: 2 * v, "int", useArrow=False)

    def frame() -> DataFrame:
        both = read(interpreted, one).union(read(interpreted, other))
        spread = both.where("v < 4").select("*", F.explode(F.array(F.lit(1), F.lit(2))).alias("part"))
        return spread.join(names, "k").select("ts", "k", "v", "part", "most", twice("v").alias("twice"))

    window = "FROM s [RANGE 1 MIN SLIDE 1 MIN]"
    write(one, 0)
    write(other, 0)
    with Engine(state, spark=interpreted) as engine:
        engine.create_stream("s", frame(), time="ts")
        engine.create_query("n", f"SELECT count(*) AS n {window}")
        engine.process_available()
        write(one, 1)
        engine.create_query("sums", f"SELECT sum(twice) AS twice, sum(most) AS most, sum(part) AS part {window}")
        engine.process_available()
    with Engine(state, spark=interpreted) as engine:
        engine.create_stream("s", frame(), time="ts")
        engine.drop_query("sums")
        engine.create_query("keys", f"SELECT k, max(v) AS v {window} GROUP BY k")
        write(other, 2)
        engine.process_available(flush=True)
        assert [row["n"] for row in engine.results("n", "rows")] == [16, 8, 8]
        assert [(row["k"], row["v"]) for row in engine.results("keys", "rows")] == [("x0", 2), ("x1", 3)]
