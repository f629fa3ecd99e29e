"""Environment variables and profiles in penstock.yml."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.project.folder import Project, read_project
from tests.project.making import TRADES, write_project

SETTINGS = (
    TRADES.replace("data/trades", "${DATA}/trades").replace("lateness: 5 s", "lateness: ${LATENESS:-5 s}")
    + """
spark: {cores: "${CORES:-2}", memory: "$${m}"}
profiles:
  production:
    streams:
      trades: {lateness: 1 min}
    spark: {cores: 8}
  broken: {streams: {trades: {path: "${GONE}"}}}
"""
)


@pytest.fixture(autouse=True)
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATA", "LATENESS", "CORES", "GONE", "PENSTOCK_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def told(project: Project) -> list[str]:
    return [str(problem) for problem in project.problems]


def test_variables_stand_for_text_and_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA", "elsewhere")
    project = read_project(write_project(tmp_path, SETTINGS))
    assert told(project) == []
    stream = project.settings.streams[0].item
    assert stream.options["path"] == str(tmp_path / "elsewhere" / "trades")
    assert (project.settings.spark.cores, project.settings.spark.memory) == (2, "${m}")
    monkeypatch.setenv("CORES", "3")
    assert read_project(tmp_path).settings.spark.cores == 3


def test_a_variable_that_is_not_set_is_a_mistake_with_its_place(tmp_path: Path) -> None:
    project = read_project(write_project(tmp_path, SETTINGS))
    (problem,) = told(project)
    assert "the environment variable DATA is not set\n  in penstock.yml:5:11" in problem
    assert "Set it, or say what else to take: ${DATA:-…}." in problem


def test_what_is_no_name_of_a_variable_is_told(tmp_path: Path) -> None:
    project = read_project(write_project(tmp_path, TRADES.replace("data/trades", "${not a name}/x")))
    assert "${not a name} names no environment variable" in told(project)[0]


def test_a_profile_is_laid_over_the_other_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA", "elsewhere")
    monkeypatch.setenv("PENSTOCK_PROFILE", "production")
    project = read_project(write_project(tmp_path, SETTINGS))
    assert told(project) == []
    stream = project.settings.streams[0].item
    assert getattr(stream, "lateness_us", None) == 60_000_000
    assert stream.options["path"] == str(tmp_path / "elsewhere" / "trades")
    assert (project.settings.spark.cores, project.settings.spark.memory) == (8, "${m}")


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        ("prodution", 'there is no profile "prodution"\n  in penstock.yml:'),
        ("prodution", 'Did you mean "production"?'),
        ("broken", "the environment variable GONE is not set"),
    ],
)
def test_mistakes_of_profiles_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str, says: str
) -> None:
    monkeypatch.setenv("DATA", "elsewhere")
    monkeypatch.setenv("PENSTOCK_PROFILE", profile)
    assert says in told(read_project(write_project(tmp_path, SETTINGS)))[0]
