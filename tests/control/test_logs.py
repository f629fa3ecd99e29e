"""The log names what it concerns, as text and as JSON lines; signals stop a run once, and at once the second time."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from penstock.cli.logs import LOG, logged
from penstock.errors import SourceError
from tests.shell import PATIENCE_S


def test_a_json_line_names_the_query_that_it_concerns(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    with logged("json", file, "info"):
        LOG.warning("paused: [OVERFLOW]", extra={"event": "query paused", "stream": "trades", "query": "pace"})
        LOG.error(SourceError("gone", hint="Mend it."), extra={"event": "stream failed", "stream": "trades"})
        LOG.info("über\nzwei Zeilen")
        LOG.debug("heartbeat", extra={"event": "heartbeat"})
    paused, failed, plain = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    assert list(paused) == ["at", "level", "event", "stream", "query", "sink", "message"]
    assert paused.pop("at").endswith("Z")
    about = {"event": "query paused", "stream": "trades", "query": "pace", "sink": None}
    assert paused == {"level": "warning", **about, "message": "paused: [OVERFLOW]"}
    assert failed["message"] == "error[SourceError]: gone\nhint: Mend it."
    assert (plain["event"], plain["query"], plain["message"]) == ("report", None, "über\nzwei Zeilen")


def test_a_text_line_names_it_too_and_cannot_steer_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    with logged("text", file, "debug"):
        LOG.debug("beat", extra={"event": "heartbeat", "stream": "trades"})
        LOG.error("no \x1b[2J space\nat all", extra={"sink": "jsonl out", "stream": "trades"})
        LOG.info("100 %s")
    first, second, third, fourth = file.read_text(encoding="utf-8").splitlines()
    assert first[24:] == " debug [stream trades] beat"
    assert second[24:] == " error [stream trades, sink jsonl out] no \\u001b[2J space"
    assert third == "  at all"
    assert fourth[24:] == " info 100 %s"


def test_on_a_terminal_the_error_that_ends_a_run_is_not_printed_twice(capsys: pytest.CaptureFixture[str]) -> None:
    with logged("text", None, "info"):
        LOG.error(SourceError("gone"))
        LOG.error("sink jsonl out fails")
    assert capsys.readouterr().err.endswith(" error sink jsonl out fails\n")
    with logged("json", None, "info"):
        LOG.error(SourceError("gone"))
    assert json.loads(capsys.readouterr().err)["message"] == "error[SourceError]: gone"


def test_a_file_that_was_rotated_is_opened_anew(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    with logged("text", file, "info"):
        LOG.info("one")
        file.rename(tmp_path / "run.log.1")
        LOG.info("two")
    assert (tmp_path / "run.log.1").read_text().endswith("one\n")
    assert file.read_text().endswith("two\n")


def test_the_log_is_as_it_was_afterwards(tmp_path: Path) -> None:
    before = LOG.level, LOG.propagate, list(LOG.handlers)
    with logged("text", tmp_path / "run.log", "debug"):
        assert LOG.isEnabledFor(logging.DEBUG)
    assert (LOG.level, LOG.propagate, list(LOG.handlers)) == before


def test_a_file_that_cannot_be_written_is_a_wrong_command_line(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="--log-file"), logged("text", tmp_path / "no" / "run.log", "info"):
        pass


SLEEPER = """
import signal, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may be run under nohup
from penstock.cli.stopping import signalled
with signalled() as ended:
    print("ready", flush=True)
    ended.wait()
    print("asked", flush=True)
    time.sleep(3_000)
"""


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGHUP])
def test_the_second_signal_ends_the_process_at_once_with_130(first: signal.Signals) -> None:
    command = [sys.executable, "-c", SLEEPER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            os.kill(process.pid, first)
            assert process.stdout.readline() == "asked\n"
            os.kill(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 130
    assert err.splitlines() == [
        "stopping after the current batch; once more stops at once",
        "stopped at once; the next run goes on from the last commit",
    ]


def test_a_closed_terminal_does_not_stop_what_was_started_with_nohup() -> None:
    script = f"import os\n{SLEEPER}".replace("SIG_DFL", "SIG_IGN").replace(
        "ended.wait()", "os.kill(os.getpid(), signal.SIGHUP); print(ended.wait(0.2), flush=True); os._exit(0)"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert found.stdout.splitlines() == ["ready", "False"]
