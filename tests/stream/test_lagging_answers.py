"""Answers may lag behind the rows, in any order, through deaths and changes, and still say the same."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.store.answers import DEFINITION
from tests.cases import cases
from tests.stream.made import SECOND, MadeStream, row

EXACT = {
    "all": "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE 20 s SLIDE 10 s]",
    "often": "SELECT max(v) AS x FROM s [RANGE 7 s SLIDE 2 s]",
    "by_k": "SELECT k, sum(v) AS x FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k",
    "rare": "SELECT k, count(*) AS n FROM s [RANGE 9 s SLIDE 3 s] GROUP BY k HAVING count(*) < 3",
    "revised": "SELECT k, sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k "
    "WITH (late = 'revise', revise_for = '1 min')",
    "changes": "SELECT k, min(v) AS x FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k WITH (emit = 'change')",
    "urgent": "SELECT max(v) AS x FROM s [RANGE 6 s SLIDE 3 s] WITH (priority = 9, deadline = '1 s')",
}
FRESH = "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE 20 s SLIDE 2 s]"


def said(made: MadeStream) -> dict[str, list[dict[str, Any]]]:
    """Read all that was ever said, by query; rows of one window come in any order."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _, tables in made.pipeline.answers.batches(-1):
        for table in tables:
            for one in table.to_pylist():
                found[made.catalog.name_of(one.pop(DEFINITION))].append(one)
    return {name: sorted(rows, key=str) for name, rows in found.items()}


def opened(folder: Path, *, lags: bool, queries: dict[str, str]) -> MadeStream:
    folder.mkdir()
    made = MadeStream(folder, lateness_us=2 * SECOND)
    for name, text in queries.items():
        made.create(name, text)
    made.runner.let_answers_lag(may=lags)
    return made


def batches(draw: random.Random) -> list[list[dict[str, Any]]]:
    """Draw batches of rows, some of them late, some too late for everything but a revision."""
    found, clock = [], 0.0
    for _ in range(draw.randint(3, 9)):
        clock += draw.choice([0.5, 3, 8, 25])
        times = [clock + draw.uniform(-2, 4) for _ in range(draw.randint(1, 6))]
        times += [clock - draw.uniform(2, 30) for _ in range(draw.choice([0, 0, 1, 3]))]
        found.append([dict(row(max(0.0, t), draw.randrange(9), draw.choice("abc"))) for t in times])
    return found


def answer_some(made: MadeStream, draw: random.Random) -> None:
    keys = list(made.pipeline.committer.unanswered.items)
    made.pipeline.answer_next(draw.sample(keys, draw.randint(0, len(keys))))


