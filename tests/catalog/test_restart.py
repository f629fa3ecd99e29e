"""A restart asks Spark for no types: what it said is read back as it was, whatever the types are."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.catalog.typed_records import has_typed, read_typed, write_typed
from penstock.engine import Engine
from penstock.language.binding.bind import bind
from penstock.language.grammar.parse import parse_query
from penstock.model.derived import source_of
from penstock.model.schema import Column, Stream, Table
from penstock.spark.typing import Typer
from penstock.store.changes import migrate_journal
from tests.language.conftest import Catalog
from tests.language.test_bind import WRITTEN
from tests.store.test_changes import OLD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.evaluate.typed import TypedQuery

W = "[RANGE 2 min SLIDE 1 min]"
TYPES = """boolean, tinyint, smallint, int, bigint, float, double, decimal(38,18), string, binary, date, timestamp,
timestamp_ntz, interval day to second, array<int>, struct<a:int;b:array<string>>, map<string;struct<c:date>>"""


def all_types() -> list[str]:
    return [t.strip().replace(";", ",") for t in re.split(r",(?![0-9])\s*", TYPES)]


class Wide(Catalog):
    """The examples' catalog, and a stream with a column of every type."""

    def __init__(self) -> None:
        super().__init__()
        columns = [Column(f"c{n}", t) for n, t in enumerate(all_types())]
        self.streams.append(Stream("wide", (Column("ts", "timestamp"), *columns), "ts"))
        kept = [Column(c.name, "array<string>" if c.type == "array" else c.type) for c in self.streams[0].columns]
        self.streams[0] = Stream("trades", tuple(kept), "ts")


def queries() -> list[str]:
    types = all_types()
    keys = [f"c{n}" for n, t in enumerate(types) if "map<" not in t]
    ordered = [f"c{n}" for n, t in enumerate(types) if not re.search("map<|array<|struct<|interval", t)]
    numbers = [f"c{n}" for n, t in enumerate(types) if re.match("(tiny|small|big)?int$|float|double|decimal", t)]
    return [
        *(text for _, text, refusal in WRITTEN if refusal is None),
        *(f"SELECT {key}, count(*) AS n FROM wide {W} GROUP BY {key}" for key in keys),
        *(f"SELECT min({one}) AS low, max({one}) AS high, count({one}, ts) AS n FROM wide {W}" for one in ordered),
        *(f"SELECT sum({one}) AS s, avg({one}) AS m, stddev({one}) / 2 AS d FROM wide {W}" for one in numbers),
        f"SELECT sum(NULL) AS s, NULL AS nothing, array(count(*)) AS l FROM wide {W}",
        f"SELECT named_struct('a', max(c3), 'b', 'x') AS both, map('k', count(*)) AS m FROM wide {W}",
        "SELECT window, window.end AS until, count(*) AS n FROM wide GROUP BY window(ts, '3 min', '2 min')",
        f"SELECT c15.b AS inner, count(*) AS n FROM wide {W} WHERE c8 LIKE 'a%' GROUP BY c15.b HAVING n > 1 "
        "WITH (late = 'revise', revise_for = '5 min', retain_rows = '1 h', from = '2026-01-05')",
    ]


@pytest.fixture(scope="module")
def typed(spark: SparkSession) -> list[TypedQuery]:
    catalog, typer = Wide(), Typer(spark)
    tables: dict[str, Table] = {table.name: table for table in catalog.tables}
    found = []
    for number, text in enumerate(queries()):
        query = bind(parse_query(text), catalog, f"q{number}")
        stream = catalog.stream(source_of(query.stream))
        assert stream is not None
        found.append(typer.type_query(query, stream, tables))
    return found


def test_a_query_is_read_back_as_spark_typed_it(typed: list[TypedQuery]) -> None:
    assert len(typed) > 45
    for one in typed:
        record: dict[str, Any] = json.loads(json.dumps(write_typed(one)))
        again = read_typed({**record, "name": one.query.name})
        assert has_typed(record)
        assert again == one
        assert (again.query, again.components, again.schema) == (one.query, one.components, one.schema)
        assert [a.type for a in again.aggregates] == [a.type for a in one.aggregates]
        assert again.argument_types == one.argument_types


def test_a_record_of_another_form_is_typed_anew(typed: list[TypedQuery]) -> None:
    record = write_typed(typed[0])
    record["typed"]["form"] += 7
    assert not has_typed(record)
    assert not has_typed({"text": "SELECT 1"})


SCRIPT = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT) USING csv OPTIONS (path = '{path}')
WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS;
CREATE FUNCTION notional(p DOUBLE, v INT) RETURNS DOUBLE RETURN p * v;
CREATE QUERY pace AS SELECT symbol, sum(notional(price, volume)) AS v FROM trades [RANGE 2 min SLIDE 1 min]
GROUP BY symbol HAVING v > 5;
CREATE QUERY gone AS SELECT max(price) AS high FROM trades [RANGE 2 min SLIDE 1 min];
ALTER QUERY pace SET WINDOW [RANGE 3 min SLIDE 1 min];
DROP QUERY gone;
DROP FUNCTION notional
"""


def test_an_engine_comes_back_without_asking_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    with Engine(tmp_path / "state", spark=spark) as engine:
        engine.execute(SCRIPT.format(path=tmp_path / "data"))
        before = [engine.catalog.snapshot("trades", version) for version in range(engine.catalog.version + 1)]

    def refuse(*_: object) -> None:
        raise AssertionError("Spark was asked")

    monkeypatch.setattr(Typer, "type_query", refuse)
    monkeypatch.setattr(Typer, "type_queries", refuse)
    with Engine(tmp_path / "state", spark=spark) as engine:
        after = [engine.catalog.snapshot("trades", version) for version in range(engine.catalog.version + 1)]
    assert after == before


def test_the_catalog_of_format_1_is_typed_anew_and_tells_the_same(spark: SparkSession, tmp_path: Path) -> None:
    Engine(tmp_path, spark=spark).close()
    shutil.copy(OLD, tmp_path / "catalog.log")
    migrate_journal(tmp_path)
    with Engine(tmp_path, spark=spark) as engine:
        catalog = engine.catalog
        assert catalog.query_names() == ["flow", "pace"]
        told = [[d.name for d in catalog.snapshot("trades", version)[1]] for version in (3, 4, 5, 6, 7, 8, 9)]
        first, last = [["pace"], ["pace", "gone"], ["pace", "gone", "flow"]], ["flow", "pace"]
        assert told == [[], *first, ["gone", *last], last, last]
        assert (catalog.version, catalog.next_id, catalog.functions()) == (9, 5, {})
        catalog.drop("query", "pace")
        assert [d.name for d in catalog.snapshot("trades", 9)[1]] == ["flow", "pace"]
