"""Engines and processes of functions that are killed with full queues, and while rows are shed, lose nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.always.operated_victim import ROWS, rows_of
from tests.always.operator_kills import run

FOLDER = "PENSTOCK_OPERATOR_KILLS"  # an environment variable: a folder in which a long run goes on where it was


@pytest.mark.usefixtures("interpreted")
@pytest.mark.timeout(1800)
def test_kills_of_functions_and_of_the_engine_with_full_queues_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    figures = run(tmp_path, 3, workers=2, aims=["queued"])
    assert (figures["engines"], figures["workers"], figures["queued"]) == (1, 2, 3), figures
    assert figures["answers"]["lines"] == figures["answers"]["tables"] > 300


@pytest.mark.usefixtures("interpreted")
@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_two_hundred_kills_with_full_queues_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    figures = run(Path(os.environ.get(FOLDER, tmp_path)), 200)
    print(json.dumps(figures, indent=2))
    assert figures["queued"] >= 150, figures
    assert figures["answers"]["levels"] > 1, figures


def test_the_rows_of_the_kills_are_the_same_each_time_and_none_is_late() -> None:
    assert rows_of(3) == rows_of(3)
    times = [row["ts"] for number in range(5) for row in rows_of(number)]
    assert times == sorted(times)
    assert len({row["id"] for number in range(5) for row in rows_of(number)}) == 5 * ROWS
