"""A column that shall have a wider type: refused, and the way that the refusal tells, gone step by step."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.project.making import write_project
from tests.shell import Penstock, penstock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["penstock"]  # a fixture

STREAM = """
  {name}:
    format: csv
    path: in
    options: {{header: true}}
    columns: {{ts: TIMESTAMP, volume: {type}}}
    time: ts
"""
TOTAL = "SELECT sum(volume) AS total, max(volume) AS top FROM {name} [RANGE 4 MIN SLIDE 2 MIN]"
FIRST = {minute: minute for minute in range(9)}
LATER = {minute: 3_000_000_000 + minute for minute in range(12, 30)}  # more than an INT holds


def settings(*streams: tuple[str, str]) -> str:
    declared = "".join(STREAM.format(name=name, type=type_) for name, type_ in streams)
    return f"streams:{declared}state: state\nsinks: [jsonl: lines]\n"


def arrive(project: Path, name: str, volumes: dict[int, int]) -> None:
    lines = [f"2026-01-05 14:{minute:02}:00,{volume}" for minute, volume in volumes.items()]
    (project / "in" / f"{name}.csv").write_text("\n".join(["ts,volume", *lines]) + "\n", encoding="utf-8")


def windows(volumes: dict[int, int], before: int) -> dict[str, tuple[int, int]]:
    """Answer all windows that end by a minute, from the rows themselves."""
    found = defaultdict[str, list[int]](list)
    for end in range(2, before + 1, 2):
        found[f"14:{end:02}"] += [volume for minute, volume in volumes.items() if end - 4 <= minute < end]
    return {end: (sum(mine), max(mine)) for end, mine in found.items() if mine}


def test_queries_come_to_read_a_wider_column_from_a_stream_of_another_name(
    penstock: Penstock, spark: SparkSession, tmp_path: Path
) -> None:
    project = write_project(tmp_path / "p", settings(("trades", "INT")), total=TOTAL.format(name="trades"))
    (project / "in").mkdir()
    arrive(project, "1", FIRST)
    assert penstock("run", project, "--once").code == 0

    write_project(project, settings(("trades", "BIGINT")))
    refused = penstock("run", project, "--once")
    assert refused.code == 1
    assert "penstock.yml:6: column" in refused.err
    told = "Declare a stream of another name over the same source, with volume as bigint, and let queries read that"
    assert told in refused.err

    write_project(project, settings(("trades", "INT"), ("wide", "BIGINT")), total=TOTAL.format(name="wide"))
    assert penstock("run", project, "--once").code == 0
    arrive(project, "2", LATER)
    assert penstock("run", project, "--once").code == 0
    write_project(project, settings(("wide", "BIGINT")))
    last = penstock("run", project, "--once")
    assert (last.code, "trades" in penstock("status", project).out) == (0, False), last.err

    files = [file.read_text(encoding="utf-8") for file in (project / "lines").glob("*.jsonl")]
    answers = [json.loads(line) for text in files for line in text.splitlines()]
    ends = [answer["window_end"][11:16] for answer in answers]
    assert len(set(ends)) == len(ends)  # each window once
    found = {end: (a["total"], a["top"]) for end, a in zip(ends, answers, strict=True) if a["total"] is not None}
    assert found == windows(FIRST | LATER, 28)
