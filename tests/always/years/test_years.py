"""A project lives for a year: whatever is changed, restarted and killed, readers of its sinks see each answer once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.always.years.year import Year
from tests.cases import sweep

STEPS = 13  # files of thirty days each: a year, and some more
BY_HAND = 3  # one step in so many is made by statements while the engine is open
pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", sweep(range(200), 2))
def test_a_year_of_changes_and_deaths_gives_each_window_one_answer(tmp_path: Path, seed: int) -> None:
    year = Year(tmp_path, seed)
    for number in range(STEPS):
        few = number >= STEPS - 2 and year.kills.total() < 2  # deaths are drawn: here are those that are missing
        year.step(number, by_hand=number % BY_HAND == 1, kill=int(few))
    assert year.kills.total() > 1


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", sweep(range(1000, 1020), 1))
def test_a_quarter_with_a_process_that_is_killed(tmp_path: Path, seed: int) -> None:
    year = Year(tmp_path, seed)
    for number in range(4):
        year.step(number, kill=1 if number == 2 else 0)
    assert year.kills["SIGKILL"] == 1
