"""The page of results is made from the files of figures, and is what the command makes of them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench._results.page import SECTIONS, page_and_charts, read_results
from bench.report import FOLDER, made
from penstock.report import svg
from penstock.report.picture import picture
from tests.shell import Penstock, penstock

__all__ = ["penstock"]  # a fixture

MADE = made()
AGAIN = "run penstock bench report"


def copied(tmp_path: Path) -> Path:
    for name in ("results", "notes"):
        shutil.copytree(FOLDER / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("name", sorted(MADE))
def test_the_page_and_its_charts_are_what_the_command_makes(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == MADE[name], AGAIN


def test_no_chart_is_left_over() -> None:
    assert {f"results/{path.name}" for path in (FOLDER / "results").glob("*.svg")} == {n for n in MADE if "/" in n}


def test_every_target_and_every_timed_run_of_every_file_is_on_the_page() -> None:
    page = MADE["RESULTS.md"]
    for path in (FOLDER / "results").glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        for target in document["targets"]:
            assert f"| {target['name']} | {target['value']:,.2f} | {target['target']} |" in page
        for run in document["measurements"].get("times", {}).values():
            assert f"| {run['median_seconds']:.2f} |" in page


def test_every_benchmark_has_its_section_command_and_machine() -> None:
    sections = MADE["RESULTS.md"].split("\n## ")[1:]
    assert len(sections) == len(list((FOLDER / "results").glob("*.json")))
    for section in sections:
        assert re.search(r"^penstock bench \w+ .*--json bench/results/\w+\.json$", section, re.MULTILINE)
        assert re.search(r"^Measured \d{4}-\d\d-\d\d: .* cores, .* PySpark", section, re.MULTILINE)


def test_every_missed_target_has_a_note() -> None:
    measured = read_results(FOLDER / "results", FOLDER / "notes")
    assert [one.name for one in measured if one.missed and "issed" not in one.notes] == []


def test_the_table_of_the_readme_holds_figures_of_the_file() -> None:
    times = json.loads((FOLDER / "results" / "windows.json").read_text(encoding="utf-8"))["measurements"]["times"]
    page = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d,]+) \| ([\d.]+) \| ([\d.]*) *\|$", page, re.MULTILINE)
    assert len(rows) == 5
    for queries, ours, plain in rows:
        number = int(queries.replace(",", ""))
        assert ours == f"{times[f'penstock {number}']['median_seconds']:.1f}"
        assert plain == (f"{times[f'plain {number}']['median_seconds']:.1f}" if f"plain {number}" in times else "")


def test_notes_on_an_earlier_run_say_so(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    path = folder / "results" / "windows.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"when": "2026', '"when": "2036'), encoding="utf-8")
    assert "These notes are on an earlier run" in made(folder)["RESULTS.md"]
    assert "These notes are on an earlier run" not in MADE["RESULTS.md"]


def test_a_benchmark_without_a_section_of_its_own_shows_its_targets(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    shutil.copy(folder / "results" / "restart.json", folder / "results" / "unheard.json")
    assert "unheard" not in SECTIONS
    last = made(folder)["RESULTS.md"].split("\n## ")[-1]
    assert last.startswith("Unheard\n")
    assert "| first answer after bare Spark, seconds |" in last


def test_nothing_measured_is_a_page_without_sections(tmp_path: Path) -> None:
    assert list(page_and_charts(read_results(tmp_path, tmp_path))) == ["RESULTS.md"]


@pytest.mark.parametrize("name", sorted(n for n in MADE if "/" in n))
def test_a_chart_needs_no_other_file_and_knows_all_its_colours(name: str) -> None:
    root = ElementTree.fromstring(MADE[name])
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert {"width", "height", "viewBox", "aria-label"} <= set(root.keys())
    style = root.find("{http://www.w3.org/2000/svg}style")
    assert style is not None
    assert "var(" not in (style.text or "")
    used = {c for node in root.iter() for c in node.get("class", "").split()} - {"name"}
    assert {c for c in used if f".{c}" not in (style.text or "")} == set()


def test_a_drawing_as_wide_as_its_place_is_no_picture() -> None:
    with pytest.raises(ValueError, match="fixed size"):
        picture(svg.strip(10, [], label="strip"))


def test_the_report_takes_no_options(penstock: Penstock) -> None:
    done = penstock("bench", "report", "--full")
    assert done.code == 2
    assert "takes no options" in done.err
