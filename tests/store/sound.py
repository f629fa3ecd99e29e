"""A small state folder with all that there can be in one, made without Spark, and all that can be read from it."""

from __future__ import annotations

import json
import shutil
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.store.answers import DEFINITION, DiskAnswerLog, answers_of
from penstock.store.changes import read_changes
from penstock.store.commits import DiskCommitLog
from penstock.store.compaction import FAN
from penstock.store.files import read_record, write_record
from penstock.store.folder import StateFolder
from penstock.store.verifying import check_together, last_answers

FORMAT_1 = Path(__file__).parent / "format1"  # 133 rows in 9 batches, three queries, a sink
STREAM, OFFSETS, LAST = "trades", 'v1\n{"batchWatermarkMs":0}\n{"logOffset":7}', 2 * FAN + 12


def made(folder: Path) -> Path:
    """Make a folder with files that were put together and such that were not, a sink's progress and a checkpoint."""
    shutil.copytree(FORMAT_1 / "state", folder)
    state = StateFolder(folder)
    commits, answers = DiskCommitLog(state.commits(STREAM)), DiskAnswerLog(state.answers(STREAM))
    first = commits.last()
    assert first is not None
    for number in range(9, LAST + 1):
        table = pa.table({"label": [number] * 50, "rows": range(50)})
        commit = replace(first, number=number, batch=number, highest=number, kind="batch", answered=answers.last())
        commits.append(replace(commit, source=OFFSETS, checkpoint="7a6b"), table)
        commits.compact()
        ends = pa.array([number * 1_000_000] * 3).cast(pa.timestamp("us", tz="UTC"))
        answers.append(number, [pa.table({DEFINITION: [1, 2, 3], "window_end": ends, "n": [number] * 3})])
        answers.compact(number)
    write_record(folder / "sinks" / f"{STREAM}-0.json", {"delivered": LAST, "file": 0, "length": 7})
    _write_checkpoint(state.checkpoint(STREAM))
    state.release()
    return folder


def _write_checkpoint(checkpoint: Path) -> None:
    """Write a checkpoint as Spark does, checksums beside the files."""
    texts = {"metadata": json.dumps({"id": "7a6b"})}
    texts |= {f"{log}/{n}": OFFSETS for log in ("offsets", "commits", "sources/0") for n in range(LAST - 2, LAST + 1)}
    for name, text in texts.items():
        path = checkpoint / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        told = b"crc\0" + (512).to_bytes(4, "big") + zlib.crc32(text.encode()).to_bytes(4, "big")
        path.with_name(f".{path.name}.crc").write_bytes(told)


def contents(folder: Path) -> Any:
    """Open a folder as an engine does, and read all that it would go on from."""
    state = StateFolder(folder)
    try:
        commits, answers = DiskCommitLog(state.commits(STREAM)), DiskAnswerLog(state.answers(STREAM))
        changes = read_changes(state.catalog)
        check_together(folder, STREAM, commits.last(), last_answers(answers), max(c["version"] for c in changes))
        replayed = [(c, None if t is None else t.to_pylist()) for c, t in commits.replay()]
        by_query = {d: [t.to_pylist() for t in answers_of(answers, [d])] for d in (1, 2, 3)}
        by_commit = [(n, [t.to_pylist() for t in tables]) for n, tables in answers.batches(-1)]
        progress = [read_record(path) for path in sorted(state.sinks.iterdir())] if state.sinks.exists() else []
        return state.id, changes, replayed, by_query, by_commit, progress
    finally:
        state.release()


def partials_in(folder: Path) -> list[Path]:
    """List the files of partials in a folder of commits, without the names made for commits to come."""
    return sorted(path for path in folder.glob("*.arrow") if path.stat().st_size)


def files_of(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
