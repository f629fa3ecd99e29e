"""Many queries are typed in few analyses, and each as if it were alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine import Engine
from penstock.errors import PenstockError, UnknownColumn, WrongType
from penstock.evaluate.typed import TypedQuery
from penstock.language.binding.bind import bind
from penstock.language.grammar.parse import parse_query
from penstock.model.schema import Column, Stream
from penstock.spark import expression_types
from penstock.spark.expression_types import shape_of
from penstock.spark.job.jvm_columns import select_texts
from penstock.spark.session.own_session import made_in
from penstock.spark.typing import Bound, Typer
from tests.cases import cases
from tests.language.conftest import Catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WINDOW = "trades [RANGE 10 MIN SLIDE 5 MIN]"
SOUND = (
    f"SELECT count(*) AS n FROM {WINDOW} WHERE volume > 5",
    f"SELECT symbol, avg(price * 2) / 3 AS p FROM {WINDOW} WHERE symbol = 'A' GROUP BY symbol HAVING max(price) > 1",
    f"SELECT first(price) AS f, max(price - 1.50) AS m FROM {WINDOW} WHERE volume < 3000000000",
    f"SELECT upper(symbol) AS s, sum(vol) AS v FROM {WINDOW} WHERE price BETWEEN 1.5 AND 2.25 GROUP BY upper(symbol)",
)
REFUSED = (
    f"SELECT sum(s) AS n FROM {WINDOW}",
    f"SELECT count(*) AS n FROM {WINDOW} WHERE volume + 1",
    f"SELECT sum(volume) AS n FROM {WINDOW} HAVING sum(volume)",
    f"SELECT count(*) AS n FROM {WINDOW} WHERE s > 5",
    f"SELECT sum(price) || s AS n FROM {WINDOW} GROUP BY s",
    f"SELECT array_join(max(symbol), 5) AS n FROM {WINDOW}",
)
COLUMNS = "`a` INT, `b` BIGINT, `c` DOUBLE, `d` DECIMAL(12, 3), `s` STRING, `t` TIMESTAMP"
STREAM = (
    "CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE) USING parquet OPTIONS (path = '{path}') "
    "WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS"
)
COUNT = "SELECT count(*) AS n FROM trades [RANGE 1 MIN SLIDE 1 MIN]"


def bound_to(texts: Sequence[str]) -> list[Bound]:
    catalog = Catalog()
    columns = [Column(c.name, "array<string>" if c.type == "array" else c.type) for c in catalog.streams[0].columns]
    catalog.streams[0] = stream = Stream("trades", tuple(columns), "ts")
    return [Bound(bind(parse_query(text), catalog, f"q{n}"), stream, {}) for n, text in enumerate(texts)]


def alone(typer: Typer, one: Bound) -> TypedQuery | PenstockError:
    try:
        return typer.type_query(one.query, one.stream, one.tables)
    except PenstockError as error:
        return error


def test_queries_typed_together_are_typed_as_each_alone_and_refused_in_the_same_words(spark: SparkSession) -> None:
    queries = bound_to([*SOUND[:2], *REFUSED[:3], *SOUND[2:], *REFUSED[3:], *SOUND])
    together = Typer(spark).type_queries(queries)
    assert [isinstance(one, PenstockError) for one in together] == [
        number in (2, 3, 4, 7, 8, 9) for number in range(len(queries))
    ]
    for one, found in zip(queries, together, strict=True):
        expected = alone(Typer(spark), one)  # one that knows nothing
        if isinstance(expected, PenstockError):
            assert (type(found), str(found)) == (type(expected), str(expected))
        else:
            assert found == expected


def test_a_thousand_queries_need_few_analyses(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(frame: DataFrame, texts: Sequence[str]) -> DataFrame:
        asked.append(len(texts))
        return select_texts(frame, texts)

    monkeypatch.setattr(expression_types, "select_texts", counted)
    texts = [f"SELECT max(volume * {n}) AS m FROM {WINDOW} WHERE volume > {n} AND price < {n}.5" for n in range(600)]
    assert all(isinstance(one, TypedQuery) for one in Typer(spark).type_queries(bound_to(texts)))
    assert len(asked) <= 4
    assert sum(asked) < 700


CONSTANTS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(-(10**6), 10**6, places=3).map(str),
    st.from_regex(r"[0-9]{1,6}\.[0-9]{1,4}", fullmatch=True),
    st.text("ab >=<`.5", max_size=6).map(lambda text: f"'{text}'"),
    st.sampled_from(["'it''s'", r"'\'> 5'", "1e3", "2L", "X'1F'", "DATE '2026-01-05'", "`b`", "NULL"]),
)
TESTS = st.builds(
    "{} {} {}{}".format,
    st.sampled_from(["`a`", "`b`", "`c`", "`d`", "`s`", "-`a`", "`a` + `d`", "coalesce(`s`, 'x > 7')"]),
    st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]),
    CONSTANTS,
    st.sampled_from(["", " + 1", " * 0.25"]),
)
VALUES = st.one_of(TESTS, st.builds("CASE WHEN {} THEN {} ELSE `d` END".format, TESTS, CONSTANTS))


@settings(max_examples=cases(5))
@given(texts=st.lists(VALUES, min_size=40, max_size=40))
def test_expressions_of_one_shape_have_one_type(spark: SparkSession, texts: list[str]) -> None:
    frame = made_in(spark, [], COLUMNS)
    for text in texts:
        try:
            [field] = frame.selectExpr(f"{text} AS x").schema.fields
        except Exception:
            continue  # such an expression has no shape that Spark has typed, or each of its shape is refused
        [shaped] = frame.selectExpr(f"{shape_of(text)} AS x").schema.fields
        assert shaped.dataType == field.dataType, text


def test_constants_are_told_from_names_texts_and_named_arguments() -> None:
    assert shape_of("`volume` > -250 AND `side` = 'B' AND `price` < 12.50") == (
        "`volume` > 1 AND `side` = '' AND `price` < 11.10"
    )
    for text in ("f(`a`, 'x > 5')", "`a > 5`", "`a` > 2147483648", "f(accuracy => 5)", r"`s` = '\n'", "`a` + 5"):
        assert shape_of(text) == text


def test_queries_are_entered_together_or_not_at_all(spark: SparkSession, tmp_path: Path) -> None:
    with Engine(tmp_path / "state", spark=spark) as engine:
        engine.execute(STREAM.format(path=tmp_path))
        before = engine.catalog.version
        with pytest.raises(WrongType, match="boolean"):
            engine.create_queries({"one": COUNT, "two": f"{COUNT} WHERE price", "three": f"{COUNT} WHERE nobody > 1"})
        with pytest.raises(UnknownColumn, match="nobody"):
            engine.create_queries({"one": COUNT, "three": f"{COUNT} WHERE nobody > 1", "two": f"{COUNT} WHERE price"})
        assert engine.catalog.version == before
        entered = engine.create_queries({"one": COUNT, "two": f"{COUNT} WHERE price > 1"})
        assert {name: one.name for name, one in entered.items()} == {"one": "one", "two": "two"}
        assert str(entered["one"]) == 'query "one" answers from the first window on: no row has come yet'
        assert engine.catalog.query_names() == ["one", "two"]


def test_the_first_wrong_query_of_a_script_is_told_of(spark: SparkSession, tmp_path: Path) -> None:
    wrong, unknown = f"CREATE QUERY a AS {COUNT} WHERE price", f"CREATE QUERY b AS {COUNT} WHERE nobody > 1"
    with Engine(spark=spark) as engine:
        engine.execute(STREAM.format(path=tmp_path))
        with pytest.raises(WrongType, match="boolean"):
            engine.execute(f"{wrong}; {unknown}")
        with pytest.raises(UnknownColumn, match="nobody"):
            engine.execute(f"{unknown}; {wrong}")
