"""The command line on scripts: help for every command, real runs, clear errors with their exit codes, a clean stop."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow.parquet as pq
import pytest

from penstock.cli import EXIT_CODES, cli, progress
from penstock.sinks.registry import written_kinds
from penstock.store.commits import last_commit
from tests.shell import PATIENCE_S, Done, Penstock, penstock, script
from tests.test_examples import HOUSE, blocks, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["penstock", "script"]  # fixtures

MARKET = str(HOUSE / "examples" / "market.sql")
STREAM = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT, side STRING, exchange STRING)
USING trades OPTIONS (seed = 3, symbols = 5, rate = 20, rows_per_batch = 2400) WATERMARK FOR ts;
"""
COUNT = "CREATE QUERY n AS SELECT count(*) AS n FROM trades [RANGE 2 MIN SLIDE 1 MIN];"


# Help.


def test_help_names_every_command_and_says_what_it_does(penstock: Penstock) -> None:
    done = penstock("--help")
    assert done.code == 0
    for name, command in cli.commands.items():
        assert re.search(rf"^  {name} +\S", done.out, re.MULTILINE), name
        assert penstock(name, "-h") == penstock(name, "--help")
        told = penstock(name, "--help").out
        assert [o.name for o in command.params if isinstance(o, click.Option) and not o.help] == [], name
        assert f" {name} [OPTIONS]" in told.splitlines()[0]


def test_every_command_is_in_the_readme_or_the_docs() -> None:
    pages = "\n".join(path.read_text(encoding="utf-8") for path in [HOUSE / "README.md", *HOUSE.glob("docs/*.md")])
    assert [name for name in cli.commands if f"penstock {name}" not in pages] == []


def test_help_tells_the_exit_codes(penstock: Penstock) -> None:
    told = " ".join(penstock("--help").out.split())
    assert [code for code, meaning in EXIT_CODES.items() if f"{code} {meaning}" not in told] == []


def test_every_command_shows_examples_or_how_to_install(penstock: Penstock) -> None:
    assert [n for n in cli.commands if not re.search(r"Examples?:|Install it once:", penstock(n, "-h").out)] == []


def test_help_starts_no_spark() -> None:
    lines = (
        "import sys",
        "from penstock.cli import cli",
        "cli(['-h'], standalone_mode=False)",
        "assert 'pyspark' not in sys.modules",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)


def test_the_version_is_the_packages(penstock: Penstock) -> None:
    from penstock import __version__

    assert __version__ in penstock("--version").out
    assert f'version = "{__version__}"' in read("pyproject.toml")


# The example script.


def test_explain_prints_what_its_page_shows(
    penstock: Penstock, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HOUSE)
    done = penstock("explain", "examples/market.sql")
    assert (done.code, done.err) == (0, "")
    (shown,) = [b for b in blocks("docs/cli.md") if b.startswith("$ penstock explain examples/market.sql\n")]
    lines = [line for line in shown.splitlines()[1:] if line.strip() != "…"]
    assert len(lines) > 5
    assert [line for line in lines if line not in done.out.splitlines()] == []


def test_explain_shows_other_strategies(
    penstock: Penstock, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HOUSE)
    assert "5 trees" in penstock("explain", MARKET, "--strategy", "unshared paired").out
    assert "paned slices" in penstock("explain", MARKET, "--strategy", "shared paned").out
    assert "5 queries, shared paired, 1 tree" in penstock("explain", MARKET, "--strategy", "shards").out
    assert "5 queries, fragments, 5 trees" in penstock("explain", MARKET, "--strategy", "fragments").out


