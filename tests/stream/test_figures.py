"""Figures per query: exact numbers by a clock of our own, and shares that add up to the whole."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.status_text import queries_text
from penstock.control.metrics import EngineMetrics, metrics_of
from penstock.control.status import status_of
from penstock.errors import UnknownQuery
from penstock.evaluate.windows.due import EndRuns
from penstock.kernel.answering import Spent
from penstock.kernel.pending import ItemName, Pending
from penstock.share.layout import lay_out
from penstock.share.plan import plan_queries
from penstock.stream.answered_groups import AnsweredGroup
from penstock.stream.figures.figure_table import RESPONSE, SLOWDOWN, FigureTable
from penstock.stream.figures.job_shares import JobShares
from penstock.stream.figures.stream_figures import EngineFigures
from penstock.stream.figures.summary import by_query
from penstock.stream.query_items import deadline_us_of
from penstock.testing import ManualClock
from tests.cases import cases
from tests.stream.made import SECOND, MadeStream, definition, row

SUM = "SELECT sum(v) AS s FROM s [RANGE 10 s SLIDE 10 s]"
BY_K = "SELECT k, count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k"
BY_J = "SELECT j, max(v) AS n FROM s [RANGE 30 s SLIDE 10 s] GROUP BY j"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2026-01-05")


@pytest.fixture
def stream(tmp_path: Path, clock: ManualClock) -> MadeStream:
    """Answers of this stream lag behind until they are drained; the watermark is the time of the last row."""
    made = MadeStream(tmp_path, max_ahead_us=1 << 60, clock=clock)
    made.pipeline.lags = True
    return made


def figures(stream: MadeStream) -> EngineMetrics:
    known = stream.pipeline.given.settings.figures
    return metrics_of(stream.catalog, {"s": stream.runner}, known, stream.clock(), "Hybrid")


def whole_and_shares(found: EngineMetrics) -> list[tuple[float, float]]:
    """Return, of every step, of bytes sent and of memory, the whole and the sum of all shares."""
    [whole] = found.streams
    shares = np.sum([astuple(one.seconds) for one in found.queries], axis=0) + astuple(whole.unshared)
    pairs = list(zip(astuple(whole.seconds), shares.tolist(), strict=True))
    pairs.append((whole.bytes_sent, sum(one.bytes_sent for one in found.queries) + whole.unshared_bytes))
    return [*pairs, (whole.memory_bytes, sum(one.memory_bytes for one in found.queries))]


# -- response, tardiness, staleness, by the clock of the engine --------------------------------------------------------


def test_response_is_the_time_from_final_to_answered(stream: MadeStream, clock: ManualClock) -> None:
    """Windows end at 10, 20 and 30 s. The first becomes final three seconds before it is answered, the others one."""
    stream.create("q", SUM)
    stream.feed(row(1), row(10))
    clock.advance("2 s")
    stream.feed(row(31))
    clock.advance("1 s")
    stream.pipeline.drain()
    found = figures(stream).query("q")
    assert found.windows == found.response.count == 3
    assert found.response.sum == 3 + 1 + 1
    assert found.response.squares == 9 + 1 + 1
    assert found.response.max == 3
    assert found.response.mean == pytest.approx(5 / 3)
    assert found.response.p50 == pytest.approx(1, rel=0.225)
    assert found.response.p99 == pytest.approx(3, rel=0.225)


def test_tardiness_is_what_passes_the_deadline(stream: MadeStream, clock: ManualClock) -> None:
    stream.create("soon", SUM + " WITH (deadline = '2 s')")
    stream.create("slide", SUM)
    stream.feed(row(1), row(10))
    clock.advance("2500 ms")
    stream.feed(row(20))
    clock.advance("1500 ms")
    stream.pipeline.drain()
    soon, slide = (figures(stream).query(name) for name in ("soon", "slide"))
    assert (soon.deadline_s, soon.windows, soon.past_deadline) == (2, 2, 1)
    assert (soon.tardiness.sum, soon.tardiness.max, soon.tardiness.count) == (2, 2, 2)
    assert (slide.deadline_s, slide.past_deadline, slide.tardiness.sum) == (10, 0, 0)
    assert slide.tardiness.p99 == 0


def test_a_query_without_a_window_has_a_deadline_only_if_it_says_so() -> None:
    for option, wanted in (("", 0), (" WITH (deadline = '2 s')", 2 * SECOND)):
        assert deadline_us_of(definition(f"SELECT v FROM s WHERE v > 4{option}")) == wanted


def test_a_query_that_was_altered_is_counted_once_while_its_windows_from_before_are_answered(
    stream: MadeStream, clock: ManualClock
) -> None:
    stream.create("q", SUM + " WITH (priority = 3)")
    stream.create("other", SUM)
    stream.feed(row(1), row(5))
    stream.alter("q", SUM.replace("10 s", "4 s") + " WITH (priority = 2)")
    stream.feed(row(6))
    told = status_of(stream.catalog, {"s": stream.runner}, clock(), running=True)
    assert [query["state"] for query in told["queries"] if query["query"] == "q"] == ["finishing", "answering"]
    [counted] = told["streams"]
    assert (counted["queries"], counted["urgent"], counted["fresh"]) == (2, 1, 0)
    assert queries_text(told).startswith("s: 2 queries\n")


def test_staleness_is_how_far_an_answer_fell_behind_the_watermark(stream: MadeStream) -> None:
    """The answer for 10 s stands until the watermark is at 24 s and the one for 20 s comes: it was 14 s old then."""
    stream.create("q", SUM)
    stream.feed(row(1), row(12))
    stream.pipeline.drain()
    first = figures(stream).query("q")
    assert (first.stale_s, first.staleness.count) == (2, 0)
    stream.feed(row(24))
    assert figures(stream).query("q").stale_s == 14
    stream.pipeline.drain()
    found = figures(stream).query("q")
    assert (found.staleness.count, found.staleness.sum, found.stale_s) == (1, 14, 4)


def test_windows_that_fresher_ones_supersede_are_counted_and_no_response_is(
    stream: MadeStream, clock: ManualClock
) -> None:
    stream.create("q", SUM + " WITH (emit = 'fresh')")
    stream.feed(row(1), row(55))
    clock.advance("1 s")
    stream.pipeline.drain()
    found = figures(stream).query("q")
    assert (found.windows, found.skipped, found.response.sum) == (1, 4, 1)


def test_of_a_query_that_has_answered_nothing_there_are_no_figures(stream: MadeStream) -> None:
    stream.create("q", SUM)
    stream.feed(row(1))
    found = figures(stream).query("q")
    assert (found.windows, found.ideal_s, found.stale_s, found.response.p99) == (0, None, None, 0)
    with pytest.raises(UnknownQuery, match='no figures of a query "p"'):
        figures(stream).query("p")


# -- slowdown ----------------------------------------------------------------------------------------------------------


def answered(final_s: float, ended_s: float, took_s: float, log_s: float = 0.0) -> AnsweredGroup:
    """Make the record of a group in which one window of query 1 was answered."""
    one = definition(SUM)
    lane = next(iter(plan_queries([one], "shared paired", 1).trees[0].lanes))
    due = Pending(one, lane, EndRuns.between(10 * SECOND, 10 * SECOND, 10 * SECOND), final_us=round(final_s * SECOND))
    instants, seconds = (round(ended_s * SECOND),) * 2, (0.0, took_s + log_s)
    spent, items = [Spent(1, 1, took_s)], [ItemName(lane, 0, (lane,))]
    return AnsweredGroup(
        "s", "windows", 1, *instants, *seconds, 0.0, log_s, 0.0, 1, None, [due], [SECOND], items, spent
    )


def slowdowns(groups: Sequence[AnsweredGroup]) -> list[float]:
    """Return the slowdown that each group adds."""
    known, found = EngineFigures(), [0.0]
    for group in groups:
        known.observe(group)
        found.append(by_query(known.of("s").table, SLOWDOWN)[1].sum)
    return np.diff(found).round(6).tolist()


def test_slowdown_is_response_over_the_low_quartile_of_what_answering_took() -> None:
    took = (0.5, 0.25, 1.0, 2.0, 4.0)
    groups = [answered(final_s=0, ended_s=2, took_s=seconds) for seconds in took]
    # The ideal time is 0.5 s, then 0.25 s; of five evaluations, it is the second least: 0.5 s.
    assert slowdowns(groups) == [4, 8, 8, 8, 4]


def test_logging_and_handing_over_are_part_of_the_ideal_time() -> None:
    assert slowdowns([answered(final_s=0, ended_s=2, took_s=0.25, log_s=0.25)]) == [4]


def test_a_slowdown_is_never_less_than_one() -> None:
    assert slowdowns([answered(final_s=0, ended_s=1, took_s=4)]) == [1]


# -- shares ------------------------------------------------------------------------------------------------------------


def test_equal_queries_pay_the_same_and_many_partials_cost_more() -> None:
    texts = (SUM, SUM, BY_K)
    known = [definition(text, number, f"q{number}") for number, text in enumerate(texts)]
    layout = lay_out(plan_queries(known, "shared paired", 1), "ts")
    by_keys = {member.grouping.keys: member.number for member in layout.members}
    partials = [0, 0]
    partials[by_keys[()]], partials[by_keys["`k`",]] = 20, 80
    shares = JobShares.of(layout)
    found = dict(zip(shares.definitions, shares.of_batch(partials).tolist(), strict=True))
    assert found == pytest.approx({0: 0.1, 1: 0.1, 2: 0.8})


@settings(max_examples=cases(15), deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_shares_add_up_to_the_whole_whatever_happens(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    draw = random.Random(seed)
    stream = MadeStream(tmp_path_factory.mktemp("figures"), lateness_us=2 * SECOND, max_ahead_us=1 << 60)
    stream.runner.let_answers_lag(may=draw.random() < 0.5)
    texts, names = [SUM, BY_K, BY_J, SUM + " WITH (emit = 'fresh')"], list[str]()
    second = 0.0
    for number in range(draw.randint(4, 10)):
        if not names or draw.random() < 0.5:
            names.append(f"q{number}")
            stream.create(names[-1], draw.choice(texts))
        elif draw.random() < 0.3:
            stream.drop(names.pop(draw.randrange(len(names))))
        second += draw.choice([1, 15, 40])
        stream.feed(*(row(second + i, k=draw.choice("abc"), j=draw.randrange(9)) for i in range(draw.randint(1, 9))))
    stream.pipeline.drain()
    found = figures(stream)
    for whole, shares in whole_and_shares(found):
        assert shares == pytest.approx(whole, rel=0.02)
    assert {one.query for one in found.queries} == set(names)
    json.dumps(found.as_dict())


def test_while_no_query_goes_nothing_is_left_unshared(stream: MadeStream) -> None:
    for name, text in (("a", SUM), ("b", SUM), ("c", BY_K)):
        stream.create(name, text)
    for second in (1, 15, 31):
        stream.feed(row(second, k="a"), row(second, k="b"))
    stream.pipeline.drain()
    found = figures(stream)
    assert astuple(found.streams[0].unshared) == pytest.approx((0, 0, 0, 0), abs=1e-9)
    assert all(min(astuple(one.seconds)) > 0 and one.memory_bytes > 0 for one in found.queries)
    a, b, c = found.queries
    assert (a.seconds.job, a.bytes_sent, a.memory_bytes) == (b.seconds.job, b.bytes_sent, b.memory_bytes)
    assert c.bytes_sent > a.bytes_sent
    assert found.seconds.total == pytest.approx(sum(one.seconds.total for one in found.queries))


def test_figures_of_a_dropped_query_go_and_what_it_cost_is_left_unshared(stream: MadeStream) -> None:
    stream.create("stays", SUM)
    stream.create("goes", BY_K)
    stream.feed(row(1), row(15))
    stream.pipeline.drain()
    gone = stream.catalog.query("goes").id
    stream.drop("goes")
    stream.feed(row(25))
    stream.pipeline.drain()
    found, table = figures(stream), stream.pipeline.given.settings.figures.of("s").table
    assert [one.query for one in found.queries] == ["stays"]
    assert gone not in table.rows
    assert found.streams[0].unshared.job > 0


def test_figures_count_from_the_start_of_the_engine(stream: MadeStream) -> None:
    stream.create("q", SUM)
    stream.feed(row(1), row(15))
    stream.pipeline.drain()
    stream.reopen()
    stream.feed(row(25))
    assert figures(stream).query("q").windows == 1


def test_a_query_takes_less_than_a_thousand_bytes() -> None:
    table, one = FigureTable(), np.ones(1, np.int64)
    rows = table.rows_of(range(1_000))
    assert table.nbytes / 1_000 < 1_000
    table.add(rows[:1], RESPONSE, np.ones(1), one)
    assert table.nbytes / 1_000 < 1_000


def test_queries_keep_their_figures_while_others_come_and_go() -> None:
    table = FigureTable()
    for number in range(100):
        rows = table.rows_of([number])
        table.add(rows, RESPONSE, np.full(1, float(number)), np.ones(1, np.int64))
        table.forget_others(range(number - 9, number + 1))
    kept = {number: figure.sum for number, figure in by_query(table, RESPONSE).items()}
    assert kept == {number: float(number) for number in range(90, 100)}
