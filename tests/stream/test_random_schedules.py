"""Whatever is answered when, by whatever policy, whatever happens meanwhile: answers say what the plain rows say."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.store.faults import MOMENTS
from penstock.stream.desk import Desk
from tests.always.questions import Question
from tests.cases import cases
from tests.stream.made import SECOND, row
from tests.stream.scheduled import AnyChoice, Moments, Scheduled, drawn_batch, drawn_policy, drawn_question

NAMES = tuple("abcdef")


@settings(max_examples=cases(40, soak=4_000), deadline=None)
@given(seed=st.integers(0, 1 << 60))
def test_answers_do_not_depend_on_when_and_in_which_order_they_are_made(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.stream.evaluation_order.GROUP_S", draw.choice([0.0, 0.0, 0.1]))
        patch.setattr("penstock.stream.query_items.COLUMNS", draw.choice([1, 2, 1_000]))
        compact_early(patch)
        run_schedule(draw, tmp_path_factory, dies=draw.random() < 0.7)


@settings(max_examples=cases(6, soak=300), deadline=None)
@given(seed=st.integers(0, 1 << 60))
def test_several_streams_share_a_desk_that_answers_while_they_work(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.stream.evaluation_order.GROUP_S", draw.choice([0.0, 0.1]))
        run_schedule(draw, tmp_path_factory, Desk(), streams=draw.randint(2, 3))


def compact_early(patch: pytest.MonkeyPatch) -> None:
    """Put files together early: the way there would be long; each step is a piece, and no clock cuts any."""
    patch.setattr("penstock.stream.upkeep.PIECE_S", 0.0)
    patch.setattr("penstock.stream.upkeep.LATE_S", 1e9)
    for name in ("store.compaction.FAN", "store.answers.FAN", "stream.batch_taking.COMPACTED_EVERY"):
        patch.setattr(f"penstock.{name}", 3)


def run_schedule(
    draw: random.Random,
    folders: pytest.TempPathFactory,
    desk: Desk | None = None,
    streams: int = 1,
    *,
    dies: bool = False,
) -> None:
    """Take drawn steps on streams of one policy, and compare on the way and in the end."""
    policy, folder = drawn_policy(draw), folders.mktemp("schedule")
    present = {name: drawn_question(draw) for name in NAMES[: draw.randint(1, 4)]}
    twin = draw.random() < 0.3
    fleet = [Scheduled(folder / str(number), policy, present, desk, twin=twin) for number in range(streams)]
    clock_s = 0.0
    for _ in range(draw.randint(4, 10)):
        clock_s += draw.choice([0.5, 3, 8, 25])
        chosen = draw.choice(fleet)
        if dies and draw.random() < 0.3:
            chosen.arm(draw)
        chosen.feed(drawn_batch(draw, clock_s))
        for _ in range(draw.randint(0, 2)):
            happens(draw, chosen)
    for one in fleet:
        one.flush()
        one.check()
        if desk is not None:
            desk.leave(one.lagging.pipeline)


def happens(draw: random.Random, one: Scheduled) -> None:
    """Do one more thing to a stream."""
    known = sorted(one.model.queries)
    match draw.randrange(13):
        case 0 if len(known) < len(NAMES):
            one.create(next(name for name in NAMES if name not in known), drawn_question(draw))
        case 1 if known:
            one.alter(draw.choice(known), drawn_question(draw))
        case 2 if known:
            one.drop(draw.choice(known))
        case 3 | 4 if known:
            one.pause_or_resume(draw.choice(known))
        case 5 if known:
            one.backfill(draw.choice(known))
        case 6:
            one.reopen()
        case 7:
            one.check()
        case 8:
            one.do_upkeep()
        case _:
            one.answer_some(draw)


@settings(max_examples=cases(15, soak=2_000), deadline=None)
@given(seed=st.integers(0, 1 << 60))
def test_queries_that_are_dropped_and_created_again_say_nothing_again(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        compact_early(patch)
        patch.setattr("penstock.stream.batch_taking.COMPACTED_EVERY", draw.choice([1, 3]))
        come_and_go(draw, tmp_path_factory.mktemp("schedule"))


def come_and_go(draw: random.Random, folder: Path) -> None:
    """Drop and create queries again that share partials with one that stays, in a stream that may keep rows."""
    keys, where = draw.choice([(), ("k",)]), draw.choice([None, "k = 'a'"])

    def drawn(options: tuple[str, ...] = ()) -> Question:
        length, slide, offset = draw.choice([2, 4, 8]), draw.choice([2, 4, 8]), draw.choice([0, 0, 1])
        window = length * SECOND, slide * SECOND, offset * SECOND
        return Question(*window, keys, ("count(*)",), where, options=options)

    stays = drawn(draw.choice([(), ("retain = '20 s'",), ("retain = '60 s'",)]))
    retain_rows_us = draw.choice([0, 0, 10, 30]) * SECOND
    one = Scheduled(folder, drawn_policy(draw), {"stays": stays}, None, twin=False, retain_rows_us=retain_rows_us)
    usual, clock_s = {name: drawn() for name in "ab"}, 0.0
    for _ in range(draw.randint(8, 25)):
        clock_s += draw.choice([0.5, 1, 3, 8, 25])
        one.feed(drawn_batch(draw, clock_s))
        for _ in range(draw.randint(0, 4)):
            name = draw.choice("ab")
            match draw.randrange(8):
                case 0 | 1 | 2 | 3 if name in one.model.queries:
                    one.drop(name)
                case 0 | 1 | 2 | 3:
                    one.create(name, usual[name] if draw.random() < 0.7 else drawn())
                case 4 if name in one.model.queries:
                    one.alter(name, drawn())
                case 5:
                    one.do_upkeep()
                case _:
                    one.answer_some(draw)
    one.flush()
    one.check()


# -- the process ends at every moment of every durable write ------------------------------------------------------

WRITES = (
    *("catalog", "commit", "answers"),
    *("compaction.partials", "compaction.record", "compaction.answers", "compaction.list"),
)
STORED = {
    "all": Question(10 * SECOND, 5 * SECOND, 0, (), ("count(*)", "sum(v)"), options=("priority = 3",)),
    "keys": Question(8 * SECOND, 2 * SECOND, 0, ("k",), ("min(v)",), None, "count(*) < 4"),
    "mended": Question(6 * SECOND, 3 * SECOND, 0, ("k",), ("sum(v)",), None, None, 60 * SECOND),
}
PASSING = Question(10 * SECOND, 10 * SECOND, 0, (), ("sum(v)",), options=("deadline = '1 s'",))


def lag_through(folder: Path, moments: Moments) -> None:
    """Let answers lag behind rows on time and late, changes of queries, a backfill and upkeep, and compare."""
    draw = random.Random(7)
    one = Scheduled(folder, AnyChoice(random.Random(8)), STORED, None, twin=False)
    one.armed = moments
    for number in range(18):
        late = [row(max(0.0, 6.0 * number - 20), 3, "b")] if number % 5 == 4 else []
        one.feed([row(6.0 * number + t, draw.randrange(9), draw.choice("abc")) for t in (0.5, 2, 4, 5.5)] + late)
        match number:
            case 3:
                one.create("passing", PASSING)
            case 5:
                one.pause_or_resume("all")
            case 6:
                one.alter("keys", STORED["mended"])
            case 7:
                one.pause_or_resume("all")
            case 8:
                one.backfill("passing")
            case 10:
                one.drop("passing")
        one.answer_some(draw)
        if number % 3 == 2:
            one.do_upkeep()
    one.flush()
    one.check()
    assert one.kills.total() == (moments.dies_at is not None)


def test_the_process_may_end_at_every_moment_of_every_durable_write_while_answers_lag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", 0.0)
    monkeypatch.setattr("penstock.stream.evaluation_costs.WindowCost.learn", lambda *_: None)  # or cuts differ by run
    compact_early(monkeypatch)
    moments = Moments()
    lag_through(tmp_path / "alive", moments)
    missing = {f"{write}.{moment}" for write in WRITES for moment in MOMENTS} - set(moments.reached)
    assert missing == {"catalog.torn"}  # a transaction of SQLite
    many = len(moments.reached)
    for place in range(0, many, max(1, many // cases(12, soak=many))):
        lag_through(tmp_path / str(place), Moments(place))
