"""Answers may lag behind the rows, in any order, through deaths and changes, and still say the same."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.status import status_of
from penstock.kernel.answering import Spent
from penstock.schedule.live_policy import LivePolicy
from tests.cases import cases
from tests.stream.made import SECOND, MadeStream, row
from tests.stream.scheduled import drawn_batch, drawn_policy

FRESHNESS = {"plain": "", "urgent": ", priority = 9", "soon": ", deadline = '10 ms'", "later": ", deadline = '1 min'"}
FRESH = "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE 20 s SLIDE 2 s]"


def opened(
    folder: Path, *, lags: bool, queries: dict[str, str], policy: LivePolicy | None = None, together: str = "C-LP"
) -> MadeStream:
    folder.mkdir()
    made = MadeStream(folder, lateness_us=2 * SECOND, policy=policy, synchronize=together)
    for name, text in queries.items():
        made.create(name, text)
    made.runner.let_answers_lag(may=lags)
    return made


def answer_some(made: MadeStream, draw: random.Random) -> None:
    keys = list(made.pipeline.committer.unanswered.items)
    made.pipeline.answer_next(draw.sample(keys, draw.randint(0, len(keys))))


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


@settings(max_examples=cases(120, soak=3_000), deadline=None)
@given(seed=st.integers(0, 1 << 60))
def test_a_fresh_query_skips_what_is_superseded_counts_it_and_is_exact_at_each_end(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.stream.evaluation_order.GROUP_S", draw.choice([0.0, 0.1]))
        made = overloaded(draw, tmp_path_factory.mktemp("fresh") / "made")
    skipped, exact = made.pipeline.progress.windows.skipped, made.timeline("exact")
    last = made.pipeline.commits.last()
    assert last is not None
    assert {int(number) for number in last.skipped} <= {made.catalog.query(name).id for name in FRESHNESS}
    for name in FRESHNESS:
        fresh, number = made.timeline(name), made.catalog.query(name).id
        assert set(fresh) <= set(exact)  # each is the exact answer at its end
        assert [end for end, *_ in fresh] == sorted({end for end, *_ in fresh})
        assert not exact or fresh[-1] == exact[-1]
        assert len(fresh) + skipped.get(number, 0) == len(exact)


def overloaded(draw: random.Random, folder: Path) -> MadeStream:
    """Feed more than is answered on the way, under any policy, with restarts in between; answer all in the end."""
    queries = {"exact": FRESH} | {name: f"{FRESH} WITH (emit = 'fresh'{more})" for name, more in FRESHNESS.items()}
    lags, clock_s = draw.random() < 0.8, 0.0
    made = opened(folder, lags=lags, queries=queries, policy=drawn_policy(draw))
    for _ in range(draw.randint(3, 9)):
        clock_s += draw.choice([0.5, 3, 8, 25])
        made.feed(*drawn_batch(draw, clock_s))
        if draw.random() < 0.5:
            answer_some(made, draw)
        if draw.random() < 0.15:
            made.reopen()
            made.runner.let_answers_lag(may=lags)
    made.runner.flush()
    return made


def test_a_fresh_query_skips_nothing_as_long_as_it_keeps_up(tmp_path: Path) -> None:
    made = opened(tmp_path / "made", lags=True, queries={"q": f"{FRESH} WITH (emit = 'fresh')"})
    for second in range(0, 60):
        made.feed(row(second))
        made.pipeline.drain()
    ends = [end for end, *_ in made.timeline("q")]
    assert ends == [float(end) for end in range(2, 58, 2)]  # no gap is longer than its slide
    assert made.pipeline.progress.windows.skipped == {}


@pytest.mark.parametrize("policy", ["Hybrid", "HNR", "BSD", "FCFS"])
def test_no_fresh_query_grows_stale_for_good_while_there_is_twice_as_much_to_do(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve queries ask for a window every 2 s, and half of that is done; some cost a little more than others."""
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", 0.0)
    asked = product(("sum(v)", "min(v)", "max(v)", "count(*)"), ("", " GROUP BY k", " GROUP BY j"))
    fresh = {
        f"q{number}": f"SELECT {value} AS x FROM s [RANGE 20 s SLIDE 2 s]{keys} WITH (emit = 'fresh')"
        for number, (value, keys) in enumerate(asked)
    }
    made = opened(tmp_path / "made", lags=True, queries=fresh, policy=LivePolicy(policy), together="No-S")
    unanswered, order = made.pipeline.committer.unanswered, made.pipeline.committer.order
    stale = list[float]()
    for number in range(25):
        made.feed(row(2 * number + 1))
        if number == 2:
            for one in unanswered.pending():
                order.costs.of(one)
                order.costs.note([Spent(one.definition.id, 1, 0.3 + 0.005 * one.definition.id)])
            monkeypatch.setattr(order.costs, "note", lambda spent: None)
        for _ in range(6 if number >= 2 else 0):
            keys = list(unanswered.items)
            places = order.first([unanswered.items[key] for key in keys])
            made.pipeline.answer_next([keys[place] for place in places])
            made.clock.advance(2 / 6)
        if number >= 10:
            newest = [made.timeline(name)[-1][0] for name in fresh if made.timeline(name)]
            assert len(newest) == len(fresh)
            stale += [(made.pipeline.progress.clock.watermark_us or 0) / SECOND - end for end in newest]
    assert max(stale) <= 10  # everybody has a turn every other time
    assert sum(stale) / len(stale) <= 4


def test_a_batch_waits_once_more_waits_to_be_answered_than_may_and_that_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = opened(tmp_path / "made", lags=True, queries={"q": FRESH})
    made.feed(row(1), row(13))
    committer, metrics = made.pipeline.committer, made.pipeline.metrics
    assert committer.unanswered
    before = metrics.held
    monkeypatch.setattr("penstock.stream.step_committer.MOST_LAG_S", 0.0)
    made.feed(row(25))
    assert not committer.unanswered
    assert metrics.held > before
    told = status_of(made.catalog, {"s": made.runner}, made.clock(), running=True)
    assert told["streams"][0]["held_s"] == pytest.approx(metrics.held, abs=1e-3)


def test_a_fresh_query_costs_one_window_and_gains_all_that_wait(tmp_path: Path) -> None:
    queries = {"exact": FRESH, "fresh": f"{FRESH} WITH (emit = 'fresh')"}
    heads = {}
    for name, text in queries.items():
        made = opened(tmp_path / name, lags=True, queries={"q": text})
        for second in (1, 9, 17, 25):
            made.feed(row(second))
        [item] = made.pipeline.committer.unanswered.items.values()
        heads[name] = item.head(0)
        assert item.round_s == pytest.approx(51e-6)
    exact, fresh = heads["exact"], heads["fresh"]
    assert (exact.selectivity, exact.pending) == (1, 11)
    assert (fresh.selectivity, fresh.pending) == (11, 1)
    assert exact.cost == pytest.approx(fresh.cost)  # of one window


def test_what_a_fresh_query_skipped_is_counted_after_the_end_of_the_process(tmp_path: Path) -> None:
    made = opened(tmp_path / "made", lags=True, queries={"q": f"{FRESH} WITH (emit = 'fresh')"})
    made.feed(row(1), row(13))
    made.pipeline.answer_next(list(made.pipeline.committer.unanswered.items))
    made.reopen()
    assert [end for end, *_ in made.timeline("q")] == [10.0]
    assert made.pipeline.progress.windows.skipped == {1: 4}


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
