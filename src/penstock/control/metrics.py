"""Reports the figures of an engine, its streams and its queries, as frozen values.

All of them count from the engine's start, but for ``skipped`` and ``shed``, which a query keeps over restarts. What
streams measure as a whole is divided among their queries, so the queries' shares add up to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isinf
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.catalog import Catalog
from penstock.control.backlog import Backlog, backlog_of
from penstock.errors import UnknownQuery, nearest
from penstock.evaluate.typed import Definition
from penstock.model.arrays import FloatArray
from penstock.model.derived import is_line, source_of
from penstock.stream.accounting.accounts import balance_of
from penstock.stream.accounting.holding import Balance, HeldIn, rounded
from penstock.stream.figures.figure_table import RESPONSE, SLOWDOWN, STALENESS, TARDINESS, FigureTable
from penstock.stream.figures.row_figures import RowShare
from penstock.stream.figures.summary import NO_VALUES, Distribution, by_query, stale_s, together
from penstock.stream.overload.memory_cap import NO_CAP, OverloadFigures
from penstock.stream.overload.queue_cap import QueueFigures
from penstock.stream.query_items import deadline_us_of

if TYPE_CHECKING:
    from penstock.stream.figures.stream_figures import EngineFigures
    from penstock.stream.pipeline import Pipeline
    from penstock.stream.runner import StreamRunner


PLACES: Final[tuple[HeldIn, HeldIn]] = ("memory", "disk")


@dataclass(frozen=True, slots=True)
class Seconds:
    """Seconds by step: Spark's job, filing partials, committing them, answering windows; the log is part of that."""

    job: float
    ingest: float
    commit: float
    answer: float

    @property
    def total(self) -> float:
        """Return the seconds of all steps."""
        return self.job + self.ingest + self.commit + self.answer


@dataclass(frozen=True, slots=True)
class QueryMetrics:
    """How soon a query's windows are answered, and what its share of everything is; rows are answered with a batch."""

    query: str
    stream: str
    definition: int
    windows: int  # answered
    rows: int  # taken, of a query without a window
    past_deadline: int  # of them
    skipped: int  # for fresher ones
    deadline_s: float | None  # None: windows of rows and queries without a window have none, unless they say so
    ideal_s: float | None  # what answering takes with nothing else in the way; None: not measured yet
    response: Distribution  # seconds from final to left for the sinks
    slowdown: Distribution  # response over the ideal time
    tardiness: Distribution  # seconds after the deadline
    staleness: Distribution  # seconds of the stream's time that an answer was old when a newer one came
    stale_s: float | None  # how far the newest answer is behind the watermark now
    seconds: Seconds  # its share
    bytes_sent: float  # its share of what Spark sent to the driver, or of the rows that were stored
    memory_bytes: float  # its share of the driver's memory
    disk_bytes: float = 0.0  # its share of files
    shed: int = 0  # rows that it did not look at, as it sheds load
    selectivity: float = 1.0  # the part of its windows that had rows to say, the last ones weighing more


@dataclass(frozen=True, slots=True)
class StreamMetrics:
    """What a stream has done as a whole."""

    stream: str
    batches: int
    answers: int
    lagging: int  # queries with final windows that are not answered
    waiting_s: float  # that answering these is expected to take
    response: Distribution  # of the windows of all queries that it has now
    past_deadline: int  # of these windows
    seconds: Seconds
    log_s: float  # of the seconds of answering
    background_s: Mapping[str, float]  # upkeep and reading of the past
    bytes_sent: float  # and stored, of rows
    memory_bytes: int  # in the driver
    unshared: Seconds  # of queries that are gone, or before there was one
    unshared_bytes: float  # sent for them
    memory: Mapping[str, int]  # by kind, as penstock.stream.accounting.accounts lists them
    disk_bytes: int
    disk: Mapping[str, int]
    unshared_memory_bytes: float  # held for no query
    unshared_disk_bytes: float
    backlog: Backlog  # rows that wait in the source, and final windows
    queue: QueueFigures | None = None  # how what waits for expensive functions stands to its cap


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """The figures of an engine at a time of its clock."""

    clock_us: int
    policy: str
    streams: tuple[StreamMetrics, ...]
    queries: tuple[QueryMetrics, ...]
    overload: OverloadFigures = NO_CAP  # how it stands to the cap of its memory

    @property
    def seconds(self) -> Seconds:
        """Return the seconds of all streams."""
        each = [stream.seconds for stream in self.streams]
        return Seconds(*(sum(getattr(one, step) for one in each) for step in ("job", "ingest", "commit", "answer")))

    def query(self, name: str) -> QueryMetrics:
        """Return the figures of a query as it is now."""
        found = [one for one in self.queries if one.query == name]
        if not found:
            names = [one.query for one in self.queries]
            raise UnknownQuery(f'there are no figures of a query "{name}"', hint=nearest(name, names))
        return max(found, key=lambda one: one.definition)

    def as_dict(self) -> dict[str, Any]:
        """Write it as JSON can hold it."""
        found = _plain(self)
        assert isinstance(found, dict)
        return {**found, "seconds": _plain(self.seconds)}


