"""What a killed process had begun to deliver, its successors bring to what the sink should hold."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.sinks.row_values import plain_rows
from tests.sinks.killed import BATCHES, every_batch
from tests.sinks.receiving import receiving

KILLS = 15  # at any time
MANY = 60
HOUSE = Path(__file__).resolve().parents[2]


def kill(folder: Path, kind: str, where: str, kills: int) -> None:
    """Let lives be killed at every durable write of a sink, and others at any time, until one brings all there is."""
    command = [sys.executable, "-m", "tests.sinks.killed", str(folder), kind, where, "--kills", str(kills)]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["code"] == figures["missed"] == 0, (figures, done.stderr)
    assert figures["at_random"] == kills, figures
    assert figures["at_points"] >= 6, figures


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize("kills", [KILLS, pytest.param(MANY, marks=pytest.mark.soak)])
def test_a_webhook_has_every_answer_once_by_its_key(tmp_path: Path, kills: int) -> None:
    with receiving() as receiver:
        kill(tmp_path, "webhook", receiver.url, kills)
        came = len(receiver.taken)
        found = receiver.rows()
        by_key = {r.headers["idempotency-key"]: r.body for r in receiver.taken}
    told = [row for _, tables in every_batch() for table in tables for row in plain_rows(table)]
    assert len(told) == BATCHES * 500 == 100_000
    assert counted(found) == counted(told)
    assert len(by_key) < came  # some came twice
    assert len({r.headers["idempotency-key"] + r.body.decode() for r in receiver.taken}) == len(by_key)
