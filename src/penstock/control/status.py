"""Reports how streams, queries and sinks stand, as values that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from penstock.catalog import Catalog
from penstock.control.backlog import NO_BACKLOG, Backlog, backlog_of
from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.due import NO_SILENCE
from penstock.language.options import option_us, priority_of, urgency_words
from penstock.model.derived import is_line, source_of
from penstock.model.sampling import share_of
from penstock.model.schema import Stream
from penstock.model.stream_join import RetainedRows
from penstock.model.window import RowsWindow, SessionWindow, Window
from penstock.share.explain.operators import OperatorsPlan
from penstock.store.commits import BY_HAND
from penstock.stream.figures.summary import NO_ANSWERS, AnswerTimes, answered_by_query, answered_together
from penstock.stream.overload.memory_cap import NO_CAP, OverloadFigures
from penstock.stream.overload.queue_cap import QueueFigures
from penstock.stream.progress import BackfillProgress, Progress

if TYPE_CHECKING:  # a status is also read from a folder, without Spark
    from penstock.sinks.sink_thread import SinkThread
    from penstock.stream.runner import StreamRunner

State = Literal["answering", "paused", "waiting", "finishing"]  # for a first batch; its last windows


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """How far a sink is behind its stream, why if it fails, and how long its stream has waited for it."""

    sink: str
    lag: int
    failure: str | None = None
    since_us: int | None = None
    attempts: int = 0
    backlog: int = 0  # answers that it has not been given yet
    held_seconds: float = 0.0  # that the stream waited because the backlog was too long


@dataclass(frozen=True, slots=True)
class BackfillStatus:
    """How far the backfill of a query is: first its past is read, then its windows are answered."""

    query: str
    read: int  # units of the past, such as files
    units: int | None  # None: they are not listed yet
    answered: int  # windows
    windows: int | None  # None: the past is not read yet


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """Where a stream stands."""

    stream: str
    queries: int
    paused: int
    batches: int
    watermark_us: int | None
    behind_us: int | None  # of the clock
    counts: Mapping[str, int]
    law_holds: bool  # ingested is the sum of all other counts
    open_windows: int  # begun and not final
    idle_us: int  # without rows until a heartbeat; 0: none
    ended: bool
    sinks: tuple[SinkStatus, ...] = ()
    failure: str | None = None  # what stopped it
    state_bytes: int = 0  # of frequency tables, sketches and users' states in memory
    invalid_reasons: Mapping[str, Any] = field(default_factory=dict)  # see :func:`reasons_of`
    lagging: int = 0  # queries that have final windows which are not answered yet
    answered: AnswerTimes = NO_ANSWERS  # since the engine's start
    backfills: tuple[BackfillStatus, ...] = ()
    retained: tuple[RetainedRows, ...] = ()  # of a join of two streams: rows of both that wait
    urgent: int = 0  # queries with a priority or a deadline of their own
    fresh: int = 0  # queries that may skip windows
    held_s: float = 0.0  # that batches have waited since the start, as more was to be answered than may wait
    operators: OperatorsPlan | None = None  # behind which rows of queries without a window wait
    backlog: Backlog = NO_BACKLOG  # rows that wait in the source, and final windows
    sampling: str = "1"  # the share of the rows that queries which shed load take,
    asked_sampling: str = "1"  # and that users have asked for: overload may take fewer
    queue: QueueFigures | None = None  # how what waits for operators stands to its cap


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """How a query is."""

    query: str
    stream: str
    window: str
    state: State
    why: str | None  # it is paused
    failed: bool  # paused by an error, not by hand
    skipped: int  # empty windows of long silences, which were not answered
    next_end_us: int | None  # end of the next window that it answers
    ends_us: int | None  # by the clock, if it has a lifetime
    origin: str  # "added": by a command, not by a file of the project
    definition: int
    version: int  # of the query: 1 as it was created first, and one more with every change of its meaning
    text: str
    too_late: int = 0  # rows that came when a window of it that holds them was final
    superseded: int = 0  # windows that a fresher one was answered in place of
    period_us: int | None = None  # at which a fresh query runs, if that is shorter than its slide
    goes_on: bool = False  # it is finishing because its period changed, and goes on at the new one
    answered: AnswerTimes = NO_ANSWERS  # since the engine's start
    priority: int = 1
    deadline_us: int | None = None  # None: its slide
    emit: str = "exact"
    shed: int = 0  # valid rows that it did not look at, as it sheds load
    urgency: str = ""  # these three in words, where the query says them
    selectivity: float = 1.0  # the part of its windows that had rows to say, the last ones weighing more


@dataclass(frozen=True, slots=True)
class Status:
    """How everything is, at a time of the clock."""

    version: int  # of the catalog
    clock_us: int
    streams: tuple[StreamStatus, ...]
    queries: tuple[QueryStatus, ...]

    def to_dict(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """What is known of a stream: where it stands, its sinks, and what stopped it."""

    progress: Progress = field(default_factory=Progress)
    sinks: Sequence[SinkStatus] = ()
    failure: str | None = None
    state_bytes: int = 0
    answered: Mapping[int, AnswerTimes] = field(default_factory=dict)  # by definition
    in_all: AnswerTimes = NO_ANSWERS
    backfills: Sequence[BackfillProgress] = ()
    retained: tuple[RetainedRows, ...] = ()  # of both sides of a join
    held_s: float = 0.0  # that batches have waited for answers
    operators: OperatorsPlan | None = None
    backlog: Backlog = NO_BACKLOG
    queue: QueueFigures | None = None  # None: it has no cap, or nothing ever waited
    selectivities: Mapping[int, float] = field(default_factory=dict)  # by definition; not there: 1


def status_of(
    catalog: Catalog,
    at_work: Mapping[str, StreamRunner],
    clock_us: int,
    *,
    running: bool,
    overload: OverloadFigures = NO_CAP,
) -> dict[str, Any]:
    """Tell how an engine's streams and queries are; no lock is taken, so that a long batch keeps nobody waiting."""
    standings = {name: _standing(stream) for name, stream in list(at_work.items())}
    found = status_at(catalog, standings, clock_us).to_dict()
    return {"running": running, **found, "overload": asdict(overload) if overload.cap_bytes else None}


