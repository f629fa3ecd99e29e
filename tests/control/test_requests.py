"""The request box: each request is carried out at most once, whoever asks, and nobody is left without an answer."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.control import asking
from penstock.control.asking import ask_running
from penstock.control.failures import error_of, error_record
from penstock.control.requests import FILE, MOST_BYTES, Request, RequestBox, RequestOutcome
from penstock.errors import NotRunning, PenstockError, RequestFailed, StateError, UnknownColumn


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Hold a state folder as a running engine does."""
    lock = hold(tmp_path)
    yield tmp_path
    os.close(lock)


def hold(folder: Path) -> int:
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def serve(folder: Path, number: int) -> threading.Thread:
    """Answer so many requests, each with its own body."""

    def work() -> None:
        box, left = RequestBox(folder), number
        while left:
            request = box.take()
            if request is None:
                time.sleep(0.005)
                continue
            box.answer(request.number, {"verb": request.verb, **request.body})
            left -= 1

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_an_answer_comes_back(folder: Path) -> None:
    served = serve(folder, 1)
    assert ask_running(folder, "drop", {"query": "µ — ok"}) == {"verb": "drop", "query": "µ — ok"}
    served.join()


def test_many_requesters_get_each_their_own_answer_from_several_takers(folder: Path) -> None:
    taken: list[int] = []
    box, done = RequestBox(folder), threading.Event()

    def take() -> None:
        while not done.is_set():
            request = box.take()
            if request is not None:
                taken.append(request.number)
                box.answer(request.number, request.body)

    takers = [threading.Thread(target=take) for _ in range(3)]
    for taker in takers:
        taker.start()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: ask_running(folder, "ask", {"text": str(n)}), range(40)))
    done.set()
    for taker in takers:
        taker.join()
    assert answers == [{"text": str(n)} for n in range(40)]
    assert sorted(taken) == sorted(set(taken))  # none twice


def test_without_an_engine_nothing_is_put(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match="no engine runs"):
        ask_running(tmp_path, "status", {})
    os.close(hold(tmp_path))  # it ran once
    with pytest.raises(NotRunning):
        ask_running(tmp_path, "status", {})
    with pytest.raises(NotRunning):
        ask_running(tmp_path / "nowhere", "status", {})
    assert not (tmp_path / FILE).exists()


def test_a_request_that_nobody_took_in_time_is_never_carried_out(folder: Path) -> None:
    with pytest.raises(RequestFailed, match="nothing was changed"):
        ask_running(folder, "drop", {"query": "q"}, timeout_s=0.1)
    assert RequestBox(folder).take() is None


def test_a_request_of_a_requester_that_died_expires(tmp_path: Path) -> None:
    now = [1_000_000]
    box = RequestBox(tmp_path, clock=lambda: now[0])
    number = box.put("drop", {"query": "q"}, timeout_s=2.0)
    now[0] += 2_000_000
    assert box.take() is None
    now[0] += 2 * 3_600_000_000
    box.tidy()
    assert box.outcome(number).state == "lost"  # forgotten


def test_a_request_is_taken_once_even_if_nobody_answers(tmp_path: Path) -> None:
    box = RequestBox(tmp_path)
    number = box.put("drop", {"query": "q"}, 30)
    first = box.take()
    assert first is not None
    assert (first.number, first.verb, first.body) == (number, "drop", {"query": "q"})
    assert box.take() is None
    assert not box.withdraw(number)


def test_after_a_crash_the_requester_hears_how_things_stand(folder: Path) -> None:
    heard: list[PenstockError] = []

    def ask() -> None:
        try:
            ask_running(folder, "drop", {"query": "q"})
        except PenstockError as error:
            heard.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    box = RequestBox(folder)
    while box.take() is None:
        time.sleep(0.005)
    assert RequestBox.renewed(folder).take() is None  # the next engine; it does not carry it out again
    asking.join()
    assert "the engine ended while it was at work on the request" in heard[0].what
    assert heard[0].detail == 'it was carried out: query "q" is gone'


def test_an_engine_that_ends_before_it_takes_a_request_changed_nothing(tmp_path: Path) -> None:
    lock, box = hold(tmp_path), RequestBox(tmp_path)
    untouched = box.mark()

    def end() -> None:
        while box.mark() == untouched:
            time.sleep(0.005)
        os.close(lock)

    threading.Thread(target=end).start()
    with pytest.raises(NotRunning, match="before it took the request"):
        ask_running(tmp_path, "drop", {"query": "q"})
    assert RequestBox(tmp_path).take() is None


def test_an_engine_that_ends_in_the_middle_tells_what_goes_on(tmp_path: Path) -> None:
    lock, box = hold(tmp_path), RequestBox(tmp_path)

    def end() -> None:
        while box.take() is None:
            time.sleep(0.005)
        os.close(lock)

    threading.Thread(target=end).start()
    with pytest.raises(RequestFailed, match="goes on when an engine runs again"):
        ask_running(tmp_path, "backfill", {})


