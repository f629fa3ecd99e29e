"""Opens each stream of an engine once, with all the streams that it feeds."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from penstock.errors import SinkError, UnknownStream, nearest
from penstock.evaluate.typed import Definition
from penstock.model.derived import is_line, join_of, source_of
from penstock.model.schema import Stream
from penstock.model.stream_join import StreamJoin
from penstock.report.notebook import StreamRow
from penstock.share.explain.observed import ObservedStream
from penstock.share.weave.queries import WovenSoFar
from penstock.sinks.delivery import raise_lacking
from penstock.store.answers import DiskAnswerLog, answers_of
from penstock.stream.declared_sources import DeclaredSources
from penstock.stream.derived.settled_join import SettledJoin
from penstock.stream.derived.shared_join import SharedJoin
from penstock.stream.due_windows import LOG
from penstock.stream.open_sinks import delivery_of
from penstock.stream.open_stream import put_to_work
from penstock.stream.runner import StreamRunner
from penstock.stream.settings import StreamSettings
from penstock.stream.source_opening import SourceOpening


class StreamRegistry:
    """All streams of an engine that are at work."""

    def __init__(self, settings: StreamSettings, sources: DeclaredSources) -> None:
        """Start with none."""
        self.settings, self.catalog, self.sources = settings, settings.catalog, sources
        self.runners: dict[str, StreamRunner] = {}
        self._joins: dict[object, SharedJoin] = {}  # by streams and keys
        self._opening = threading.RLock()
        self.changing = 0  # streams that are stopped for a moment, and go on

    def stream(self, name: str) -> StreamRunner:
        """Return a stream at work, or the numbered rows of one."""
        found = self.catalog.stream(source_of(name))
        if found is None:
            raise UnknownStream(f'there is no stream "{name}"', hint=nearest(name, self.catalog.stream_names()))
        stream = self.catalog.feeding(name) if is_line(name) else found
        with self._opening:
            if stream.name not in self.runners:
                leaders = self.catalog.leaders(stream.name)
                leader = [self.stream(name) for name in leaders][-1] if leaders else None
                if stream.name not in self.runners:  # a leader opens those that it feeds
                    self._open(stream, leader)
            return self.runners[stream.name]

    def rows(self) -> list[StreamRow]:
        """Tell what came and went in each stream of the catalog, for a notebook."""
        return [self._row(name) for name in self.catalog.stream_names()]

    def _row(self, name: str) -> StreamRow:
        """Tell it of one stream; of one that is not at work yet, only how many queries it has."""
        queries = len(self.catalog.definitions(name))
        if name not in self.runners:
            return StreamRow(name, queries)
        pipeline = self.runners[name].pipeline
        counts, answers = pipeline.progress.clock.counts, pipeline.metrics.answers
        watermark = pipeline.progress.clock.watermark_us
        return StreamRow(name, queries, counts.ingested, counts.late, counts.invalid, answers, watermark)

    def _open(self, stream: Stream, leader: StreamRunner | None) -> None:
        """Put a stream to work, and all that it feeds."""
        feeding = self._shared(stream) or leader
        self.runners[stream.name] = put_to_work(stream, self.settings, SourceOpening(self.sources, stream), feeding)
        for follower in self.catalog.followers(stream.name):
            self.stream(follower)
        self._deliver_leftovers(stream.name)

    def _shared(self, stream: Stream) -> SharedJoin | None:
        """Find what joins two streams once for all joins with the same keys; None: the stream is no join."""
        if (join := join_of(stream)) is None:
            return None
        if (key := _carried_out_by(stream.name, join)) not in self._joins:
            left, right = (self.runners[side.stream] for side in join.sides)
            alone = join.settles
            self._joins[key] = SettledJoin(left, right, join, stream.name) if alone else SharedJoin(left, right, join)
        return self._joins[key]

    def _deliver_leftovers(self, name: str) -> None:
        """Give sinks what they lack of queries over a stream's numbered rows that are gone."""
        folder = self.settings.folder
        places = [] if folder is None or not self.settings.sinks else sorted(folder.answers(name).parent.glob("*"))
        for line in [place.name for place in places if is_line(place.name) and source_of(place.name) == name]:
            if folder is not None and line not in self.runners and line not in self.catalog.line_names():
                delivery = delivery_of(line, DiskAnswerLog(folder.answers(line)), self.settings)
                try:
                    delivery.roll()
                except SinkError as error:  # the next start tries again
                    LOG.warning(error, extra={"event": "report", "stream": name})
                finally:
                    delivery.abandon()

    def with_past(self, names: Iterable[str]) -> dict[str, StreamRunner]:
        """Return the streams among some that have had rows, here or before a restart, with those that feed them."""
        folder, found = self.settings.folder, list[str]()
        for name in names:
            line = [*self.catalog.leaders(name), name]
            if any(n in self.runners or (folder is not None and folder.commits(n).is_dir()) for n in line):
                found += line
        return {name: self.stream(name) for name in sorted(set(found), key=lambda one: (self._depth(one), one))}

    def answers_elsewhere(self, definition: Definition) -> dict[int, list[pa.Table]]:
        """Collect, by version, what a query said as long as it read another stream, or rows in place of time."""
        editions, here = self.catalog.editions(definition.name), definition.query.stream
        return {e.version: self._answers(e.stream, n) for n, e in editions.items() if e.stream != here}

    def _answers(self, name: str, number: int) -> list[pa.Table]:
        """Read the answers of a definition over some stream, also if no query needs that any more."""
        if name in self.runners:
            return answers_of(self.runners[name].pipeline.answers, [number])
        folder = self.settings.folder
        if folder is None or not folder.answers(name).is_dir():
            return []
        return answers_of(DiskAnswerLog(folder.answers(name)), [number])

    def observed(self, name: str) -> ObservedStream:
        """Return what is known of a stream, more if it has run."""
        pipeline = self.runners[name].pipeline if name in self.runners else None
        seen = ObservedStream() if pipeline is None else pipeline.groupings.seen(pipeline.layout)
        technique = self.settings.synchronize.current().name
        scans, most = self.settings.kernel == "scan", self.settings.windows_at_a_time
        at_work, mine = self.settings.desk.operators, self.catalog.definitions(name)
        operators = None if pipeline is None else at_work.standing(pipeline, mine)
        return replace(seen, scans=scans, synchronize=technique, most_windows=most, operators=operators)

    def woven(self, name: str) -> WovenSoFar:
        """Tell what a stream was seen to bring, and the trees its queries are woven into."""
        known = self.runners.get(name)
        return WovenSoFar(rates=self.settings.rates) if known is None else known.pipeline.weaving.standing()

    def in_order(self) -> list[StreamRunner]:
        """List the streams at work in the order in which everybody waits for them: first those that feed others."""
        at_work = list(self.runners.values())
        return sorted(at_work, key=lambda one: (self._depth(one.stream.name), one.stream.name))

    def _depth(self, name: str) -> int:
        """Tell how many streams lie between one and the farthest source of its rows."""
        return self.catalog.depth(source_of(name)) + is_line(name)

    def process_available(self, names: Iterable[str], *, flush: bool) -> None:
        """Process all that some streams' sources hold; sinks that lack answers are told when all have been read."""
        lacking: list[SinkError] = []
        for name in names:
            stream = self.stream(name)
            whole = stream.run_available()
            if whole and flush:
                stream.flush()
            try:
                stream.delivery.roll()
            except SinkError as error:
                lacking.append(error)
            if not whole:  # stop() was called meanwhile, on another thread
                break
        raise_lacking(lacking)

    def wait_for_sinks(self) -> None:
        """Wait until every sink has been given all answers there are, or fails."""
        for runner in list(self.runners.values()):
            runner.delivery.wait()

    def abandon_sinks(self) -> None:
        """End the threads of all sinks; what they have not begun is done by the next start."""
        for runner in list(self.runners.values()):
            runner.delivery.abandon()

    def reopen(self, name: str, change: Callable[[StreamRunner | None], None]) -> None:
        """Stop a stream and all that it feeds, let it be changed, and let everything go on as after a restart.

        ``change`` is given the stream as it was, None if it was not at work; if it raises, nothing is changed.
        """
        self.changing += 1
        together = self._connected(name)
        ran = [one.stream.name for one in together if one.running]
        try:
            for one in together:
                one.stop()
            with self._opening:
                change(self.runners.get(name))
                for one in together:
                    one.delivery.abandon()
                    self._forget(one)
                for one in together:
                    self.stream(one.stream.name)
        finally:
            for line in ran:
                self.stream(line).start()
            self.changing -= 1

    def _connected(self, name: str) -> list[StreamRunner]:
        """List the streams at work that hold on to a stream, or to each other: all that it feeds, and what joins them.

        Each comes before those that it feeds.
        """
        found, runners = {name}, self.in_order()
        lines = {one.stream.name: {one.stream.name, *self.catalog.leaders(one.stream.name)} for one in runners}
        while more := [line for line in lines.values() if line & found and not line <= found]:
            found = found.union(*more)
        return [one for one in runners if one.stream.name in found]

    def _forget(self, gone: StreamRunner) -> None:
        """Let go of a stream that has stopped."""
        self.runners.pop(gone.stream.name, None)
        self.settings.cap.forget(gone.stream.name)
        if (join := join_of(gone.stream)) is not None:
            self._joins.pop(_carried_out_by(gone.stream.name, join), None)

    def leave(self, name: str) -> None:
        """Stop a stream that was dropped; without a state folder its position is forgotten too."""
        for known in [known for known in self.runners if source_of(known).lower() == name.lower()]:
            gone = self.runners.pop(known)
            gone.leave()
            join = join_of(gone.stream)
            key = None if join is None else _carried_out_by(gone.stream.name, join)
            if key is not None and not self._joins[key].members:
                del self._joins[key]
            self.settings.figures.streams.pop(known, None)
            self.settings.cap.forget(known)
            shutil.rmtree(self.settings.scratch / "checkpoint" / known, ignore_errors=True)


def _carried_out_by(name: str, join: StreamJoin) -> object:
    """Name what carries a join out: all with the same streams and keys together; one with last rows alone."""
    return name if join.settles else join.shared_by