def _standing(at_work: StreamRunner) -> StreamFacts:
    """Tell where a stream at work stands."""
    progress, failure = at_work.pipeline.progress, at_work.failure
    last = at_work.pipeline.answers.last()
    sinks = [_sink(thread, -1 if last is None else last) for thread in at_work.delivery.threads]
    for rows in at_work.delivery.rows:
        sinks = together(sinks, [_sink(thread, -1) for thread in rows.threads])
    reason = None if failure is None else str(getattr(failure, "what", failure))
    name, watermark = at_work.stream.name, progress.clock.watermark_us
    table = at_work.pipeline.given.settings.figures.of(name).copied()
    answered = answered_by_query(table, None if is_line(name) else watermark), answered_together(table)
    held, backfills = at_work.pipeline.synopsis.state_bytes, at_work.pipeline.past.backfills.progress()
    waited = round(at_work.pipeline.metrics.held, 3)
    operators = at_work.desk.operators.standing(at_work.pipeline, at_work.catalog.definitions(name))
    known = StreamFacts(progress, sinks, reason, held, *answered, backfills, at_work.retained, waited)
    said, queue = at_work.pipeline.committer.order.selectivities.measured(), at_work.relief.queues.figures()
    return replace(known, operators=operators, backlog=backlog_of(at_work), selectivities=said, queue=queue)


def _sink(thread: SinkThread, last: int) -> SinkStatus:
    """Tell how far a sink is behind the last answers."""
    outlet, failing = thread.outlet, thread.outlet.failing
    found = SinkStatus(
        outlet.name, max(0, last - outlet.taken), backlog=thread.backlog, held_seconds=round(thread.held_seconds, 3)
    )
    if failing is None:
        return found
    return replace(found, failure=failing.error.what, since_us=failing.since_us, attempts=failing.attempts)


def together(windows: Sequence[SinkStatus], rows: Sequence[SinkStatus]) -> list[SinkStatus]:
    """Tell of each sink once, which takes answers to windows and rows of queries without one apart."""
    of_rows = {sink.sink: sink for sink in rows}
    found = [_with_rows_of(sink, of_rows.pop(sink.sink)) if sink.sink in of_rows else sink for sink in windows]
    return [*found, *of_rows.values()]