def test_what_an_engine_is_at_work_on_it_goes_on_with(folder: Path) -> None:
    box = RequestBox(folder)
    taken: list[Request] = []

    def take() -> None:
        while not taken:
            if (request := box.take()) is not None:
                taken.append(request)
            time.sleep(0.005)

    taker = threading.Thread(target=take)
    taker.start()
    with pytest.raises(RequestFailed, match=r"it is at work on request 1 and goes on") as raised:
        ask_running(folder, "drop", {"query": "q"}, timeout_s=1.0)
    taker.join()
    assert raised.value.hint == "penstock status --request 1 tells what came of it."
    box.answer(1, {"query": "q"})
    assert box.outcome(1) == RequestOutcome("done", {"query": "q"})


def test_who_waits_long_is_told_and_stays_in_the_box(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "RENEW_S", 0.1)
    monkeypatch.setattr(asking, "LOOK_S", 0.05)
    monkeypatch.setattr(asking, "EXPIRES_S", 5.0)
    heard: list[str] = []
    box = RequestBox(folder)

    def busy_then_there() -> None:
        while "waiting" not in heard:
            time.sleep(0.005)
        request = box.take()
        assert request is not None
        while "taken" not in heard:
            time.sleep(0.005)
        box.answer(request.number, {"query": "q"})

    engine = threading.Thread(target=busy_then_there)
    engine.start()
    assert ask_running(folder, "drop", {"query": "q"}, told=lambda state, _: heard.append(state)) == {"query": "q"}
    engine.join()


def test_a_request_that_somebody_waits_for_does_not_expire(tmp_path: Path) -> None:
    now = [1_000_000]
    box = RequestBox(tmp_path, clock=lambda: now[0])
    number = box.put("drop", {"query": "q"}, timeout_s=2.0)
    now[0] += 1_500_000
    box.renew(number, 2.0)
    now[0] += 1_500_000
    request = box.take()
    assert request is not None
    assert request.number == number


def test_an_error_arrives_as_it_was_raised(folder: Path) -> None:
    error = UnknownColumn('no column "prise"', text="SELECT prise", place=(7, 12), detail="d", hint="h")
    box = RequestBox(folder)
    number = box.put("ask", {}, 30)
    box.take()
    box.fail(number, error)
    told = error_of(box.outcome(number).answer or {})
    assert type(told) is UnknownColumn
    assert str(told) == str(error)


@pytest.mark.parametrize("record", [{}, {"class": "Path", "what": "x"}, {"class": "os", "place": [1], "what": None}])
def test_an_error_record_of_no_kind_is_a_failed_request(record: dict[str, Any]) -> None:
    assert type(error_of(record)) is RequestFailed


def test_a_defect_is_told_without_a_stack_trace() -> None:
    told = error_record(ValueError("oh no\nTraceback …"))
    assert (told["class"], told["what"]) == (
        "RequestFailed",
        "something went wrong inside the running engine: ValueError: oh no",
    )


def test_unknown_verbs_and_large_bodies_are_refused(folder: Path) -> None:
    with pytest.raises(RequestFailed, match='cannot be asked to "shutdown"'):
        ask_running(folder, "shutdown", {})
    with pytest.raises(RequestFailed, match="too large"):
        ask_running(folder, "ask", {"text": "x" * MOST_BYTES})


@pytest.mark.parametrize(
    "body",
    ["x" * (MOST_BYTES + 1), "é" * MOST_BYTES, "no json", "[1]", "null", "[" * 100_000, b"\xff\xfe", b""],
    ids=["large", "large in bytes", "no json", "list", "null", "nested", "no text", "empty"],
)
def test_what_something_else_put_is_refused_and_others_are_served(tmp_path: Path, body: str | bytes) -> None:
    box = RequestBox(tmp_path)
    row = (1, "drop", body, 0, 1 << 60, "waiting")
    with sqlite3.connect(tmp_path / FILE) as db:
        cast = "CAST(? AS TEXT)" if isinstance(body, bytes) else "?"
        insert = f"INSERT INTO requests (id, verb, body, put_us, expires_us, state) VALUES (?, ?, {cast}, ?, ?, ?)"
        db.execute(insert, row)
    db.close()
    good = box.put("drop", {"query": "q"}, 30)
    assert box.take() is None
    assert box.outcome(1).state == "failed"
    request = box.take()
    assert request is not None
    assert request.number == good


def test_a_damaged_box_is_an_error_for_who_asks_and_is_renewed_by_the_engine(folder: Path) -> None:
    (folder / FILE).write_bytes(os.urandom(5_000))
    with pytest.raises(StateError, match=FILE):
        ask_running(folder, "status", {})
    box = RequestBox.renewed(folder)
    box.put("status", {}, 30)
    assert box.take() is not None


def test_the_box_survives_a_writer_that_died_in_its_transaction(tmp_path: Path) -> None:
    box = RequestBox(tmp_path)
    number = box.put("drop", {"query": "q"}, 30)
    dying = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    dying.execute("BEGIN IMMEDIATE")
    dying.execute("UPDATE requests SET state = 'taken'")
    assert box.outcome(number).state == "waiting"
    dying.close()
    assert box.take() is not None


def test_bodies_are_kept_as_json(tmp_path: Path) -> None:
    RequestBox(tmp_path).put("ask", {"text": "SELECT 'ü'"}, 30)
    with sqlite3.connect(tmp_path / FILE) as db:
        ((verb, body),) = db.execute("SELECT verb, body FROM requests").fetchall()
    db.close()
    assert (verb, json.loads(body)) == ("ask", {"text": "SELECT 'ü'"})
