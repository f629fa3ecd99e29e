"""Opens a stream of the catalog: its logs, folders, sinks and source."""

from __future__ import annotations

from penstock.model.derived import ROWS, is_line
from penstock.model.schema import Stream
from penstock.store.answers import AnswerLog, DiskAnswerLog, MemoryAnswerLog
from penstock.store.commits import CommitLog, DiskCommitLog, MemoryCommitLog
from penstock.store.folder import StateFolder
from penstock.store.verifying import check_together, last_answers
from penstock.stream.answer_targets import AnswerTargets
from penstock.stream.context import StreamContext
from penstock.stream.derived.kinds import derived_stream
from penstock.stream.derived.numbered_catalog import NumberedCatalog
from penstock.stream.derived.shared_join import SharedJoin
from penstock.stream.open_sinks import stream_delivery
from penstock.stream.past_rows import Places
from penstock.stream.pipeline import Pipeline
from penstock.stream.runner import StreamRunner
from penstock.stream.settings import StreamSettings
from penstock.stream.snapshot import CommittedCatalog
from penstock.stream.source_opening import SourceOpening
from penstock.stream.window_kinds import window_kind_of


def put_to_work(
    stream: Stream,
    settings: StreamSettings,
    source: SourceOpening,
    leader: StreamRunner | SharedJoin | None = None,
) -> StreamRunner:
    """Open a stream's logs, folders and sinks, and bring back what was committed; a ``leader`` feeds it, or a join."""
    places = _places(stream.name, settings)
    commits, answers = _logs(stream.name, settings.folder)
    if settings.folder is not None:
        version = settings.catalog.version
        check_together(settings.folder.path, stream.name, commits.last(), last_answers(answers), version)
    targets = AnswerTargets(stream_delivery(stream.name, answers, settings))
    catalog = CommittedCatalog(settings.catalog, stream.name)
    if isinstance(leader, StreamRunner) and stream.format == ROWS:
        catalog = NumberedCatalog(settings.catalog, stream.name, leader.stream.time)
    if commits.last() is not None:
        source.begin()
    windows = window_kind_of(stream.name)
    pipeline = Pipeline(StreamContext(stream, settings, commits, answers, places, targets, catalog, windows))
    if leader is not None:
        return derived_stream(stream, settings.catalog, pipeline, targets, leader)
    return StreamRunner(stream, settings.catalog, pipeline, targets, source, places.checkpoint)


def _logs(name: str, folder: StateFolder | None) -> tuple[CommitLog, AnswerLog]:
    """Open a stream's commits and answers."""
    if folder is None:
        return MemoryCommitLog(), MemoryAnswerLog()
    return DiskCommitLog(folder.commits(name)), DiskAnswerLog(folder.answers(name))


def _places(name: str, settings: StreamSettings) -> Places:
    """Choose a stream's folders."""
    folder, scratch = settings.folder, settings.scratch
    if folder is None:
        parts = ("keys", "rows", "checkpoint", "waiting", "joining", "taken")
        return Places(*(scratch / part / name for part in parts))
    read = folder.keys(name), folder.rows(name), folder.checkpoint(name), folder.waiting(name)
    own = *read, folder.joining(name), folder.taken(name)
    return Places(*own, folder.invalid(name), *(() if is_line(name) else (folder.spread(name), folder.answers(name))))
