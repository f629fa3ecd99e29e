"""Keeps the box of requests in the state folder; the engine takes each request at most once."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from penstock.control.failures import error_record
from penstock.errors import RequestFailed, StateError
from penstock.model.instants import Clock, wall_clock_us

FILE: Final = "requests.db"
MOST_BYTES: Final = 1 << 20  # of a request's body
MOST_ANSWER_BYTES: Final = 64 << 20
BUSY_S: Final = 5.0  # to wait for another process's short transaction
KEPT_US: Final = 3_600_000_000  # answers are there for an hour, for a requester that was slow

# What an engine does for others. The first two are answered at once whatever else goes on; the last two may take long.
VERBS: Final = (
    "status",
    "metrics",
    "create",
    "alter",
    "drop",
    "pause",
    "resume",
    "policy",
    "shed",
    "ask",
    "execute",
    "backfill",
    "backup",
)

REQUESTS: Final = sa.Table(
    "requests",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("verb", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),  # JSON
    sa.Column("put_us", sa.BigInteger, nullable=False),
    sa.Column("expires_us", sa.BigInteger, nullable=False),  # taken before then, or never
    sa.Column("state", sa.Text, nullable=False),  # waiting → taken → done | failed | lost; or withdrawn
    sa.Column("answer", sa.Text),  # JSON: of done the value, of failed the error
    sa.Column("ended_us", sa.BigInteger),
    sqlite_autoincrement=True,
)
WAITING: Final = sa.Index("by_state", REQUESTS.c.state)


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asks of the engine."""

    number: int
    verb: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """How far a request came: its state, and its answer when it has ended."""

    state: str
    answer: dict[str, Any] | None


