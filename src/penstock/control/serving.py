"""Carries out the requests of other processes in the engine, and writes their answers to the box."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from penstock.catalog.catalog import Origin
from penstock.control.metrics import EngineMetrics
from penstock.control.requests import VERBS, Request, RequestBox
from penstock.errors import PenstockError, RequestFailed, Unsupported
from penstock.evaluate.expressions.ddl import type_name
from penstock.language.grammar.parse import parse_script
from penstock.language.statements import AlterQuery, AlterSource, Question
from penstock.sinks.row_values import plain_rows
from penstock.store.commits import BY_HAND

LOG: Final = logging.getLogger("penstock")
POLL_S: Final = 0.1
PATIENCE_S: Final = 10.0  # for requests at work when the engine stops
LOOK_POLLS: Final = 10  # a file's time is not exact: two changes may look like one
TIDY_POLLS: Final = 6_000
NOW: Final = ("status", "metrics", "policy")
LONG: Final = ("backfill", "backup")
QUIET: Final = ("status", "metrics", "ask", "execute")  # change nothing: not worth a line in the log


class Route(Protocol):
    """What an engine says of a query that it has taken in."""

    @property
    def first_end_us(self) -> int | None:
        """Return the end of the first window that will be answered."""

    @property
    def why(self) -> str:
        """Say why it begins there."""


class Served(Protocol):
    """What an engine does for other processes."""

    def create_query(self, name: str, text: str, *, origin: Origin = "") -> Route:
        """Enter a query."""

    def alter_query(self, name: str, text: str) -> Route:
        """Give a query another text."""

    def drop_query(self, name: str) -> None:
        """Take a query out."""

    def pause_query(self, name: str) -> None:
        """Let a query answer no more."""

    def resume_query(self, name: str) -> None:
        """Let a query answer again."""

    @property
    def policy(self) -> str:
        """Return the name of the policy by which answers are ordered."""

    def set_policy(self, name: str) -> None:
        """Order answers by another policy."""

    @property
    def operator_policy(self) -> str:
        """Return the name of the policy by which expensive functions take their rows."""

    def set_operator_policy(self, name: str) -> None:
        """Let expensive functions take their rows by another policy."""

    @property
    def synchronization(self) -> str:
        """Return the name of the technique by which evaluations run together."""

    def set_synchronization(self, name: str) -> None:
        """Let evaluations run together by another technique."""

    def sampling(self, stream: str) -> str:
        """Return the share of a stream's rows that queries which shed load take."""

    def set_sampling(self, stream: str, share: str) -> None:
        """Let queries that shed load take another share of a stream's rows."""

    def ask(self, text: str) -> Any:
        """Answer a one-time query."""

    def execute(self, script: str) -> list[pa.Table]:
        """Carry out statements."""

    def backfill(
        self, names: Sequence[str], since: str = "beginning", *, accept_changed_files: bool = False
    ) -> Mapping[str, int]:
        """Answer windows of the past."""

    def backup(self, folder: Path) -> object:
        """Copy the state."""

    def status(self) -> dict[str, Any]:
        """Tell how everything stands."""

    def metrics(self) -> EngineMetrics:
        """Tell how soon queries are answered, and what the share of each is."""


class Serving:
    """Listens while an engine runs; no request, whatever it holds, stops the engine or the listening."""

    def __init__(self, engine: Served, folder: Path, poll_s: float = POLL_S) -> None:
        """Serve an engine through its state folder."""
        self._engine, self._folder, self._poll_s = engine, folder, poll_s
        self._stopping = threading.Event()
        self._lanes: list[threading.Thread] = []
        self._failing = False

    def start(self) -> None:
        """Listen in the background; a box that cannot be used is told in the log, and the engine runs on."""
        if self._lanes:
            return
        self._stopping.clear()
        try:
            box = RequestBox.renewed(self._folder)
        except (PenstockError, OSError) as error:
            LOG.warning(f"no requests are taken: {error}", extra={"event": "requests failed"})
            return
        lanes: dict[str, Callable[[], Request | None]] = {
            "now": lambda: box.take(NOW),
            "changes": lambda: box.take(but=(*NOW, *LONG)),
            "long": lambda: box.take(LONG),
        }
        for name, take in lanes.items():
            lane = threading.Thread(
                target=self._listen, args=(box, take), name=f"penstock-requests-{name}", daemon=True
            )
            self._lanes.append(lane)
            lane.start()

    def stop(self) -> None:
        """Take no more requests, and let those at work end."""
        self._stopping.set()
        for lane in self._lanes:
            lane.join(PATIENCE_S)
            if lane.is_alive():
                LOG.warning("stopping while a request is still at work", extra={"event": "requests failed"})
        self._lanes = []

    def _listen(self, box: RequestBox, take: Callable[[], Request | None]) -> None:
        """Carry out requests until told to stop; the box is opened when it changed, and now and then in any case."""
        seen: object = None
        polls = 0
        while not self._stopping.is_set():
            mark, polls = box.mark(), polls + 1
            try:
                if mark != seen or polls % LOOK_POLLS == 0:
                    while not self._stopping.is_set() and (request := take()) is not None:
                        self._carry_out(box, request)
                    seen, self._failing = mark, False
                if polls % TIDY_POLLS == 0:
                    box.tidy()
            except Exception as error:  # a full disk, a box that was deleted: listening goes on
                self._complain(error)
            self._stopping.wait(self._poll_s)

    def _complain(self, error: Exception) -> None:
        """Log trouble with the box once, until it works again."""
        if not self._failing:
            LOG.warning(f"requests cannot be taken: {error}", extra={"event": "requests failed"})
        self._failing = True

    def _carry_out(self, box: RequestBox, request: Request) -> None:
        """Carry out one request and give its answer or its error."""
        about = {"event": "request", "query": request.body.get("query")}
        try:
            box.answer(request.number, answered(self._engine, request))
        except PenstockError as error:
            LOG.info(f"refused: {_told(request)}: {error.what}", extra=about)
            box.fail(request.number, error)
        except Exception as error:
            LOG.error(f"failed: {_told(request)}: {error!r}", extra=about, exc_info=True)
            box.fail(request.number, error)
        else:
            if _changes(request):
                LOG.info(f"carried out: {_told(request)}", extra=about)


