"""Hostile input as Spark sees it: its own list of functions, names like ours, literals, paths and options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.engine import Engine
from penstock.errors import CatalogError, LanguageError, PenstockError, SourceError, WrongType
from penstock.language.binding.bind import bind
from penstock.language.binding.functions import AGGREGATES, SCALAR, classify
from penstock.language.grammar.literals import quote, word_set, write_string
from penstock.language.grammar.parse import parse_query
from penstock.model.schema import Column, Stream
from penstock.spark.sources.frames import columns_of
from penstock.spark.typing import Typer
from penstock.testing import TestBed
from tests.language.attacks import ATTACKS
from tests.language.conftest import Catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Groups of Spark's own documentation whose functions compute a value from the row and from nothing else.
PURE_GROUPS = word_set(
    """agg_funcs array_funcs bitwise_funcs collection_funcs conditional_funcs conversion_funcs datetime_funcs
    hash_funcs json_funcs map_funcs math_funcs predicate_funcs sketch_funcs string_funcs struct_funcs url_funcs"""
)
PURE_BESIDES = frozenset({"typeof", "array_sort"})  # without a lambda, which the grammar refuses


@pytest.fixture(scope="module")
def listed(spark: SparkSession) -> frozenset[str]:
    """Return the names of all functions that Spark brings along."""
    return frozenset(row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect())


def allowed(name: str) -> bool:
    try:
        classify(name)
    except LanguageError:
        return False
    return True


def test_every_function_of_spark_is_allowed_and_pure_or_refused(spark: SparkSession, listed: frozenset[str]) -> None:
    jvm: Any = spark.sparkContext._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    registry, of_class = catalyst.analysis.FunctionRegistry.builtin(), jvm.java.lang.Class.forName
    chance = of_class("org.apache.spark.sql.catalyst.expressions.Nondeterministic")
    impure = {}
    for name in filter(allowed, sorted(listed)):
        info = registry.lookupFunction(catalyst.FunctionIdentifier(name)).get()
        group, kind = info.getGroup(), info.getClassName()
        if (group not in PURE_GROUPS and name not in PURE_BESIDES) or chance.isAssignableFrom(of_class(kind)):
            impure[name] = (group, kind)
    assert impure == {}
    assert {"reflect", "java_method", "input_file_name", "uuid", "rand", "current_user", "shuffle"} <= listed
    assert len(listed) > 450


def test_every_allowed_function_is_one_of_spark(listed: frozenset[str]) -> None:
    assert (SCALAR | AGGREGATES) - listed == {"arg_max", "arg_min", "top"}  # our own


def test_spark_reads_what_is_harmless_as_it_stands(spark: SparkSession) -> None:
    catalog, typer = Catalog(), Typer(spark)
    columns = [Column(c.name, "array<string>" if c.type == "array" else c.type) for c in catalog.streams[0].columns]
    catalog.streams[0] = stream = Stream("trades", tuple(columns), "ts")
    refused = []
    for attack in (a for a in ATTACKS if a.harmless):
        try:
            typer.type_query(bind(parse_query(attack.text), catalog, "q"), stream, {})
        except WrongType as error:
            refused.append((attack.harmless, error.what.split("]")[0]))
    assert {what for _, what in refused} <= {"[DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES"}, refused


def test_spark_reads_every_string_as_it_was_meant(spark: SparkSession) -> None:
    values = [
        "", "'", "\\", "\\'", "''", "${env:HOME}", "$${x}", "{{x}}", "%s", "\n\r\t\b\x1a\x01\x7f\x85",
        "\u202e\u200b\ufeff", "😀\U000e0001", "\\u0027", "\\%\\_", "; DROP", "-- /* */", "`", '"', "a\\", "\\\\",
        "\u2028", "$", "${", "\\${x}", "é\u0301", "\ue000",
    ]  # fmt: skip
    texts = ", ".join(f"{write_string(value)} AS c{i}" for i, value in enumerate(values))
    assert list(spark.sql(f"SELECT {texts}").collect()[0]) == values


KEYS = sorted(word_set("label rows grouping first late base k0 a0 s0 c1_0 #row a.b select x`y"))
NAMES = sorted(
    word_set(
        """last k1 a1 c0_0 t v l g valid marks edges0 x0 f1_first value query definition #definition #request #program
        #having o0 count sum window_x ws we w listing.x from where order rows_ null true timestamp date interval case
        end a'b a\\b __"""
    )
    - {"__"}
    | {*KEYS}
)


