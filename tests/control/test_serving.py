"""A running engine carries out what other processes ask for, and nothing they ask for stops it."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.control import StillAtWork, ask_running
from penstock.control.requests import FILE, RequestBox
from penstock.control.serving import Serving
from penstock.errors import PenstockError, RequestFailed, StateError, UnknownColumn, UnknownQuery, Unsupported
from penstock.store.folder import StateFolder
from tests.control.pretending import NOW, PACE, Pretended


@pytest.fixture
def engine() -> Pretended:
    return Pretended()


@pytest.fixture
def folder(tmp_path: Path, engine: Pretended) -> Iterator[Path]:
    held = StateFolder(tmp_path / "state")
    serving = Serving(engine, held.path, poll_s=0.01)
    serving.start()
    yield held.path
    serving.stop()
    held.release()


def test_a_query_comes_and_goes(folder: Path, engine: Pretended) -> None:
    added = ask_running(folder, "create", {"query": "pace", "text": PACE})
    assert (added["query"], added["first_end_us"], added["why"]) == ("pace", NOW, "the stream is younger")
    assert engine.calls == [("create", "pace", "added")]
    assert ask_running(folder, "pause", {"query": "pace"}) == {"query": "pace", "changed": True}
    assert engine.catalog.user_paused("pace")
    ask_running(folder, "resume", {"query": "PACE"})
    assert not engine.catalog.user_paused("pace")
    altered = ask_running(folder, "alter", {"query": "pace", "text": PACE.replace("5 MIN", "9 MIN")})
    assert altered["first_end_us"] is None
    ask_running(folder, "drop", {"query": "pace"})
    assert engine.catalog.query_names() == []


def test_errors_arrive_with_their_kind_their_place_and_their_hint(folder: Path) -> None:
    with pytest.raises(UnknownColumn) as caught:
        ask_running(folder, "create", {"query": "q", "text": PACE.replace("count(*)", "sum(prise)")})
    assert '^^^^^\nhint: Did you mean "price"?' in str(caught.value)
    with pytest.raises(UnknownQuery):
        ask_running(folder, "drop", {"query": "q"})


def test_the_log_says_what_was_changed_or_refused_and_is_silent_about_questions(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock")
    ask_running(folder, "policy", {})
    with pytest.raises(UnknownQuery):
        ask_running(folder, "drop", {"query": "q"})
    ask_running(folder, "create", {"query": "pace", "text": PACE})
    told = [record.getMessage() for record in caplog.records]
    assert [line.split(": there")[0] for line in told] == ["refused: drop q", "carried out: create pace"]


def test_an_answer_is_a_table_with_types(folder: Path) -> None:
    found = ask_running(folder, "ask", {"text": "SELECT symbol, max(price) AS high FROM trades [RANGE 10 MIN]"})
    assert [c["name"] for c in found["columns"]] == ["window_start", "window_end", "symbol", "high"]
    assert [c["type"] for c in found["columns"]] == ["timestamp", "timestamp", "string", "double"]
    assert found["rows"] == [
        ["2026-01-05T14:25:00.000000Z", "2026-01-05T14:35:00.000000Z", "A", 1.5],
        ["2026-01-05T14:25:00.000000Z", "2026-01-05T14:35:00.000000Z", None, "NaN"],
    ]


def test_a_defect_is_told_and_logged_and_the_next_request_is_answered(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "penstock"):
        with pytest.raises(RequestFailed, match="inside the running engine: ValueError: a defect"):
            ask_running(folder, "ask", {"text": "a defect"})
        assert ask_running(folder, "backfill", {"queries": ["a", "b"], "since": "beginning"}) == {
            "windows": {"a": 7, "b": 7}
        }
    assert [(r.levelname, r.__dict__["event"]) for r in caplog.records] == [("ERROR", "request"), ("INFO", "request")]


def test_a_status_does_not_wait_for_a_backfill(folder: Path, engine: Pretended) -> None:
    engine.slow = threading.Event()
    done: list[dict[str, Any]] = []
    body = {"queries": ["q"], "since": "beginning"}
    filling = threading.Thread(target=lambda: done.append(ask_running(folder, "backfill", body)))
    filling.start()
    assert ask_running(folder, "status", {}, timeout_s=5)["version"] == 1
    ask_running(folder, "create", {"query": "pace", "text": PACE}, timeout_s=5)
    assert done == []
    engine.slow.set()
    filling.join()
    assert done == [{"windows": {"q": 7}}]


def test_who_stops_waiting_for_what_the_engine_has_begun_is_told_that_it_goes_on(
    folder: Path, engine: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.slow = threading.Event()

    def interrupted(_: float) -> None:
        if RequestBox(folder).outcome(1).state == "taken":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("penstock.control.asking.time.sleep", interrupted)
        with pytest.raises(StillAtWork):
            ask_running(folder, "backfill", {"queries": ["q"], "since": "beginning"})
    engine.slow.set()


def test_a_script_may_ask_and_alter_and_nothing_else(folder: Path, engine: Pretended) -> None:
    ask_running(folder, "create", {"query": "pace", "text": PACE})
    assert ask_running(folder, "execute", {"script": "SHOW QUERIES; DESCRIBE QUERY pace"})["tables"][0]["rows"] == [
        ["pace"]
    ]
    ask_running(folder, "execute", {"script": "ALTER QUERY pace RESUME"})
    for script in ("DROP STREAM trades", "SHOW QUERIES; CREATE TABLE t (a INT) USING csv OPTIONS (path = '/etc')"):
        with pytest.raises(Unsupported):
            ask_running(folder, "execute", {"script": script})
    assert len([call for call in engine.calls if call[0] == "execute"]) == 2


def test_a_backup_goes_where_it_is_asked_to(folder: Path, tmp_path: Path) -> None:
    assert ask_running(folder, "backup", {"folder": str(tmp_path / "copy")}) == {"folder": str(tmp_path / "copy")}
    with pytest.raises(StateError, match="exists already"):
        ask_running(folder, "backup", {"folder": str(tmp_path / "copy")})


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("create", {}),
        ("create", {"query": 7, "text": PACE}),
        ("create", {"query": "", "text": PACE}),
        ("drop", {"query": ["q"]}),
        ("drop", {"query": {"a": "b"}}),
        ("drop", {"query": "q' OR 1=1; DROP TABLE requests; --"}),
        ("drop", {"query": "\x00\x1b[2J" * 1_000}),
        ("ask", {"text": None}),
        ("backfill", {"queries": [], "since": "beginning"}),
        ("backfill", {"queries": "pace", "since": "beginning"}),
        ("backfill", {"queries": [1], "since": "beginning"}),
        ("execute", {"script": "(" * 10_000}),
        ("backup", {"folder": "\x00"}),
    ],
)
def test_a_hostile_body_is_refused_and_the_next_request_is_answered(
    folder: Path, verb: str, body: dict[str, Any]
) -> None:
    with pytest.raises(PenstockError):
        ask_running(folder, verb, body)
    assert ask_running(folder, "status", {})["version"] == 1


def test_a_box_that_is_deleted_or_damaged_while_an_engine_runs_does_not_stop_it(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ask_running(folder, "status", {})
    with sqlite3.connect(folder / FILE) as db:
        db.execute("DROP TABLE requests")
    db.close()
    assert ask_running(folder, "status", {})["version"] == 1  # who asks makes the table again
    for path in folder.glob(f"{FILE}*"):
        path.unlink()
    assert ask_running(folder, "status", {})["version"] == 1


def test_an_engine_whose_box_cannot_be_made_runs_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).mkdir()
    serving = Serving(Pretended(), tmp_path, poll_s=0.01)
    serving.start()
    serving.stop()
    assert "no requests are taken" in caplog.text


def test_after_a_stop_nothing_is_taken_and_a_start_listens_again(tmp_path: Path) -> None:
    held = StateFolder(tmp_path)
    serving = Serving(Pretended(), tmp_path, poll_s=0.01)
    serving.start()
    serving.start()
    serving.stop()
    assert [t.name for t in threading.enumerate() if "requests" in t.name] == []
    with pytest.raises(RequestFailed, match="did not take the request"):
        ask_running(tmp_path, "status", {}, timeout_s=0.2)
    serving.start()
    assert ask_running(tmp_path, "status", {})["version"] == 1
    serving.stop()
    held.release()
