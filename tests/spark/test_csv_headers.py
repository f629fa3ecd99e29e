"""CSV is read by position: a header that tells another order stops the stream, and no value gets another name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock import Engine
from penstock.errors import CatalogError, PenstockError, SourceError
from penstock.sources.csv import header_of, misplaced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "when-things-go-wrong.md"
QUERY = "SELECT sum(a) AS a, sum(b) AS b, count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]"
WITH_SHOP = "SELECT sum(a) AS a, count(shop) AS shops FROM s [RANGE 10 s SLIDE 10 s]"


def write(folder: Path, name: str, minute: int, header: str, a: int, b: int) -> None:
    """Write rows of a minute, in the order of a header; shop is 7."""
    folder.mkdir(exist_ok=True)
    names = [cell.strip().strip('"').lower() for cell in header.split(",")]
    rows = [{"ts": f"2026-01-05 14:{minute:02}:{s:02}", "sym": "X", "a": a, "b": b, "shop": 7} for s in range(60)]
    lines = [",".join(str(row[one]) for one in names) for row in rows]
    (folder / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")


def stream(folder: Path, columns: str, header: str = "true", more: str = "") -> str:
    types = {"ts": "TIMESTAMP", "sym": "STRING"}
    declared = ", ".join(f"{name} {types.get(name, 'INT')}" for name in columns.split(","))
    return f"""CREATE OR REPLACE STREAM s ({declared}) USING csv
        OPTIONS (path = '{folder}', header = '{header}', maxFilesPerTrigger = 1{more}) WATERMARK FOR ts"""


def found(engine: Engine, name: str, *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row[c] for c in columns) for row in engine.results(name, "rows")]


def refused(engine: Engine) -> PenstockError:
    with pytest.raises(SourceError) as caught:
        engine.process_available()
    return caught.value


def test_another_order_stops_the_stream_and_goes_on_once_it_is_declared(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    data = tmp_path / "in"
    write(data, "1", 0, "ts,sym,a,b", 1, 2)
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        engine.execute(stream(data, "ts,sym,b,a"))
        engine.create_query("q", QUERY)
        error = refused(engine)
        assert str(error).replace(str(tmp_path), "/data") in PAGE.read_text()
        assert found(engine, "q", "n") == []
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        engine.execute(stream(data, "ts,sym,a,b"))
        engine.process_available()
        assert found(engine, "q", "a", "b", "n") == [(10, 20, 10)] * 5


def test_a_new_column_is_null_in_older_files_at_the_end_and_refused_in_between(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    data = tmp_path / "in"
    write(data, "1", 0, '"TS",sym,A,b', 1, 2)
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        engine.execute(stream(data, "ts,sym,a,b"))
        engine.create_query("q", QUERY)
        engine.process_available()
        engine.execute(stream(data, "ts,sym,shop,a,b"))
        write(data, "2", 1, "ts,sym,a,b", 1, 2)
        assert 'its column 3 is "a", declared is "shop"' in refused(engine).what
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        engine.execute(stream(data, "ts,sym,a,b,shop"))
        engine.create_query("shops", WITH_SHOP)
        write(data, "3", 2, "ts,sym,a,b,shop,a", 3, 4)
        engine.process_available()
        assert found(engine, "q", "a", "b", "n") == [(10, 20, 10)] * 12 + [(30, 40, 10)] * 5
        shops = found(engine, "shops", "a", "shops")
        assert set(shops) == {(10, 0), (30, 10)}
        assert shops[-5:] == [(30, 10)] * 5


def test_the_past_is_not_read_in_another_order(
    interpreted: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "in"
    write(data, "1", 0, "ts,sym,a,b", 1, 2)
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        engine.execute(stream(data, "ts,sym,a,b"))
        engine.create_query("q", QUERY)
        engine.process_available()
        engine.execute(stream(data, "ts,sym,b,a"))
        engine.execute(f"CREATE QUERY past AS {QUERY} WITH (from = 'beginning')")
        assert found(engine, "past", "n") == []
    told = " ".join(caplog.messages)
    assert 'query "past" is paused' in told
    assert 'its column 3 is "a", declared is "b"' in told


def test_without_a_header_columns_keep_their_places(interpreted: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "in"
    data.mkdir()
    with Engine(tmp_path / "state", spark=interpreted) as engine:
        engine.execute(stream(data, "ts,sym,a,b", "false"))
        with pytest.raises(CatalogError, match='column 3 of stream "s" is "a", and cannot become "shop"'):
            engine.execute(stream(data, "ts,sym,shop,a,b", "false"))
        engine.execute(stream(data, "ts,sym,a,b,shop", "false"))


def test_columns_that_folders_name_stand_in_no_file(interpreted: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "a=5" / "in"  # above what the stream reads, so it names no column
    (data / "b=2").mkdir(parents=True)
    (data / "b=2" / "1.csv").write_text("ts,a\n2026-01-05 14:00:00,1\n2026-01-05 14:00:20,1\n")
    with Engine(spark=interpreted) as engine:
        engine.execute(stream(data, "ts,b,a"))
        engine.create_query("q", QUERY)
        engine.process_available()
        assert found(engine, "q", "a", "b")[0] == (1, 2)


def test_names_that_spark_finds_in_a_header_stand_at_their_places(interpreted: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("ts, a,,A,b\n2026-01-05 14:00:00,1,2,3,4\n2026-01-05 14:00:20,1,2,3,4\n")
    with Engine(spark=interpreted) as engine:
        engine.execute(f"CREATE STREAM s USING csv OPTIONS (path = '{tmp_path}', header = true) WATERMARK FOR ts")
        engine.create_query("q", "SELECT sum(b) AS b, sum(_c2) AS c FROM s [RANGE 10 s SLIDE 10 s]")
        engine.process_available()
        assert found(engine, "q", "b", "c")[0] == (4, 2)


def test_a_table_in_another_order_is_refused_unless_headers_are_passed_over(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "in", "1", 0, "ts,sym,a,b", 1, 2)
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "t.csv").write_text("name,sym\nEx,X\n")
    options = f"OPTIONS (path = '{tmp_path}/names', header = true)"
    joined = "SELECT t.name, count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] JOIN t ON s.sym = t.sym GROUP BY t.name"
    with Engine(spark=interpreted) as engine:
        engine.execute(stream(tmp_path / "in", "ts,sym,a,b"))
        engine.execute(f"CREATE TABLE t (sym STRING, name STRING) USING csv {options}")
        engine.create_query("q", joined)
        with pytest.raises(SourceError, match=r't\.csv: its column 1 is "name", declared is "sym"'):
            engine.process_available()
    with Engine(spark=interpreted) as engine:
        engine.execute(stream(tmp_path / "in", "ts,sym,x,y", more=", enforceSchema = true"))
        engine.create_query("q", QUERY.replace("(a)", "(x)").replace("(b)", "(y)"))
        engine.process_available()
        assert found(engine, "q", "a", "b") == [(10, 20)] * 5


@pytest.mark.parametrize(
    ("header", "declared", "place"),
    [
        (["a", "b"], ["A", "B"], None),
        (["a"], ["a", "b"], None),
        (["a", "b", "c"], ["a", "b"], None),
        ([" a", "b "], ["a", "b"], None),
        (["b", "a"], ["a", "b"], 0),
        (["a", "c"], ["a", "b", "c"], 1),
        ([], ["a"], None),
        (["a", "", "A", "b"], ["a0", "_c1", "a2", "b"], None),
        (["a", "b"], ["a0", "b"], 0),
    ],
)
def test_columns_stand_at_their_places(header: list[str], declared: list[str], place: int | None) -> None:
    assert misplaced(header, declared) == place


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (b"\xef\xbb\xbfa,b c,d\n1,2,3\n", {}),
        (b"\n# by hand\na;'b c';d\r\n", {"sep": ";", "quote": "'", "Comment": "#"}),
        (b'a||"b c"||d\n', {"delimiter": "||"}),
        ("a\tb c\td\n".encode("utf-16"), {"sep": r"\t", "encoding": "UTF-16"}),
    ],
)
def test_headers_are_read_as_options_say(tmp_path: Path, text: bytes, options: dict[str, str]) -> None:
    (tmp_path / "x.csv").write_bytes(text)
    assert header_of(tmp_path / "x.csv", options) == ["a", "b c", "d"]
