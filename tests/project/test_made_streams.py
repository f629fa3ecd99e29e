"""A file of queries/ may make a stream of its answers, which other files read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from penstock.cli.checking import check
from penstock.engine import Engine
from penstock.errors import CatalogError
from penstock.project.cases import read_cases
from penstock.project.folder import read_project
from penstock.project.opening import enter_queries, enter_sources, type_problems
from penstock.project.trial import Trials
from penstock.report.page import explain_page
from penstock.spark.session.temporary_settings import INTERPRETED, set_for_now
from tests.project.making import TRADES, write_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMS = TRADES.partition("tables:")[0]
BARS = "CREATE STREAM zz_bars AS SELECT symbol, sum(volume) AS v FROM trades [RANGE 10 s SLIDE 10 s] GROUP BY symbol"
TOPS = "CREATE STREAM tops AS SELECT max(v) AS top FROM zz_bars [RANGE 20 s SLIDE 10 s]"
ROLLED = "SELECT sum(top) AS total FROM tops [RANGE 20 s SLIDE 20 s]"
CASE = """
query: rolled
rows:
  trades:
    - {ts: 1, symbol: A, price: 1, volume: 2}
    - {ts: 2, symbol: B, price: 1, volume: 3}
    - {ts: 12, symbol: A, price: 1, volume: 9}
expect:
  - {window_end: 20, total: 12}
  - {window_end: 40, total: 9}