def test_columns_named_like_ours_give_right_answers(spark: SparkSession) -> None:
    totals = ", ".join(f"sum({quote(name)}) AS `o {name.replace('`', '``')}`" for name in NAMES)
    rows = [(i, *(i * 100 + n for n in range(len(NAMES)))) for i in range(4)]
    with TestBed(spark) as bed:
        bed.stream("s", "ts TIMESTAMP, " + ", ".join(f"{quote(name)} BIGINT" for name in NAMES))
        bed.query("all", f"SELECT {totals} FROM s [RANGE 10 s SLIDE 10 s]")
        for number, name in enumerate(KEYS):
            own = quote(name)
            text = f"SELECT {own} AS k, sum({own}) + max(last) AS v FROM s [RANGE 10 s SLIDE 10 s] WHERE {own} >= 100 "
            bed.query(f"q{number}", text + f"GROUP BY {own} HAVING min({own}) < 300")
        bed.feed("s", rows)
        bed.flush()
        assert bed.timeline("all") == [(10, *(600 + 4 * n for n in range(len(NAMES))))]
        for number, name in enumerate(KEYS):
            key, last = NAMES.index(name), NAMES.index("last")
            assert bed.timeline(f"q{number}") == [(10, i * 100 + key, 200 * i + key + last) for i in (1, 2)], name


def test_outputs_named_like_ours_keep_their_names(spark: SparkSession) -> None:
    names = [name for name in NAMES if name != "#definition"]
    with TestBed(spark) as bed:
        bed.stream("s", "ts TIMESTAMP, x BIGINT")
        items = ", ".join(f"sum(x) + {n} AS {quote(name)}" for n, name in enumerate(names))
        bed.query("q", f"SELECT {items} FROM s [RANGE 10 s SLIDE 10 s]")
        bed.feed("s", [(1, 1000)])
        bed.flush()
        [answer] = bed.answers("q")
        assert list(answer)[2:] == names
        assert [answer[name] for name in names] == [1000 + n for n in range(len(names))]
        for own in ("#definition", "query_name", "window_end", "WINDOW_START"):
            with pytest.raises(LanguageError, match="two outputs are called"):
                bed.query("own", f"SELECT max(x) AS {quote(own)} FROM s [RANGE 10 s SLIDE 10 s]")


@pytest.mark.parametrize("name", ["__t", "__marks", "__g", "__valid", "__L0", "__s0_0"])
def test_a_column_that_would_be_taken_for_ours_is_refused(spark: SparkSession, name: str) -> None:
    with TestBed(spark) as bed, pytest.raises(CatalogError, match="must not begin with"):
        bed.stream("s", f"ts TIMESTAMP, {name} BIGINT")


