"""Spark's classes are archived once, and read from the archive by later processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.spark.session.class_archive import SWITCH, archive_options

BEGINS = bytes.fromhex("a8ab0bf0")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(SWITCH, raising=False)
    return tmp_path / "penstock" / "classes"


def part_of(options: str) -> Path:
    """Return the file that Java is asked to write."""
    assert options.startswith("-XX:ArchiveClassesAtExit=")
    return Path(options.split()[0].partition("=")[2])


def java() -> Path:
    return Path(sys.executable)  # any program that is there


def test_a_complete_archive_is_used_by_the_next_process(cache: Path) -> None:
    part = part_of(archive_options(java(), ""))
    part.write_bytes(BEGINS + b"...")
    assert archive_options(java(), "").startswith("-XX:SharedArchiveFile=")
    assert [path.suffix for path in cache.iterdir()] == [".jsa"]


def test_a_torn_archive_is_made_again_and_removed_in_time(cache: Path) -> None:
    part = part_of(archive_options(java(), ""))
    part.write_bytes(b"\0" * 100)
    part_of(archive_options(java(), ""))
    assert part.exists()  # it may still be written
    os.utime(part, (time.time() - 3600,) * 2)
    part_of(archive_options(java(), ""))
    assert not part.exists()


def test_a_second_archive_and_those_of_an_old_java_are_removed(cache: Path) -> None:
    part_of(archive_options(java(), "")).write_bytes(BEGINS)
    archive_options(java(), "")
    (second,) = cache.glob("*.jsa")
    extra, old = cache / f"{second.stem}.1.part", cache / "0123.jsa"
    extra.write_bytes(BEGINS)
    old.write_bytes(BEGINS)
    os.utime(old, (time.time() - 90 * 86_400,) * 2)
    assert archive_options(java(), "")
    assert list(cache.iterdir()) == [second]


@pytest.mark.parametrize("word", ["off", "OFF", "0", "no"])
def test_the_environment_switches_archives_off(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, word)
    assert archive_options(java(), "") == ""


def test_a_users_own_archive_is_left_alone() -> None:
    assert archive_options(java(), "-XX:SharedArchiveFile=mine.jsa") == ""


def test_a_folder_that_cannot_be_named_in_an_option_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "with space"))
    assert archive_options(java(), "") == ""


def test_without_a_place_for_it_spark_starts_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "penstock").mkdir()
    (tmp_path / "penstock" / "classes").write_text("a file where the folder should be")
    assert archive_options(java(), "") == ""


@pytest.mark.soak
@pytest.mark.starts_spark
def test_a_second_process_starts_from_the_archive_of_the_first(cache: Path) -> None:
    program = "from penstock.spark.session.embedded import embedded; print(embedded().range(5).count())"

    def run() -> str:
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
        assert ran.stderr == ""
        return ran.stdout

    assert run() == "5\n"
    deadline = time.monotonic() + 120  # Java writes the archive after Python has ended
    while not any(part.read_bytes()[:4] == BEGINS for part in cache.glob("*.part")):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert run() == "5\n"
    assert [path.suffix for path in cache.iterdir()] == [".jsa"]
