"""What a killed process had begun to deliver, its successors bring to what the sink should hold."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import penstock as ps
from penstock.model.instants import format_instant
from penstock.sinks.row_values import plain_rows
from tests.postgres_server import Server
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


def state_now(tables: Iterable[pa.Table]) -> dict[Any, Any]:
    """Work out what stands: of each window and group of a revised query what was said last."""
    found: dict[Any, Any] = {}
    for table in tables:
        for row in plain_rows(table):
            key = row["query_name"], row["window_end"], row.get("symbol"), row.get("k")
            if row.get("op") == "retract":
                found.pop(key, None)
            else:
                found[key] = row.get("shares", row.get("total", row.get("n"))), row.get("revision")
    return found


@pytest.mark.parametrize("kills", [KILLS, pytest.param(MANY, marks=pytest.mark.soak)])
def test_postgres_has_every_answer_once_and_revised_ones_as_they_stand(
    postgres: Server, tmp_path: Path, kills: int
) -> None:
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres.address, autocommit=True) as connection:
        connection.execute('DROP TABLE IF EXISTS flow, "Mended", pace')
        kill(tmp_path, "postgres", postgres.address, kills)
        read = {
            "flow": "SELECT 'flow', window_end, symbol, NULL, shares, NULL FROM flow",
            "Mended": """SELECT 'Mended', window_end, NULL, k, total, revision FROM "Mended" """,
            "pace": "SELECT 'pace', window_end, NULL, NULL, n, NULL FROM pace",
        }
        found = [row for text in read.values() for row in connection.execute(text).fetchall()]
    told = state_now(table for _, tables in every_batch() for table in tables)
    by_key = {(name, instant(end), symbol, k): (value, at) for name, end, symbol, k, value, at in found}
    assert len(found) == len(by_key) == len(told) > 60_000
    assert by_key == told


@pytest.mark.parametrize("kills", [KILLS, pytest.param(MANY, marks=pytest.mark.soak)])
def test_delta_has_every_answer_once(tmp_path: Path, kills: int) -> None:
    deltalake = pytest.importorskip("deltalake")
    kill(tmp_path, "delta", str(tmp_path / "tables"), kills)
    found: Counter[Any] = Counter()
    for name, columns in COLUMNS.items():
        files = deltalake.DeltaTable(str(ps.DeltaSink(tmp_path / "tables").folder_of(name))).file_uris()
        text = f"SELECT epoch_us(window_end), {', '.join(columns)} FROM read_parquet({files})"
        found.update((name, *row) for row in duckdb.execute(text).fetchall())
    told: Counter[Any] = Counter()
    for _, tables in every_batch():
        for (name, columns), table in zip(COLUMNS.items(), tables, strict=True):
            parts = [table["window_end"].cast(pa.int64()), *(table[column] for column in columns)]
            told.update(zip([name] * table.num_rows, *(part.to_pylist() for part in parts), strict=True))
    assert told.total() == 100_000
    assert found == told


COLUMNS = {"flow": ("symbol", "shares"), "Mended": ("k", "revision", "op", "total"), "pace": ("n",)}


def instant(moment: datetime) -> str:
    return format_instant((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))


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
