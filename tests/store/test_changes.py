"""The list of changes holds what was acknowledged, and says so when it is damaged, locked or full."""

from __future__ import annotations

import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from penstock.errors import StateError
from penstock.store import changes as module
from penstock.store import faults
from penstock.store.changes import ChangeLog, copy_changes, migrate_journal, read_changes

OLD = Path(__file__).parent / "format1" / "catalog.log"  # as version 0.1.0 wrote it


def change(version: int, name: str = "q", **body: Any) -> dict[str, Any]:
    about = {"version": version, "at_us": 1_000 * version, "op": "create", "kind": "query", "name": name}
    return {**about, "definition": version, **body}


CHANGES = [change(1, text="SELECT 1"), change(2, "é\n'\"", body={"a": [1, None, 2.5]}), change(3, "", stream="s")]


def read_log(path: Path) -> list[dict[str, Any]]:
    return list(ChangeLog(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    log = ChangeLog(tmp_path / "catalog.db")
    log.append(*CHANGES[:2])
    log.append(CHANGES[2])
    log.close()
    return tmp_path / "catalog.db"


@pytest.fixture
def hook() -> Iterator[list[str]]:
    seen: list[str] = []
    faults.hook = seen.append
    yield seen
    faults.hook = None


def test_of_forgotten_changes_numbers_and_names_stay_and_the_rest_makes_room(path: Path, hook: list[str]) -> None:
    log, long = ChangeLog(path), "x" * 1_000
    more = [change(version, f"q{version}", text=long, stream="s", handover_us=version) for version in range(4, 304)]
    log.append(*more)
    full = _pages(path)
    log.forget([one["version"] for one in more])
    log.forget([])
    left = [{**one, "forgotten": True} for one in more]
    for one in left:
        del one["text"]
    assert list(log) == [*CHANGES, *left] == read_changes(path)
    assert log.read(100) == left[96]
    assert _pages(path) < full / 3  # the others are used again
    assert hook[-2:] == ["forgotten.before", "forgotten.after"]


def test_queries_that_came_and_went_take_little_room_and_are_read_as_before(tmp_path: Path) -> None:
    log, count = ChangeLog(tmp_path / "catalog.db"), 1_000
    changes = [change(1, "stays", text="SELECT 1", stream="s")]
    for version in range(2, 2 * count + 2, 2):
        changes.append(change(version, f"passes{version}", text="x" * 600, stream="s"))
        changes.append({**change(version + 1, f"passes{version}"), "op": "drop", "definition": None})
    log.append(*changes)
    forgotten = [one["version"] for one in changes[1:] if one["op"] == "create"]
    for start in range(0, count, 100):
        log.forget(forgotten[start : start + 100])
    assert [name for one in log for name in (one["version"], one["op"], one["name"])] == [
        name for one in changes for name in (one["version"], one["op"], one["name"])
    ]
    assert list(log) == read_changes(log.path or tmp_path)
    assert next(iter(log)) == changes[0] == log.read(1)
    assert log.read(2) == {**change(2, "passes2", stream="s"), "forgotten": True}
    log.append(change(2 * count + 2))
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        [(held,)] = connection.execute("SELECT sum(length(name) + length(body)) FROM changes WHERE version > 1")
        [(format_of,)] = connection.execute("PRAGMA user_version")
    connection.close()
    assert held < 40 * count
    assert format_of == 2  # which versions before refuse
    with pytest.raises(StateError, match="change 5000 is missing"):
        log.read(5_000)


def test_a_packed_row_that_is_damaged_or_missing_is_noticed(path: Path) -> None:
    log = ChangeLog(path)
    log.append(*(change(version, f"q{version}", text="x", stream="s") for version in range(4, 304)))
    log.forget(list(range(4, 304)))
    log.append(change(304))
    log.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM changes WHERE op = 'packed'")
    connection.close()
    with pytest.raises(StateError, match="change 4 is missing"):
        read_log(path)


def _pages(path: Path) -> int:
    """Count the pages of a database that are in use."""
    with sqlite3.connect(path) as connection:
        counts = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")]
    return int(counts[0]) - int(counts[1])


def test_changes_come_back_in_order_from_the_log_and_beside_it(path: Path) -> None:
    log = ChangeLog(path)
    assert list(log) == CHANGES
    assert log.read(2) == CHANGES[1]
    log.append(change(4))
    assert list(log) == read_changes(path) == [*CHANGES, change(4)]


def test_the_columns_are_those_that_the_page_tells(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT version, at_us, op, kind, name, definition, body FROM changes").fetchall()
    connection.close()
    assert rows[0] == (1, 1_000, "create", "query", "q", 1, '{"text":"SELECT 1"}')


def test_a_log_without_a_path_remembers_nothing() -> None:
    log = ChangeLog(None)
    log.append(*CHANGES)
    assert list(log) == []


def test_no_file_is_made_before_the_first_change(tmp_path: Path) -> None:
    log = ChangeLog(tmp_path / "catalog.db")
    assert (list(log), read_changes(tmp_path / "catalog.db")) == ([], [])
    log.append()
    assert list(tmp_path.iterdir()) == []


def test_the_moments_around_a_change_are_told_to_tests(tmp_path: Path, hook: list[str]) -> None:
    ChangeLog(tmp_path / "catalog.db").append(*CHANGES)
    assert hook == ["catalog.before", "catalog.after"]


def test_commits_are_synced(path: Path) -> None:
    asked: list[list[Any]] = []

    def ask(connection: sa.Connection) -> None:
        names = ("journal_mode", "synchronous")
        asked.append([connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names])

    sa.event.listen(sa.Engine, "commit", ask)
    try:
        ChangeLog(path).append(change(4))
    finally:
        sa.event.remove(sa.Engine, "commit", ask)
    assert asked[-1] == ["wal", 2]


def test_killed_at_any_moment_all_or_nothing_of_a_change_is_there(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        from penstock.store import faults
        from penstock.store.changes import ChangeLog
        log = ChangeLog(Path(sys.argv[1]))
        def change(version):
            return {"version": version, "at_us": 0, "op": "create", "kind": "query", "name": "q", "definition": version}
        log.append(change(1))
        def kill(point):
            if point == sys.argv[2]:
                os.kill(os.getpid(), signal.SIGKILL)
        faults.hook = kill
        log.append(change(2), change(3))
        """
    )
    for moment, kept in (("catalog.before", [1]), ("catalog.after", [1, 2, 3])):
        done = subprocess.run([sys.executable, "-c", program, tmp_path / moment, moment], check=False)
        assert done.returncode == -signal.SIGKILL
        assert [one["version"] for one in ChangeLog(tmp_path / moment)] == kept


# -- what can be wrong -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE changes SET body = '{}' WHERE version = 2", "change 2 does not match its checksum"),
        ("UPDATE changes SET name = 'p' WHERE version = 1", "change 1 does not match its checksum"),
        ("UPDATE changes SET at_us = 5 WHERE version = 3", "change 3 does not match its checksum"),
        ("DELETE FROM changes WHERE version = 2", "change 2 is missing"),
        ("DELETE FROM changes WHERE version = 1", "change 1 is missing"),
    ],
)
def test_a_change_that_is_not_as_it_was_written_is_named(path: Path, statement: str, says: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    for read in (read_log, read_changes):
        with pytest.raises(StateError, match=says) as raised:
            read(path)
        assert "backup" in (raised.value.hint or "")


def test_a_file_that_is_no_database_is_reported(path: Path) -> None:
    whole = path.read_bytes()
    for content in (b"not a database" * 400, whole[:100] + bytes(len(whole) - 100), whole[:4_000]):
        path.write_bytes(content)
        for use in (
            lambda: list(ChangeLog(path)),
            lambda: read_changes(path),
            lambda: ChangeLog(path).append(change(4)),
        ):
            with pytest.raises(StateError, match="is missing or damaged"):
                use()


def test_a_database_of_a_later_version_is_refused(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    for read in (read_log, read_changes):
        with pytest.raises(StateError, match="has format 99, but this version reads 2"):
            read(path)


def test_a_locked_database_is_waited_for_then_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_S", 0.05)
    log = ChangeLog(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StateError, match=r"another program holds the catalog .* locked"):
        log.append(change(4))
    assert read_changes(path) == CHANGES  # readers are not kept out
    holder.execute("ROLLBACK")
    holder.close()
    log.append(change(4))
    assert list(log) == [*CHANGES, change(4)]


def test_a_version_that_is_there_already_is_reported(path: Path) -> None:
    with pytest.raises(StateError, match="another program has changed the catalog"):
        ChangeLog(path).append(change(3))


def test_a_full_disk_loses_nothing_that_was_acknowledged(path: Path) -> None:
    log = ChangeLog(path)
    log.append(change(4))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, before[1]))
        with pytest.raises(StateError, match=r"cannot write .*catalog\.db") as raised:
            log.append(change(5, text="x" * 100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert "Free space" in (raised.value.hint or "")
    assert list(log) == [*CHANGES, change(4)]
    log.append(change(5))
    assert list(ChangeLog(path)) == [*CHANGES, change(4), change(5)]


def test_a_file_that_was_removed_while_it_was_in_use_is_missed(path: Path) -> None:
    log = ChangeLog(path)
    log.append(change(4))
    path.unlink()
    with pytest.raises(StateError, match="it was removed while it was in use"):
        log.append(change(5))


def test_a_folder_that_is_gone_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"cannot write .*catalog\.db: unable to open database file"):
        ChangeLog(tmp_path / "gone" / "catalog.db").append(change(1))


def test_a_folder_with_odd_signs_in_its_name_is_as_good_as_any(tmp_path: Path) -> None:
    folder = tmp_path / "a?b#c%20d é'\""
    folder.mkdir()
    ChangeLog(folder / "catalog.db").append(*CHANGES)
    assert read_changes(folder / "catalog.db") == CHANGES


def test_a_copy_taken_while_the_log_is_open_is_whole(path: Path, tmp_path: Path) -> None:
    log = ChangeLog(path)
    log.append(change(4))  # in the write-ahead log still
    copy_changes(path, tmp_path / "copy.db")
    assert list(ChangeLog(tmp_path / "copy.db")) == [*CHANGES, change(4)]
    with pytest.raises(StateError, match=r"copy\.db exists already"):
        copy_changes(path, tmp_path / "copy.db")


# -- format 1 ----------------------------------------------------------------------------------------------------


def test_the_log_of_format_1_becomes_a_database(tmp_path: Path) -> None:
    shutil.copy(OLD, tmp_path / "catalog.log")
    migrate_journal(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["catalog.db"]
    found = list(ChangeLog(tmp_path / "catalog.db"))
    assert [(c["version"], c["op"], c["kind"], c["name"], c["definition"]) for c in found] == [
        (1, "create", "stream", "trades", None),
        (2, "create", "table", "listing", None),
        (3, "create", "function", "notional", None),
        (4, "create", "query", "pace", 1),
        (5, "create", "query", "gone", 2),
        (6, "create", "query", "flow", 3),
        (7, "replace", "query", "pace", 4),
        (8, "drop", "query", "gone", None),
        (9, "drop", "function", "notional", None),
    ]
    assert found[6]["text"] == "SELECT count(*) AS n FROM trades [RANGE 2 min SLIDE 1 min]"
    migrate_journal(tmp_path)
    assert list(ChangeLog(tmp_path / "catalog.db")) == found


def test_a_migration_that_was_killed_starts_over(tmp_path: Path) -> None:
    shutil.copy(OLD, tmp_path / "catalog.log")
    (tmp_path / ".catalog.db.draft").write_bytes(b"half a database")
    (tmp_path / ".catalog.db.draft-journal").write_bytes(b"and its journal")
    migrate_journal(tmp_path)
    assert len(read_changes(tmp_path / "catalog.db")) == 9
    shutil.copy(OLD, tmp_path / "catalog.log")  # killed before the log was removed
    migrate_journal(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["catalog.db"]
    assert len(read_changes(tmp_path / "catalog.db")) == 9


def test_wherever_a_crash_cut_the_old_log_its_whole_lines_are_kept(tmp_path: Path) -> None:
    content = OLD.read_bytes()
    for length in range(0, len(content), 97):
        folder = tmp_path / str(length)
        folder.mkdir()
        (folder / "catalog.log").write_bytes(content[:length])
        migrate_journal(folder)
        assert len(read_changes(folder / "catalog.db")) == content[:length].count(b"\n")


def test_a_damaged_line_of_the_old_log_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    content = bytearray(OLD.read_bytes())
    content[content.index(b"\n") + 40] ^= 1
    (tmp_path / "catalog.log").write_bytes(content)
    with pytest.raises(StateError, match="line 2: its checksum does not match"):
        migrate_journal(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["catalog.log"]
