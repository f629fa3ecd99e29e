"""Runs a stream that has no source of its own: commits of another stream are its batches."""

from __future__ import annotations

import threading
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from penstock.catalog import Catalog
from penstock.errors import SourceError
from penstock.model.schema import Stream
from penstock.spark.functions.register import provide
from penstock.spark.sources.streaming_query import as_for_batches
from penstock.stream.answer_targets import AnswerTargets
from penstock.stream.pipeline import Pipeline
from penstock.stream.query_windows import NEVER
from penstock.stream.runner import StreamRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DerivedStream(StreamRunner):
    """A stream at work that goes on whenever the one that feeds it does; it has no thread of its own."""

    def __init__(
        self, stream: Stream, catalog: Catalog, pipeline: Pipeline, targets: AnswerTargets, leader: StreamRunner
    ) -> None:
        """Bring back what was committed; ``leader`` feeds it from its next step on."""
        self.leader, self.followed = leader, -1
        self.was_held_back = False  # its watermark waited for rows that its leader has not answered with
        super().__init__(stream, catalog, pipeline, targets, self._no_source, Path())
        self.begin()
        leader.targets.followers.append(self)

    def begin(self) -> None:
        """Go on where the last commit stood."""
        self.followed = self.pipeline.progress.clock.batch

    @property
    def until_us(self) -> int | None:
        """Return the time before which it needs no rows that wait: of the leader's own rows, it needs none."""
        return NEVER

    def follow(self) -> None:
        """Take what is new of the leader's commits."""
        with self._busy:
            last = self.leader.pipeline.progress.clock.number
            if last > self.followed or self.was_held_back:
                self.take()
                self.followed = last
            self.tick()

    @abstractmethod
    def take(self) -> None:
        """Take the commits that were not taken yet."""

    def hold_back(self, runner: StreamRunner, stopping: threading.Event) -> None:
        """Let the leader go on at once: it is alone."""

    def run_available(self) -> bool:
        """Take all that the leader has."""
        self.follow()
        return True

    def start(self) -> None:
        """Run on as the leader does."""

    def stop(self) -> None:
        """Stop as the leader does."""

    def leave(self) -> None:
        """Be fed no more."""
        self.leader.targets.followers.remove(self)
        super().leave()

    @property
    def running(self) -> bool:
        """Tell whether the leader runs in the background."""
        return self.leader.running

    def process(self, batch: DataFrame, batch_id: int, source: str = "") -> None:
        """Refuse rows that come another way."""
        self._no_source()

    def session(self) -> SparkSession:
        """Return a session with the settings that batches run under."""
        session = as_for_batches(self.pipeline.session)
        provide(session, self.catalog.python_functions())
        return session

    def _no_source(self) -> NoReturn:
        """Raise for a wish to read rows where none can be read."""
        what = f'the rows of stream "{self.stream.name}" come from stream "{self.leader.stream.name}" alone'
        raise SourceError(what, hint="Give rows to that one.")
