"""Signals at bad moments: runs of a project are interrupted in every way until they are done, and nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.always.extremes.commands import Ran, penstock, start
from tests.always.extremes.fields import expected, judge, write_files, wrongly_delivered
from tests.always.extremes.trial import Trial
from tests.always.kills import end_group
from tests.always.victim import INTERPRETED, QUESTIONS

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
TIMES = 28
PROJECT = """
state: state
streams:
  s:
    format: parquet
    path: files
    options: {maxFilesPerTrigger: 1}
    columns: {id: BIGINT, ts: TIMESTAMP, k: STRING, j: INT, v: BIGINT}
    time: ts
    lateness: 2 s
    dedup: [id]
sinks:
  - jsonl: lines
  - parquet: {folder: tables, roll_seconds: 1}
spark:
  cores: 2
  memory: 600m
"""


@dataclass(frozen=True, slots=True)
class Shot:
    """What a run was sent, when, to whom, and how it ended."""

    once: bool
    moment: str
    signals: tuple[str, ...]
    group: bool
    ended: Ran
    seconds: float  # from the first signal to the end

    def __str__(self) -> str:
        run = "run --once" if self.once else "run"
        to = " to the group" if self.group else ""
        return f"{run}, {self.moment}: {' '.join(self.signals)}{to} → {self.ended.code} after {self.seconds:.1f} s"


def run(trial: Trial, times: int = TIMES) -> None:
    """Send signals to so many runs, then let one end, and compare the sinks with the model."""
    folder = trial.folder
    (folder / "penstock.yml").write_text(
        PROJECT + "".join(f'  {name}: "{value}"\n' for name, value in INTERPRETED.items())
    )
    (folder / "queries").mkdir()
    for name, question in QUESTIONS.items():
        (folder / "queries" / f"{name}.sql").write_text(question.sql())
    shots: list[Shot] = []
    written = 0
    for number in range(times):
        draw = random.Random(number)
        write_files(folder / "files", range(written, written + 6))
        written += 6
        shot = _shoot(folder, draw, once=number % 2 == 0)
        shots.append(shot)
        trial.say(f"{number + 1}: {shot}")
        if not _clear(shot):
            trial.claim(f"{shot}: ends clearly", False, shot.ended)
    done = penstock(folder, "run", "--once", "--flush", "--end-stream")
    trial.claim("a last run ends by itself", done.code == 0 and done.plain, done)
    judge(trial, "both sinks hold each answer once", wrongly_delivered(folder, expected(written)))
    odd = [str(shot) for shot in shots if not _clear(shot)]
    trial.claim(f"none of {times} runs prints a stack trace or ends oddly", not odd, odd[:3])
    checked = penstock(folder, "state", "verify")
    trial.claim("the state folder is sound", checked.code == 0, checked)
    trial.measure("moments", dict(Counter(shot.moment for shot in shots)))
    trial.measure("signals", dict(Counter(" ".join(shot.signals) for shot in shots)))
    trial.measure("exit_codes", dict(Counter(f"{' '.join(s.signals)} → {s.ended.code}" for s in shots)))
    trial.measure("longest_stop_s", max(shot.seconds for shot in shots))


def _shoot(folder: Path, draw: random.Random, *, once: bool) -> Shot:
    """Start a run, wait for some moment, send it one or two signals, and wait for its end."""
    commits = folder / "state" / "commits" / "s"
    before = _newest(commits)
    process = start(folder, "run", *(["--once"] if once else ["--log", "json"]))
    moment = draw.choice(["at once", "starting", "starting", "batch", "batch", "batch", "commit", "commit", "closing"])
    group = draw.random() < 0.3
    kinds = [draw.choice(SIGNALS)]
    if draw.random() < 0.4 and kinds[0] is not signal.SIGKILL:
        kinds.append(draw.choice(SIGNALS))
    try:
        _await(process, moment, commits, before, draw)
        if moment == "closing":
            _send(process, signal.SIGTERM, group=False)
            time.sleep(draw.uniform(0, 1.5))
        began = time.monotonic()
        for place, kind in enumerate(kinds):
            if place:
                time.sleep(draw.choice([0, 0.05, 0.5, 2.0]))
            _send(process, kind, group=group)
        try:
            out, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            end_group_of(process)
            out, err = process.communicate()
            err += "\nTraceback: it did not end within 120 s"
    finally:
        end_group_of(process)
    ended = Ran(("run",), process.returncode, out, err)
    return Shot(once, moment, tuple(k.name for k in kinds), group, ended, round(time.monotonic() - began, 1))


def end_group_of(process: subprocess.Popen[str]) -> None:
    end_group(process)  # type: ignore[arg-type]


def _await(process: subprocess.Popen[str], moment: str, commits: Path, before: str, draw: random.Random) -> None:
    """Wait for a moment of a run's life."""
    if moment == "at once":
        time.sleep(draw.uniform(0, 1.0))
        return
    if moment == "starting":
        time.sleep(draw.uniform(1.0, 12.0))
        return
    end = time.monotonic() + 120
    wished = draw.randint(1, 3)
    seen: set[str] = set()
    while process.poll() is None and time.monotonic() < end and len(seen) < wished:
        newest = _newest(commits)
        if newest > before:
            seen.add(newest)
        time.sleep(0.001)
    if moment == "batch":
        time.sleep(draw.uniform(0, 0.6))


def _newest(commits: Path) -> str:
    """Name the newest commit, or what is being written for it."""
    if not commits.is_dir():
        return ""
    with os.scandir(commits) as files:  # those without content are names made for commits to come
        return max((file.name for file in files if file.name[0] == "0" and file.stat().st_size), default="")


def _send(process: subprocess.Popen[str], kind: signal.Signals, *, group: bool) -> None:
    if process.poll() is None:
        try:
            (os.killpg if group else os.kill)(process.pid, kind)
        except ProcessLookupError:
            return


def _clear(shot: Shot) -> bool:
    """Tell whether a run ended as it should: no stack trace, a known exit code or the signal's own."""
    allowed = {0, 130, *(-number for number in SIGNALS)}
    if shot.group:
        allowed.add(3)  # Spark's process got the signal too
    return shot.ended.plain and shot.ended.code in allowed
