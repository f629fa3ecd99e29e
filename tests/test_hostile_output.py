"""Whatever names, values, comments and messages hold, nothing of it steers the terminal that a command prints to."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.cli import cli, main
from penstock.control.serving import Serving
from penstock.control.status import SinkStatus
from penstock.errors import StateError
from penstock.store.files import write_record
from penstock.store.folder import StateFolder
from tests.control.pretending import NOW, PACE, Pretended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A title, a link, inverse, a device report, C1, turned writing, signs without width, ends of lines, marks of rich.
SIGNS = "\x1b]0;owned\x07\x1b]8;;http://x\x1b\\\x1b[7m\x9b5n\x85\x7f\x08\u202eabc\u2066\u200f\u061c\u200b\u2028\ufeff[red]x[/]"
NAME = f"mar{SIGNS.replace('/', '')}ket{os.fsdecode(bytes([0xFF]))}"  # the last sign is no UTF-8
# What rich and we write ourselves: colours, a cursor that hides, lines and screens that are cleared.
OWN = re.compile(r"\x1b\[(?:\?25[lh]|[0-6]?(?:;\d+)*m|[39]\dm|\d*[AKHJ])|\r")


LAST = "SELECT concat(max(k), '\\u202E') AS n FROM s"


class Terminal(io.StringIO):
    """Standard output or standard error, shown to a person or not."""

    def __init__(self, shown: bool) -> None:
        super().__init__()
        self.shown = shown

    def isatty(self) -> bool:
        return self.shown


@dataclass
class Shell:
    """Runs commands and keeps what they have ever printed."""

    terminal: bool
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *arguments: str | Path) -> str:
        out, err = Terminal(self.terminal), Terminal(self.terminal)
        with self.monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", out)
            patched.setattr(sys, "stderr", err)
            patched.setattr(sys, "argv", ["penstock", *map(str, arguments)])
            with pytest.raises(SystemExit):
                main()
        printed = out.getvalue() + err.getvalue()
        assert [sign for sign in OWN.sub("", printed) if not (sign.isprintable() or sign == "\n")] == [], printed
        assert printed
        if "[red]" in " ".join(map(str, arguments)):
            assert "\x1b[31mx" not in printed
        return printed


@pytest.fixture(params=[False, True], ids=["piped", "terminal"])
def shell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Shell(request.param, monkeypatch)


def write_project(root: Path) -> Path:
    """Write a project whose folder, comments, tests and data hold everything that a terminal obeys."""
    project, data = root / NAME, root / "data"
    for folder in (project / "queries", project / "tests", data):
        folder.mkdir(parents=True)
    rows = [{"ts": f"2026-01-05T09:0{i}:00Z", "k": SIGNS} for i in range(3)]
    (data / "a.json").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    stream = f"format: json, path: {data}, time: ts, columns: {{ts: TIMESTAMP, k: STRING}}"
    (project / "penstock.yml").write_text(f"state: {root}/state\nstreams: {{s: {{{stream}}}}}\n", encoding="utf-8")
    texts = {
        "groups": "SELECT k, count(*) AS n FROM s [RANGE 1 min SLIDE 1 min] GROUP BY k",
        "fails": "SELECT sum(CAST(k AS INT)) AS n FROM s [RANGE 1 min SLIDE 1 min]",
        "marked": f"-- [blink] [link=http://x]y[/link]\n{LAST} [RANGE 1 min SLIDE 1 min]",
    }
    for name, text in texts.items():
        (project / "queries" / f"{name}.sql").write_text(text, encoding="utf-8")
    case = {"query": "groups", "name": f"t {SIGNS}", "rows": {"s": [{"ts": "2026-01-05 09:00:00", "k": SIGNS}]}}
    cases = [{**case, "expect": [{"k": f"{SIGNS}!"}]}, {**case, "name": "[red]x[/]", "expect_error": SIGNS}]
    (project / "tests" / "groups.yml").write_text(json.dumps(cases), encoding="utf-8")
    return project


def test_a_project_cannot_steer_the_terminal_that_it_is_run_on(
    shell: Shell, interpreted: SparkSession, tmp_path: Path
) -> None:
    """A run prints rows, names, a pause with Spark's own words, and its log."""
    project = write_project(tmp_path)
    assert "no mistakes" in shell("check", project)
    printed = shell(
        "run", project, "--once", "--flush", "--end-stream", "--show", "2", "--log", "text", "--sink", "terminal"
    )
    assert 'k="\\u001b]0;owned' in printed
    assert "warning [stream s, query fails]" in printed
    shell("ask", "SELECT k, count(*) AS n FROM s [RANGE 10 min] GROUP BY k", "--project", project)
    if not shell.terminal:
        return
    assert "fails" in shell("status", project)
    assert "fails" in shell("queries", project)
    assert "2 failed" in shell("test", project, "-v")
    shell("explain", project)
    shell("explain", project, "--query", "marked")
    shell("explain", project, "--html", tmp_path / f"{NAME}.html")
    page = (tmp_path / f"{NAME}.html").read_text(encoding="utf-8")
    assert [sign for sign in page if not (sign.isprintable() or sign == "\n")] == []


