"""Whatever a file of a project holds: problems with places come out, never an exception."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from penstock.project.cases import read_cases
from penstock.project.folder import read_project
from tests.project.making import COUNT, TRADES, write_project

PIECES = (
    *"{}[]:,-?&*!|>'\"#%@`<=~\n\t 0a\0\ufeff\u2028é☃",
    *("\n  ", "\n    ", ": ", "- ", "streams", "tables", "trades", "columns", "time", "ts", "format", "csv", "path"),
    *(
        "rows",
        "expect",
        "query",
        "batches",
        "clock",
        "file",
        "TIMESTAMP",
        "null",
        "1e3",
        "2026-01-05",
        "!!int ",
        "---\n",
    ),
    *("SELECT ", "count(*)", " FROM trades ", "[RANGE 1 s SLIDE 1 s]", "CREATE QUERY q AS ", ";", "--", "/*", "*/"),
)
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.text(max_size=60))


def changed(text: str) -> st.SearchStrategy[str]:
    """Put a piece into a sound text, or take a stretch out of it."""
    places = st.integers(0, len(text))
    return st.builds(lambda at, cut, new: text[:at] + new + text[at + cut :], places, st.integers(0, 12), TEXTS)


@given(st.one_of(TEXTS, changed(TRADES)))
def test_any_settings_are_read_or_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_project(Path(folder))
        (Path(folder) / "penstock.yml").write_bytes(text.encode(errors="surrogatepass"))
        project = read_project(Path(folder))
        assert project.problems or project.settings.streams
        assert all(str(problem) and problem.to_dict() for problem in project.problems)


@given(st.one_of(TEXTS, changed("query: q\nrows: {trades: [{ts: 1}, {ts: 2}]}\nbatches: [1, 1]\nexpect: [{n: 2}]\n")))
def test_any_test_is_read_or_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = read_project(write_project(Path(folder), q=COUNT))
        (Path(folder) / "tests").mkdir()
        (Path(folder) / "tests" / "q.yml").write_bytes(text.encode(errors="surrogatepass"))
        cases, problems = read_cases(project)
        assert cases or problems or text.strip().startswith("[")
        assert all(str(problem) for problem in problems)


@given(st.one_of(TEXTS, changed(COUNT)))
def test_any_query_is_read_or_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_project(Path(folder))
        (Path(folder) / "queries" / "q.sql").write_bytes(text.encode(errors="surrogatepass"))
        project = read_project(Path(folder))
        assert len(project.queries) + len(project.problems) == 1
        assert all(problem.file == "queries/q.sql" and str(problem) for problem in project.problems)