def test_a_run_reports_as_json_and_fills_its_sinks(
    penstock: Penstock, spark: SparkSession, script: Any, tmp_path: Path
) -> None:
    sinks = ("--sink", f"parquet:{tmp_path / 'p'}", "--sink", f"jsonl:{tmp_path / 'j'}")
    done = penstock("run", script(STREAM + COUNT), "--once", "--json", *sinks)
    assert (done.code, done.err) == (0, "")
    (stream,) = json.loads(done.out)["streams"]
    # rows  |----1,200----|----1,200----|   two minutes; the window that ends after one of them is final
    #       14:30       14:31       14:32   those that end at 14:32 and 14:33 hold rows and stay open
    assert (stream["ingested"], stream["on_time"], stream["late"], stream["invalid"]) == (2_400, 2_400, 0, 0)
    assert (stream["queries"], stream["answers"], stream["open_windows"]) == (1, 1, 2)
    lines = [json.loads(line) for f in (tmp_path / "j").glob("*.jsonl") for line in f.read_text().splitlines()]
    assert [(line["window_end"], line["n"]) for line in lines] == [("2026-01-05T14:31:00.000000Z", 1_200)]
    assert sum(pq.read_metadata(f).num_rows for f in (tmp_path / "p").rglob("*.parquet")) == 1


def test_streams_of_a_state_folder_end_only_where_somebody_says_so(
    penstock: Penstock, spark: SparkSession, script: Any, tmp_path: Path
) -> None:
    kept = ("run", script(STREAM + COUNT), "--once", "--state", tmp_path / "state")
    done = penstock(*kept)
    assert "2 windows stay open until later rows make them final; the next run goes on from here" in done.out
    assert "--flush" not in done.out
    refused = penstock(*kept, "--flush")
    assert refused.code == 2
    assert "for good" in refused.err
    assert "--end-stream" in refused.err
    ended = penstock(*kept, "--flush", "--end-stream", "--show", "1")
    assert ended.code == 0
    assert "stay open" not in ended.out


def test_a_run_without_a_terminal_says_how_far_it_is_and_names_an_empty_folder(
    penstock: Penstock, spark: SparkSession, script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nothing").mkdir()
    empty = f"""CREATE STREAM trades (ts TIMESTAMP, v INT) USING parquet OPTIONS (path = '{tmp_path / "nothing"}')
        WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS;"""
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.02)
    done = penstock("run", script(empty + COUNT), "--once")
    assert f"there are no files in {tmp_path / 'nothing'} yet" in done.out
    said = done.err.splitlines()
    assert said
    assert set(said) == {"0 rows, 0 rows/s, 0 answers, watermark none yet"}
    assert penstock("run", script(empty + COUNT), "--once", "--json").err == ""
    monkeypatch.setattr(progress, "LONG_US", 0)
    assert (
        "0 answers, watermark none yet; trades at work on a batch for "
        in penstock("run", script(STREAM + COUNT), "--once").err
    )


def test_a_run_says_how_many_windows_stay_open(penstock: Penstock, spark: SparkSession, script: Any) -> None:
    done = penstock("run", script(STREAM + COUNT), "--once", "--show", "1")
    assert "2 windows stay open; --once --flush" in done.out
    assert done.out.rstrip().endswith("window_end=2026-01-05T14:31:00.000000Z  n=1200")
    flushed = penstock("run", script(STREAM + COUNT), "--once", "--flush", "--show", "1")
    assert "stay open" not in flushed.out
    assert flushed.out.rstrip().endswith("window_end=2026-01-05T14:33:00.000000Z  n=1200")


def test_what_statements_tell_comes_before_the_report(penstock: Penstock, spark: SparkSession, script: Any) -> None:
    path = script(f"{STREAM}{COUNT} SHOW QUERIES; EXPLAIN;")
    done = penstock("explain", path)
    assert done.code == 0, done.err
    first, plan, again = done.out.rstrip("\n").split("\n\n")
    assert first.splitlines()[1].startswith("n ")
    assert plan == again
    assert json.loads(penstock("explain", path, "--json").out)["streams"][0]["stream"] == "trades"


