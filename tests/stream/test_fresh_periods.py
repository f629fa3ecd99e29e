"""Fresh queries run at shorter periods under AS and HS, and keep the law of fresh answers whatever happens."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.stream.fresh_runs import DISTINCT, LATENESS_S, TECHNIQUES, FreshRun, exact, fresh, opened, seconds
from tests.stream.made import SECOND, row

NAMES = tuple("abcdef")


# -- what a change of the technique does -------------------------------------------------------------------------------


def fed_singly(run: FreshRun, first: int, last: int) -> None:
    """Feed a row a second, each in a batch of its own."""
    for one in seconds(first, last):
        run.feed(one)
        run.check_fresh()


def test_under_as_a_fresh_query_answers_whenever_its_partner_does(tmp_path: Path) -> None:
    """A slide of six and one of two seconds, from the first row on.

    ::

        asked     6           12          ends of a
        AS        2  4  6  8  10  12      ends of both
    """
    run = opened(tmp_path)
    run.create("a", fresh(12, 6))
    run.create("b", fresh(4, 2))
    fed_singly(run, 0, 14)
    assert run.ends("a") == run.ends("b") == [2, 4, 6, 8, 10, 12]
    run.check()


def test_under_cs_it_answers_at_its_own_ends(tmp_path: Path) -> None:
    run = opened(tmp_path, "CS")
    run.create("a", fresh(12, 6))
    run.create("b", fresh(4, 2))
    fed_singly(run, 0, 14)
    assert run.ends("a") == [6, 12]
    run.check()


def test_a_change_while_it_runs_takes_effect_with_the_first_window_that_begins_after_it(tmp_path: Path) -> None:
    """Range 8, slide 6 beside slide 4: AS is chosen after row 12, CS after row 30.

    ::

        before   6  12  18                                windows that begin before 16
        AS                  24  28  32  36  40            the first begins at 16, four after the last seen
        after                                   42  48    the first begins at 34
    """
    run = opened(tmp_path, "CS")
    run.create("a", fresh(8, 6))
    run.create("b", fresh(4, 4))
    fed_singly(run, 0, 13)
    run.synchronize("AS")
    fed_singly(run, 13, 31)
    run.synchronize("CS")
    fed_singly(run, 31, 50)
    assert run.ends("a") == [6, 12, 18, 24, 28, 32, 36, 40, 42, 48]
    run.check()


def test_a_query_that_changes_its_period_again_and_again_has_two_definitions_at_most(tmp_path: Path) -> None:
    run = opened(tmp_path, "CS")
    run.create("a", fresh(8, 6))
    run.create("b", fresh(4, 4))
    for second in range(60):
        run.synchronize("AS" if second % 2 else "CS")
        fed_singly(run, second, second + 1)
        assert len([d for d in run.made.catalog.definitions("s") if d.name == "a"]) <= 2
    assert len(run.definitions) > 5
    run.check()


def test_partners_that_come_and_go_change_the_period(tmp_path: Path) -> None:
    """Range 4, slide 6: beside a slide of three it is answered twice as often, a range after the partner came."""
    run = opened(tmp_path, "AS")
    run.create("a", fresh(4, 6))
    fed_singly(run, 0, 14)
    run.create("b", fresh(4, 3))
    fed_singly(run, 14, 28)
    run.drop("b")
    fed_singly(run, 28, 50)
    assert run.ends("a") == [6, 12, 18, 21, 24, 27, 30, 33, 36, 42, 48]
    run.check()


def test_the_papers_seven_queries_run_at_the_periods_that_the_paper_chooses(tmp_path: Path) -> None:
    """Golab et al. 2006, §4.3, a second for a minute."""
    asked = [(10, 2), (5, 2), (6, 2), (15, 3), (12, 3), (20, 5), (30, 5)]
    periods, merged = dict[str, list[int]](), dict[str, int]()
    for technique in ("AS", "CS", "HS"):
        run = opened(tmp_path / technique, technique)
        for number, window in enumerate(asked, 1):
            run.create(f"Q{number}", fresh(*window))
        fed_singly(run, 0, 62)
        for number in range(1, 8):
            period = run.made.catalog.query(f"Q{number}").query.window.slide // SECOND
            assert run.ends(f"Q{number}") == list(range(period, 62, period))
            periods.setdefault(technique, []).append(period)
        merged[technique] = run.made.pipeline.synopsis.final_operations
        run.check()
    assert periods == {"AS": [2] * 7, "CS": [2, 2, 2, 3, 3, 5, 5], "HS": [2] * 5 + [5] * 2}
    assert max(merged["HS"], merged["CS"]) < merged["AS"]


@settings(max_examples=cases(15, soak=2_000), deadline=None)
@given(seed=st.integers(0, 1 << 60))
def test_whatever_happens_fresh_answers_are_exact_at_their_ends_which_increase(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    drawn_run(random.Random(seed), tmp_path_factory.mktemp("fresh"))


def drawn_run(draw: random.Random, folder: Path) -> FreshRun:
    """Take drawn steps; check on the way and in the end."""
    late, lags = draw.choice([0, LATENESS_S]), draw.random() < 0.3
    how = {"strategy": draw.choice(["shared paired", "weave"]), "kernel": draw.choice(["fast", "fast", "scan"])}
    run, clock = opened(folder, draw.choice(TECHNIQUES), late, **how), 0.0
    for name in NAMES[: draw.randint(1, 4)]:
        run.create(name, drawn_query(draw))
    run.made.runner.let_answers_lag(may=lags)
    for _ in range(draw.randint(8, 40)):
        if draw.random() < 0.15:
            run.kill_at = draw.randrange(12)
        if draw.random() < 0.7:
            clock += draw.choice([0.5, 1, 1, 2, 5])
            times = [clock + draw.random() for _ in range(draw.randint(0, 2))] + [clock]
            times += [max(0.0, clock - draw.uniform(0, 9)) for _ in range(draw.choice([0, 0, 2]) if late else 0)]
            run.feed(*(row(time, draw.randrange(20)) for time in times))
        else:
            change(draw, run, late=bool(late))
        if lags and draw.random() < 0.5:
            run.answer_some(draw)
        run.note()
        run.check_fresh()
    run.made.runner.let_answers_lag(may=False)
    run.check_fresh()
    if draw.random() < 0.3:
        run.made.pipeline.flush(run.made.runner.snapshot())
    run.check()
    return run


def drawn_query(draw: random.Random) -> str:
    window = draw.choice([1, 2, 3, 5, 8, 13]), draw.choice([1, 2, 3, 4, 5, 6])
    offset, aggregate = draw.choice([0] * 7 + [1]), draw.choice([DISTINCT] * 7 + ["count(v)"])
    return (exact if draw.random() < 0.15 else fresh)(*window, offset, aggregate)


def change(draw: random.Random, run: FreshRun, *, late: bool) -> None:
    """Change something about the queries or the technique."""
    there = [name for name in NAMES if run.made.catalog.has("query", name)]
    gone = [name for name in NAMES if name not in there]
    kinds = ["technique", "technique", "create", "drop", "alter", "pause", "resume", "reopen", "settle"]
    kind = draw.choice(kinds if late else [*kinds, "backfill"])
    if kind == "technique":
        run.synchronize(draw.choice(TECHNIQUES))
    elif kind == "create" and gone:
        run.create(draw.choice(gone), drawn_query(draw))
    elif kind == "settle":
        run.settle()
    elif kind == "reopen":
        lags = run.made.pipeline.lags
        run.made.reopen()
        run.made.runner.let_answers_lag(may=lags)
    elif there:
        name = draw.choice(there)
        if kind == "drop":
            run.drop(name)
        elif kind == "alter":
            run.alter(name, drawn_query(draw))
        elif kind in ("pause", "resume"):
            run.control(name, pause=kind == "pause")
        elif kind == "backfill" and run.watermark_us > 0:
            run.backfill(name, draw.choice(["beginning", "1970-01-01 00:00:05"]))


def test_the_steps_that_are_drawn_reach_all_there_is(tmp_path: Path) -> None:
    """So that the laws are not kept for want of anything to happen."""
    retimed, back, killed = 0, 0, 0
    for seed in range(12):
        run = drawn_run(random.Random(seed), tmp_path / str(seed))
        known = [d for d in run.definitions.values() if d.retimed is not None]
        retimed += sum(d.query.window.slide < d.asked.slide for d in known)
        back += sum(d.query.window.slide == d.asked.slide for d in known)
        killed += run.killed
    assert min(retimed, back, killed) > 1
