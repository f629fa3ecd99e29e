"""How far a backfill is, in words."""

from __future__ import annotations

from typing import Any

from penstock.cli.backfill_progress import backfill_text
from penstock.cli.status_text import status_text
from penstock.control.status import StreamFacts, status_at
from penstock.stream.progress import BackfillProgress
from tests.control.pretending import NOW, PACE, Pretended


def one(read: int, units: int | None, answered: int = 0, windows: int | None = None) -> dict[str, Any]:
    return {"query": "q", "read": read, "units": units, "answered": answered, "windows": windows}


def test_a_backfill_waits_then_reads_then_answers() -> None:
    assert backfill_text([one(0, None)]) == "waits for its turn"
    short = "waits, as memory runs short: the cap's stage background is active"
    assert backfill_text([one(0, None)], held_back=True) == short
    assert backfill_text([one(12, 1_440)]) == "12 of 1,440 parts of the past read"
    assert backfill_text([one(1, 1, 300, 1_200), one(1, 1, 0, 240)]) == "300 of 1,440 windows answered"


def test_a_status_shows_how_far_backfills_are() -> None:
    engine = Pretended()
    engine.create_query("pace", PACE)
    number = engine.catalog.query("pace").id
    facts = StreamFacts(engine.progress, backfills=[BackfillProgress(number, 3, 10, 0, None)])
    found = status_at(engine.catalog, {"trades": facts}, NOW).to_dict()
    head = {"folder": "state", "running": False, "answers_requests": False}
    assert "  backfill pace: 3 of 10 parts of the past read" in status_text(found | head).splitlines()
    stage = {"stage": "background", "active": True, "times": 1, "seconds": 2.0}
    figures = {"cap_bytes": 100, "held_bytes": 90, "peak_bytes": 95, "stages": [stage], "skipped": 0, "held_s": 0.0}
    figures |= {"preempted": 0, "resumed": 0, "sampled": 0, "over": 0}
    told = status_text(found | head | {"overload": figures})
    assert "  backfill pace: 3 of 10 parts of the past read; waits, as memory runs short:" in told