def metrics_of(
    catalog: Catalog,
    at_work: Mapping[str, StreamRunner],
    figures: EngineFigures,
    clock_us: int,
    policy: str,
    overload: OverloadFigures = NO_CAP,
) -> EngineMetrics:
    """Read the figures of all streams at work; a batch keeps nobody waiting, so they may be a moment apart."""
    streams: list[StreamMetrics] = []
    queries: list[QueryMetrics] = []
    balances = {name: tuple(balance_of(runner, place) for place in PLACES) for name, runner in sorted(at_work.items())}
    memory, disk = (_by_query([each[place] for each in balances.values()]) for place in range(len(PLACES)))
    for name, (in_memory, on_disk) in balances.items():
        reading = _Reading(name, at_work[name].pipeline, figures, memory, disk)
        told = reading.stream(in_memory, on_disk, backlog_of(at_work[name]))
        streams.append(replace(told, queue=at_work[name].relief.queues.figures()))
        queries += reading.queries([d for d in catalog.definitions(name) if not d.query.is_continuous])
        queries += reading.continuous([d for d in catalog.definitions(name) if d.query.is_continuous])
    listed = tuple(sorted(queries, key=lambda q: q.definition))
    return EngineMetrics(clock_us, policy, tuple(streams), listed, overload)


def _by_query(balances: Sequence[Balance]) -> dict[int, float]:
    """Add up what queries hold in all streams: a query's rows may wait in another stream than its own."""
    found: dict[int, float] = {}
    for balance in balances:
        for query, held in balance.by_query.items():
            found[query] = found.get(query, 0.0) + held
    return found


@dataclass(frozen=True, slots=True)
class _Row:
    """What the table has of a query besides its distributions."""

    late: int
    ideal_s: float
    shares: Sequence[float]  # seconds by step, and bytes


UNKNOWN: Final = _Row(0, inf, (0.0,) * 5)


