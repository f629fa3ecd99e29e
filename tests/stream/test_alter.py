"""Statements that change and ask: ALTER, OR REPLACE, functions, SHOW, DESCRIBE, EXPLAIN, also after a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.engine import Engine
from penstock.errors import (
    CatalogError,
    PenstockError,
    UnknownFunction,
    UnknownQuery,
    UnknownStream,
    Unsupported,
    WrongType,
)
from penstock.language.grammar.parse import parse_statement
from penstock.store import faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NINE = datetime(2026, 1, 5, 9, tzinfo=UTC)
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("symbol", pa.string()), ("price", pa.float64())])
TOTAL = "SELECT sum(price) AS total FROM trades [RANGE 10 s SLIDE 10 s]"


def rows(*seconds: int) -> pa.Table:
    """One trade of price 1 at each second after nine."""
    return pa.Table.from_pylist(
        [{"ts": NINE + timedelta(seconds=s), "symbol": "AB"[s % 2], "price": 1.0} for s in seconds], SCHEMA
    )


def feed(engine: Engine, number: int, *seconds: int) -> None:
    engine.stream("trades").process(engine.session.createDataFrame(rows(*seconds)), number)


def open_engine(spark: SparkSession, state: Path | None = None) -> Engine:
    engine = Engine(state, spark=spark)
    if not engine.catalog.has("stream", "trades"):
        from penstock.model.schema import Stream
        from penstock.spark.sources.frames import columns_of

        frame = engine.session.createDataFrame(SCHEMA.empty_table())
        engine.catalog.create_stream(Stream("trades", columns_of(frame), "ts"))
    return engine


@pytest.fixture
def engine(spark: SparkSession) -> Iterator[Engine]:
    with open_engine(spark) as engine:
        yield engine


def answers(engine: Engine, name: str) -> list[tuple[int, Any]]:
    """List the seconds after nine at which windows end, with the first column after the window."""
    return [
        (int((end - NINE).total_seconds()), value)
        for end, value in zip(*(engine.results(name).column(i).to_pylist() for i in (1, 2)), strict=True)
    ]


# ALTER.


def test_an_altered_query_answers_by_its_new_definition_from_what_was_seen_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    #   rows     1  5   12  |  18    25   31  |  41
    #   before   [0   10)   |                       sum 2
    #   after               |  [20     30)          count of rows from the change on, whole windows only
    with open_engine(spark, tmp_path) as engine:
        first = engine.create_query("q", TOTAL)
        engine.create_query("steady", TOTAL)
        feed(engine, 0, 1, 5, 12)
        assert answers(engine, "q") == [(10, 2.0)]
        [] = engine.execute("ALTER QUERY Q AS SELECT count(*) AS n FROM trades [RANGE 10 s SLIDE 10 s] WHERE price > 0")
        second = engine.catalog.query("q")
        assert second.id == first.id + 2
        feed(engine, 1, 18, 25, 31)
        assert answers(engine, "q") == [(30, 1)]
    with open_engine(spark, tmp_path) as engine:
        assert engine.catalog.query("q") == second
        assert engine.catalog.query_names() == ["steady", "q"]
        feed(engine, 2, 41)
        assert answers(engine, "q") == [(30, 1), (40, 1)]
        assert answers(engine, "steady") == [(10, 2.0), (20, 2.0), (30, 1.0), (40, 1.0)]
        assert engine.catalog.name_of(first.id) == "q"


def cut_at(moment: str) -> Callable[[str], None]:
    def cut(point: str) -> None:
        if point == moment:
            raise KeyboardInterrupt

    return cut


def test_a_change_that_was_cut_short_leaves_the_old_definition(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_engine(spark, tmp_path) as engine:
        known = engine.create_query("q", TOTAL).definition
        monkeypatch.setattr(faults, "hook", cut_at("catalog.before"))
        with pytest.raises(KeyboardInterrupt):
            engine.execute("ALTER QUERY q SET WINDOW [RANGE 5 s SLIDE 5 s]")
        monkeypatch.setattr(faults, "hook", None)
    with open_engine(spark, tmp_path) as engine:
        assert engine.catalog.query("q") == known
        engine.execute("ALTER QUERY q SET WINDOW [RANGE 4 s SLIDE 4 s]")
        assert engine.catalog.query("q").id == known.id + 1


def test_the_window_alone_may_be_altered(engine: Engine) -> None:
    engine.create_query("q", TOTAL)
    engine.execute("ALTER QUERY q SET WINDOW [RANGE 5 s SLIDE 5 s]")
    assert engine.catalog.query("q").query.text == TOTAL.replace("10 s", "5 s")
    feed(engine, 0, 1, 7, 12)
    assert answers(engine, "q") == [(5, 1.0), (10, 1.0)]


def test_the_same_definition_again_changes_nothing(engine: Engine) -> None:
    known = engine.create_query("q", TOTAL).definition
    version = engine.catalog.version
    assert engine.alter_query("q", f"{TOTAL};").definition is known
    engine.execute(f"CREATE OR REPLACE QUERY q AS {TOTAL}; ALTER QUERY q SET (emit = 'exact')")
    assert (engine.catalog.query("q"), engine.catalog.version) == (known, version)


def test_a_wrong_alteration_leaves_the_query_as_it_was(engine: Engine) -> None:
    known = engine.create_query("q", TOTAL).definition
    for statement in (
        "ALTER QUERY q AS SELECT sum(symbl) FROM trades [RANGE 10 s SLIDE 10 s]",
        "ALTER QUERY q AS SELECT sum(symbol + 1) FROM trades",
        "ALTER QUERY q SET (on_error = 'null')",
        "ALTER QUERY q SET WINDOW [ROWS 5]",
    ):
        with pytest.raises(PenstockError):
            engine.execute(statement)
    assert engine.catalog.query("q") is known
    with pytest.raises(UnknownQuery) as raised:
        engine.execute("DROP QUERY IF EXISTS p;\nalter query pp resume")
    assert str(raised.value) == (
        'error[UnknownQuery]: there is no query "pp"\n'
        "  ALTER QUERY pp RESUME\n"
        "              ^^\n"
        "detail: existing queries: q"
    )


def test_a_paused_query_is_resumed_by_a_statement(engine: Engine) -> None:
    engine.create_query("q", "SELECT sum(CAST(symbol AS int)) AS s FROM trades [RANGE 10 s SLIDE 10 s]")
    feed(engine, 0, 1, 12)
    progress = engine.stream("trades").pipeline.progress
    assert len(progress.windows.paused) == 1
    engine.execute("ALTER QUERY q RESUME")
    assert progress.windows.paused == {}


def test_or_replace_makes_or_changes_a_query(engine: Engine) -> None:
    engine.execute(f"CREATE OR REPLACE QUERY q AS {TOTAL}")
    engine.execute(f"CREATE OR REPLACE QUERY q AS {TOTAL} HAVING total > 1")
    assert engine.catalog.query("q").query.having == "`a0` > 1"
    assert engine.catalog.query("q").id == 2
    with pytest.raises(CatalogError, match='query "q" exists already'):
        engine.execute(f"CREATE QUERY q AS {TOTAL}")
    engine.execute(f"CREATE QUERY IF NOT EXISTS q AS {TOTAL}; CREATE QUERY IF NOT EXISTS p AS {TOTAL}")
    assert engine.catalog.query("q").id == 2
    assert engine.catalog.query_names() == ["q", "p"]


def test_queries_of_a_script_that_cannot_all_be_entered_are_not_entered_at_all(engine: Engine) -> None:
    engine.create_query("taken", TOTAL)
    with pytest.raises(CatalogError):
        engine.execute(f"CREATE QUERY fresh AS {TOTAL}; CREATE QUERY taken AS {TOTAL} HAVING total > 1")
    assert engine.catalog.query_names() == ["taken"]


def test_drop_if_exists_drops_what_there_is(engine: Engine) -> None:
    engine.create_query("q", TOTAL)
    engine.execute("DROP QUERY IF EXISTS q; DROP QUERY IF EXISTS q; DROP TABLE IF EXISTS t; DROP FUNCTION IF EXISTS f")
    assert engine.catalog.query_names() == []
    with pytest.raises(UnknownFunction, match='there is no function "f"'):
        engine.execute("DROP FUNCTION f")
    engine.execute("DROP STREAM trades")
    assert engine.catalog.stream_names() == []


def test_a_dropped_stream_may_come_back_as_it_was_or_in_memory_as_another(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_text("2026-01-05T09:00:01Z,2\n2026-01-05T09:00:12Z,3\n")
    create = f"CREATE STREAM s (ts timestamp, {{}} int) USING csv OPTIONS (path = '{data}') WATERMARK FOR ts"
    for state, refused in ((None, False), (tmp_path / "state", True)):
        with Engine(state, spark=spark) as engine:
            for column in ("a", "b"):
                if refused and column == "b":
                    with pytest.raises(CatalogError, match='another stream called "s" was dropped'):
                        engine.execute(create.format(column))
                    engine.execute(create.format("a"))
                    break
                engine.execute(create.format(column))
                engine.create_query("q", f"SELECT sum({column}) AS t FROM s [RANGE 10 s SLIDE 10 s]")
                engine.process_available()
                assert answers(engine, "q") == [(10, 2)]
                engine.execute("DROP QUERY q; DROP STREAM s")


# Functions.


def test_a_function_is_durable_and_outlived_by_its_queries(spark: SparkSession, tmp_path: Path) -> None:
    with open_engine(spark, tmp_path) as engine:
        engine.execute(
            """CREATE FUNCTION cents(price DOUBLE) RETURNS bigint RETURN round(price * 100);
            CREATE FUNCTION mills(price DOUBLE) RETURN cents(price) * 10;
            CREATE QUERY q AS SELECT sum(mills(price)) AS m FROM trades [RANGE 10 s SLIDE 10 s];
            DROP FUNCTION cents;"""
        )
        with pytest.raises(UnknownFunction, match='there is no function "cents"'):
            engine.create_query("p", "SELECT sum(cents(price)) FROM trades [RANGE 10 s SLIDE 10 s]")
        feed(engine, 0, 1, 2, 12)
        assert answers(engine, "q") == [(10, 2_000)]
    with open_engine(spark, tmp_path) as engine:
        assert list(engine.catalog.functions()) == ["mills"]
        engine.execute("CREATE OR REPLACE FUNCTION mills(price DOUBLE) RETURN price * 1000")
        engine.create_query("r", "SELECT sum(mills(price)) AS m FROM trades [RANGE 10 s SLIDE 10 s]")
        feed(engine, 1, 21, 22, 32, 45)
        assert answers(engine, "q")[-1] == (40, 1_000)
        assert answers(engine, "r") == [(30, 2_000.0), (40, 1_000.0)]


def test_a_function_means_what_sparks_own_functions_mean(engine: Engine) -> None:
    functions = {
        "f1": ("x DOUBLE", "DOUBLE", "x / 2", "f1(7)"),
        "f2": ("x INT", "STRING", "x * 10", "f2('12')"),
        "f3": ("x DECIMAL(5, 1), y INT", "INT", "x * y", "f3(1.26, 10)"),
        "f4": ("s STRING", "BOOLEAN", "s LIKE 'a%' OR s IS NULL", "f4(NULL)"),
        "f5": ("x BIGINT", "BIGINT", "CASE WHEN x > 1 THEN x * 2 ELSE NULL END + f6(x)", "f5(3)"),
        "f6": ("x SMALLINT", "DOUBLE", "x - 0.5", "f6(2)"),
        "f7": ("x ARRAY<INT>", "INT", "x[1]", "f7(array(4, 5))"),
    }
    for name in sorted(functions, reverse=True):
        head, returns, body, _ = functions[name]
        engine.execute(f"CREATE FUNCTION {name}({head}) RETURNS {returns} RETURN {body}")
        engine.session.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {name}({head}) RETURNS {returns} RETURN {body}")
    calls = ", ".join(f"max({call}) AS {name}" for name, (_, _, _, call) in functions.items())
    query = engine.create_query("q", f"SELECT {calls} FROM trades [RANGE 10 s SLIDE 10 s]").query
    ours = engine.session.range(1).selectExpr(*(a.arguments[0] for a in query.aggregates)).toArrow()
    theirs = engine.session.sql("SELECT " + ", ".join(call for *_, call in functions.values())).toArrow()
    assert [str(t) for t in ours.schema.types] == [str(t) for t in theirs.schema.types]
    assert [c[0].as_py() for c in ours.columns] == [c[0].as_py() for c in theirs.columns]


def test_a_function_that_spark_cannot_type_is_refused_when_it_is_made(engine: Engine) -> None:
    with pytest.raises(WrongType, match="in function f"):
        engine.execute("CREATE FUNCTION f(x ARRAY<INT>) RETURN x + 1")
    with pytest.raises(WrongType):
        engine.execute("CREATE FUNCTION f(x ARRAY<INT>) RETURNS int RETURN x")
    engine.execute("CREATE FUNCTION f() RETURN 1; CREATE FUNCTION IF NOT EXISTS f() RETURN 2")
    assert engine.catalog.function("F").body == "1"
    with pytest.raises(CatalogError, match='function "f" exists already'):
        engine.execute("CREATE FUNCTION f() RETURN 2")


# Questions.


def test_show_lists_what_there_is(engine: Engine) -> None:
    engine.execute(f"CREATE FUNCTION half(x DOUBLE) RETURN x / 2; CREATE QUERY q AS {TOTAL}")
    streams, tables, queries, functions = engine.execute("SHOW STREAMS; SHOW TABLES; SHOW QUERIES; SHOW FUNCTIONS")
    assert streams.to_pylist() == [{"name": "trades", "format": None, "event_time": "ts", "lateness": "0 s"}]
    assert tables.schema.names == ["name", "format"]
    assert tables.num_rows == 0
    assert queries.to_pylist() == [
        {"name": "q", "stream": "trades", "window": "[RANGE 10 s SLIDE 10 s]", "query": TOTAL}
    ]
    assert functions.to_pylist() == [{"name": "half", "parameters": "x double", "returns": None, "body": "x / 2"}]


def test_describe_tells_columns_and_types(engine: Engine) -> None:
    engine.execute("CREATE FUNCTION half(x DOUBLE) RETURN x / 2")
    engine.create_query("q", "SELECT window, symbol, count(*) AS n FROM trades GROUP BY window(ts, '5 s'), symbol")
    query, stream, function = engine.execute("DESCRIBE QUERY q; DESCRIBE STREAM trades; DESC FUNCTION half")
    assert dict(zip(query["column"].to_pylist(), query["type"].to_pylist(), strict=True)) == {
        "window_start": "timestamp",
        "window_end": "timestamp",
        "window": "struct<start:timestamp,end:timestamp>",
        "symbol": "string",
        "n": "bigint",
    }
    assert stream.to_pylist()[0] == {"column": "ts", "type": "timestamp", "about": "event time, rows up to 0 s late"}
    assert function["column"].to_pylist() == ["x", "RETURN"]
    with pytest.raises(PenstockError, match='there is no stream "trade"'):
        engine.execute("DESCRIBE STREAM trade")


def test_show_create_prints_statements_that_make_the_same(engine: Engine, tmp_path: Path) -> None:
    script = f"""CREATE STREAM s (ts timestamp, `odd name` int, c bigint GENERATED ALWAYS AS (`odd name` * 2)) USING csv
        OPTIONS (path = '{tmp_path}', max_ahead = '1 h') WATERMARK FOR ts AS ts - 5 s;
    CREATE TABLE t (k string) USING json OPTIONS (path = '{tmp_path}');
    CREATE FUNCTION f(x double) RETURNS int RETURN x + 1;
    CREATE QUERY q AS SELECT sum(f(c)) AS s FROM s [RANGE 10 s SLIDE 1 s] WHERE `odd name` > 1"""
    engine.execute(script)
    kinds = {"s": "STREAM", "t": "TABLE", "f": "FUNCTION", "q": "QUERY"}
    printed = [engine.execute(f"SHOW CREATE {kind} {name}")[0]["statement"][0].as_py() for name, kind in kinds.items()]
    for statement in printed:
        assert str(parse_statement(statement)) == statement
    version = engine.catalog.version
    engine.execute(";\n".join(printed))
    assert engine.catalog.version == version
    with pytest.raises(Unsupported, match='stream "trades" is a DataFrame'):
        engine.execute("SHOW CREATE STREAM trades")


def test_explain_shows_all_one_query_or_one_query_more(engine: Engine) -> None:
    engine.create_query("a", TOTAL)
    engine.create_query("b", TOTAL.replace("10 s", "15 s"))
    engine.create_query("c", f"{TOTAL} WHERE symbol = 'A'")
    whole, one, more = (
        "\n".join(t["plan"].to_pylist())
        for t in engine.execute(f"EXPLAIN; EXPLAIN QUERY a; EXPLAIN {TOTAL.replace('10 s', '20 s')}")
    )
    assert whole == str(engine.explain())
    assert one.startswith(f"query a: {TOTAL}\nshares its partials with: b\nalone:\nstream trades: 1 quer")
    assert "this query [RANGE 20 s SLIDE 20 s]" in more
    assert engine.catalog.query_names() == ["a", "b", "c"]


def test_a_select_alone_is_no_statement_to_carry_out(engine: Engine) -> None:
    with pytest.raises(Unsupported, match="a SELECT needs a name here"):
        engine.execute(TOTAL)
    with pytest.raises(UnknownStream, match='there is no stream "a"'):
        engine.execute("CREATE STREAM j AS SELECT a.x FROM a [RANGE 5 s] JOIN b [RANGE 5 s] ON a.k = b.k")
