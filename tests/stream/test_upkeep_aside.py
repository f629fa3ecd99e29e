"""A stream that processes what is there leaves its upkeep to a thread, and all of it is done when it returns."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.stream.upkeep_worker import upkeep_aside
from tests.stream.made import SECOND, MadeStream, row


@pytest.fixture(autouse=True)
def eager_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = ("store.compaction.FAN", "store.commits.FAN", "store.answers.FAN")
    for name in (*folders, "stream.batch_taking.COMPACTED_EVERY"):
        monkeypatch.setattr(f"penstock.{name}", 2)


def made(folder: Path) -> MadeStream:
    folder.mkdir()
    found = MadeStream(folder)
    found.create("q", "SELECT k, count(*) AS n FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k")
    return found


def test_answers_and_files_are_those_of_a_stream_that_does_its_upkeep_in_its_batches(tmp_path: Path) -> None:
    aside, twin = made(tmp_path / "aside"), made(tmp_path / "twin")
    with upkeep_aside(aside.pipeline):
        for number in range(12):
            for one in (aside, twin):
                one.feed(row(5 * number), row(5 * number + 1, k="b"))
    assert not aside.pipeline.upkeep
    assert aside.timeline("q") == twin.timeline("q") != []
    files = {path.name for path in (tmp_path / "aside" / "answers").iterdir()}
    assert any("-" in name for name in files)  # some hold the answers of several commits
    aside.reopen()
    assert aside.timeline("q") == twin.timeline("q")


def test_a_change_of_the_queries_waits_for_what_depends_on_them_alone(tmp_path: Path) -> None:
    one, done = made(tmp_path / "s"), list[str]()

    def work(name: str) -> Iterator[None]:
        yield
        done.append(name)

    one.feed(row(1))
    one.pipeline.upkeep.leave({"tidying": work("tidying")}, {}, {"answers": work("answers")})
    one.create("r", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 5 s]")
    one.feed(row(2))
    assert done == ["tidying"]
    one.pipeline.finish_upkeep()
    assert done == ["tidying", "answers"]


def test_what_fails_aside_is_raised_by_the_stream_and_leaves_no_thread(tmp_path: Path) -> None:
    one, failed = made(tmp_path / "s"), threading.Event()

    def failing() -> Iterator[None]:
        failed.set()
        raise ValueError("a defect")
        yield

    def run() -> None:
        with upkeep_aside(one.pipeline):
            one.feed(row(1))
            one.pipeline.upkeep.leave({"failing": failing()}, {})
            assert failed.wait(60)

    with pytest.raises(ValueError, match="a defect"):
        run()
    assert "penstock-upkeep" not in {thread.name for thread in threading.enumerate()}
    one.feed(row(30))
    assert one.timeline("q") != []


def test_nothing_that_a_job_may_be_reading_is_removed_while_it_runs(tmp_path: Path) -> None:
    one, done = made(tmp_path / "s"), list[str]()

    def work(name: str) -> Iterator[None]:
        done.append(name)
        yield

    one.feed(row(1))
    one.pipeline.upkeep.finish()
    left = ("compaction", "tidying", "passed rows")
    one.pipeline.upkeep.leave({name: work(name) for name in left}, {})
    with one.pipeline.committer.order.under_way.taken():
        while one.pipeline.do_upkeep():
            pass
        assert done == ["compaction"]
    while one.pipeline.do_upkeep():
        pass
    assert done == [*left]


def test_rows_that_are_kept_no_longer_go_in_a_run_of_few_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    #   kept for 10 s, a batch each 5 s; at the end, 55, all up to 45 may go: the batches before 45
    monkeypatch.setattr("penstock.stream.batch_taking.COMPACTED_EVERY", 1000)
    one = MadeStream(tmp_path, retain_rows_us=10 * SECOND)
    one.create("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 5 s]")
    with upkeep_aside(one.pipeline):
        for number in range(12):
            one.feed(row(5 * number))
    since = one.pipeline.intake.past.kept_since_us
    assert since == 40 * SECOND + 1
    one.reopen()
    assert one.pipeline.intake.past.kept_since_us == since
    with upkeep_aside(one.pipeline):
        one.feed(row(100))
    assert one.pipeline.intake.past.kept_since_us == 55 * SECOND + 1