MISTAKES = (
    ("check", NAME),
    ("check", "broken"),
    ("check", "broken", "--json"),
    ("test", NAME, SIGNS),
    ("explain", "broken"),
    ("explain", f"{NAME}.sql"),
    ("run", NAME, "--sink", SIGNS),
    ("run", "broken", "--once", "--log-file", f"{NAME}/log"),
    ("init", NAME),
    ("init", NAME),
    ("status", NAME),
    ("capacity", NAME),
    ("capacity", "--rows", SIGNS),
    ("queries", "--state", NAME),
    ("add", "q", "--file", NAME),
    ("state", "verify", "--state", NAME),
    ("state", "backup", NAME, "--state", NAME),
    ("state", "restore", NAME, f"{NAME}2"),
    ("sim", NAME),
    ("sim", "scenario.yml"),
    ("reproduce", SIGNS),
    ("bench", SIGNS),
    ("calibrate", "--rows", SIGNS),
    ("demo", "--rows", SIGNS),
    ("completion", SIGNS),
    ("completion", "zsh"),
    (SIGNS,),
)


def test_a_mistake_is_shown_without_being_obeyed(shell: Shell, tmp_path: Path) -> None:
    """Names of files and options, and texts that do not parse, come back in errors."""
    shell.monkeypatch.chdir(tmp_path)
    (tmp_path / "broken" / "queries").mkdir(parents=True)
    (tmp_path / "broken" / "penstock.yml").write_text(
        f'streams: {{s: {{path: "{NAME[:3]}\\e[7m"}}}}\n', encoding="utf-8"
    )
    (tmp_path / "broken" / "queries" / f"{NAME}.sql").write_text(f"SELECT `{SIGNS}` FROM s", encoding="utf-8")
    (tmp_path / "broken" / "queries" / "wide.sql").write_text("-- \u202e\nSELECT '符' + nope( FROM s", encoding="utf-8")
    (tmp_path / "scenario.yml").write_text('queries: [{name: "\\e[7m"}]\n"\\e]0;x": 1\n', encoding="utf-8")
    for arguments in MISTAKES:
        shell(*arguments)


class Hostile(Pretended):
    """An engine whose every word is hostile."""

    def ask(self, text: str) -> pa.Table:
        ends = pa.array([NOW, NOW], pa.timestamp("us", tz="UTC"))
        columns = {f"c{SIGNS}": [SIGNS, None], "nested": [[{SIGNS: SIGNS}], None]}
        return pa.table({"window_start": ends, "window_end": ends, **columns})

    def backfill(self, names: object, since: str = "", *, accept_changed_files: bool = False) -> dict[str, int]:
        return {SIGNS: 7}

    def pause_query(self, name: str) -> None:
        raise StateError(SIGNS, text=f"a\n{SIGNS}\tb", place=(2, 9), detail=f"{SIGNS}\n{SIGNS}", hint=SIGNS)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Stand beside the state folder of an engine that runs."""
    folder = tmp_path / NAME
    folder.mkdir()
    engine = Hostile(folder / "catalog.db")
    engine.create_query("pace", PACE)
    engine.fail_query("pace", SIGNS)
    engine.sinks = [SinkStatus(SIGNS, 3, SIGNS, NOW, 2)]
    write_record(folder / "format", {"format": 2, "id": "a"})
    held = StateFolder(folder)
    serving = Serving(engine, held.path, poll_s=0.01)
    serving.start()
    yield folder
    serving.stop()
    held.release()


RUNNING = (
    ("status",),
    ("top", "--once"),
    ("queries",),
    ("ask", f"SELECT '{SIGNS}'"),
    ("backfill", SIGNS),
    ("add", SIGNS, PACE),
    ("add", "q", f"SELECT {SIGNS} FROM trades"),
    ("resume", "pace"),
    ("policy", SIGNS),
    ("shed", SIGNS),
    ("shed", "trades", SIGNS),
    ("pause", "pace"),
    ("drop", SIGNS),
)


def test_a_running_engine_cannot_steer_the_terminal_of_who_asks_it(shell: Shell, state: Path) -> None:
    """Folders, sinks, columns, values, reasons and errors of the engine are shown."""
    for command, *arguments in RUNNING:
        where = ("--state", state)
        shell(command, *arguments, *where)
        shell(command, *arguments, *where, "--json")


def test_every_command_is_tried() -> None:
    tried = {arguments[0] for arguments in (*MISTAKES, *RUNNING)}
    assert set(cli.commands) - tried == set()
