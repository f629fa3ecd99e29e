"""The demo as a user sees it: small, through the real engine, not on a terminal."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from penstock.demo.alone import Alone, choose_alone, compare_answers
from penstock.demo.asked import TEMPLATES, draw_queries
from penstock.demo.figures import Figures
from penstock.demo.folder import DemoFolder
from penstock.demo.one_more import OneMore
from penstock.demo.page import demo_page
from penstock.demo.run import run_demo
from penstock.demo.story import Story
from penstock.demo.summary import print_summary
from penstock.demo.view import LiveView, make_console, make_view
from penstock.demo.watching import BatchDone, Watching
from penstock.demo.words import whole_windows
from penstock.errors import SinkError
from penstock.language.grammar.parse import parse_query
from tests.report.plans import Page, explanation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WIDEST = 80
MONDAY = datetime(2026, 1, 5, 14, 30, tzinfo=UTC)


def answers(**columns: list[object]) -> pa.Table:
    number = len(next(iter(columns.values())))
    ends = [MONDAY + timedelta(minutes=i) for i in range(number)]
    instant = pa.timestamp("us", tz="UTC")
    starts = [e - timedelta(minutes=5) for e in ends]
    return pa.table({"window_start": pa.array(starts, instant), "window_end": pa.array(ends, instant), **columns})


def figures(*, alone: Alone | None, queries: int = 200) -> Figures:
    asked = tuple(draw_queries(queries, 1))
    batches = tuple(BatchDone(62_500, 900, 0.4, measured=i > 0) for i in range(16))
    turnover = answers(turnover=[1e9 + i * 1e7 for i in range(60)], trades=list(range(60)))
    results = {asked[0].name: turnover}
    more = OneMore(0.05, 0.4, 0.41, 321)
    return Figures(1, 2, asked, asked[:1], batches, 12, 123_456, 6.2, explanation(queries), results, alone, more)


@pytest.fixture(scope="module")
def small(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Figures, Path, str]:
    out, stdout = tmp_path_factory.mktemp("demo") / "out", io.StringIO()
    before, sys.stdout = sys.stdout, stdout
    try:
        found = run_demo(6_000, 10, 7, out=out, compare=False, spark=spark)
    finally:
        sys.stdout = before
    return found, out, stdout.getvalue()


def test_every_row_is_read_and_every_query_answers(small: tuple[Figures, Path, str]) -> None:
    found, out, _ = small
    assert found.rows == 6_000
    assert [b.measured for b in found.batches] == [False, False, True, True, True, True]
    assert found.answers == sum(t.num_rows for t in map(pq.read_table, (out / "answers").rglob("*.parquet")))
    assert {q.name for q in found.explanation.queries} == {"one_more", *(q.name for q in draw_queries(10, 7))}
    trades = sum(found.results["turnover_1"]["trades"].to_pylist())
    assert trades == 6_000 * 5  # every row is in five windows of 5 min every minute


def test_one_more_query_comes_while_the_others_run(small: tuple[Figures, Path, str]) -> None:
    found, out, text = small
    assert found.more is not None
    assert found.more.answers > 0
    kept = json.loads((out / "penstock-demo.json").read_text())["one_more_query"]
    assert kept["answers"] == found.more.answers
    assert "One more query" in text
    assert "Midway one more query came" in Page((out / "report.html").read_text()).text


def test_a_wall_of_alerts_shows_what_a_thousand_rules_take(small: tuple[Figures, Path, str]) -> None:
    found, out, text = small
    assert found.alerts is not None
    assert found.alerts.alerts >= found.alerts.rows > 0
    assert json.loads((out / "penstock-demo.json").read_text())["alerts"]["rules"] == 1_000
    assert "A wall of alerts" in text
    assert "A wall of alerts" in Page((out / "report.html").read_text()).text


def test_the_folder_holds_answers_figures_queries_and_a_page(small: tuple[Figures, Path, str]) -> None:
    _, out, text = small
    files = len(list((out / "answers").rglob("*.parquet")))
    assert files > 1
    assert f"a folder for each query, {files} Parquet files;" in " ".join(text.split())
    assert sorted(p.name for p in out.iterdir()) == [
        "answers", "penstock-demo.json", "queries.sql", "report.html", "sample.jsonl",
    ]  # fmt: skip
    kept = json.loads((out / "penstock-demo.json").read_text())
    assert (kept["finished"], kept["rows"], kept["queries"], kept["spark_alone"]) == (True, 6_000, 10, None)
    sample = [json.loads(line) for line in (out / "sample.jsonl").read_text().splitlines()]
    assert {s["query_name"] for s in sample} >= {"turnover_1", "sector_2"}
    assert re.fullmatch(r"2026-01-05T1\d:\d\d:00\.000000Z", sample[0]["window_end"])
    read = Page((out / "report.html").read_text())
    assert read.unbalanced == []
    assert read.open == []
    assert "10 continuous queries over 6,000 trades" in read.text
    assert not read.named("script")


def test_without_a_terminal_lines_are_plain_and_fit_80_columns(small: tuple[Figures, Path, str]) -> None:
    text = small[2]
    assert "\x1b" not in text
    # A path may be longer: it is never broken.
    assert [line for line in text.splitlines() if len(line) > WIDEST and "/" not in line] == []
    for heading in ("Penstock demo: 10 queries over 6,000 trades, seed 7", "Result", "What sharing saves"):
        assert heading in text


def test_a_second_run_replaces_the_first_and_nothing_else(tmp_path: Path) -> None:
    DemoFolder(tmp_path).write("report.html", "old")
    (tmp_path / "answers").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    DemoFolder(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt", "penstock-demo.json"]


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_folder_that_is_not_the_demos_is_left_alone(tmp_path: Path, kind: str) -> None:
    mine = tmp_path / "mine"
    if kind == "folder":
        mine.mkdir()
        (mine / "report.html").write_text("mine")
    else:
        mine.write_text("mine")
    with pytest.raises(SinkError, match=r"is a file|did not write") as refused:
        run_demo(4_000, 10, 7, out=mine)
    assert "--out" in str(refused.value)
    assert (mine if kind == "file" else mine / "report.html").read_text() == "mine"


def test_queries_use_windows_predicates_groupings_and_a_table() -> None:
    texts = [q.text for q in draw_queries(200, 1)]
    for word in ("WHERE", "GROUP BY", "HAVING", "JOIN listing"):
        assert sum(word in text for text in texts) >= 20
    assert len(set(re.findall(r"\[.*?\]", " ".join(texts)))) >= 30
    assert len({q.name for q in draw_queries(200, 1)}) == 200
    assert draw_queries(200, 1) == draw_queries(200, 1) != draw_queries(200, 2)
    assert all(parse_query(text) for text in texts)


def test_those_that_run_alone_are_of_different_kinds() -> None:
    chosen = choose_alone(draw_queries(200, 1))
    assert len({q.template.name for q in chosen}) == 3
    assert len(choose_alone(draw_queries(1, 1))) == 1


def test_answers_are_compared_by_window_and_group_doubles_nearly() -> None:
    ours = answers(side=["B", "S"], n=[1, 2], mean=[0.1 + 0.2, 1.0])
    assert compare_answers(ours, answers(side=["B", "S"], n=[1, 2], mean=[0.3, 1.0]), ["side"]) == (2, 0)
    assert compare_answers(ours, answers(side=["B", "S"], n=[1, 3], mean=[0.3, 1.0]), ["side"]) == (2, 1)
    assert compare_answers(ours, answers(side=["B"], n=[1], mean=[0.3]), ["side"]) == (2, 1)
    assert compare_answers(ours.slice(1), answers(side=["B", "S"], n=[1, 2], mean=[0.3, 1.0]), ["side"]) == (2, 1)


def test_only_whole_windows_are_charted() -> None:
    kept = whole_windows(answers(n=list(range(60))))
    assert kept["n"].to_pylist() == list(range(5, 55))  # five minutes at each end are not filled


def test_a_demo_whose_rows_all_came_in_the_warm_up_has_no_pace() -> None:
    found = replace(figures(alone=None), batches=(BatchDone(1, 0, 0.4, measured=False),))
    assert found.rows_per_second == 0.0


def test_what_was_not_measured_is_told_apart() -> None:
    found = figures(alone=Alone(("a_1", "b_2", "c_3"), 12.0, 999, 0))
    page = Page(demo_page(found))
    assert "800 s, not measured" in page.text
    assert "All equal." in page.text
    assert found.to_dict()["spark_alone"]["guess_seconds_for_all"] == 800.0


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_summary_fits_its_terminal(tmp_path: Path, width: int) -> None:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_summary(console, figures(alone=Alone(("a_1", "b_2", "c_3"), 12.0, 999, 3)), DemoFolder(tmp_path / "o"))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(len(line) for line in text.splitlines() if "/" not in line) <= width
    assert "a guess 200 separate Spark queries at that pace: 800 s, not measured" in " ".join(text.split())
    assert "3 DIFFER" in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 24), (120, 40)])
def test_the_live_screen_fits_its_terminal(width: int, height: int) -> None:
    asked = draw_queries(200, 1)
    watching = Watching([q.name for q in asked[:4]], 16)
    watching.batches += [BatchDone(62_500, 900, 0.4, measured=i > 0) for i in range(9)]
    watching.latest = {asked[0].name: answers(turnover=[1e9], trades=[5])}
    story = Story(asked, 1_000_000, 1, watching)
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    view = LiveView(console, story)
    for name in ("Spark", "market", "queries", "warm-up", "together", "one more", "alone"):
        with story.step(name, "a step with a text that is rather long " * 3):
            pass
    console.print(view.render())
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= width
    assert len(lines) <= height
    assert any("9 of 16 batches" in line for line in lines)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_the_environment_can_ask_for_plain_lines(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    story = Story([], 0, 1, Watching([], 1))
    assert isinstance(make_view(make_console(plain=False), story, plain=False), LiveView)
    assert not isinstance(make_view(make_console(plain=True), story, plain=True), LiveView)
    monkeypatch.setenv(name, value)
    assert not isinstance(make_view(make_console(plain=False), story, plain=False), LiveView)
    assert make_console(plain=False).color_system is None


def test_there_is_a_kind_of_query_for_each_part_of_the_language() -> None:
    assert len(TEMPLATES) == 7
    assert any(t.listing for t in TEMPLATES)
    assert any(t.where for t in TEMPLATES)
    assert any(t.having for t in TEMPLATES)