def test_a_paused_query_is_reported_and_ends_a_single_run_with_1(
    penstock: Penstock, spark: SparkSession, script: Any
) -> None:
    bad = "CREATE QUERY bad AS SELECT sum(1 / (volume - volume)) AS x FROM trades [RANGE 1 MIN SLIDE 1 MIN];"
    done = penstock("run", script(STREAM + COUNT + bad), "--once", "--json")
    assert (done.code, done.err) == (1, "")
    (stream,) = json.loads(done.out)["streams"]
    assert (stream["paused"], stream["failed"], stream["answers"]) == (["bad"], ["bad"], 1)
    assert "DIVIDE_BY_ZERO" in stream["reports"][0]


def test_a_query_that_is_paused_by_hand_is_named_and_is_no_failure(
    penstock: Penstock, spark: SparkSession, script: Any, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    kept = ("run", script(STREAM + COUNT), "--once", "--state", state)
    assert "paused" not in penstock(*kept).out
    assert penstock("pause", "n", "--state", state).code == 0
    done = penstock(*kept)
    assert (done.code, "\n  paused: n; penstock queries says why\n" in done.out) == (0, True), done


# Errors: the place underlined, an exit code that tells the kind, no stack trace.


def assert_error(done: Done, kind: str, *texts: str, code: int = 1) -> None:
    assert done.code == code
    assert done.err.startswith(f"error[{kind}]: ")
    assert [text for text in texts if text not in done.err] == []
    assert "Traceback" not in done.err


def test_a_missing_script_is_an_error(penstock: Penstock, tmp_path: Path) -> None:
    for command in ("run", "explain"):
        assert_error(penstock(command, tmp_path / "gone.sql"), "ProjectError", "gone.sql does not exist", "hint: ")


def test_a_script_that_is_no_text_is_an_error(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "binary.sql").write_bytes(b"SELECT \xff\xfe")
    assert_error(penstock("explain", tmp_path / "binary.sql"), "ProjectError", "not UTF-8 text")
    (tmp_path / "folder.sql").mkdir()
    assert_error(penstock("explain", tmp_path / "folder.sql"), "ProjectError", "cannot read")


def test_malformed_sql_is_underlined(penstock: Penstock, spark: SparkSession, script: Any) -> None:
    done = penstock("run", script("CREATE STREEM trades (ts TIMESTAMP);"), "--once")
    assert_error(done, "MalformedSQL", "  CREATE STREEM trades (ts TIMESTAMP);\n         ^^^^^^\n")


def test_an_unknown_column_is_underlined_in_the_script(penstock: Penstock, spark: SparkSession, script: Any) -> None:
    query = "SELECT avg(prise) AS p FROM trades [RANGE 10 s SLIDE 1 s]"
    done = penstock("explain", script(f"{STREAM}CREATE QUERY q AS {query};"))
    assert_error(done, "UnknownColumn", f"{query};\n  {' ' * (18 + query.index('prise'))}^^^^^\n", "script.sql:4:30\n")


def test_a_missing_data_folder_is_an_error(penstock: Penstock, spark: SparkSession, script: Any) -> None:
    text = "CREATE STREAM s (ts TIMESTAMP) USING parquet OPTIONS (path = 'no/such/folder') WATERMARK FOR ts;"
    assert_error(
        penstock("run", script(text), "--once"), "SourceError", "no/such/folder does not exist", "hint: ", code=4
    )


def test_a_wrong_option_of_the_generator_is_an_error(penstock: Penstock, spark: SparkSession, script: Any) -> None:
    done = penstock("run", script(STREAM.replace("rate", "pace") + COUNT), "--once")
    assert_error(done, "SourceError", 'no option "pace"', code=4)


def test_a_sink_that_cannot_be_written_is_an_error(
    penstock: Penstock, spark: SparkSession, script: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = penstock("run", script(STREAM + COUNT), "--once", "--sink", f"jsonl:{tmp_path / 'file'}")
    assert_error(done, "SinkError", "cannot write answers", code=4)


def test_a_state_folder_that_is_a_file_is_an_error(
    penstock: Penstock, spark: SparkSession, script: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = penstock("run", script(STREAM + COUNT), "--once", "--state", tmp_path / "file")
    assert_error(done, "StateError", "as a state folder", code=4)


def test_an_unknown_benchmark_is_an_error(penstock: Penstock) -> None:
    assert_error(penstock("bench", "nothing"), "EnvironmentProblem", 'no benchmark "nothing"', "windows", code=3)


# Wrong command lines: exit code 2.


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", MARKET, "--flush"), "--flush needs --once"),
        (("run", MARKET, "--once", "--sink", "kafka:topic"), written_kinds()),
        (("run", MARKET, "--once", "--sink", "parquet"), written_kinds()),
        (("explain", MARKET, "--strategy", "alone"), "shared paired"),
        (("run", MARKET, "--once", "--until", "10 min"), "exclude each other"),
        (("run", MARKET, "--until", "soon"), "write '10 min' or 2026-01-05T15:00:00"),
        (("run", MARKET, "--until", "3 months"), "no fixed length"),
        (("explain", MARKET, "--query", "pace", "--html", "x.html"), "leave --query out"),
        (("completion", "cmd"), "bash"),
        (("run", MARKET, "--log", "xml"), "json"),
        (("run", MARKET, "--log-file", "no/such/folder/run.log"), "--log-file no/such/folder/run.log: No such file"),
        (("backfill",), "Missing argument"),
        (("sing",), "No such command"),
        (("verify",), """No such command 'verify'. Did you mean "state verify"?"""),
        (("quries",), """No such command 'quries'. Did you mean "queries"?"""),
    ],
)
def test_a_wrong_command_line_exits_with_2(penstock: Penstock, arguments: tuple[str, ...], says: str) -> None:
    done = penstock(*arguments)
    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err


# A process of its own: signals.


def test_sigterm_stops_a_run_and_a_restart_goes_on(
    penstock: Penstock, spark: SparkSession, script: Any, tmp_path: Path
) -> None:
    where = ["--state", str(tmp_path / "state"), "--sink", f"jsonl:{tmp_path / 'out'}", "--json"]
    command = [str(Path(sys.executable).with_name("penstock")), "run", str(script(STREAM + COUNT)), *where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            until_committed(tmp_path / "state", 1, process)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 0, err
    told = [line[25:] if line.startswith("20") else line for line in err.splitlines()]  # without the time
    assert [line for line in told if "[stream trades]" not in line] == [
        "info started: 1 query over 1 stream",
        "running; Ctrl-C stops after the current batch",
        "stopping after the current batch; once more stops at once",
        "info stopped",
    ]
    (stopped,) = json.loads(out)["streams"]
    assert stopped["ingested"] >= 4_800
    assert stopped["ingested"] % 2_400 == 0

    (resumed,) = json.loads(penstock("run", command[2], "--once", *where).out)["streams"]
    # one batch, and before it the one that Spark had planned when the signal came, if it had
    assert resumed["ingested"] - stopped["ingested"] in (2_400, 4_800)
    lines = [json.loads(line) for f in (tmp_path / "out").glob("*.jsonl") for line in f.read_text().splitlines()]
    ends = [datetime.fromisoformat(line["window_end"]) for line in lines]
    assert {after - before for before, after in pairwise(ends)} == {timedelta(minutes=1)}  # every window once, in order
    assert [line["n"] for line in lines] == [1_200, *[2_400] * (resumed["ingested"] // 1_200 - 2)]


def until_committed(state: Path, number: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE_S
    folder = state / "commits" / "trades"
    while not folder.is_dir() or (last := last_commit(folder)) is None or last.number < number:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "no batch was committed"
        time.sleep(0.05)


HOLDING = """
import sys, threading, time
import datasketches as ds
from penstock.cli import main
def hold():
    held = ds.hll_sketch(12)
    time.sleep(100)
threading.Thread(target=hold, daemon=True).start()
sys.argv = ["penstock", "--version"]
main()
"""


def test_what_a_library_says_of_itself_at_the_end_does_not_reach_users() -> None:
    command = [sys.executable, "-c", HOLDING]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert done.stdout.startswith("penstock, version")
    assert done.stderr == ""
