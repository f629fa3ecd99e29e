"""Keeps the durable log of catalog changes in ``catalog.db``: a change is committed before it is acknowledged.

The file is an SQLite database with one table, ``changes``, that any SQLite reader may look into while an engine runs.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from penstock.errors import StateError
from penstock.store.faults import reached
from penstock.store.files import checksum, damaged, sync_folder
from penstock.store.journal import read_journal
from penstock.store.packed_changes import FORGOTTEN, PACKED, Change, is_small, packed, stretches, unpacked

SCHEMA: Final = 1  # of the table; kept as the database's user_version, …
PACKING: Final = 2  # … which tells of packed rows too
BUSY_S: Final = 5.0  # how long a lock of another program is waited for
_WRITING: Final = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")
_LOCKED: Final = ("SQLITE_BUSY", "SQLITE_LOCKED")

# version: 1, 2, 3 … without a gap. at_us: the clock, in microseconds since 1970. op: create, replace, retime (a query
# goes on at another period), retire, drop, pause or resume. kind: stream, table, query or function. name: of what is
# changed. definition: the number of the query's definition that the change is about. body: what else belongs to the
# change, as JSON. checksum: of all the others. A row whose op is packed holds several changes, up to its version.
CHANGES: Final = sa.Table(
    "changes",
    sa.MetaData(),
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at_us", sa.BigInteger, nullable=False),
    sa.Column("op", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("definition", sa.Integer),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("checksum", sa.Text, nullable=False),
)
_ABOUT: Final = ("version", "at_us", "op", "kind", "name", "definition")
LONG: Final = 400  # characters of a body that says more than a name
_LEFT: Final = ("stream", "handover_us")  # of a change that is forgotten: whose line it was in, who answered until when


class ChangeLog:
    """An append-only table of changes; without a path it remembers nothing beyond the process."""

    def __init__(self, path: Path | None) -> None:
        """Take the file's place; it is made with the first change."""
        self.path = path
        self._engine: sa.Engine | None = None

    def append(self, *changes: Change) -> None:
        """Add changes and make them durable together."""
        if self.path is None or not changes:
            return
        rows = [_row(change) for change in changes]
        try:
            reached("catalog.before")
            with self._opened(self.path).begin() as connection:
                connection.execute(sa.insert(CHANGES), rows)
            reached("catalog.after")
        except IntegrityError as error:
            what = f"another program has changed the catalog {self.path}: {error.orig}"
            raise StateError(what, hint="Start again: nothing that was acknowledged is lost.") from None
        except (DBAPIError, OSError) as error:
            raise _worded(self.path, error) from error

    def forget(self, versions: Sequence[int]) -> None:
        """Keep of changes that entered queries only what the others' numbers and names are told by, in one write."""
        if self.path is None or not versions:
            return
        try:
            reached("forgotten.before")
            with self._opened(self.path).begin() as connection:
                chosen = sa.select(CHANGES).where(CHANGES.c.version.in_(versions))
                left = [_left(_change(row, self.path)) for row in connection.execute(chosen).all()]
                connection.execute(sa.delete(CHANGES).where(CHANGES.c.version.in_(versions)))
                connection.execute(sa.insert(CHANGES), left)  # rows that only shrink would leave their pages half empty
                self._pack(connection, self.path)
            reached("forgotten.after")
        except (DBAPIError, OSError) as error:
            raise _worded(self.path, error) from error

    def _pack(self, connection: sa.Connection, path: Path) -> None:
        """Put changes together that say nothing more, where many follow each other."""
        short = CHANGES.c.kind == "query", CHANGES.c.op != PACKED, sa.func.length(CHANGES.c.body) < LONG
        chosen = sa.select(CHANGES).where(*short).order_by(CHANGES.c.version)
        small = {row.version: change for row in connection.execute(chosen) if is_small(change := _change(row, path))}
        found = list(stretches(list(small)))
        for first, last in found:
            connection.execute(sa.delete(CHANGES).where(CHANGES.c.version.between(first, last)))
            row = _row(packed([small[version] for version in range(first, last + 1)]))
            connection.execute(sa.insert(CHANGES), [row])
        if found:
            connection.execute(sa.text(f"PRAGMA user_version={PACKING}"))

    def __iter__(self) -> Iterator[Change]:
        """Read the changes from the first on."""
        if self.path is None or not self.path.exists():
            return
        try:
            with self._opened(self.path).connect() as connection:
                rows = connection.execute(sa.select(CHANGES).order_by(CHANGES.c.version)).all()
        except DBAPIError as error:
            raise _worded(self.path, error) from error
        yield from _checked(rows, self.path)

    def read(self, version: int) -> Change:
        """Read one change again."""
        assert self.path is not None, "a log without a path holds nothing"
        try:
            with self._opened(self.path).connect() as connection:
                later = sa.select(CHANGES).where(CHANGES.c.version >= version).order_by(CHANGES.c.version).limit(1)
                row = connection.execute(later).one_or_none()
        except DBAPIError as error:
            raise _worded(self.path, error) from error
        held = {} if row is None else {change["version"]: change for change in unpacked(_change(row, self.path))}
        if version not in held:
            raise damaged(self.path, f"change {version} is missing")
        return held[version]

    def close(self) -> None:
        """Let go of the file; it is opened again when it is needed."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def _opened(self, path: Path) -> sa.Engine:
        """Open the database, make the table if there is none, and refuse one of another version."""
        if self._engine is not None and not path.exists():  # SQLite would go on writing into nowhere
            raise damaged(path, "it was removed while it was in use")
        if self._engine is None:
            created = not path.exists()
            engine = _engine(sa.URL.create("sqlite", database=str(path)), "WAL")
            with engine.begin() as connection:
                _prepare(connection, path)
            if created:
                sync_folder(path.parent)
            self._engine = engine
        return self._engine


def read_changes(path: Path) -> list[Change]:
    """Read a catalog without touching it, also while an engine has it open; no file: no changes."""
    if not path.exists():
        return []
    engine = _reading(path)
    try:
        with engine.connect() as connection:
            if not sa.inspect(connection).has_table(CHANGES.name):
                return []
            _refuse_newer(connection, path)
            rows = connection.execute(sa.select(CHANGES).order_by(CHANGES.c.version)).all()
    except DBAPIError as error:
        raise _worded(path, error) from error
    finally:
        engine.dispose()
    return list(_checked(rows, path))


def copy_changes(path: Path, target: Path) -> None:
    """Copy a catalog as it stands, also while an engine has it open, into a new file that is whole and synced."""
    if target.exists():
        raise StateError(f"{target} exists already", hint="Choose another place.")
    engine = _reading(path)
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("VACUUM INTO :target"), {"target": str(target)})
        with target.open("rb") as file:
            os.fsync(file.fileno())
    except (DBAPIError, OSError) as error:
        raise _worded(target, error) from error
    finally:
        engine.dispose()


def migrate_journal(folder: Path) -> None:
    """Turn the ``catalog.log`` of format 1 into ``catalog.db``, once; killed in the middle, it starts over."""
    log, database, draft = folder / "catalog.log", folder / "catalog.db", folder / ".catalog.db.draft"
    if not log.exists():
        return
    try:
        if not database.exists():
            _write_database(draft, read_journal(log))
            draft.replace(database)
            sync_folder(folder)
        log.unlink()
        sync_folder(folder)
    except (DBAPIError, OSError) as error:
        raise _worded(database, error) from error


def _write_database(path: Path, changes: list[Change]) -> None:
    """Write a database with all changes in it, whole and synced in one file when this returns."""
    for rest in path.parent.glob(f"{path.name}*"):  # of an attempt that was killed
        rest.unlink()
    engine = _engine(sa.URL.create("sqlite", database=str(path)), "DELETE")
    try:
        with engine.begin() as connection:
            _prepare(connection, path)
            if changes:
                connection.execute(sa.insert(CHANGES), [_row(change) for change in changes])
    finally:
        engine.dispose()


# -- the database ------------------------------------------------------------------------------------------------


def _engine(url: sa.URL, journal: str | None = None) -> sa.Engine:
    """Make an engine whose connections wait for locks, and sync every commit if they write."""
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_S, "check_same_thread": False})
    if journal is not None:

        def prepare(connection: sqlite3.Connection, _: object) -> None:
            """Set how a connection keeps its promise."""
            connection.execute(f"PRAGMA journal_mode={journal}")
            connection.execute("PRAGMA synchronous=FULL")

        sa.event.listen(engine, "connect", prepare)
    return engine


def _reading(path: Path) -> sa.Engine:
    """Make an engine that only reads."""
    place = f"file:{quote(str(path.absolute()))}"
    return _engine(sa.URL.create("sqlite", database=place, query={"mode": "ro", "uri": "true"}))


def _prepare(connection: sa.Connection, path: Path) -> None:
    """Make the table in a new database."""
    _refuse_newer(connection, path)
    if not sa.inspect(connection).has_table(CHANGES.name):
        CHANGES.create(connection)
        connection.execute(sa.text(f"PRAGMA user_version={SCHEMA}"))


def _refuse_newer(connection: sa.Connection, path: Path) -> None:
    """Refuse a database that a later version wrote."""
    found = int(connection.execute(sa.text("PRAGMA user_version")).scalar_one())
    if found > PACKING:
        what = f"the catalog {path} has format {found}, but this version reads {PACKING}"
        raise StateError(what, hint="Use the version of Penstock that wrote it, or a later one.")


def _worded(path: Path, error: DBAPIError | OSError) -> StateError:
    """Say what SQLite or the system could not do, and what to do about it."""
    if isinstance(error, OSError):
        kind, why = "SQLITE_IOERR", error.strerror or str(error)
    else:
        kind, why = str(getattr(error.orig, "sqlite_errorname", "")), str(error.orig)
    if kind.startswith(_LOCKED):
        what = f"another program holds the catalog {path} locked"
        return StateError(what, detail=why, hint="Close what has it open, then try again.")
    if kind.startswith(_WRITING):
        hint = "Free space or fix permissions, then try again: nothing that was acknowledged is lost."
        return StateError(f"cannot write {path}: {why}", hint=hint)
    return damaged(path, why)


# -- rows --------------------------------------------------------------------------------------------------------


def _row(change: Change) -> Change:
    """Write a change as a row."""
    about = {name: change.get(name) for name in _ABOUT}
    body = {name: value for name, value in change.items() if name not in _ABOUT}
    return {**about, "body": _json(body), "checksum": _checksum(about, _json(body))}


def _left(change: Change) -> Change:
    """Write what is left of a change that is forgotten as a row."""
    return _row({name: change[name] for name in (*_ABOUT, *_LEFT) if name in change} | {FORGOTTEN: True})


def _json(value: object) -> str:
    """Write JSON in one way."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _checksum(about: Change, body: str) -> str:
    """Return the checksum of all that a row holds."""
    return checksum((_json(about) + body).encode())


def _checked(rows: Any, path: Path) -> Iterator[Change]:
    """Read rows, none of which may be missing."""
    number = 0
    for row in rows:
        for change in unpacked(_change(row, path)):
            number += 1
            if change["version"] != number:
                raise damaged(path, f"change {number} is missing")
            yield change


def _change(row: Any, path: Path) -> Change:
    """Read one row, or say that it is not as it was written."""
    about = {name: getattr(row, name) for name in _ABOUT}
    if _checksum(about, row.body) != row.checksum:
        raise damaged(path, f"change {row.version} does not match its checksum")
    return {**about, **json.loads(row.body)}
