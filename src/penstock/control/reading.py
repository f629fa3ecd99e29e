"""Reads the status of streams and queries from a state folder, without Spark and without opening it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.catalog import Catalog
from penstock.control.backlog import backlog_at
from penstock.control.status import SinkStatus, Status, StreamFacts, status_at, together
from penstock.errors import StateError
from penstock.evaluate.typed import TypedQuery
from penstock.language.binding.bind import bind
from penstock.language.statements import Select
from penstock.model.derived import rows_name
from penstock.model.instants import wall_clock_us
from penstock.model.schema import Stream
from penstock.sinks.outlet import FAILING
from penstock.sinks.progress import UNUSED
from penstock.spark.sources.unread_files import UnreadFiles
from penstock.store.changes import ChangeLog, read_changes
from penstock.store.commits import Commit, last_commit
from penstock.store.files import read_record
from penstock.store.journal import read_journal
from penstock.store.packed_changes import Change
from penstock.stream.progress import Progress

ATTEMPTS = 5  # an engine that runs may put a newer commit in the place of the one that is being read


def read_status(folder: Path) -> Status:
    """Tell how a folder's streams and queries stand by what was last recorded; an engine may run on it meanwhile."""
    catalog = read_catalog(folder)
    streams = {name: catalog.known_stream(name) for name in catalog.stream_names()}
    standings = {name: _standing(folder, name, streams.get(name)) for name in (*streams, *catalog.line_names())}
    return status_at(catalog, standings, wall_clock_us())


def read_catalog(folder: Path) -> Catalog:
    """Read a folder's catalog; nothing that is done to it is kept."""
    journal = folder / "catalog.log"
    changes = read_journal(journal) if journal.exists() else read_changes(folder / "catalog.db")
    catalog = Catalog(_Listed(changes))

    def named(select: Select, name: str) -> TypedQuery:
        """Bind a query of which only the text is known; its types would need Spark, and nobody asks for them."""
        query = bind(select, catalog, name, catalog.functions())
        return TypedQuery(query, (), (), (), frozenset(), ())

    catalog.restore(named)
    return catalog


class _Listed(ChangeLog):
    """Changes that were read; more are not kept."""

    def __init__(self, changes: list[Change]) -> None:
        """Hold changes."""
        super().__init__(None)
        self._listed = changes

    def __iter__(self) -> Iterator[Change]:
        """Give the changes from the first on."""
        return iter(self._listed)


def _standing(folder: Path, stream: str, declared: Stream | None) -> StreamFacts:
    """Tell where a stream stands by its last commit, and what its source holds beyond that."""
    commit, progress = _last_commit(folder / "commits" / stream), Progress()
    if commit is not None:
        progress.restore(commit)
    last = _last_answers(folder / "answers" / stream)
    unread = None if declared is None else UnreadFiles(declared, folder / "checkpoint" / stream)
    behind = backlog_at(None if unread is None else unread.look(progress.clock.source), progress.clock.counts.ingested)
    sinks = together(*(_sinks_at(folder / "sinks", *of) for of in ((stream, last), (rows_name(stream), -1))))
    return StreamFacts(progress, sinks, backlog=behind)


def _last_answers(folder: Path) -> int:
    """Return the number of a stream's last answers; −1: there are none."""
    return max((int(path.stem[-12:]) for path in folder.glob("*.answers") if path.stem[-12:].isdigit()), default=-1)


def _last_commit(folder: Path) -> Commit | None:
    """Read a stream's last commit."""
    for attempt in range(ATTEMPTS):
        if not folder.is_dir():
            return None
        try:
            return last_commit(folder)
        except StateError:
            if attempt == ATTEMPTS - 1:
                raise
    return None


def _sinks_at(folder: Path, stream: str, last: int) -> list[SinkStatus]:
    """Tell how far the sinks of the last run came; others may have left records, too."""
    records = [(_position(path), read_record(path)) for path in _sinks(folder, stream)]
    return [_sink(number, record, last) for number, record in records if not record.get(UNUSED)]


def _sinks(folder: Path, stream: str) -> list[Path]:
    """List what a stream's sinks remember, in their order."""
    found = [path for path in folder.glob("*.json") if path.stem.rpartition("-")[0] == stream]
    return sorted((path for path in found if path.stem.rpartition("-")[2].isdigit()), key=_position)


def _position(path: Path) -> int:
    """Return which of a stream's sinks remembers in a file."""
    return int(path.stem.rpartition("-")[2])


def _sink(number: int, record: Mapping[str, Any], last: int) -> SinkStatus:
    """Tell how far a sink came, and what was wrong with it."""
    delivered, failing = int(str(record.get("delivered", -1))), record.get(FAILING) or {}
    found = SinkStatus(str(record.get("sink") or f"sink {number + 1}"), max(0, last - delivered))
    if not failing:
        return found
    since_us, attempts = (int(str(failing[name])) for name in ("since_us", "attempts"))
    return replace(found, failure=str(failing["what"]), since_us=since_us, attempts=attempts)