@pytest.mark.parametrize(
    "name",
    [
        "../x", "..", ".", "a/b", "/etc/x", "a\\b", ".hidden", "a*b", "a?b", "a[0]", "a:b", "x" * 200, "é" * 61,
        "a\nb", "a\u202eb", "", " ", " a", "a ", "${x}", "a#b", "a%2fb", "e\u0301", "{a}", "`", "\ud800",
    ],
)  # fmt: skip
def test_a_name_that_leads_out_of_its_folder_or_hides_is_refused(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    state = tmp_path / "deep" / "state"
    with Engine(state, spark=spark) as engine:
        frame = spark.readStream.format("rate").load()
        with pytest.raises(CatalogError) as raised:
            engine.create_stream(name, frame, time="timestamp")
        assert str(raised.value).isprintable() or "\n" in str(raised.value)
    assert [p.name for p in tmp_path.iterdir()] == ["deep"]


@pytest.mark.parametrize(
    "options",
    [
        "cleanSource = 'delete'", "cleanSource = 'archive', sourceArchiveDir = '/tmp/x'", "basePath = '/'",
        "paths = '[\"/etc\"]'", "`fs.s3a.secret.key` = 'x'", "'__paths__' = '/etc'", "url = 'jdbc:x'",
        "dbtable = 'x'", "header = 'a\\0b'", "schema = 'x'", "sep = '" + "x" * 5_000 + "'",
    ],
)  # fmt: skip
def test_an_option_that_is_not_about_reading_is_refused(spark: SparkSession, tmp_path: Path, options: str) -> None:
    with Engine(spark=spark) as engine, pytest.raises(SourceError) as raised:
        engine.execute(
            f"CREATE STREAM s (ts TIMESTAMP) USING csv OPTIONS (path = '{tmp_path}', {options}) WATERMARK FOR ts"
        )
    assert '"s": ' in raised.value.what


@pytest.mark.parametrize(
    "path", [
        "/no/such/place", "file:/etc/passwd/x", "a\\0b", "a\\nb", "", "x" * 5_000, "/etc/passwd\\u0000.csv",
        "\\u202e",
    ]
)  # fmt: skip
def test_a_path_that_is_none_is_refused(spark: SparkSession, path: str) -> None:
    with Engine(spark=spark) as engine, pytest.raises(SourceError):
        engine.execute(f"CREATE STREAM s (ts TIMESTAMP) USING csv OPTIONS (path = '{path}') WATERMARK FOR ts")


@pytest.mark.parametrize(
    "format_", [
        "kafka", "jdbc", "socket", "rate", "delta", "org.evil.Source", "text", "binaryFile", "orc", "console",
        "`csv `",
    ]
)  # fmt: skip
def test_a_format_that_is_not_listed_is_refused(spark: SparkSession, format_: str) -> None:
    with Engine(spark=spark) as engine, pytest.raises(PenstockError):
        engine.execute(f"CREATE STREAM s (ts TIMESTAMP) USING {format_} OPTIONS (path = '/tmp') WATERMARK FOR ts")


def test_columns_of_a_frame_are_written_so_that_spark_reads_them_back(spark: SparkSession) -> None:
    odd = "struct<`a b`:int,`x``y`:array<struct<`select`:string,`1`:map<string,int>>>>"
    frame = spark.createDataFrame([], f"k string, v {odd}")
    [_, column] = columns_of(frame)
    assert spark.createDataFrame([], f"v {column.type}").schema["v"].dataType == frame.schema["v"].dataType


def test_a_column_that_spark_would_replace_by_a_setting_is_refused(spark: SparkSession) -> None:
    frame = spark.range(1).withColumnRenamed("id", "${spark.app.name}")
    with Engine(spark=spark) as engine, pytest.raises(SourceError, match="cannot be named in SQL"):
        engine.create_table("t", frame)


@pytest.mark.parametrize(
    "condition",
    [
        "INTERVAL '99999999999999' DAY IS NULL",
        "DATE 'x' = ts",
        "symbol LIKE 'a' ESCAPE 'bc'",
        "upper() = 'a'",
    ],
)
def test_what_spark_refuses_is_an_error_of_ours_with_a_reason(spark: SparkSession, condition: str) -> None:
    with TestBed(spark) as bed:
        bed.stream("s", "ts TIMESTAMP, symbol STRING")
        with pytest.raises(WrongType) as raised:
            bed.query("q", f"SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s] WHERE {condition}")
        assert raised.value.what.startswith("[")


def test_no_tag_of_a_user_reaches_a_page(spark: SparkSession) -> None:
    text = (
        "SELECT sum(`<b>x`) AS `<img src=x onerror=y>` FROM s [RANGE 1 s SLIDE 1 s] WHERE symbol = '<script>x</script>'"
    )
    with TestBed(spark) as bed:
        bed.stream("s", "ts TIMESTAMP, symbol STRING, `<b>x` BIGINT")
        bed.query("q", text)
        pages = [bed.engine, bed.engine.explain(), bed.engine.catalog.query("q")]
        for page in (item._repr_html_() for item in pages):  # type: ignore[attr-defined]
            assert page
            assert not any(tag in page for tag in ("<script", "<img", "<b>x"))


def test_a_query_whose_constants_fail_harms_no_other(spark: SparkSession) -> None:
    conditions = (
        "symbol RLIKE '('",
        "1 / 0 = 1",
        "map(1, 2, 1, 3)[1] = 1",
        "date_format(ts, 'QQQQQQQQ') = 'a'",
        "concat() = 'a'",
    )
    with TestBed(spark, compiled=True) as bed:
        bed.stream("s", "ts TIMESTAMP, symbol STRING")
        bed.query("good", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        for number, condition in enumerate(conditions):
            bed.query(f"bad{number}", f"SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] WHERE {condition}")
        bed.feed("s", [(1, "A"), (2, "B")])
        bed.flush()
        assert bed.timeline("good") == [(10, 2)]
        assert [bed.paused(f"bad{number}") is not None for number in range(5)] == [True, True, True, True, False]
