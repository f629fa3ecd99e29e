"""A project lives for a year: whatever is changed, restarted and killed, readers of its sinks see each answer once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.always.years.year import Year
from tests.cases import sweep

STEPS = 30  # files of twelve days each: a year
BY_HAND = 3  # one step in so many is made by statements while the engine is open
pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", sweep(range(200), 2))
def test_a_year_of_changes_and_deaths_gives_each_window_one_answer(tmp_path: Path, seed: int) -> None:
    year = Year(tmp_path, seed)
    for number in range(STEPS):
        year.step(number, by_hand=number % BY_HAND == 1)
    print(year.kills, year.refusals, *year.plan.said, sep="\n")
    assert year.kills.total() > 5


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", sweep(range(1000, 1020), 1))
def test_a_year_with_processes_that_are_killed(tmp_path: Path, seed: int) -> None:
    year = Year(tmp_path, seed)
    for number in range(6):
        year.step(number, kill=number == 4)
    assert year.kills["SIGKILL"] == 1