@settings(max_examples=cases(60), deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_whenever_windows_are_answered_they_say_the_same(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    draw, folder = random.Random(seed), tmp_path_factory.mktemp("lag")
    at_once = opened(folder / "at_once", lags=False, queries=EXACT)
    lagging = opened(folder / "lagging", lags=True, queries=EXACT)
    for batch in batches(draw):
        at_once.feed(*batch)
        lagging.feed(*batch)
        match draw.randrange(8):
            case 0 | 1 | 2:
                answer_some(lagging, draw)
            case 3:  # as after the end of the process: what was due is answered
                lagging.reopen()
                lagging.runner.let_answers_lag()
                assert said(lagging) == said(at_once)
            case 4:
                for made in (at_once, lagging):
                    made.drop("often") if "often" in made.catalog.query_names() else made.create(
                        "often", EXACT["often"]
                    )
            case 5:
                for made in (at_once, lagging):
                    made.alter("by_k", draw.choice(["SELECT k, min(v) AS x FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k"]))
    at_once.runner.flush()
    lagging.runner.flush()
    assert said(lagging) == said(at_once)
    assert lagging.pipeline.progress.windows.unanswered == {}


def test_windows_that_are_final_are_answered_before_late_rows_enter_them(tmp_path: Path) -> None:
    #   rows  1   12 | 13 late for nothing, 3 late for the window that ended at 10 and is not answered yet
    made = opened(tmp_path / "made", lags=True, queries={"q": "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]"})
    made.feed(row(1), row(13))
    assert (made.timeline("q"), bool(made.pipeline.committer.unanswered)) == ([], True)
    made.feed(row(3), row(14))
    assert made.timeline("q") == [(10.0, 1)]


def test_rows_on_time_let_final_windows_wait(tmp_path: Path) -> None:
    made = opened(tmp_path / "made", lags=True, queries={"q": "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]"})
    for second in (1, 13, 24, 35):
        made.feed(row(second))
    assert made.timeline("q") == []
    assert made.pipeline.progress.windows.unanswered == {1: 10 * SECOND}
    made.runner.let_answers_lag(may=False)
    assert made.timeline("q") == [(10.0, 1), (20.0, 1), (30.0, 1)]


def test_partials_of_windows_that_are_not_answered_do_not_expire(tmp_path: Path) -> None:
    made = opened(tmp_path / "made", lags=True, queries={"q": "SELECT sum(v) AS x FROM s [RANGE 4 s SLIDE 2 s]"})
    for second in range(0, 200, 2):
        made.feed(row(second, second))
    made.runner.let_answers_lag(may=False)
    assert made.timeline("q")[1:4] == [(4.0, 2), (6.0, 6), (8.0, 10)]


@settings(max_examples=cases(120), deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_a_fresh_query_skips_what_is_superseded_counts_it_and_is_exact_at_each_end(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw = random.Random(seed)
    queries = {"fresh": f"{FRESH} WITH (emit = 'fresh')", "exact": FRESH}
    made = opened(tmp_path_factory.mktemp("fresh") / "made", lags=draw.random() < 0.8, queries=queries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.stream.evaluation_order.GROUP_S", draw.choice([0.0, 0.1]))
        for batch in batches(draw):
            made.feed(*batch)
            if draw.random() < 0.5:
                answer_some(made, draw)
        made.runner.flush()
    fresh, exact = made.timeline("fresh"), made.timeline("exact")
    assert set(fresh) <= set(exact)
    assert fresh == sorted(set(fresh))
    assert not exact or fresh[-1] == exact[-1]
    number = made.catalog.query("fresh").id
    skipped = made.pipeline.progress.windows.skipped
    assert len(fresh) + skipped.get(number, 0) == len(exact)
    assert made.catalog.query("exact").id not in skipped
    last = made.pipeline.commits.last()
    assert last is not None
    assert {int(k): v for k, v in last.skipped.items()}.keys() <= {number}


def test_a_stream_that_fails_to_log_an_answer_says_so_at_its_next_step_and_goes_on_after_it(tmp_path: Path) -> None:
    from tests.store.dying import dying_at

    made = opened(tmp_path / "made", lags=True, queries={"q": "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]"})
    made.feed(row(1), row(13))
    with dying_at(0, "answers.before", error=OSError("the disk is full")), pytest.raises(Exception, match="full"):
        made.pipeline.answer_next(list(made.pipeline.committer.unanswered.items))
    made.feed(row(25))  # what failed in the middle is mended first: the window is answered
    assert made.timeline("q")[0] == (10.0, 1)


def test_what_was_promised_to_a_query_while_windows_waited_outlives_the_process(tmp_path: Path) -> None:
    #   rows  1   13   25   38 | the windows up to 20 and 30 wait, so their rows are there for a query that comes now
    from tests.store.dying import Died, dying_at

    made = opened(tmp_path / "made", lags=True, queries={"q": "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]"})
    made.feed(row(1), row(13))
    made.pipeline.drain()
    made.feed(row(25), row(38))
    with dying_at(0, "commit.after"), pytest.raises(Died):
        made.create("new", "SELECT count(*) AS n FROM s [RANGE 20 s SLIDE 10 s]")
    made.reopen()
    made.runner.settle()
    assert made.pipeline.progress.windows.first_ends[made.catalog.query("new").id] == 30 * SECOND
    assert made.timeline("new") == [(30.0, 2)]
