"""A service from start to stop: ``penstock run`` in a process of its own, every other command against it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.shell import PATIENCE_S, Penstock, penstock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["penstock"]  # a fixture

BEGIN = datetime(2026, 1, 5, 14, 30, tzinfo=UTC)
SETTINGS = """
state: state
streams:
  trades:
    format: csv
    path: data
    columns: {ts: TIMESTAMP, symbol: STRING, price: DOUBLE}
    time: ts
sinks:
  - jsonl: answers
spark: {memory: 600m}
"""
PACE = "SELECT count(*) AS n FROM trades [RANGE 1 MIN SLIDE 1 MIN]"


def minute(number: int) -> datetime:
    return BEGIN + timedelta(minutes=number)


def write_minutes(folder: Path, first: int, last: int) -> None:
    """Write a file of six rows a minute, and one that makes the last minute final."""
    instants = [minute(first) + timedelta(seconds=10 * n) for n in range(6 * (last - first) + 1)]
    lines = [f"{ts:%Y-%m-%dT%H:%M:%SZ},{'AB'[n % 2]},{n}.5" for n, ts in enumerate(instants)]
    draft = folder / f".{first}"
    draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draft.rename(folder / f"{first:03d}.csv")


def until(found: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    end = time.monotonic() + PATIENCE_S
    while not found():
        assert process is None or process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


def answers(folder: Path, query: str) -> list[tuple[str, int]]:
    lines = [
        json.loads(line) for f in sorted((folder / "answers").glob("*.jsonl")) for line in f.read_text().splitlines()
    ]
    return [(line["window_end"][11:16], line["n"]) for line in lines if line["query_name"] == query]


@pytest.mark.usefixtures("spark")  # which later tests share: begun here, it would look for their files in this folder
def test_a_service_is_controlled_from_the_command_line(
    penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("penstock.yml", SETTINGS), ("queries/pace.sql", PACE)):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    Path("data").mkdir()
    write_minutes(Path("data"), 0, 3)

    def status() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(penstock("status", "--json").out)
        return found

    def feed(first: int, last: int) -> None:
        write_minutes(Path("data"), first, last)
        until(lambda: watermark() == minute(last), process)

    def watermark() -> datetime | None:
        us = status()["streams"][0]["watermark_us"]
        return None if us is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)

    command = [str(Path(sys.executable).with_name("penstock")), "run", "--log", "json", "--log-file", "run.log"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: Path("state/catalog.db").exists() and bool(status()["streams"]), process)
            until(lambda: watermark() == minute(3), process)
            found = status()
            assert (found["running"], found["pid"], found["answers_requests"]) == (True, process.pid, True)
            assert penstock("run", "--once").code == 4  # the folder is in use

            added = penstock("add", "mine", "SELECT count(*) AS n FROM trades [RANGE 2 MIN SLIDE 1 MIN]")
            assert (added.code, added.err) == (0, ""), added.err
            feed(3, 5)
            assert penstock("pause", "pace").code == 0
            feed(5, 6)
            (pace, mine) = json.loads(penstock("queries", "--json").out)["queries"]
            assert (pace["state"], pace["why"], mine["state"]) == ("paused", "paused by hand", "answering")
            assert penstock("resume", "pace").code == 0
            feed(6, 8)

            asked = json.loads(penstock("ask", "SELECT count(*) AS n FROM trades [RANGE 1 MIN]", "--json").out)
            assert asked["rows"] == [["2026-01-05T14:37:00.000000Z", "2026-01-05T14:38:00.000000Z", 6]]
            refused = penstock("add", "wrong", "SELECT avg(prise) AS p FROM trades [RANGE 1 MIN SLIDE 1 MIN]")
            assert (refused.code, 'Did you mean "price"?' in refused.err) == (1, True)
            (stream,) = status()["streams"]
            assert stream["law_holds"]
            assert stream["counts"]["ingested"] == 6 * 8 + 4  # each file repeats a row of the next
            assert penstock("drop", "mine").code == 0
            assert penstock("status", "--check").code == 0

            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 0, err

    left, left_rows = penstock("status"), penstock("status", "--json").out
    assert left.out.startswith("state: no engine runs")
    assert [q["query"] for q in json.loads(penstock("queries", "--json").out)["queries"]] == ["pace"]
    told = dict(answers(tmp_path, "pace"))
    assert list(told) == ["14:31", "14:32", "14:33", "14:34", "14:35", "14:37", "14:38"]  # paused at 14:36
    assert told["14:31"] == told["14:38"] == 6
    ends = [end for end, _ in answers(tmp_path, "mine")]
    assert ends == ["14:34", "14:35", "14:36", "14:37", "14:38"][-len(ends) :]
    assert len(ends) >= 3
    events = [json.loads(line) for line in Path("run.log").read_text(encoding="utf-8").splitlines()]
    assert (events[0]["event"], events[-1]["event"]) == ("started", "stopped")
    batches = [e for e in events if e["event"] == "batch"]
    assert [e["commit"] for e in batches] == sorted(e["commit"] for e in batches)
    assert sum(e["rows"] for e in batches) == json.loads(left_rows)["streams"][0]["counts"]["ingested"]
    assert all(e["seconds"] >= e["job_seconds"] + e["commit_seconds"] > 0 for e in batches)
    assert batches[-1]["watermark"] is not None
    assert [(e["event"], e["query"]) for e in events if e["event"] == "request"][:3] == [
        ("request", "mine"),
        ("request", "pace"),
        ("request", "pace"),
    ]


def test_a_signal_ends_a_single_run_after_the_current_batch(
    penstock: Penstock, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    for number in range(12):
        write_minutes(tmp_path / "data", number, number + 1)
    script = tmp_path / "script.sql"
    source = f"USING csv OPTIONS (path = '{tmp_path / 'data'}', maxFilesPerTrigger = 1) WATERMARK FOR ts"
    columns = "ts TIMESTAMP, symbol STRING, price DOUBLE"
    script.write_text(f"CREATE STREAM trades ({columns}) {source}; CREATE QUERY pace AS {PACE};", encoding="utf-8")

    commits: list[str] = []

    def stop_at_the_second_commit(point: str) -> None:
        commits.extend([point] * (point == "commit.after"))
        if point == "commit.after" and len(commits) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)  # the batch goes on when the signal has been seen

    monkeypatch.setattr("penstock.store.faults.hook", stop_at_the_second_commit)
    done = penstock("run", script, "--once", "--flush", "--end-stream", "--state", tmp_path / "state", "--json")
    assert done.code == 130, done.err
    (stream,) = json.loads(done.out)["streams"]
    assert 14 <= stream["ingested"] < 12 * 7
    assert stream["ingested"] % 7 == 0
    again = penstock("run", script, "--once", "--state", tmp_path / "state", "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["streams"][0]["ingested"] == 12 * 7
