"""Examples do what their ``.out`` files say, and the pages show examples and files that are there."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUSE = Path(__file__).resolve().parents[1]
EXAMPLES = HOUSE / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))
ALONE = ("dataframe",)  # makes and stops a Spark session of its own; the others run on the one that tests share
SHOW_MARKET = ("run", "examples/market.sql", "--once", "--flush", "--show", "2")
PAGES = sorted(
    [*HOUSE.glob("*.md"), *HOUSE.glob("bench/*.md"), *HOUSE.glob("decisions/*.md"), *HOUSE.glob("docs/*.md")]
)
# Files and rooms as pages write them: `share/plan.py`, `decisions/`; a star stands for several.
NAMED_FILE = re.compile(r"`((?:[a-z_]+/)+(?:[a-z_*]+\.(?:py|sql|csv|out|md))?|[a-z_]+\.py)`")


# The documentation of project folders names files of a reader's own.
THEIRS = ("queries/", "functions/", "market/")


def output_of(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def exit_code() -> int | str:
    """Run the command line in this process."""
    try:
        main()
    except SystemExit as done:
        return done.code or 0
    return 0


def without_seconds(text: str) -> str:
    return re.sub(r"in \d+\.\d s\b", "in … s", text)


def read(name: str) -> str:
    return (HOUSE / name).read_text(encoding="utf-8")


def blocks(page: str) -> list[str]:
    """Return the fenced blocks of a page, without their fences."""
    return re.findall(r"^```[a-z]*\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)


@pytest.mark.starts_spark
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.stem in ALONE], ids=lambda p: p.stem)
def test_an_example_in_a_process_of_its_own_prints_what_its_out_file_says(program: Path, tmp_path: Path) -> None:
    assert output_of(sys.executable, program, cwd=tmp_path) == program.with_suffix(".out").read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == []  # and leaves nothing behind


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.stem not in ALONE], ids=lambda p: p.stem)
def test_an_example_prints_what_its_out_file_says(
    spark: SparkSession,
    program: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(program), run_name="__main__")
    printed = capfd.readouterr()
    assert printed.out == program.with_suffix(".out").read_text(encoding="utf-8")
    assert printed.err == ""
    assert list(tmp_path.iterdir()) == []  # and leaves nothing behind


def test_the_market_script_prints_what_its_out_file_says(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(HOUSE)
    monkeypatch.setattr(sys, "argv", ["penstock", *SHOW_MARKET])
    assert exit_code() == 0
    assert without_seconds(capfd.readouterr().out) == without_seconds(read("examples/market.out"))


def test_every_example_has_its_output_and_every_output_its_example() -> None:
    scripts = {p.stem for p in [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*.sql")]}
    assert scripts == {p.stem for p in EXAMPLES.glob("*.out")}


def test_the_readme_is_short() -> None:
    assert len(read("README.md").splitlines()) <= 150


def test_the_readme_shows_the_quickstart_and_its_output() -> None:
    assert read("examples/quickstart.py") in blocks("README.md")
    assert read("examples/quickstart.out") in blocks("README.md")


def test_the_command_line_page_shows_lines_that_the_market_script_prints() -> None:
    (shown,) = [b for b in blocks("docs/cli.md") if b.startswith(f"$ penstock {' '.join(SHOW_MARKET)}\n")]
    printed = without_seconds(read("examples/market.out")).splitlines()
    lines = [line for line in without_seconds(shown).splitlines()[1:] if line.strip() != "…"]
    assert len(lines) > 5
    assert [line for line in lines if line not in printed] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_files_that_a_page_names_are_there(page: Path) -> None:
    named = {name for name in NAMED_FILE.findall(page.read_text(encoding="utf-8")) if not name.startswith(THEIRS)}
    places = (HOUSE, HOUSE / "src" / "penstock", HOUSE / "tests")
    assert [name for name in sorted(named) if not any(list(place.glob(name)) for place in places)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_fence_of_a_page_is_closed(page: Path) -> None:
    assert page.read_text(encoding="utf-8").count("\n```") % 2 == 0
