"""tests/*.yml: rows in three forms, batches, clocks; mistakes are found without Spark."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from penstock.project.cases import QueryTest, read_cases
from penstock.project.folder import read_project
from tests.project.making import COUNT, write_project


def read(folder: Path, text: str, name: str = "pace") -> tuple[list[QueryTest], list[str]]:
    project = read_project(write_project(folder, pace=COUNT))
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / f"{name}.yml").write_text(dedent(text), encoding="utf-8")
    cases, problems = read_cases(project)
    return cases, [str(problem) for problem in problems]


ROWS = [{"ts": "2026-01-05 14:30:00", "price": 1.5}, {"ts": "2026-01-05 14:31:00", "price": None}]


def test_rows_are_a_list_of_mappings(tmp_path: Path) -> None:
    text = """
        rows:
          trades: [{ts: 2026-01-05 14:30:00, price: 1.5}, {ts: 2026-01-05 14:31:00, price: null}]
        expect: [{n: 2}]
        """
    (case,), problems = read(tmp_path, text)
    assert problems == []
    assert (case.name, case.query, case.rows, case.expect) == ("pace", "pace", {"trades": ROWS}, [{"n": 2}])
    assert (case.flush, case.batches, case.clock) == (True, None, None)


def test_rows_are_a_block_of_csv_or_a_file(tmp_path: Path) -> None:
    block = "ts, price\n2026-01-05 14:30:00, 1.5\n2026-01-05 14:31:00,\n"
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "rows.csv").write_text(block)
    indented = block.replace("\n", "\n                ").rstrip()
    text = f"""
        - rows:
            trades: |
                {indented}
          expect: []
        - rows: {{trades: {{file: rows.csv}}}}
          expect:
        """
    cases, problems = read(tmp_path, text)
    assert problems == []
    rows = [{"ts": "2026-01-05 14:30:00", "price": "1.5"}, {"ts": "2026-01-05 14:31:00", "price": None}]
    assert [case.rows["trades"] for case in cases] == [rows, rows]
    assert [case.name for case in cases] == ["pace: 1", "pace: 2"]
    assert [case.expect for case in cases] == [[], []]


def test_what_yaml_would_twist_stays_as_it_is_written(tmp_path: Path) -> None:
    text = """
        rows: {trades: [{a: 010, b: 12:30:00, c: 1e3, d: 0x1f, e: "7", f: -3, g: .nan, h: yes, i: 1_000}]}
        expect: []
        """
    (case,), _ = read(tmp_path, text)
    values = list(case.rows["trades"][0].values())
    assert values[:6] == ["010", "12:30:00", 1000.0, "0x1f", "7", -3]
    assert values[6] != values[6]
    assert values[7:] == [True, 1000]


def test_batches_clock_and_flush_are_read(tmp_path: Path) -> None:
    text = """
        query: PACE
        rows: {trades: [{}, {}, {}]}
        batches: [1, 2]
        clock: 2026-01-05 14:30:00
        flush: false
        expect_error: WrongType
        """
    (case,), problems = read(tmp_path, text, "other")
    assert problems == []
    assert (case.query, case.batches, case.clock) == ("pace", {"trades": [1, 2]}, "2026-01-05 14:30:00")
    assert (case.flush, case.expect, case.expect_error) == (False, None, "WrongType")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rows: {trades: []}", "needs expect, contains or expect_error"),
        ("rows: {trades: []}\ncontains: []", "contains needs an answer"),
        ("rows: {trades: []}\ncontains: [{}]\nexpect: []", "exclude each other"),
        ("rows: {trades: []}\nexpect: []\nexpect_error: x", "exclude each other"),
        ("expect: []", "needs rows"),
        ("rows: {tradez: []}\nexpect: []", 'no stream "tradez"'),
        ("rows: {trades: []}\ntables: {listin: []}\nexpect: []", 'Did you mean "listing"?'),
        ("query: pase\nrows: {trades: []}\nexpect: []", 'Did you mean "pace"?'),
        ("rows: {trades: [1]}\nexpect: []", "a row must be a mapping"),
        ("rows: {trades: 3}\nexpect: []", "must be a list, a block of CSV or file:"),
        ("rows: {trades: {file: gone.csv}}\nexpect: []", "cannot read gone.csv"),
        ("rows: {trades: [{}]}\nbatches: [2]\nexpect: []", 'batches take 2 rows, but "trades" has 1'),
        ("rows: {trades: [{}]}\nbatches: [-1]\nexpect: []", "at least 0"),
        ("rows: {trades: [{}]}\nclock: noon\nexpect: []", "clock must be a time"),
        ("rows: {trades: [{}]}\nflush: 3\nexpect: []", "true or false"),
        ("rows: {trades: [{}]}\nexpct: []", 'Did you mean "expect"?'),
        ("rows: {trades: 'a,b\n\n  1'}\nexpect: []", "1 values for 2 columns"),
        ("", "is empty"),
        ("- 3", "a test must be a mapping"),
    ],
)
def test_a_mistake_is_found_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    cases, problems = read(tmp_path, text)
    assert any(says in problem for problem in problems), problems
    assert all("  in tests/pace.yml:" in problem for problem in problems)
    assert cases == []


def test_two_tests_of_one_name_are_refused(tmp_path: Path) -> None:
    text = "- {name: a, rows: {trades: []}, expect: []}\n- {name: a, rows: {trades: []}, expect: []}"
    _, problems = read(tmp_path, text)
    assert 'two tests "pace: a"' in problems[0]
