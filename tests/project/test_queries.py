"""queries/: one query a file, named by it, described by its first comments; all mistakes of all files at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ProjectError
from penstock.project.folder import find_folder, read_project
from tests.project.making import COUNT, TRADES, write_project


def test_a_query_is_named_by_its_file_and_described_by_its_comments(tmp_path: Path) -> None:
    project = read_project(write_project(tmp_path, pace=f"-- How fast?\n-- Every minute.\n/* really */\n{COUNT};\n"))
    (query,) = project.queries
    assert (query.name, query.file, query.description) == (
        "pace",
        "queries/pace.sql",
        "How fast?\nEvery minute.\nreally",
    )
    assert project.bound[0].text == COUNT.replace("2 MIN", "2 min").replace("1 MIN", "1 min")
    assert query.statement.startswith("CREATE QUERY `pace` AS\n")


def test_a_file_may_hold_a_create_query_of_its_own_name(tmp_path: Path) -> None:
    project = read_project(write_project(tmp_path, pace=f"CREATE QUERY Pace AS\n{COUNT}"))
    assert project.problems == ()
    assert project.queries[0].statement == f"CREATE QUERY Pace AS\n{COUNT}"


def test_queries_may_lie_one_folder_deep(tmp_path: Path) -> None:
    write_project(tmp_path)
    for name in ("desk/one", "desk/deep/two"):
        (tmp_path / "queries" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "queries" / f"{name}.sql").write_text(COUNT)
    project = read_project(tmp_path)
    assert [q.name for q in project.queries] == ["one"]
    assert [p.file for p in project.problems] == ["queries/desk/deep/two.sql"]


def test_a_byte_order_mark_and_windows_line_ends_are_no_mistake(tmp_path: Path) -> None:
    write_project(tmp_path)
    (tmp_path / "queries" / "q.sql").write_bytes(b"\xef\xbb\xbf" + COUNT.replace(" FROM", "\r\nFROM").encode())
    assert read_project(tmp_path).problems == ()


@pytest.mark.parametrize(
    ("text", "code", "where", "says"),
    [
        ("", "ProjectError", "queries/q.sql", "holds no query"),
        (" ;\n-- x", "MalformedSQL", "queries/q.sql:1:1", "found nothing"),
        ("-- only this", "ProjectError", "queries/q.sql", "holds no query"),
        (f"{COUNT};\n{COUNT}", "MalformedSQL", "queries/q.sql:1:59", "found several"),
        ("DROP STREAM trades", "Unsupported", "queries/q.sql:1:1", "must hold a SELECT"),
        (f"\nCREATE QUERY other AS {COUNT}", "ProjectError", "queries/q.sql:2:1", '"q" and its query "other"'),
        ("SELECT avg(prise)\nFROM trades [RANGE 1 s SLIDE 1 s]", "UnknownColumn", "queries/q.sql:1:12", '"price"'),
        (
            "-- x\nCREATE QUERY q AS\n  SELECT avg(prise) FROM trades [RANGE 1 s SLIDE 1 s]",
            "UnknownColumn",
            "queries/q.sql:3:14",
            '"price"',
        ),
        ("SELECT count(*)\nFROM tradez [RANGE 1 s SLIDE 1 s]", "UnknownStream", "queries/q.sql:2:6", '"trades"'),
        ("SELECT count(*) FROM trades", "Unsupported", "queries/q.sql:1:8", "without a window"),
        ("SELECT\0", "MalformedSQL", "queries/q.sql:1:7", "character"),
    ],
)
def test_a_mistake_in_a_query_has_its_file_and_line(
    tmp_path: Path, text: str, code: str, where: str, says: str
) -> None:
    project = read_project(write_project(tmp_path, q=text, sound=COUNT))
    (found,) = project.problems
    assert (found.error.code, found.where) == (code, where)
    assert says in str(found)
    assert [q.name for q in project.queries] == ["sound"]


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    write_project(tmp_path)
    (tmp_path / "queries" / "q.sql").write_bytes(b"SELECT 1\n\xff\x00")
    (found,) = read_project(tmp_path).problems
    assert "line 2" in str(found)


def test_names_that_no_query_can_have_and_names_there_twice_are_refused(tmp_path: Path) -> None:
    write_project(tmp_path, **{"my query": COUNT, "2nd": COUNT, "pace": COUNT})
    (tmp_path / "queries" / "desk").mkdir()
    (tmp_path / "queries" / "desk" / "PACE.sql").write_text(COUNT)
    project = read_project(tmp_path)
    assert [p.error.code for p in project.problems] == ["ProjectError", "ProjectError", "CatalogError"]
    assert "the other one is queries/desk/PACE.sql" in str(project.problems[2])


def test_mistakes_of_all_files_come_together(tmp_path: Path) -> None:
    settings = TRADES.replace("5 s", "5 parsecs")
    project = read_project(write_project(tmp_path, settings, a="SELEC 1", b="SELECT count(*) FROM trades", c=COUNT))
    assert [p.file for p in project.problems] == ["penstock.yml", "queries/a.sql", "queries/b.sql"]


def test_a_broken_stream_is_not_reported_again_for_each_of_its_queries(tmp_path: Path) -> None:
    settings = TRADES.replace("streams:\n  trades:", "streams:\n  2trades:")
    assert len(read_project(write_project(tmp_path, settings, a=COUNT, b=COUNT)).problems) == 1


def test_a_project_is_found_by_its_folder_or_its_file(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert find_folder(tmp_path) == find_folder(tmp_path / "penstock.yml") == tmp_path
    with pytest.raises(ProjectError, match="does not exist"):
        find_folder(tmp_path / "gone")
    with pytest.raises(ProjectError, match=r"no penstock\.yml"):
        find_folder(tmp_path / "queries")