class _Reading:
    """What one stream has measured, at one moment."""

    def __init__(
        self,
        name: str,
        pipeline: Pipeline,
        figures: EngineFigures,
        memory: Mapping[int, float],
        disk: Mapping[int, float],
    ) -> None:
        """Read what was measured as a whole, and divide it; ``memory`` and ``disk`` are what each query holds."""
        self.name, self.pipeline, self.metrics = name, pipeline, pipeline.metrics
        self.memory, self.disk = memory, disk
        mine = figures.of(name)
        self.table, self.background = mine.copied(), dict(mine.background_s)
        self.rows, gone = pipeline.continuous.figures.read()
        taking, taken = sum(one.seconds for one in self.rows.values()), sum(one.bytes for one in self.rows.values())
        self.whole = (self.metrics.job, self.metrics.ingest, self.metrics.commit, self.metrics.answer)
        self.whole_bytes = self.metrics.bytes + taken + gone.bytes
        rest = self.whole[0] - taking - gone.seconds, *self.whole[1:], self.metrics.bytes
        self.shares, self.unshared = _divided(self.table, rest)
        self.unshared += (gone.seconds, 0.0, 0.0, 0.0, gone.bytes)

    def stream(self, memory: Balance, disk: Balance, backlog: Backlog) -> StreamMetrics:
        """Tell what the stream has done."""
        unanswered = self.pipeline.committer.unanswered
        return StreamMetrics(
            stream=self.name,
            batches=self.metrics.batches,
            answers=self.metrics.answers,
            lagging=len(self.pipeline.progress.windows.unanswered),
            waiting_s=sum(item.seconds for item in list(unanswered.items.values())),
            response=together(self.table, RESPONSE),
            past_deadline=int(self.table.late.sum()),
            seconds=Seconds(*self.whole),
            log_s=self.metrics.log,
            background_s=self.background,
            bytes_sent=self.whole_bytes,
            memory_bytes=round(memory.total),
            unshared=Seconds(*self.unshared[:4].tolist()),
            unshared_bytes=float(self.unshared[4]),
            memory=rounded(memory.by_kind),
            disk_bytes=round(disk.total),
            disk=rounded(disk.by_kind),
            unshared_memory_bytes=memory.unshared,
            unshared_disk_bytes=disk.unshared,
            backlog=backlog,
        )

    def queries(self, definitions: Sequence[Definition]) -> list[QueryMetrics]:
        """Tell the figures of the stream's queries."""
        table, by_rows = self.table, is_line(self.name)
        figures = [by_query(table, figure) for figure in (RESPONSE, SLOWDOWN, TARDINESS, STALENESS)]
        stale = {} if by_rows else stale_s(table, self.pipeline.progress.clock.watermark_us)
        shares, late = self.shares.tolist(), table.late.tolist()
        said = self.pipeline.committer.order.selectivities.measured()
        ideal = table.ideal_s(np.arange(len(table.late))).tolist()
        found = []
        for definition in definitions:
            number, row = definition.id, table.rows.get(definition.id)
            response, slowdown, tardiness, staleness = (one.get(number, NO_VALUES) for one in figures)
            known = UNKNOWN if row is None else _Row(late[row], ideal[row], shares[row])  # nothing was measured yet
            found.append(
                QueryMetrics(
                    query=definition.name,
                    stream=source_of(self.name),
                    definition=number,
                    windows=response.count,
                    rows=0,
                    past_deadline=known.late,
                    skipped=self.pipeline.progress.windows.skipped.get(number, 0),
                    deadline_s=deadline_us_of(definition) / 1e6 or None,
                    ideal_s=None if isinf(known.ideal_s) else known.ideal_s,
                    response=response,
                    slowdown=slowdown,
                    tardiness=tardiness,
                    staleness=NO_VALUES if by_rows else staleness,
                    stale_s=stale.get(number),
                    seconds=Seconds(*known.shares[:4]),
                    bytes_sent=known.shares[4],
                    memory_bytes=self.memory.get(number, 0.0),
                    disk_bytes=self.disk.get(number, 0.0),
                    shed=self.pipeline.progress.windows.shed.get(number, 0),
                    selectivity=said.get(number, 1.0),
                )
            )
        return found

    def continuous(self, definitions: Sequence[Definition]) -> list[QueryMetrics]:
        """Tell the figures of the stream's queries without a window: what they take is answered with its batch."""
        found = []
        for definition in definitions:
            mine = self.rows.get(definition.id, RowShare())
            found.append(
                QueryMetrics(
                    query=definition.name,
                    stream=source_of(self.name),
                    definition=definition.id,
                    windows=0,
                    rows=mine.rows,
                    past_deadline=0,
                    skipped=0,
                    deadline_s=deadline_us_of(definition) / 1e6 or None,
                    ideal_s=None,
                    response=NO_VALUES,
                    slowdown=NO_VALUES,
                    tardiness=NO_VALUES,
                    staleness=NO_VALUES,
                    stale_s=None,
                    seconds=Seconds(mine.seconds, 0.0, 0.0, 0.0),
                    bytes_sent=mine.bytes,
                    memory_bytes=self.memory.get(definition.id, 0.0),
                    disk_bytes=self.disk.get(definition.id, 0.0),
                )
            )
        return found


def _divided(table: FigureTable, whole: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """Raise the seconds of steps and the bytes that were charged to the whole that was measured; also return the rest.

    What a step takes besides the work that is charged piece by piece (putting in order, expiry, commits of changes) is
    divided as that work is.
    """
    measured, charged = np.asarray(whole, np.float64), np.column_stack([table.seconds, table.bytes_sent])
    total = charged.sum(axis=0) + np.append(table.gone, table.gone_bytes)
    shares = charged * np.divide(measured, total, out=np.zeros(len(measured)), where=total > 0)
    return np.asarray(shares, np.float64), np.asarray(measured - shares.sum(axis=0), np.float64)


def _plain(value: object) -> object:
    """Write values as JSON can hold them; a thousand queries are thousands of values, and asdict copies each."""
    names = getattr(type(value), "__slots__", None)
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in names}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value
