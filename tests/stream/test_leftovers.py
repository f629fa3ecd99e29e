"""What dropped queries leave goes: answers when their keep is over, definitions when nobody can ask for them."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.store.dying import Died, dying_at
from tests.stream.made import MadeStream, row

STAYS = "SELECT k, count(*) AS n, sum(v) AS x FROM s [RANGE 20 s SLIDE 10 s] GROUP BY k"
PASSES = "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 5 s]"
BRIEFLY = f"{PASSES} WITH (keep = '30 s')"
ROUNDS = 40  # batches of ten seconds


def come_and_go(made: MadeStream, text: str, rounds: range) -> None:
    """Let a query come before every batch, be altered after it, and go after the next one."""
    for number in rounds:
        made.create(f"passes{number}", text)
        made.feed(row(10 * number + 1), row(10 * number + 9, 2, "b"))
        if number % 3 == 0:
            made.alter(f"passes{number}", text.replace("count(*) AS n", "sum(v) AS x"))
        if number > rounds[0]:
            made.drop(f"passes{number - 1}")


def bodies(made: MadeStream) -> list[int]:
    """Return how long what is said of each change of the catalog is."""
    with sqlite3.connect(made.folder / "catalog.db") as connection:
        return [length for (length,) in connection.execute("SELECT length(body) FROM changes ORDER BY version")]


def test_what_dropped_queries_left_goes_when_their_keep_is_over(tmp_path: Path) -> None:
    for name in ("churn", "quiet"):
        (tmp_path / name).mkdir()
    made, quiet = MadeStream(tmp_path / "churn"), MadeStream(tmp_path / "quiet")
    for one in (made, quiet):
        one.create("stays", STAYS)
    come_and_go(made, BRIEFLY, range(ROUNDS))
    for number in range(ROUNDS):
        quiet.feed(row(10 * number + 1), row(10 * number + 9, 2, "b"))
    gone = made.catalog.next_id - len(made.catalog.query_names()) - 1
    left = made.pipeline.answers.definitions()
    assert gone > ROUNDS
    assert len(left) < gone // 2  # those of the last batches, which are not compacted yet
    assert sum(length > 200 for length in bodies(made)) < gone // 2
    assert made.timeline("stays") == quiet.timeline("stays")
    assert all(made.catalog.edition(number) is None for number in range(2, gone // 2))
    made.reopen()
    assert made.timeline("stays") == quiet.timeline("stays")
    assert made.pipeline.answers.definitions() == left


def test_names_numbers_and_versions_of_forgotten_queries_are_never_given_again(tmp_path: Path) -> None:
    made = MadeStream(tmp_path)
    made.create("stays", STAYS)
    come_and_go(made, BRIEFLY, range(ROUNDS))
    known = made.catalog.next_id
    for _ in range(2):
        assert made.catalog.edition(2) is None
        assert (made.catalog.name_of(2), made.catalog.version_of(3)) == ("passes0", 2)
        made.reopen()
    again = made.create("passes0", BRIEFLY).definition
    assert (again.id, made.catalog.version_of(again.id)) == (known, 3)
    assert made.timeline("passes0") == []


def test_queries_that_keep_their_answers_are_remembered_for_good(tmp_path: Path) -> None:
    made = MadeStream(tmp_path)
    made.create("stays", STAYS)
    come_and_go(made, PASSES, range(ROUNDS))
    made.reopen()
    answered = made.pipeline.answers.definitions()
    read = [made.catalog.edition(number) for number in answered]
    assert len(answered) > ROUNDS
    assert all(one is not None and one.query.text for one in read)
    made.create("passes1", PASSES)
    shown = made.runner.results(made.catalog.query("passes1"), {}, 1, revisions=False)
    assert shown.num_rows


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_death_while_definitions_are_forgotten_loses_nothing(moment: str, tmp_path: Path) -> None:
    made = MadeStream(tmp_path)
    made.create("stays", STAYS)
    reached = 0
    for number in range(ROUNDS):
        try:
            with dying_at(0, f"forgotten.{moment}"):
                come_and_go(made, BRIEFLY, range(number, number + 1))
        except Died:
            reached += 1
            made.reopen()
        for name in [name for name in made.catalog.query_names() if name != "stays"]:
            made.drop(name)
    assert reached > 1
    made.reopen()
    wanted = [
        (10.0 * end, k, min(2, end), v * min(2, end)) for end in range(1, ROUNDS) for k, v in (("a", 1), ("b", 2))
    ]
    assert made.timeline("stays") == wanted


@given(st.integers(0, 1 << 30))
@settings(max_examples=cases(5))
def test_whatever_comes_and_goes_a_stream_stands_as_if_all_were_remembered(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    found: list[dict[str, Any]] = []
    for every in (1, 1 << 30):  # batches between two looks at what can be forgotten
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("penstock.stream.batch_taking.COMPACTED_EVERY", every)
            patch.setattr("penstock.store.commits.FAN", 2)
            patch.setattr("penstock.store.answers.FAN", 2)
            found.append(driven(tmp_path_factory.mktemp("stream"), random.Random(seed)))
    assert found[0] == found[1]


def driven(folder: Path, draw: random.Random) -> dict[str, Any]:
    """Let queries of few names come, go and change, between batches and restarts; tell how the stream stands."""
    made = MadeStream(folder)
    made.create("stays", STAYS)
    for number in range(20):
        name, function = f"q{draw.randrange(4)}", draw.choice(["sum", "max", "min"])
        text = f"SELECT {function}(v) AS x FROM s [RANGE 15 s SLIDE 5 s] WITH (keep = '15 s')"
        match draw.randrange(5), made.catalog.has("query", name):
            case ((0 | 1), False):
                made.create(name, text)
            case 2, True:
                made.alter(name, text)
            case 3, True:
                made.drop(name)
            case 4, _:
                made.reopen()
        made.feed(*(row(5 * number + draw.random() * 5, draw.randrange(9), draw.choice("ab")) for _ in range(3)))
    made.reopen()
    catalog = made.catalog
    asked = {name: made.timeline(name) for name in catalog.query_names()}
    recent = {name: [one for one in said if one[0] > 5 * 20 - 15] for name, said in asked.items() if name != "stays"}
    versions = [(catalog.name_of(number), catalog.version_of(number)) for number in range(1, catalog.next_id)]
    return {"stays": asked["stays"], "recent": recent, "versions": versions, "standing": made.standing()}
