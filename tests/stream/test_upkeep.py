"""What no answer needs is done in short pieces, none of it is forgotten, and it changes no answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.share.plan import LaneKey
from penstock.stream.metrics import Metrics, Observing
from penstock.stream.upkeep import Upkeep
from tests.stream.made import MadeStream, row


@pytest.fixture
def upkeep(monkeypatch: pytest.MonkeyPatch) -> Upkeep:
    monkeypatch.setattr("penstock.stream.upkeep.PIECE_S", 0.0)
    return Upkeep(Observing("s", lambda: 0, Metrics(), ()))


def steps(done: list[str], *names: str) -> Iterator[None]:
    for name in names:
        done.append(name)
        yield


def test_one_piece_is_done_at_a_time_in_the_order_in_which_work_was_left(upkeep: Upkeep) -> None:
    done = list[str]()
    upkeep.leave({"files": steps(done, "a", "b")}, {"expiry": steps(done, "c")})
    for expected in (["a"], ["a", "b"]):
        upkeep.do_next()
        assert done == expected
    upkeep.finish()
    assert done == ["a", "b", "c"]
    assert not upkeep
    upkeep.do_next()
    assert done == ["a", "b", "c"]


def test_what_is_left_anew_takes_the_place_of_what_is_always_left_and_lets_the_rest_go_on(upkeep: Upkeep) -> None:
    done = list[str]()
    upkeep.leave({"files": steps(done, "a1", "a2")}, {"expiry": steps(done, "old")})
    upkeep.do_next()
    upkeep.leave({"files": steps(done, "b")}, {"expiry": steps(done, "new")})
    upkeep.finish()
    assert done == ["a1", "a2", "new"]


def test_a_batch_goes_on_with_what_is_late_and_with_nothing_else(
    upkeep: Upkeep, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = list[str]()
    upkeep.leave({"files": steps(done, "a", "b")}, {})
    upkeep.catch_up()
    assert done == []
    upkeep.leave({"files": steps(done, "c")}, {})
    monkeypatch.setattr("penstock.stream.upkeep.LATE_S", 0.0)
    upkeep.catch_up()
    assert done == []  # there is no time for it
    monkeypatch.setattr("penstock.stream.upkeep.LATE_S", 60.0)
    upkeep.catch_up()
    assert done == ["a", "b"]
    upkeep.leave({"files": steps(done, "d")}, {})
    upkeep.catch_up()
    assert done == ["a", "b"]  # it is in time again


def test_lanes_expire_a_few_between_two_batches_and_each_of_them_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.stream.upkeep.PIECE_S", 0.0)
    for folder in ("lags", "waits"):
        (tmp_path / folder).mkdir()
    made, twin, told = MadeStream(tmp_path / "lags"), MadeStream(tmp_path / "waits"), list[LaneKey]()
    for name, keys in zip("abcd", ("k", "j", "k, j", "j, k"), strict=True):
        for one in (made, twin):
            one.create(name, f"SELECT {keys}, sum(v) AS n FROM s [RANGE 10 s SLIDE 10 s] GROUP BY {keys}")
    made.feed(row(1, v=9))
    twin.feed(row(1, v=9))
    made.runner.let_answers_lag()
    synopsis = made.pipeline.synopsis
    expire = synopsis.expire_lane

    def telling(key: LaneKey, floor: int) -> None:
        told.append(key)
        expire(key, floor)

    monkeypatch.setattr(synopsis, "expire_lane", telling)
    for number in range(2, 8):
        for one in (made, twin):
            one.feed(row(10 * number + 1, v=9))
        for _ in range(2):
            made.pipeline.do_upkeep()
    assert [told.count(key) for key in dict.fromkeys(told)] == [3, 3, 3, 3]
    made.runner.let_answers_lag(may=False)
    assert not made.pipeline.upkeep
    assert [made.timeline(name) for name in "abcd"] == [twin.timeline(name) for name in "abcd"]
    assert all(len(made.timeline(name)) > 1 for name in "abcd")


def test_work_that_fails_is_done_after_the_stream_was_mended(tmp_path: Path) -> None:
    made = MadeStream(tmp_path)
    made.create("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
    made.runner.let_answers_lag()
    made.feed(row(1))

    def failing() -> Iterator[None]:
        raise ValueError("a defect")
        yield

    made.pipeline.upkeep.leave({"files": failing()}, {})
    with pytest.raises(ValueError, match="a defect"):
        made.pipeline.drain()
    made.feed(row(25))
    made.runner.let_answers_lag(may=False)
    assert not made.pipeline.upkeep
    assert made.timeline("q") == [(10.0, 1), (20.0, 0)]