class RequestBox:
    """The requests of one state folder; every method is one short transaction, from any process and thread."""

    def __init__(self, folder: Path, clock: Clock = wall_clock_us) -> None:
        """Open the box, made if need be."""
        self.path, self._clock = folder / FILE, clock
        self._engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(self.path)), poolclass=NullPool, connect_args={"timeout": BUSY_S}
        )
        self._make()

    def _make(self) -> None:
        """Make the table unless it is there; another process may be at it, too."""
        with self._transaction() as connection:
            if connection.exec_driver_sql("PRAGMA journal_mode").scalar() != "wal":
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        with self._transaction() as connection:
            connection.execute(sa.schema.CreateTable(REQUESTS, if_not_exists=True))
            connection.execute(sa.schema.CreateIndex(WAITING, if_not_exists=True))

    @classmethod
    def renewed(cls, folder: Path) -> RequestBox:
        """Open the box for a new engine; a damaged one is thrown away, for nothing in it outlives an engine."""
        try:
            box = cls(folder)
            box.begin()
        except StateError:
            for end in ("", "-wal", "-shm"):
                (folder / f"{FILE}{end}").unlink(missing_ok=True)
            box = cls(folder)
        return box

    # -- who asks ------------------------------------------------------------------------------------------------

    def put(self, verb: str, body: dict[str, Any], timeout_s: float) -> int:
        """Put a request; return its number."""
        if verb not in VERBS:
            raise RequestFailed(f'an engine cannot be asked to "{verb}"', detail=f"it can: {', '.join(VERBS)}")
        text = json.dumps(body)
        if len(text.encode()) > MOST_BYTES:
            raise RequestFailed(
                f"a request of {len(text.encode()):,} bytes is too large", hint=f"At most {MOST_BYTES:,} bytes."
            )
        now = self._clock()
        row = {"verb": verb, "body": text, "put_us": now, "expires_us": now + int(timeout_s * 1e6), "state": "waiting"}
        with self._transaction() as connection:
            key = connection.execute(sa.insert(REQUESTS).values(row)).inserted_primary_key
        assert key is not None
        return int(key[0])

    def outcome(self, number: int) -> RequestOutcome:
        """Look how far a request came."""
        asked = sa.select(REQUESTS.c.state, REQUESTS.c.answer).where(REQUESTS.c.id == number)
        with self._transaction() as connection:
            row = connection.execute(asked).first()
        if row is None:
            return RequestOutcome("lost", None)
        return RequestOutcome(row.state, None if row.answer is None else json.loads(row.answer))

    def withdraw(self, number: int) -> bool:
        """Take a request back; False: the engine has taken it already."""
        mine = sa.update(REQUESTS).where(REQUESTS.c.id == number, REQUESTS.c.state == "waiting")
        with self._transaction() as connection:
            return connection.execute(mine.values(state="withdrawn", ended_us=self._clock())).rowcount == 1

    def renew(self, number: int, timeout_s: float) -> None:
        """Say that somebody still waits for a request."""
        mine = sa.update(REQUESTS).where(REQUESTS.c.id == number, REQUESTS.c.state == "waiting")
        with self._transaction() as connection:
            connection.execute(mine.values(expires_us=self._clock() + int(timeout_s * 1e6)))

    def mark(self) -> tuple[object, ...]:
        """Return what changes when somebody writes to the box; looking at it costs next to nothing."""
        return tuple(_mark(self.path.with_name(f"{FILE}{end}")) for end in ("", "-wal"))

    # -- who answers ---------------------------------------------------------------------------------------------

    def take(self, verbs: Collection[str] | None = None, but: Collection[str] = ()) -> Request | None:
        """Take the oldest request that has not expired, recorded before it is carried out; refuse what is none."""
        wanted = sa.select(REQUESTS.c.id).where(REQUESTS.c.state == "waiting", REQUESTS.c.expires_us > self._clock())
        wanted = wanted.where(REQUESTS.c.verb.in_(verbs) if verbs is not None else REQUESTS.c.verb.not_in(but))
        oldest = wanted.order_by(REQUESTS.c.id).limit(1)
        taking = sa.update(REQUESTS).where(REQUESTS.c.id == oldest.scalar_subquery()).values(state="taken")
        with self._transaction() as connection:
            if connection.execute(oldest).first() is None:  # a reader does not wait for writers
                return None
            number = connection.execute(taking.returning(REQUESTS.c.id)).scalar()
        if number is None:
            return None
        try:
            return self._read(number)
        except (RequestFailed, StateError) as error:
            self.fail(number, error)
            return None

    def answer(self, number: int, value: dict[str, Any]) -> None:
        """Give a request its answer."""
        text = json.dumps(value)
        if len(text) > MOST_ANSWER_BYTES:
            raise RequestFailed(
                f"the answer has {len(text):,} bytes, which is too large", hint="Ask for fewer groups or columns."
            )
        self._end(number, "done", text)

    def fail(self, number: int, error: BaseException) -> None:
        """Give a request an error for an answer."""
        self._end(number, "failed", json.dumps(error_record(error)))

    def begin(self) -> int:
        """Mark what an engine that has gone had taken as lost, forget old rows; return how many were lost."""
        now, gone = self._clock(), REQUESTS.c.state == "taken"
        with self._transaction() as connection:
            lost = connection.execute(sa.update(REQUESTS).where(gone).values(state="lost", ended_us=now)).rowcount
        self.tidy()
        return lost

    def tidy(self) -> None:
        """Forget requests that ended or expired an hour ago."""
        before = self._clock() - KEPT_US
        ended = sa.or_(
            REQUESTS.c.ended_us < before, sa.and_(REQUESTS.c.state == "waiting", REQUESTS.c.expires_us < before)
        )
        with self._transaction() as connection:
            connection.execute(sa.delete(REQUESTS).where(ended))

    def _read(self, number: int) -> Request:
        """Read a request that may have been put by anything."""
        size = sa.func.length(sa.cast(REQUESTS.c.body, sa.LargeBinary))
        asked = sa.select(REQUESTS.c.verb, sa.case((size <= MOST_BYTES, REQUESTS.c.body)).label("body"))
        with self._transaction() as connection:
            row = connection.execute(asked.where(REQUESTS.c.id == number)).one()
        if row.body is None:
            raise RequestFailed("the request is too large", hint=f"At most {MOST_BYTES:,} bytes.")
        try:
            body = json.loads(row.body)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise RequestFailed("a request's body is not a JSON object")
        return Request(number, str(row.verb), body)

    def _end(self, number: int, state: str, answer: str) -> None:
        """Write how a request ended."""
        mine = sa.update(REQUESTS).where(REQUESTS.c.id == number, REQUESTS.c.state == "taken")
        with self._transaction() as connection:
            connection.execute(mine.values(state=state, answer=answer, ended_us=self._clock()))

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """Work on the database; what it cannot do is an error of the state folder."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except sa.exc.DatabaseError as error:
            raise StateError(
                f"cannot use {self.path}: {error.orig}",
                hint="Fix permissions or free space; a damaged file may be deleted while no engine runs.",
            ) from None


def _mark(path: Path) -> tuple[int, int, int] | None:
    """Return which file is at a path, its size and when it was written."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
