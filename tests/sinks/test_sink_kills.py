"""What a killed process had begun to deliver, its successors bring to what the sink should hold."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from penstock.sinks.row_values import plain_rows
from tests.sinks.killed import BATCHES, every_batch
from tests.sinks.receiving import receiving

KILLS = 50
HOUSE = Path(__file__).resolve().parents[2]


def kill(folder: Path, kind: str, where: str) -> None:
    """Let lives be killed at every durable write of a sink, and fifty at any time, until one brings all there is."""
    command = [sys.executable, "-m", "tests.sinks.killed", str(folder), kind, where, "--kills", str(KILLS)]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["code"] == figures["missed"] == 0, (figures, done.stderr)
    assert figures["at_random"] == KILLS, figures
    assert figures["at_points"] >= 6, figures


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def test_a_webhook_has_every_answer_once_by_its_key(tmp_path: Path) -> None:
    with receiving() as receiver:
        kill(tmp_path, "webhook", receiver.url)
        came = len(receiver.taken)
        found = receiver.rows()
        by_key = {r.headers["idempotency-key"]: r.body for r in receiver.taken}
    told = [row for _, tables in every_batch() for table in tables for row in plain_rows(table)]
    assert len(told) == BATCHES * 500 == 100_000
    assert counted(found) == counted(told)
    assert len(by_key) < came  # some came twice
    assert len({r.headers["idempotency-key"] + r.body.decode() for r in receiver.taken}) == len(by_key)