def _with_rows_of(sink: SinkStatus, rows: SinkStatus) -> SinkStatus:
    """Tell of both, with what is wrong in either."""
    wrong = rows if sink.failure is None else sink
    backlog, held = sink.backlog + rows.backlog, round(sink.held_seconds + rows.held_seconds, 3)
    both = replace(sink, backlog=backlog, held_seconds=held)
    return replace(both, failure=wrong.failure, since_us=wrong.since_us, attempts=wrong.attempts)


def status_at(catalog: Catalog, standings: Mapping[str, StreamFacts], clock_us: int) -> Status:
    """Tell how every stream and query of a catalog is; a stream that is not at work yet stands nowhere."""
    streams, queries = [], []
    for name in catalog.stream_names():
        standing, definitions = standings.get(name, StreamFacts()), catalog.definitions(name)
        mine = [_query(catalog, definition, standing) for definition in definitions]
        streams.append(_stream(catalog, name, mine, definitions, standing, clock_us))
        queries += mine
    for line in catalog.line_names():
        standing, leader = (standings.get(name, StreamFacts()) for name in (line, source_of(line)))
        late = leader.progress.windows.too_late  # late rows of the stream are never numbered
        mine = [_query(catalog, definition, standing) for definition in catalog.definitions(line)]
        queries += [replace(query, too_late=late.get(query.definition, 0)) for query in mine]
    by_stream: dict[str, list[QueryStatus]] = {}
    for query in queries:
        by_stream.setdefault(query.stream, []).append(query)
    streams = [_with_queries(stream, by_stream.get(stream.stream, ())) for stream in streams]
    return Status(catalog.version, clock_us, tuple(streams), tuple(sorted(queries, key=lambda q: q.definition)))


def _with_queries(stream: StreamStatus, editions: Sequence[QueryStatus]) -> StreamStatus:
    """Count the queries of a stream, those with windows of rows too, whose numbered rows are a line of their own.

    A query that was altered is there twice as long as its windows from before are answered; it is counted once, as it
    is now.
    """
    queries = [query for query in editions if query.state != "finishing"]
    return replace(
        stream,
        queries=len(queries),
        paused=sum(q.state == "paused" for q in queries),
        urgent=sum(q.priority != 1 or q.deadline_us is not None for q in queries),
        fresh=sum(q.emit == "fresh" for q in queries),
    )


def _stream(
    catalog: Catalog,
    name: str,
    queries: Sequence[QueryStatus],
    definitions: Sequence[Definition],
    standing: StreamFacts,
    clock_us: int,
) -> StreamStatus:
    """Tell where a stream stands."""
    progress, watermark = standing.progress, standing.progress.clock.watermark_us
    return StreamStatus(
        stream=name,
        queries=0,  # they are counted when all are known
        paused=0,
        batches=progress.clock.number + 1,
        watermark_us=watermark,
        behind_us=None if watermark is None else clock_us - watermark,
        counts=asdict(progress.clock.counts),
        law_holds=progress.clock.counts.whole,
        open_windows=sum(_open_windows(d, q, progress) for d, q in zip(definitions, queries, strict=True)),
        idle_us=catalog.known_stream(name).idle_us,
        ended=progress.clock.ended,
        sinks=tuple(standing.sinks),
        failure=standing.failure,
        state_bytes=standing.state_bytes,
        invalid_reasons=reasons_of(progress, catalog.known_stream(name)),
        lagging=len(progress.windows.unanswered),
        answered=standing.in_all,
        backfills=backfills_of(catalog, standing),
        retained=standing.retained,
        held_s=standing.held_s,
        operators=standing.operators,
        backlog=standing.backlog,
        sampling=share_of(progress.clock.sampling),
        asked_sampling=share_of(progress.clock.asked_sampling),
        queue=standing.queue,
    )