"""


def project(folder: Path, **changed: str) -> Path:
    (folder / "data" / "trades").mkdir(parents=True, exist_ok=True)
    return write_project(folder, STREAMS, **{"zz_bars": BARS, "tops": TOPS, "rolled": ROLLED, **changed})


def test_files_are_read_in_the_order_in_which_they_feed_each_other(tmp_path: Path) -> None:
    found = read_project(project(tmp_path))
    assert found.problems == ()
    assert [query.name for query in found.queries] == ["zz_bars", "tops", "rolled"]


def test_streams_that_feed_each_other_are_no_streams(tmp_path: Path) -> None:
    loop = BARS.replace("FROM trades", "FROM tops").replace("sum(volume)", "max(top)").replace("symbol, ", "")
    found = read_project(project(tmp_path, zz_bars=loop.replace(" GROUP BY symbol", "")))
    assert [problem.error.code for problem in found.problems] == ["UnknownStream"]  # the others only follow
    revised = f"{BARS} WITH (late = 'revise', revise_for = '1 s')"
    [first, *_] = read_project(project(tmp_path, zz_bars=revised)).problems
    assert (first.file, first.error.what) == ("queries/zz_bars.sql", "answers that are revised cannot be a stream")


# -- joins of two streams --------------------------------------------------------------------------------------------

MET = "CREATE STREAM met AS SELECT t.symbol, b.v FROM trades [RANGE 30 s] t JOIN zz_bars [RANGE 30 s] b USING (symbol)"
SEEN = "SELECT symbol, max(v) AS most, count(*) AS n FROM met [RANGE 20 s SLIDE 20 s] GROUP BY symbol"


def joined(folder: Path, **changed: str) -> Path:
    (folder / "data" / "trades").mkdir(parents=True, exist_ok=True)
    return write_project(folder, STREAMS, **{"zz_bars": BARS, "met": MET, "seen": SEEN, **changed})


def test_a_join_is_read_after_the_streams_that_it_joins_and_before_its_readers(tmp_path: Path) -> None:
    found = read_project(joined(tmp_path))
    assert found.problems == ()
    assert [file.name for file in found.files] == ["zz_bars", "met", "seen"]
    assert [query.name for query in found.queries] == ["zz_bars", "seen"]
    assert list(found.joins) == ["met"]


def test_check_counts_joins_and_lists_them(tmp_path: Path) -> None:
    done = CliRunner().invoke(check, [str(joined(tmp_path))])
    assert (done.exit_code, done.output.count("1 join of two streams, 2 queries, 0 tests, no mistakes")) == (0, 1)
    told = json.loads(CliRunner().invoke(check, [str(tmp_path), "--json"]).output)
    assert [(one["name"], one["file"]) for one in told["joins"]] == [("met", "queries/met.sql")]
    assert told["joins"][0]["text"].endswith("ON trades.symbol = zz_bars.symbol")


def test_mistakes_in_a_join_are_told_with_their_file_and_place(tmp_path: Path) -> None:
    found = read_project(joined(tmp_path, met=MET.replace("b.v", "b.w")))
    [problem] = found.problems  # that the reader of the join finds no stream only follows
    assert (problem.file, problem.error.code) == ("queries/met.sql", "UnknownColumn")
    assert problem.error.text is not None
    assert problem.error.text[slice(*problem.error.place or ())] == "w"


def test_an_engine_takes_a_join_keeps_it_and_lets_it_go(spark: SparkSession, tmp_path: Path) -> None:
    folder = joined(tmp_path)
    for changes in ([], [], ['join "met" is gone', 'query "seen" is gone']):
        if changes:
            for name in ("met", "seen"):
                (folder / "queries" / f"{name}.sql").unlink()
        found = read_project(folder)
        with Engine(tmp_path / "state", spark=spark) as engine:
            enter_sources(found, engine)
            assert enter_queries(found, engine) == changes
            assert type_problems(found, engine) == []
            assert engine.catalog.stream_names() == [
                "trades",
                *(file.name for file in found.files if file.makes_stream),
            ]
            assert list(engine.catalog.joins()) == list(found.joins)
            told = "rows are found by symbol = symbol in trades [RANGE 30 s] and zz_bars [RANGE 30 s]"
            explained = engine.explain()
            assert (told in str(explained)) == (told in explain_page(explained)) == bool(found.joins)


def test_a_join_that_changed_is_refused_for_a_state_that_has_another(spark: SparkSession, tmp_path: Path) -> None:
    with Engine(tmp_path / "state", spark=spark) as engine:
        found = read_project(joined(tmp_path))
        enter_sources(found, engine)
        enter_queries(found, engine)
    found = read_project(joined(tmp_path, met=MET.replace("30 s", "40 s")))
    with Engine(tmp_path / "state", spark=spark) as engine, pytest.raises(CatalogError, match="is not as in queries"):
        enter_queries(found, engine)


def test_a_test_of_a_query_over_pairs_feeds_both_streams(spark: SparkSession, tmp_path: Path) -> None:
    found = read_project(joined(tmp_path))
    (tmp_path / "tests").mkdir()
    expected = (
        "expect:\n  - {window_end: 20, symbol: A, most: 9, n: 4}\n  - {window_end: 20, symbol: B, most: 3, n: 1}\n"
    )
    case = CASE.replace("rolled", "seen").partition("expect:")[0] + expected
    (tmp_path / "tests" / "seen.yml").write_text(case, encoding="utf-8")
    [one], problems = read_cases(found)
    assert problems == []
    assert Trials(found).run(one).differences == ()


# -- streams of answers ----------------------------------------------------------------------------------------------


def test_an_engine_takes_them_keeps_them_and_lets_them_go(spark: SparkSession, tmp_path: Path) -> None:
    folder = project(tmp_path)
    for changes in ([], [], ['query "tops" is gone', 'query "rolled" is gone']):
        if changes:
            for name in ("rolled", "tops"):
                (folder / "queries" / f"{name}.sql").unlink()
        found = read_project(folder)
        with Engine(tmp_path / "state", spark=spark) as engine:
            enter_sources(found, engine)
            assert enter_queries(found, engine) == changes
            assert type_problems(found, engine) == []
            names = [query.name for query in found.queries]
            assert engine.catalog.query_names() == names
            assert engine.catalog.stream_names() == ["trades", *(n for n in names if n != "rolled")]
    found = read_project(project(tmp_path, zz_bars=BARS.replace("sum", "max")))
    with Engine(tmp_path / "state", spark=spark) as engine, pytest.raises(CatalogError, match="is not as in queries"):
        enter_queries(found, engine)


def test_a_test_of_a_query_feeds_the_streams_it_stands_on(spark: SparkSession, tmp_path: Path) -> None:
    found = read_project(project(tmp_path))
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "rolled.yml").write_text(CASE, encoding="utf-8")
    [case], problems = read_cases(found)
    assert problems == []
    assert Trials(found).run(case).differences == ()


def test_a_stream_gives_way_to_one_of_another_name(spark: SparkSession, tmp_path: Path) -> None:
    peak = "SELECT max(v) AS m FROM {} [RANGE 30 s SLIDE 30 s]"
    folder = project(tmp_path, tops=peak.format("zz_bars"), rolled=peak.format("trades").replace("(v)", "(volume)"))
    told: list[list[str]] = []
    with set_for_now(spark, INTERPRETED):
        for part in range(3):
            lines = [f"2026-01-05 00:{s // 60:02}:{s % 60:02},A,1.0,{s}" for s in range(part * 50, part * 50 + 50)]
            (folder / "data" / "trades" / f"{part}.csv").write_text("\n".join(["ts,symbol,price,volume", *lines]))
            if part == 1:
                (folder / "queries" / "zz_bars.sql").unlink()
                new = BARS.replace("sum(volume)", "sum(volume + 1)").replace("zz_bars", "bars")
                project_files = {"bars": new, "tops": peak.format("bars")}
                for name, text in project_files.items():
                    (folder / "queries" / f"{name}.sql").write_text(text)
            found = read_project(folder)
            with Engine(tmp_path / "state", spark=spark) as engine:
                told.append([*enter_sources(found, engine), *enter_queries(found, engine)])
                engine.process_available()
                ends = [row["window_end"] for row in engine.results("tops", "rows", version="all")]
    assert told[0] == []
    assert told[1][2:] == ['stream "zz_bars" is gone from the folder, and stays until nobody reads it']
    assert told[1][0].endswith(" is new")
    assert 'query "tops" changed' in told[1][1]
    assert told[2] == ['query "zz_bars" is gone']
    assert sorted(set(ends)) == sorted(ends)
    assert len(ends) == 4, ends
