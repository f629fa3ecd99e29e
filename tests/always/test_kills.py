"""A process that is killed at any moment leaves sinks that its successors bring to exactly what they should hold."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.always.kills import BEHIND, INSIDE, run
from tests.always.model import TERMS
from tests.always.victim import LAGGING, expected, rows_of

FOLDER = "PENSTOCK_KILLS"  # an environment variable: a folder in which a long run goes on where it was
ENOUGH = 200  # kills while windows wait


@pytest.mark.usefixtures("interpreted")
@pytest.mark.timeout(1800)
def test_four_kills_inside_batches_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    figures = run(tmp_path, 4, aims=INSIDE)
    assert figures["inside"] == 4, figures
    assert figures["answers"]["lines"] == figures["answers"]["tables"] > 100


@pytest.mark.usefixtures("interpreted")
@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_two_hundred_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    figures = run(Path(os.environ.get(FOLDER, tmp_path)), 200)
    print(json.dumps(figures, indent=2))
    assert figures["missed"] == 0, figures
    assert figures["inside_share"] >= 0.8, figures


@pytest.mark.usefixtures("interpreted")
@pytest.mark.timeout(1800)
def test_a_kill_while_windows_wait_to_be_answered_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    figures = run(tmp_path, 1, aims=[BEHIND], kinds=[LAGGING])
    assert figures["behind"] == 1, figures
    assert figures["answers"]["lines"] == figures["answers"]["tables"] > 50


@pytest.mark.usefixtures("interpreted")
@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_two_hundred_kills_while_windows_wait_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    figures = run(Path(os.environ.get(FOLDER, tmp_path)), 2 * ENOUGH, kinds=[LAGGING])
    print(json.dumps(figures, indent=2))
    assert figures["behind"] >= ENOUGH, figures


def test_the_rows_of_the_kills_are_of_every_kind() -> None:
    model = expected("keys", range(60))
    assert all(model.counts[term] > 5 for term in TERMS), model.counts
    assert model.law()
    assert rows_of(7) == rows_of(7)
