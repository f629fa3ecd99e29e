"""The commands on project folders, as a new user would type them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from penstock.cli import cli
from penstock.project.starting import ROWS, start_project
from tests.project.making import COUNT, TRADES, write_project
from tests.shell import PATIENCE_S, Penstock, penstock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["penstock"]  # a fixture


@pytest.fixture
def market(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a new project."""
    start_project(tmp_path / "market")
    monkeypatch.chdir(tmp_path / "market")
    return tmp_path / "market"


def add(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


# init and check: no Spark.


def test_init_says_what_it_made_and_what_comes_next(
    penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = penstock("init", "market")
    assert (done.code, done.err) == (0, "")
    for text in ("made market: ", "vwap.sql", "  cd market\n", "  penstock check\n", "  penstock test\n"):
        assert text in done.out
    counted = "market: 1 stream, 1 table, 5 queries, 3 tests, no mistakes"
    assert penstock("check", "market").out == f"{counted} (types were not looked at: --types does)\n"
    again = penstock("init", "market")
    assert again.code == 1
    assert "would be overwritten" in again.err
    assert penstock("init", "market", "--force").code == 0


def test_check_reports_all_mistakes_of_all_files_at_once(penstock: Penstock, market: Path) -> None:
    add(market, "queries/a.sql", "SELECT avg(prise) FROM trades [RANGE 10 s SLIDE 1 s]")
    add(market, "queries/b.sql", "SELECT count(*) FROM trades")
    done = penstock("check")
    assert done.code == 1
    assert done.out.count("error[") == 2
    assert "  in queries/a.sql:1:12\n" in done.out
    assert done.out.endswith("\n\n2 mistakes\n")
    found = json.loads(penstock("check", market, "--json").out)
    assert (found["ok"], found["project"], len(found["queries"])) == (False, "market", 5)
    assert [(p["code"], p["file"], p["line"]) for p in found["problems"]] == [
        ("UnknownColumn", "queries/a.sql", 1),
        ("Unsupported", "queries/b.sql", 1),
    ]


def test_check_finds_mistakes_in_tests_too(penstock: Penstock, market: Path) -> None:
    add(market, "tests/pace.yml", "rows: {tradez: []}\nexpect: []")
    done = penstock("check")
    assert done.code == 1
    assert 'there is no stream "tradez"' in done.out


def test_check_tells_programs_about_queries(penstock: Penstock, market: Path) -> None:
    found = json.loads(penstock("check", "--json").out)
    pace = {query["name"]: query for query in found["queries"]}["pace"]
    assert pace["file"] == "queries/pace.sql"
    assert pace["description"].startswith("How many trades")
    assert pace["window"] == "[RANGE 5 min SLIDE 1 min]"
    assert (found["ok"], found["tests"], found["problems"], found["notes"]) == (True, 3, [], [])


def test_check_needs_neither_spark_nor_data(market: Path) -> None:
    for file in (market / "data").rglob("*.csv"):
        file.unlink()
    add(market, "tests/pace.yml", "clock: 2026-01-05 09:30:00\nrows: {trades: []}\nexpect: []")
    program = (
        "import sys\nfrom penstock.cli import cli\n"
        "cli(['check'], standalone_mode=False)\n"
        "loaded = sorted({'pyspark', 'py4j', 'rich', 'pandas'} & sys.modules.keys())\n"
        "assert loaded == [], loaded\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "no mistakes (types were" in done.stdout


@pytest.mark.parametrize("command", ["check", "run", "explain", "test"])
def test_a_folder_without_a_project_is_an_error(penstock: Penstock, tmp_path: Path, command: str) -> None:
    done = penstock(command, tmp_path)
    assert done.code == 1
    assert "error[ProjectError]: there is no penstock.yml" in done.err
    assert "penstock init" in done.err


@pytest.mark.parametrize("command", ["run", "explain", "test"])
def test_a_project_with_mistakes_is_not_run(penstock: Penstock, market: Path, command: str) -> None:
    add(market, "queries/a.sql", "SELEC 1")
    add(market, "queries/b.sql", "SELECT count(*) FROM trades")
    done = penstock(command)
    assert (done.code, done.out) == (1, "")
    assert done.err.count("error[") == 2


def test_a_project_without_queries_has_nothing_to_run(penstock: Penstock, tmp_path: Path) -> None:
    done = penstock("run", write_project(tmp_path, TRADES), "--once")
    assert done.code == 1
    assert "has no queries" in done.err


# Spark.


def test_check_with_types_lets_spark_find_what_names_do_not_tell(
    penstock: Penstock, spark: SparkSession, market: Path
) -> None:
    add(market, "queries/typed.sql", "SELECT sum(symbol) AS s FROM trades [RANGE 1 MIN SLIDE 1 MIN]")
    add(market, "queries/where.sql", "SELECT count(*) AS n FROM trades [RANGE 1 MIN SLIDE 1 MIN] WHERE volume")
    assert penstock("check").code == 0
    done = penstock("check", "--types")
    assert done.code == 1
    assert done.out.count("error[WrongType]") == 2
    assert "  in queries/typed.sql" in done.out
    ran = penstock("run", "--once")
    assert ran.code == 1
    assert ran.err.count("error[WrongType]") == 2


def test_a_project_runs_once_and_fills_its_sinks(penstock: Penstock, spark: SparkSession, market: Path) -> None:
    done = penstock("run", "--once", "--flush", "--json", "--show", "1")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    (stream,) = found["streams"]
    assert (stream["ingested"], stream["queries"], stream["open_windows"]) == (ROWS, 5, 0)
    lines = [json.loads(line) for f in (market / "answers").glob("*.jsonl") for line in f.read_text().splitlines()]
    assert len(lines) == stream["answers"]
    assert {line["query_name"] for line in lines} == {"blocks", "busy_small", "pace", "sectors", "vwap"}
    (shown,) = found["answers_shown"]["pace"]
    assert shown == {k: v for k, v in _last(lines, "pace").items() if k not in ("query_name", "query_version")}


def _last(lines: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return max((line for line in lines if line["query_name"] == name), key=lambda line: line["window_end"])


def test_a_state_folder_follows_the_files_of_queries(penstock: Penstock, spark: SparkSession, market: Path) -> None:
    for name in ("blocks", "sectors", "vwap"):
        (market / "queries" / f"{name}.sql").unlink()
    first = penstock("run", "--once", "--state", "state")
    assert first.code == 0, first.err
    (market / "queries" / "busy_small.sql").unlink()
    add(market, "queries/pace.sql", "SELECT count(*) AS trades FROM trades [RANGE 5 MIN SLIDE 1 MIN]")
    second = penstock("run", "--once", "--state", "state")
    assert second.code == 0, second.err
    assert 'query "busy_small" is gone\n' in second.out
    assert 'query "pace" changed: version 2 answers the windows that begin from now on\n' in second.out
    third = penstock("run", "--once", "--state", "state", "--json")
    assert json.loads(third.out)["changes"] == []
    settings = (market / "penstock.yml").read_text().replace("lateness: 5 s", "lateness: 9 s")
    add(market, "penstock.yml", settings)
    changed = penstock("run", "--once", "--state", "state")
    assert changed.code == 0, changed.err
    assert 'stream "trades" goes on with changes: lateness is 9 s, was 5 s\n' in changed.out
    add(market, "penstock.yml", settings.replace("lateness: 9 s", "lateness: 9 s\n    dedup: [symbol]"))
    refused = penstock("run", "--once", "--state", "state")
    assert refused.code == 1
    told = ': of stream "trades", repeated rows were counted so far: that cannot change'
    assert re.search(rf"penstock\.yml:\d+{told}", refused.err)
    assert "  trades:" in refused.err


def test_a_run_stops_when_its_streams_have_reached_a_time(
    penstock: Penstock, spark: SparkSession, market: Path
) -> None:
    done = penstock("run", "--until", "2026-01-05T14:35:00", "--json")
    assert done.code == 0, done.err
    (stream,) = json.loads(done.out)["streams"]
    assert stream["ingested"] == ROWS
    assert stream["watermark_us"] >= 1_767_623_700_000_000


def test_explain_shows_a_project_as_text_json_and_a_page(penstock: Penstock, spark: SparkSession, market: Path) -> None:
    page = market / "sharing.html"
    assert penstock("explain").out.startswith("stream trades: 5 queries, weave, 1 tree")
    found = json.loads(penstock("explain", "--json", "--strategy", "unshared paired").out)
    assert (len(found["streams"]), found["streams"][0]["strategy"]) == (1, "unshared paired")
    assert penstock("explain", "--html", page).code == 0
    assert "busy_small" in page.read_text(encoding="utf-8")
    assert penstock("explain", "--html", market / "no" / "folder.html").code == 4


def test_explain_shows_one_query_and_who_it_shares_with(penstock: Penstock, spark: SparkSession, market: Path) -> None:
    done = penstock("explain", "--query", "PACE")
    assert done.out.startswith("query pace over trades [RANGE 5 min SLIDE 1 min]  (queries/pace.sql)\n  -- How many")
    assert "shares slices with " in done.out
    found = json.loads(penstock("explain", "--query", "pace", "--json").out)
    assert sorted(found["slices"]["with"]) == ["blocks", "busy_small", "sectors", "vwap"]
    wrong = penstock("explain", "--query", "pase")
    assert wrong.code == 1
    assert 'Did you mean "pace"?' in wrong.err


# test.


def test_the_tests_of_a_new_project_pass(penstock: Penstock, spark: SparkSession, market: Path) -> None:
    done = penstock("test")
    assert done.code == 0, done.out
    assert [line.split("  ")[:2] for line in done.out.splitlines()[:-1]] == [
        ["passed", "blocks"],
        ["passed", "sectors: a symbol that is not listed is left out"],
        ["passed", "sectors: a late row counts while its window is open"],
    ]
    assert done.out.splitlines()[-1].startswith("3 tests: 3 passed in ")


def test_a_failing_test_says_what_differs(penstock: Penstock, spark: SparkSession, market: Path) -> None:
    add(
        market,
        "tests/blocks.yml",
        (market / "tests" / "blocks.yml").read_text().replace("largest: 7000", "largest: 1", 1),
    )
    add(market, "tests/pace.yml", "rows: {trades: [{ts: 2026-01-05 14:30:00, volumme: 3}]}\nexpect: []")
    done = penstock("test", "blocks", "pace")
    assert done.code == 1
    assert "FAILED  blocks" in done.out
    assert "  row 4 (window_end 2026-01-05T14:40:00.000000Z): largest is 7000, expected 1\n" in done.out
    assert "FAILED  pace" in done.out
    assert 'has a column "volumme", which is not declared' in done.out
    assert "2 tests: 0 passed, 2 failed in " in done.out
    found = json.loads(penstock("test", market, "blocks", "--json").out)
    assert (found["passed"], found["failed"], found["tests"][0]["passed"]) == (0, 1, False)
    assert "largest is 7000, expected 1" in found["tests"][0]["differences"][0]


def test_a_test_may_expect_an_error_batches_a_clock_and_open_windows(
    penstock: Penstock, spark: SparkSession, market: Path
) -> None:
    add(market, "queries/ratio.sql", "SELECT sum(price / volume) AS r FROM trades [RANGE 1 MIN SLIDE 1 MIN]")
    add(
        market,
        "tests/ratio.yml",
        """
- name: division by zero
  rows: {trades: [{ts: 2026-01-05 14:30:10, price: 1, volume: 0}]}
  expect_error: DIVIDE_BY_ZERO
- name: open windows are not answered
  rows: {trades: [{ts: 2026-01-05 14:30:10, price: 1, volume: 2}, {ts: 2026-01-05 14:31:10, price: 1, volume: 2}]}
  batches: [1, 1]
  flush: false
  expect: [{window_end: 2026-01-05 14:31:00, r: 0.5}]
- name: a row ahead of the clock is invalid
  clock: 2026-01-05 14:31:00
  rows: {trades: [{ts: 2026-01-05 14:30:10, price: 1, volume: 2}, {ts: 2026-01-05 15:30:10, price: 9, volume: 2}]}
  expect: [{r: 0.5}]
- name: no error comes
  rows: {trades: []}
  expect_error: WrongType
""",
    )
    done = penstock("test", "ratio", "-v")
    assert done.code == 1
    assert [line.split("  ")[0] for line in done.out.splitlines() if "ratio: " in line] == ["passed"] * 3 + ["FAILED"]
    assert "expected an error with 'WrongType', but got 0 answers" in done.out
    assert "  found  window_start=2026-01-05T14:30:00.000000Z" in done.out


def test_a_test_may_name_some_of_the_answers(penstock: Penstock, spark: SparkSession, market: Path) -> None:
    add(
        market, "queries/many.sql", "SELECT symbol, sum(volume) AS v FROM trades [RANGE 1 MIN SLIDE 1 MIN] GROUP BY ALL"
    )
    rows = "{ts: 2026-01-05 14:30:10, symbol: A, volume: 1}, {ts: 2026-01-05 14:31:10, symbol: B, volume: 2}"
    add(
        market,
        "tests/many.yml",
        f"""
- name: in any order
  rows: {{trades: [{rows}]}}
  contains: [{{symbol: B, v: 2}}, {{symbol: A}}]
- name: each counts once
  rows: {{trades: [{rows}]}}
  contains: [{{symbol: A}}, {{symbol: A, v: 2}}]
""",
    )
    done = penstock("test", "many")
    assert done.code == 1
    assert "passed  many: in any order" in done.out
    assert "FAILED  many: each counts once" in done.out
    assert "  no answer is symbol 'A', v 2\n    the nearest: row 1 (window_end" in done.out


def test_check_finds_mistakes_of_streams_queries_and_tests_at_once(penstock: Penstock, tmp_path: Path) -> None:
    settings = (
        TRADES.replace("lateness: 5 s", "lateness: 5 bananas")
        + """
  other:
    format: csv
    path: x
    columns: [a NOTYPE]
"""
    )
    text = "SELECT avg(prise) AS p FROM trades [RANGE 1 MIN SLIDE 1 MIN]"
    write_project(tmp_path, settings, a=text, b=f"{text.replace('prise', 'o.z')} JOIN other o ON symbol = o.a")
    add(
        tmp_path, "tests/a.yml", "- {rows: {trades: []}, expct: []}\n- {query: nothing, rows: {trades: []}, expect: []}"
    )
    done = penstock("check", tmp_path)
    assert done.code == 1
    for says in ('no unit "bananas"', '"NOTYPE"', 'no column "prise"', 'no setting "expct"', 'no query "nothing"'):
        assert says in done.out
    assert "queries/b.sql" not in done.out  # what it reads is wrong already
    assert 'no query "a"' not in done.out


def test_types_point_into_the_files(penstock: Penstock, spark: SparkSession, tmp_path: Path) -> None:
    columns = "volume: INT, bad: {type: INT, as: nothing(volume)}"
    write_project(tmp_path, TRADES.replace("volume: INT", columns), q=COUNT)
    done = penstock("check", tmp_path, "--types")
    assert done.code == 1
    assert "\n  in penstock.yml:7:" in done.out
    write_project(tmp_path, TRADES.replace("volume: INT", "volume: INT, bad: {type: INT, as: volume + array(1)}"))
    done = penstock("check", tmp_path, "--types")
    assert 'column "bad" of stream "trades" cannot be computed\n  in penstock.yml:7:' in done.out
    write_project(tmp_path, TRADES, q="SELECT count(*) AS n,\n  sum(symbol) AS s FROM trades [RANGE 1 MIN SLIDE 1 MIN]")
    assert "\n  in queries/q.sql:2:" in penstock("check", tmp_path, "--types").out


def test_an_unknown_test_is_an_error(penstock: Penstock, market: Path) -> None:
    done = penstock("test", "sectrs")
    assert done.code == 1
    assert 'there is no test "sectrs"' in done.err
    assert 'Did you mean "sectors"?' in done.err


def test_a_project_without_tests_passes(penstock: Penstock, tmp_path: Path) -> None:
    assert penstock("test", write_project(tmp_path, q=COUNT)).out == "there are no tests in tests/\n"


# What should never happen.


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (ValueError("oh no"), 70, "error[Internal]: something went wrong inside Penstock: ValueError: oh no"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ConnectionRefusedError(111, "refused"), 3, "the Java process of Spark has gone away"),
        (RecursionError(), 70, "error[Internal]"),
    ],
)
def test_no_stack_trace_reaches_the_user(
    penstock: Penstock,
    market: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark: SparkSession,
    error: BaseException,
    code: int,
    says: str,
) -> None:
    def fail(path: Path) -> None:
        raise error

    monkeypatch.setenv("TMPDIR", str(market))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("penstock.project.folder.read_project", fail)
    monkeypatch.setattr("penstock.spark.session.embedded.jvm_ended", lambda: True)
    done = penstock("check")
    assert done.code == code
    assert says in done.err
    assert "Traceback" not in done.err + done.out
    kept = list(market.glob("penstock-error-*.txt"))
    assert len(kept) == (code == 70)
    assert all("Traceback" in file.read_text() and str(file) in done.err for file in kept)


def until_java_starts(process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not any("spark.driver" in " ".join(command_of(child)) for child in psutil.Process(process.pid).children()):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.02)


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.starts_spark
def test_ctrl_c_while_spark_starts_is_no_stack_trace(market: Path) -> None:
    command = [str(Path(sys.executable).with_name("penstock")), "run", "--once"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            until_java_starts(process)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err


# Completion.


@pytest.mark.parametrize(("shell", "has"), [("bash", "complete "), ("zsh", "#compdef penstock"), ("fish", "complete ")])
def test_completion_prints_a_script_and_how_to_install_it(penstock: Penstock, shell: str, has: str) -> None:
    done = penstock("completion", shell)
    assert done.code == 0
    assert has in done.out
    assert f"# Install: penstock completion {shell} >" in done.out


def test_commands_options_and_queries_are_completed(market: Path) -> None:
    def completed(words: str) -> list[str]:
        environment = {**os.environ, "_PENSTOCK_COMPLETE": "bash_complete", "COMP_WORDS": words}
        environment["COMP_CWORD"] = str(len(words.split(" ")) - 1)
        command = [str(Path(sys.executable).with_name("penstock"))]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert completed("penstock ch") == ["check"]
    assert completed("penstock explain --query p") == ["pace"]
    assert completed("penstock run --fl") == ["--flush"]


def test_every_command_that_programs_may_read_prints_json() -> None:
    told = {name for name, command in cli.commands.items() if any(p.name == "as_json" for p in command.params)}
    engine = {"status", "queries", "add", "drop", "pause", "resume", "ask", "backfill", "policy", "shed", "top"}
    assert told == {"calibrate", "capacity", "check", "explain", "run", "sim", "test"} | engine