def backfills_of(catalog: Catalog, standing: StreamFacts) -> tuple[BackfillStatus, ...]:
    """Tell how far backfills are, by the names of their queries; those of a stream that is not at work wait."""
    waiting = [BackfillProgress(number, 0, None, 0, None) for number in list(standing.progress.windows.asked)]
    named = [(catalog.name_of(one.definition), one) for one in standing.backfills or waiting]
    return tuple(BackfillStatus(name, one.read, one.units, one.answered, one.windows) for name, one in named)


def reasons_of(progress: Progress, stream: Stream) -> dict[str, Any]:
    """Tell how many rows were invalid for which reason; ``unknown`` ones were counted by an earlier version."""
    told = {**asdict(progress.clock.invalid), "unknown": progress.clock.counts.invalid - progress.clock.invalid.rows}
    return {**told, "max_ahead_us": stream.max_ahead_us}


def _query(catalog: Catalog, definition: Definition, standing: StreamFacts) -> QueryStatus:
    """Tell how a query is."""
    progress = standing.progress
    query, lifetime = definition.query, option_us(definition.query, "lifetime")
    paused = progress.windows.paused.get(definition.id)
    why = paused.reason if paused is not None else BY_HAND if catalog.user_paused(definition.name) else None
    following = _next_end(definition, progress)
    by_rows = isinstance(query.window, RowsWindow)
    foreseen = not isinstance(query.window, RowsWindow | SessionWindow)  # when these end, rows decide
    waits = following is None if not by_rows else definition.id not in progress.windows.starts
    if query.is_continuous:
        waits = progress.clock.number < 0
    state: State = "paused" if why is not None else "waiting" if waits else "answering"
    if definition.handover is not None:
        state = "finishing"
    return QueryStatus(
        query=definition.name,
        stream=source_of(query.stream),
        window=str(definition.asked),
        state=state,
        why=why,
        failed=paused is not None and paused.kind not in ("by hand", "for memory"),
        skipped=progress.windows.silences.get(definition.id, NO_SILENCE).skipped,
        next_end_us=following if foreseen and state != "paused" and not progress.clock.ended else None,
        ends_us=None if lifetime is None else definition.created_us + lifetime,
        origin=definition.origin,
        definition=definition.id,
        version=catalog.version_of(definition.id),
        text=query.text,
        too_late=progress.windows.too_late.get(definition.id, 0),
        superseded=progress.windows.skipped.get(definition.id, 0),
        period_us=None if query.window == definition.asked else query.window.slide,
        goes_on=_goes_on(catalog, definition),
        answered=standing.answered.get(definition.id, NO_ANSWERS),
        priority=priority_of(query),
        deadline_us=option_us(query, "deadline"),
        emit=str(dict(query.options).get("emit", "exact")),
        shed=progress.windows.shed.get(definition.id, 0),
        urgency=urgency_words(query),
        selectivity=standing.selectivities.get(definition.id, 1.0),
    )


def _goes_on(catalog: Catalog, definition: Definition) -> bool:
    """Tell whether a definition hands over to one of the same query at another period."""
    after = None if definition.handover is None else catalog.edition(definition.handover.successor)
    return after is not None and after.retimed is not None and after.first == definition.first


def _next_end(definition: Definition, progress: Progress) -> int | None:
    """Return the end of a query's next window; None while the stream had no row, or no batch since the query came."""
    known = progress.windows.next_ends.get(definition.id)
    if known is not None or progress.clock.first_us is None or definition.id not in progress.windows.starts:
        return known
    window, watermark = definition.query.window, progress.clock.watermark_us
    first = window.end_after(progress.clock.first_us)
    return first if watermark is None else max(first, window.end_after(watermark))


def _open_windows(definition: Definition, status: QueryStatus, progress: Progress) -> int:
    """Count a query's windows that have begun by the greatest time seen and are not final."""
    if status.state == "paused" or progress.clock.ended or progress.clock.last_us is None:
        return 0
    if isinstance(definition.query.window, SessionWindow):
        return progress.windows.open_sessions.get(definition.id, 0)
    if status.next_end_us is None:
        return 0
    window: Window = definition.query.window
    latest = window.end_after(progress.clock.last_us + window.length) - window.slide  # begins by the greatest time
    latest = min(latest, progress.windows.last_own_end(definition))
    return max(0, (latest - status.next_end_us) // window.slide + 1)