def answered(engine: Served, request: Request) -> dict[str, Any]:
    """Carry out a request; return its answer as JSON can hold it."""
    match request.verb:
        case "status":
            return engine.status()
        case "metrics":
            return engine.metrics().as_dict()
        case "create":
            name = _word(request, "query")
            return entered(name, engine.create_query(name, _word(request, "text"), origin="added"))
        case "alter":
            name = _word(request, "query")
            return entered(name, engine.alter_query(name, _word(request, "text")))
        case "drop" | "pause" | "resume":
            return _changed(engine, request)
        case "policy":
            if "policy" in request.body:
                engine.set_policy(_word(request, "policy"))
            if "operators" in request.body:
                engine.set_operator_policy(_word(request, "operators"))
            if "synchronize" in request.body:
                engine.set_synchronization(_word(request, "synchronize"))
            operators, synchronize = engine.operator_policy, engine.synchronization
            return {"policy": engine.policy, "operators": operators, "synchronize": synchronize}
        case "shed":
            stream = _word(request, "stream")
            if "share" in request.body:
                engine.set_sampling(stream, _word(request, "share"))
            return {"stream": stream, "share": engine.sampling(stream)}
        case "ask":
            return in_plain(engine.ask(_word(request, "text")))
        case "execute":
            return {"tables": [in_plain(table) for table in _executed(engine, _word(request, "script"))]}
        case "backfill":
            names, accept = _words(request, "queries"), request.body.get("accept_changed_files") is True
            return {"windows": dict(engine.backfill(names, _word(request, "since"), accept_changed_files=accept))}
        case "backup":
            engine.backup(Path(_word(request, "folder")))
            return {"folder": _word(request, "folder")}
        case verb:
            raise RequestFailed(f'an engine cannot be asked to "{verb[:50]}"', detail=f"it can: {', '.join(VERBS)}")


def _changes(request: Request) -> bool:
    """Tell whether a request changes something; one that only asks is not worth a line in the log."""
    wanted = {"policy": ("policy", "operators", "synchronize"), "shed": ("share",)}.get(request.verb)
    return request.verb not in QUIET and (wanted is None or any(name in request.body for name in wanted))


def _told(request: Request) -> str:
    """Name what was asked for, and what it was about."""
    named = [
        request.body.get("query"),
        request.body.get("folder"),
        request.body.get("policy"),
        request.body.get("operators"),
        request.body.get("synchronize"),
        request.body.get("stream"),
        *request.body.get("queries", ()),
    ]
    about = ", ".join(str(one) for one in named if one is not None)
    return f"{request.verb} {about}".rstrip()


def entered(name: str, entry: Route) -> dict[str, Any]:
    """Tell from when a query will answer."""
    return {"query": name, "first_end_us": entry.first_end_us, "why": entry.why, "said": str(entry)}


def in_plain(table: pa.Table) -> dict[str, Any]:
    """Write a table as JSON can hold it: its columns with their types, and its rows."""
    columns = [{"name": field.name, "type": type_name(field.type)} for field in table.schema]
    return {"columns": columns, "rows": [list(row.values()) for row in plain_rows(table)]}


def _changed(engine: Served, request: Request) -> dict[str, Any]:
    """Carry out a change that needs no more than a name."""
    change = {"drop": engine.drop_query, "pause": engine.pause_query, "resume": engine.resume_query}
    name = _word(request, "query")
    if request.verb == "drop":
        change["drop"](name)
        return {"query": name}
    reasons = {q["why"] for q in engine.status()["queries"] if q["query"].lower() == name.lower()}
    wanted = reasons == {BY_HAND} if request.verb == "pause" else reasons == {None}
    if not wanted:
        change[request.verb](name)
    return {"query": name, "changed": not wanted}


def _executed(engine: Served, script: str) -> list[pa.Table]:
    """Carry out questions and changes of queries, and nothing else."""
    for statement in parse_script(script):
        if not isinstance(statement, Question | AlterQuery | AlterSource):
            what = "a running engine takes SHOW, DESCRIBE, EXPLAIN and ALTER here"
            raise Unsupported(what, hint="Add and drop queries with penstock add and penstock drop.")
    return engine.execute(script)


def _word(request: Request, key: str) -> str:
    """Return a text of a request's body."""
    value = request.body.get(key)
    if not isinstance(value, str) or not value:
        raise RequestFailed(f'to {request.verb}, an engine needs the text "{key}"')
    return value


def _words(request: Request, key: str) -> list[str]:
    """Return a list of texts of a request's body."""
    value = request.body.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        raise RequestFailed(f'to {request.verb}, an engine needs the list "{key}"')
    return value
