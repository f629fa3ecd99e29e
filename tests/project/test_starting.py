"""A new project: sound, the same every time, and never over what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ProjectError
from penstock.project.cases import read_cases
from penstock.project.folder import read_project
from penstock.project.starting import ROWS, project_files, start_project


def test_a_new_project_has_no_mistakes(tmp_path: Path) -> None:
    start_project(tmp_path / "market")
    project = read_project(tmp_path / "market")
    assert (project.problems, project.notes, project.name) == ((), (), "market")
    assert [q.name for q in project.queries] == ["blocks", "busy_small", "pace", "sectors", "vwap"]
    assert all(q.description for q in project.queries)
    cases, problems = read_cases(project)
    assert (len(cases), problems) == (3, [])


def test_the_sample_is_the_same_every_time() -> None:
    files = project_files("x")
    assert files == project_files("x")
    trades = [line for name, text in files.items() if "trades/" in name for line in text.splitlines()[1:]]
    assert len(trades) == ROWS


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    start_project(tmp_path / "it's: {odd}")
    assert read_project(tmp_path / "it's: {odd}").name == "it's: {odd}"


def test_nothing_is_overwritten_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "penstock.yml").write_text("mine")
    with pytest.raises(ProjectError, match=r"penstock\.yml would be overwritten"):
        start_project(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["penstock.yml"]
    start_project(tmp_path, force=True)
    assert read_project(tmp_path).problems == ()


def test_a_folder_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ProjectError, match="cannot write into"):
        start_project(tmp_path / "file" / "project")
