"""Holds what a stream is given when it is opened."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from penstock.evaluate.finishing import AskSpark
from penstock.model.schema import Stream
from penstock.spark.answers.finish import finish
from penstock.store.answers import AnswerLog
from penstock.store.commits import CommitLog
from penstock.stream.answer_targets import AnswerTargets
from penstock.stream.batch_job import BatchJob
from penstock.stream.past_rows import Places
from penstock.stream.settings import StreamSettings
from penstock.stream.snapshot import CommittedCatalog
from penstock.stream.window_kinds import WindowKind


@dataclass(frozen=True, slots=True)
class StreamContext:
    """What a stream is given when it is opened: its logs, folders, windows, and where its answers go."""

    stream: Stream
    settings: StreamSettings
    commits: CommitLog
    answers: AnswerLog
    places: Places
    targets: AnswerTargets
    catalog: CommittedCatalog
    windows: WindowKind
    batch_job: type[BatchJob] = BatchJob  # makes partials of the rows of a batch

    @property
    def ask_spark(self) -> AskSpark:
        """Return what lets Spark finish answers."""
        return partial(finish, self.settings.session)
