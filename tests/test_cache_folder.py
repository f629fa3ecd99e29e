"""What can be made again is kept in the user's cache folder, never in the folder that a command is run in."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.cache_folder import cache_folder


def test_the_named_folder_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "penstock"


@pytest.mark.parametrize("named", ["", "relative", None])
def test_a_name_that_is_empty_or_relative_is_passed_over(
    named: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if named is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert cache_folder() == home / ".cache" / "penstock"
    assert list(here.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cache_folder().parent != tmp_path / "file"
