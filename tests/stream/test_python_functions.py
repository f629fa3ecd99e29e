"""Python functions in queries: what they compute, whom they harm when they fail, and what outlives a restart."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import CatalogError, EnvironmentProblem, PenstockError, Unsupported, WrongType
from penstock.spark.session.temporary_settings import cloned
from penstock.spark.sources.rows import frame_of, schema_of
from penstock.testing import TestBed
from penstock.testing.values import arrow_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "ts TIMESTAMP, symbol STRING, a BIGINT, b BIGINT, price DOUBLE"
W = "[RANGE 10 s SLIDE 10 s]"
Row = dict[str, Any]
TYPES: Any = {"parameters": "a bigint", "returns": "bigint"}


def ratio(a: int, b: int) -> float:
    return a / b


def is_round(price: float | None) -> bool | None:
    return None if price is None else price == int(price)


def bucket(symbol: str | None, a: int) -> str:
    return f"{symbol or 'none'}-{a % 3}"


def clipped(x: pa.Array) -> pa.Array:
    return pc.if_else(pc.greater(x, 5.0), 5.0, x)


def quotient(a: pa.Array, b: pa.Array) -> pa.Array:
    return pc.divide(a, b)


def rows_of(count: int = 60) -> list[Row]:
    chance = random.Random(7)
    return [
        {
            "ts": n / 3,
            "symbol": chance.choice(["x", "y", None]),
            "a": chance.randrange(1, 20),
            "b": chance.randrange(0, 3),
            "price": chance.choice([None, 1.0, 2.5, 8.0, 9.75]),
        }
        for n in range(count)
    ]


@pytest.fixture
def bed(spark: SparkSession) -> Any:
    with TestBed(spark) as bed:
        bed.stream("trades", COLUMNS)
        bed.engine.create_function("ratio", ratio)
        yield bed


def test_functions_compute_what_plain_python_computes_wherever_they_stand(bed: TestBed) -> None:
    engine = bed.engine
    engine.create_function("is_round", is_round)
    engine.create_function("bucket", bucket)
    engine.create_function("clipped", clipped, parameters="x double", returns="double", vectorised=True)
    engine.create_function(
        "quotient", quotient, parameters={"a": "bigint", "b": "bigint"}, returns="bigint", vectorised=True
    )
    engine.execute("CREATE FUNCTION share(a BIGINT, b BIGINT) RETURN clipped(ratio(a, b)) / 5")
    bed.query("filtered", f"SELECT count(*) AS n, sum(clipped(price)) AS s FROM trades {W} WHERE is_round(price)")
    bed.query("guarded", f"SELECT sum(quotient(a, b)) AS s FROM trades {W} WHERE b <> 0 AND ratio(a, b) > 4")
    bed.query(
        "grouped",
        f"SELECT bucket(symbol, a) AS g, clipped(avg(price)) AS p, count(*) AS n FROM trades {W} "
        "GROUP BY bucket(symbol, a) HAVING is_round(ratio(count(*), 2))",
    )
    bed.query("nested", f"SELECT sum(share(quotient(a, b), b)) AS s FROM trades {W} WHERE b <> 0 AND a / b >= 1")
    rows = rows_of()
    bed.feed("trades", rows)
    bed.flush()
    for end in (10, 20):
        window = [r for r in rows if end - 10 <= r["ts"] < end]
        prices = [min(r["price"], 5.0) for r in window if is_round(r["price"])]
        assert (end, len(prices), sum(prices)) in bed.timeline("filtered")
        whole = [r["a"] // r["b"] for r in window if r["b"] and r["a"] / r["b"] > 4]
        assert (end, sum(whole)) in bed.timeline("guarded")
        shares = [min(r["a"] // r["b"] / r["b"], 5.0) / 5 for r in window if r["b"] and r["a"] / r["b"] >= 1]
        assert [s for e, s in bed.timeline("nested") if e == end] == [pytest.approx(sum(shares))]
        expected = grouped(window)
        assert [row[1:] for row in bed.timeline("grouped") if row[0] == end] == expected != []
    assert not any(map(bed.paused, engine.catalog.query_names()))


def grouped(window: list[Row]) -> list[tuple[Any, ...]]:
    groups: dict[str, list[float | None]] = {}
    for row in window:
        groups.setdefault(bucket(row["symbol"], row["a"]), []).append(row["price"])
    found = []
    for name, prices in sorted(groups.items()):
        known = [p for p in prices if p is not None]
        mean = min(sum(known) / len(known), 5.0) if known else None
        if len(prices) % 2 == 0:
            found.append((name, mean if mean is None else pytest.approx(mean), len(prices)))
    return found


def test_an_exception_pauses_its_query_alone_and_says_where(bed: TestBed) -> None:
    bed.engine.create_function("wrong", lambda a: "seven" if a == 7 else a, **TYPES)
    bed.engine.create_function("odd", lambda n: {3: 1}[n], parameters="n bigint", returns="bigint")
    texts = {
        "fails": f"SELECT count(*) AS n FROM trades {W} WHERE ratio(a, b) > 1",
        "mistyped": f"SELECT sum(wrong(a)) AS s FROM trades {W}",
        "argument": f"SELECT count(*) AS n FROM trades {W} WHERE ratio(a, a / b) > 1",
        "over": f"SELECT odd(count(*)) AS n FROM trades {W}",
        "guarded": f"SELECT count(*) AS n FROM trades {W} WHERE b <> 0 AND ratio(a, b) > 1",
        "other": f"SELECT count(*) AS n FROM trades {W}",
    }
    for name, text in texts.items():
        bed.query(name, text)
    bed.feed(
        "trades", [{"ts": t, "a": a, "b": b} for t, a, b in [(1, 7, 2), (2, 1, 0), (11, 9, 3), (12, 1, 1), (13, 1, 1)]]
    )
    bed.feed("trades", [{"ts": 25, "a": 2, "b": 1}])
    assert (bed.timeline("other"), bed.timeline("guarded")) == ([(10, 2), (20, 3)], [(10, 1), (20, 1)])
    reasons = {name: bed.paused(name) or "" for name in texts}
    assert "ratio() failed: ZeroDivisionError: division by zero in ratio(CAST" in reasons["fails"]
    assert "on a row of 2026-01-05T00:00:02" in reasons["fails"]
    assert "wrong() returned str 'seven', which is not of type int64" in reasons["mistyped"]
    assert "on a row of 2026-01-05T00:00:01" in reasons["mistyped"]
    assert reasons["argument"].startswith("[DIVIDE_BY_ZERO]")
    assert "00:00:02" in reasons["argument"]
    assert "odd() failed: KeyError: 2 In: odd_" in reasons["over"]
    assert "00:00:10" in reasons["over"]
    assert (reasons["guarded"], reasons["other"]) == ("", "")


def test_a_function_comes_back_with_its_queries_and_from_a_copy(spark: SparkSession, tmp_path: Path) -> None:
    step, text = 10, f"SELECT sum(more(a)) AS s FROM trades {W}"
    with TestBed(spark, state=tmp_path / "state") as bed:
        bed.stream("trades", COLUMNS)
        bed.engine.create_function("more", lambda a: a + step, **TYPES)
        bed.query("q", text)
        bed.feed("trades", [{"ts": 1, "a": 1}])
        bed.engine.backup(tmp_path / "copy")
    for folder in ("state", "copy"):
        with TestBed(spark, state=tmp_path / folder) as bed:
            bed.feed("trades", [{"ts": 2, "a": 2}, {"ts": 15, "a": 3}])
            assert bed.timeline("q") == [(10, 23)]
            bed.engine.create_function("more", lambda a: a + step, **TYPES)  # the same
            assert bed.query("q", text).definition.id == 1


def test_what_replaces_a_function_changes_no_query_that_is_there(bed: TestBed) -> None:
    engine = bed.engine
    engine.create_function("more", lambda a: a + 1, **TYPES)
    bed.query("old", f"SELECT sum(more(a)) AS s FROM trades {W}")
    with pytest.raises(CatalogError, match='function "more" exists already'):
        engine.create_function("more", lambda a: a + 2, **TYPES)
    session = cloned(engine.session, {})  # as a stream's, made before the functions that follow
    engine.create_function("more", lambda a: a + 2, **TYPES, replace=True)
    bed.query("new", f"SELECT sum(more(a)) AS s FROM trades {W}")
    engine.execute("ALTER QUERY old SET (keep = '30 d')")
    stream = engine.stream("trades")
    rows = arrow_rows(
        [{"ts": 1, "a": 1}, {"ts": 11, "a": 1}], schema_of(session, stream.stream.columns), "rows", bed.epoch
    )
    stream.process(frame_of(session, rows, stream.stream.columns), 0)
    assert (bed.timeline("old"), bed.timeline("new")) == ([(10, 2)], [(10, 3)])
    with pytest.raises(CatalogError, match='function "more" is called by query "new"'):
        engine.drop_function("MORE")
    engine.drop_query("new")
    engine.execute("DROP FUNCTION more")
    with pytest.raises(PenstockError, match='no function "more"'):
        bed.query("newer", f"SELECT sum(more(a)) AS s FROM trades {W}")
    bed.feed("trades", [{"ts": 22, "a": 1}])
    assert bed.timeline("old") == [(10, 2), (20, 2)]


def test_the_catalog_tells_of_functions(bed: TestBed) -> None:
    [listed] = bed.engine.execute("SHOW FUNCTIONS")
    [row] = listed.to_pylist()
    about = row.pop("body")
    assert row == {"name": "ratio", "parameters": "a bigint, b bigint", "returns": "double"}
    assert "called with rows: tests.stream.test_python_functions.ratio (ratio_" in about
    [described] = bed.engine.execute("DESCRIBE FUNCTION ratio")
    assert described["column"].to_pylist() == ["a", "b", "RETURN"]
    with pytest.raises(Unsupported, match="is Python code; no statement creates it"):
        bed.engine.execute("SHOW CREATE FUNCTION ratio")


def test_code_of_another_python_is_registered_again(bed: TestBed) -> None:
    engine = bed.engine
    text = f"SELECT sum(ratio(a, b)) AS s FROM trades {W}"
    bed.query("q", text)
    bed.query("other", f"SELECT count(*) AS n FROM trades {W}")
    code = engine.catalog.function("ratio").python
    assert code is not None
    old = replace(engine.catalog.function("ratio"), python=replace(code, version="3.0", digest="of another Python"))
    engine.catalog.create_function(old, or_replace=True)
    with pytest.raises(EnvironmentProblem, match=r"registered under Python 3\.0") as error:
        bed.query("more", text)
    assert 'engine.create_function("ratio", …)' in str(error.value)
    bed.feed("trades", [{"ts": 1, "a": 6, "b": 2}, {"ts": 11, "a": 6, "b": 2}])
    assert "ratio() cannot be loaded" in (bed.paused("q") or "")
    assert bed.paused("other") is None
    engine.create_function("ratio", ratio)
    engine.resume_query("q")
    bed.feed("trades", [{"ts": 22, "a": 6, "b": 2}, {"ts": 32, "a": 6, "b": 2}])
    assert (bed.timeline("q"), bed.timeline("other")) == ([(30, 3.0)], [(10, 1), (20, 1), (30, 1)])


def test_what_cannot_be_stored_or_does_not_fit_is_refused(bed: TestBed) -> None:
    engine, lock, large = bed.engine, threading.Lock(), bytes(9 << 20)
    with pytest.raises(Unsupported, match='function "f" cannot be stored: cannot pickle'):
        engine.create_function("f", lambda a: lock.acquire() and a, **TYPES)
    with pytest.raises(Unsupported, match="bytes with all it refers to"):
        engine.create_function("f", lambda a: large[a], **TYPES)
    with pytest.raises(WrongType, match="WHERE needs a boolean"):
        bed.query("q", f"SELECT count(*) AS n FROM trades {W} WHERE ratio(a, b)")
    with pytest.raises(WrongType):
        bed.query("q", f"SELECT count(*) AS n FROM trades {W} WHERE ratio(array(a), b) > 1")
    with pytest.raises(PenstockError, match='no function "f"'):
        engine.drop_function("f")
    with pytest.raises(CatalogError, match="exists already"):  # calls of that very code have this name
        engine.execute(f"CREATE OR REPLACE FUNCTION {engine.catalog.function('ratio').pinned}(a INT) RETURN a")


def test_a_mark_tells_the_types(bed: TestBed) -> None:
    @penstock.function(parameters="a decimal(10, 2)", returns="decimal(11, 2)")
    def doubled(a: Any) -> Any:
        return a + a

    bed.engine.create_function("doubled", doubled)
    assert bed.engine.catalog.function("doubled").returns == "decimal(11,2)"


@pytest.mark.parametrize("vectorised", [False, True])
def test_a_function_that_ends_its_process_pauses_its_query_alone(
    spark: SparkSession, vectorised: bool, tmp_path: Path
) -> None:
    def ending(a: Any) -> Any:
        values = a.to_pylist() if vectorised else [a]
        if 13 in values:
            os._exit(3)
        return pa.array(values) if vectorised else a

    def feed(bed: TestBed, seconds: range) -> None:
        bed.feed("trades", [{"ts": n, "symbol": "x", "a": n, "b": 1, "price": 1.0} for n in seconds])

    with TestBed(spark, state=tmp_path) as bed:
        bed.stream("trades", COLUMNS)
        bed.engine.create_function("ending", ending, **TYPES, vectorised=vectorised)
        bed.engine.create_function("ratio", ratio)
        bed.query("ends", f"SELECT sum(ending(a)) AS s FROM trades {W}")
        bed.query("goes_on", f"SELECT sum(ratio(a, b)) AS s, count(*) AS n FROM trades {W}")
        for start in (0, 11, 20, 31):
            feed(bed, range(start, start + 11))
        reason = bed.paused("ends")
        assert reason is not None
        assert reason.startswith("ending() ended its process, with exit code 3 in ")
        assert reason.endswith("on a row of 2026-01-05T00:00:13.000000Z")
        assert bed.timeline("ends") == [(10, sum(range(10)))]
        assert [end for end, *_ in bed.timeline("goes_on")] == [10, 20, 30, 40]
    with TestBed(spark, state=tmp_path) as bed:
        assert bed.paused("ends") == reason
        feed(bed, range(42, 52))
        assert [end for end, *_ in bed.timeline("goes_on")] == [10, 20, 30, 40, 50]
