"""What a run says at its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.store.folder import held
from tests.project.making import COUNT, TRADES, write_project
from tests.shell import Penstock, penstock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["penstock"]  # a fixture


def test_a_report_tells_rows_of_this_run_from_those_before_and_knows_the_terminal(
    penstock: Penstock, spark: SparkSession, tmp_path: Path
) -> None:
    streams = TRADES[: TRADES.index("tables:")]
    settings = f"{streams}state: state\nsinks: [terminal]\n"
    project = write_project(tmp_path / "p", settings, counts=COUNT)
    (project / "data" / "trades").mkdir(parents=True)
    rows = "ts,symbol,price,volume\n2026-01-05 14:30:00,X,1.5,3\n2026-01-05 14:31:00,Y,2.5,4\n"
    (project / "data" / "trades" / "1.csv").write_text(rows, encoding="utf-8")
    first = penstock("run", project, "--once")
    assert first.code == 0, first.err
    assert "trades: 2 rows (0 late, 0 invalid) through 1 query" in first.out
    assert "runs before" not in first.out
    (project / "queries" / "counts.sql").write_text(COUNT.replace("2 MIN", "3 MIN"), encoding="utf-8")
    second = penstock("run", project, "--once")
    assert second.code == 0, second.err
    told = second.out[second.out.index("trades: ") :].splitlines()
    assert told[0].startswith("trades: 0 rows (0 late, 0 invalid) through 1 query, 0 answers in ")  # in two versions
    assert told[1] == "  with the runs before: 2 rows (0 late, 0 invalid)"
    assert told[-1] == "answers went to: terminal"


def test_explain_beside_a_running_engine_says_whose_plan_it_shows(
    penstock: Penstock, spark: SparkSession, tmp_path: Path
) -> None:
    project = write_project(tmp_path / "p", TRADES[: TRADES.index("tables:")] + "state: state\n", counts=COUNT)
    (project / "data" / "trades").mkdir(parents=True)
    assert penstock("explain", project).err == ""
    with held(project / "state"):
        beside = penstock("explain", project)
    assert (beside.code, beside.err.count("\n")) == (0, 1)
    assert "this is the plan of the project's files, not of that engine; penstock queries lists" in beside.err


def test_a_sink_that_fails_keeps_no_stream_from_being_read_and_ended(
    penstock: Penstock, spark: SparkSession, tmp_path: Path
) -> None:
    settings = TRADES[: TRADES.index("tables:")]
    more = settings[settings.index("  trades:") :].replace("  trades:", "  more:")
    text = f"{settings}{more}state: state\nsinks:\n  - jsonl: lines\n"
    project = write_project(tmp_path / "p", text, a=COUNT, b=COUNT.replace("trades", "more"))
    broken = "import penstock\n\n\n@penstock.sink\ndef broken(batch):\n    raise ValueError('no database')\n"
    (project / "functions.py").write_text(broken, encoding="utf-8")
    (project / "data" / "trades").mkdir(parents=True)
    rows = "ts,symbol,price,volume\n2026-01-05 14:30:00,X,1.5,3\n"
    (project / "data" / "trades" / "1.csv").write_text(rows, encoding="utf-8")
    done = penstock("run", project, "--once", "--flush", "--end-stream")
    assert done.code == 4, done.err
    assert "trades: 1 row (" in done.out
    assert "more: 1 row (" in done.out
    assert done.err.count("error[") == 1
    assert 'sink function broken lacks answers of stream "trades"' in done.err
    assert 'sink function broken lacks answers of stream "more"' in done.err
    assert len(list((project / "lines").glob("*.jsonl"))) == 2
    status = penstock("status", project)
    assert status.out.count("ValueError: no database") == 2
    assert penstock("status", project, "--check").code == 1
    (project / "functions.py").unlink()
    assert penstock("run", project, "--once").code == 0
    assert "broken" not in penstock("status", project).out  # the last run had no such sink
    rows = rows.replace("14:30", "14:40")
    (project / "data" / "trades" / "2.csv").write_text(rows, encoding="utf-8")
    ended = penstock("run", project, "--once")
    assert ended.code == 4
    assert f"in {project}/data/trades/2.csv" in ended.err


def test_a_pattern_that_nothing_matches_is_noted(penstock: Penstock, spark: SparkSession, tmp_path: Path) -> None:
    text = TRADES.replace("data/listing.csv", "nowhere/*.csv") + "state: state\nsinks: [jsonl: lines]\n"
    project = write_project(tmp_path / "p", text, counts=COUNT)
    (project / "data" / "trades").mkdir(parents=True)
    noted = f'note: "listing": no file matches {project}/nowhere/*.csv yet\n'
    assert noted in penstock("check", project).out
    assert noted in penstock("run", project, "--once").err
    (project / "nowhere").mkdir()
    (project / "nowhere" / "1.csv").write_text("X,true\n", encoding="utf-8")
    assert "note:" not in penstock("check", project).out
    (project / "nowhere" / "1.csv").unlink()
    write_project(project, text.replace("nowhere/*.csv", "nowhere"))
    assert f'note: "listing": {project}/nowhere holds no files yet' in penstock("check", project).out
