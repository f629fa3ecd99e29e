"""A stream at work without Spark: its partials are made of plain rows, and all that follows is the engine's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import datasketches as ds  # type: ignore[import-untyped]
import pyarrow as pa

from penstock.catalog import Catalog
from penstock.evaluate.components.numbers import ROWS, Component
from penstock.evaluate.functions.binding import bind_aggregate
from penstock.evaluate.typed import Definition, TypedQuery
from penstock.kernel.revisions import shown_answers
from penstock.kernel.signing import Sent
from penstock.language.binding.bind import bind
from penstock.language.grammar.parse import parse_query
from penstock.language.statements import Select
from penstock.model.schema import Column, Stream, Table
from penstock.schedule.live_policy import LivePolicy
from penstock.schedule.running_together import DEFAULT_SYNCHRONIZATION, LiveSynchronization
from penstock.share.layout import Layout, Member
from penstock.share.locate import ByDivision
from penstock.share.partial_schema import (
    CORRECTED_COUNT,
    FIRST_TIME,
    GROUPING,
    LABEL,
    LAST_TIME,
    LATE_COUNT,
    ROW_COUNT,
    TOUCHED_COUNT,
    component_name,
    key_name,
    word_name,
)
from penstock.share.plan import BITS_PER_WORD, Strategy
from penstock.sinks.delivery import Delivery
from penstock.sinks.row_delivery import RowDelivery
from penstock.sinks.stream_delivery import StreamDelivery
from penstock.spark.job.writer import Bounds
from penstock.spark.kept_rows.commit_folders import TIME
from penstock.spark.kept_rows.retained import Retained
from penstock.store.answers import DiskAnswerLog, answers_of
from penstock.store.changes import ChangeLog
from penstock.store.commits import DiskCommitLog
from penstock.store.invalid import AHEAD, without_reasons
from penstock.stream.admitted import Admitted
from penstock.stream.answer_targets import AnswerTargets
from penstock.stream.answered_groups import WorkObserver
from penstock.stream.batch_job import BEFORE_ALL_TIME, BatchJob, BatchPartials
from penstock.stream.context import StreamContext
from penstock.stream.past_rows import Cut, PastRows, Places
from penstock.stream.pipeline import Pipeline
from penstock.stream.query_changes import QueryChanges
from penstock.stream.query_windows import NEVER
from penstock.stream.runner import StreamRunner
from penstock.stream.settings import StreamSettings
from penstock.stream.snapshot import CommittedCatalog
from penstock.stream.window_kinds import OF_TIME
from penstock.testing import ManualClock
from tests.always.questions import WHERES, Row

SECOND = 1_000_000
COLUMNS = (Column("ts", "timestamp"), Column("k", "string"), Column("v", "bigint"), Column("j", "bigint"))
LATE_IN_LABEL = 1  # microsecond more


# -- what Spark would say of types, and make of rows ------------------------------------------------------------------


def typed_as_spark_would(catalog: Catalog, select: Select, name: str) -> TypedQuery:
    """Type a query over ``COLUMNS``: strings are k, percentiles are p, and all else is bigint."""
    query = bind(select, catalog, name, catalog.functions())
    aggregates = tuple(bind_aggregate(one, [pa.int64() for _ in one.arguments]) for one in query.aggregates)
    arguments = tuple(pa.int64() for one in query.aggregates for _ in one.arguments)
    keys = tuple(pa.string() if key == "`k`" else pa.int64() for key in query.keys)
    kinds = {"k": pa.string(), "p": pa.float64()}
    outputs = tuple(kinds.get(output.name, pa.int64()) for output in query.outputs)
    return TypedQuery(query, keys, aggregates, outputs, frozenset({"ts", "k", "v", "j"}), arguments)


def made_partials(layout: Layout, rows: Sequence[Row], judged: Bounds) -> pa.Table:
    """Aggregate rows as the job of a layout would; of conditions it knows ``WHERES``, and it knows no joins."""
    members: Sequence[Member | None] = layout.members or (None,)
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for member in members:
        for row in rows:
            valid = is_valid(row, judged)
            words = (
                signature_of(layout, member, row) if valid else dict.fromkeys(map(word_name, range(layout.words)), 0)
            )
            taken = valid and (member is None or not member.signed or any(words.values()))
            if taken or member is None or member.carrier:
                place, keys = label_of(layout, member, row, judged), keys_of(layout, member, row) if valid else ()
                groups.setdefault((place, member, keys, tuple(words.items())), []).append(row)
    columns: dict[str, list[Any]] = {name: [] for name in names_of(layout)}
    for (place, member, keys, words), held in groups.items():
        values = {**counted(layout, held, judged), **lifted(layout, held), **dict(words)}
        values |= {LABEL: place, GROUPING: None if member is None else member.number}
        values |= {key_name(slot): None for slot in range(len(layout.key_types))} | dict(keys)
        for name, column in columns.items():
            column.append(values[name])
    kinds = (
        {GROUPING: pa.int32()}
        | state_types(layout)
        | {key_name(slot): kind for slot, kind in enumerate(layout.key_types)}
    )
    return pa.table({name: pa.array(column, kinds.get(name, pa.int64())) for name, column in columns.items()})


def names_of(layout: Layout) -> list[str]:
    """Name the columns that a layout's partials have."""
    names = [LABEL, *([GROUPING] if len(layout.members) > 1 else [])]
    names += [word_name(word) for word in range(layout.words)]
    names += [key_name(slot) for slot in range(len(layout.key_types))] + [ROW_COUNT, LAST_TIME]
    if layout.marks_late is None:
        names += [FIRST_TIME, LATE_COUNT]
    if layout.revising:
        names += [TOUCHED_COUNT, CORRECTED_COUNT]
    return names + list(lifted(layout, []))


def is_valid(row: Row, judged: Bounds) -> bool:
    return row["ts"] is not None and row["ts"] < max(judged.watermark_us + 1, judged.ahead_us)


def is_late(row: Row, judged: Bounds) -> bool:
    return is_valid(row, judged) and row["ts"] < judged.watermark_us


def label_of(layout: Layout, member: Member | None, row: Row, judged: Bounds) -> int | None:
    """Place a row in its slice or granule; one that is not valid says why."""
    if not is_valid(row, judged):
        return None if row["ts"] is None else AHEAD
    if member is None:
        return 0
    way, time = layout.locating[member.tree], int(row["ts"])
    if not isinstance(way, ByDivision):
        return layout.managers[member.tree].edge_at_or_before(time)
    told = LATE_IN_LABEL if layout.marks_late and is_late(row, judged) else 0
    return time - (time - way.granule.phase) % way.granule.step + told


def keys_of(layout: Layout, member: Member | None, row: Row) -> tuple[tuple[str, Any], ...]:
    if member is None:
        return ()
    return tuple((key_name(s), row[key.strip("`")]) for s, key in zip(member.slots, member.grouping.keys, strict=True))


def signature_of(layout: Layout, member: Member | None, row: Row) -> dict[str, int]:
    """Tell which conditions take a row, one bit each."""
    words = dict.fromkeys(map(word_name, range(layout.words)), 0)
    for place, condition in enumerate(member.grouping.conditions if member is not None and member.signed else ()):
        if condition.where is None or WHERES[condition.where.replace("`", "")](row):
            words[word_name(place // BITS_PER_WORD)] |= 1 << place % BITS_PER_WORD
    return words


def counted(layout: Layout, rows: Sequence[Row], judged: Bounds) -> dict[str, int | None]:
    """Count what every batch tells of itself."""
    times, late = [row["ts"] for row in rows if row["ts"] is not None], [row for row in rows if is_late(row, judged)]
    corrected = sum(is_corrected(layout, row["ts"], judged) for row in late)
    counts = {ROW_COUNT: len(rows), LATE_COUNT: len(late), TOUCHED_COUNT: len(late), CORRECTED_COUNT: corrected}
    return {**counts, FIRST_TIME: min(times, default=None), LAST_TIME: max(times, default=None)}


def is_corrected(layout: Layout, time: int, judged: Bounds) -> bool:
    """Tell whether a final window that holds a late row is revised: the last one that ended."""
    for (window, _), (after, since, until) in zip(layout.revising, judged.revised, strict=True):
        last = min(judged.watermark_us, time + window.length, until)
        end = last - (last - window.offset) % window.slide
        if end > time and end > after and end >= since:
            return True
    return False


def lifted(layout: Layout, rows: Sequence[Row]) -> dict[str, Any]:
    """Aggregate every component of a layout."""
    found: dict[str, Any] = {}
    for number, component in enumerate(layout.components):
        if component != ROWS and component.source == component:
            parts = lifted_parts(component, rows)
            found |= {component_name(number, part): value for part, value in enumerate(parts)}
    return found


def lifted_parts(component: Component, rows: Sequence[Row]) -> list[Any]:
    if component.kind in ("first_time", "last_time"):
        return [(min if component.kind == "first_time" else max)((row["ts"] for row in rows), default=None)]
    values = [v for v in (row[str(component.argument).strip("`")] for row in rows) if v is not None]
    match component.kind:
        case "count":
            return [len(values)]
        case "exact":
            return [sum(v & 0xFFFFFFFF for v in values), sum(v >> 32 for v in values)] if values else [None, None]
        case "min":
            return [min(values, default=None)]
        case "max":
            return [max(values, default=None)]
        case "frequencies":
            runs = [place for place, v in enumerate(sorted(values)) if not place or sorted(values)[place - 1] != v]
            return [{"v": sorted(set(values)), "n": [*runs, len(values)]}]
        case "hll":
            sketch = ds.hll_sketch(component.size, ds.tgt_hll_type.HLL_8)
            for value in values:
                sketch.update(value)
            return [bytes(sketch.serialize_compact()) if values else None]
        case "arg_min":
            by = component.more[0].strip("`")
            picked = min(rows, key=lambda row: (row[by], row[str(component.argument).strip("`")]), default=None)
            return [None if picked is None else [{"f0": picked[by], "f1": picked[str(component.argument).strip("`")]}]]
    raise AssertionError(f"nobody makes {component}")


def state_types(layout: Layout) -> dict[str, pa.DataType]:
    """Type the columns of states, as Spark ships them."""
    tables = pa.struct([("v", pa.list_(pa.int64())), ("n", pa.list_(pa.int32()))])
    picked = pa.list_(pa.struct([("f0", pa.int64()), ("f1", pa.int64())]))
    kinds = {"frequencies": tables, "hll": pa.binary(), "arg_min": picked}
    return {component_name(n, 0): kinds[c.kind] for n, c in enumerate(layout.components) if c.kind in kinds}


class MadeJob(BatchJob):
    """Makes the partials of plain rows in place of Spark."""

    @property
    def last_rows(self) -> int | None:
        """Say that batches are small."""
        return 0

    @property
    def cores(self) -> int:
        """Say on how many cores Spark would aggregate."""
        return 2

    def run(
        self, batch: Any, layout: Layout, known: Mapping[str, Table], judged: Bounds, beside: Any = None
    ) -> BatchPartials:
        """Make the partials of a batch, a list of rows."""
        judged = replace(judged, revised=self.progress.windows.revised(layout))
        layout = layout.listed({})
        invalid, partials = without_reasons(made_partials(layout, batch, judged), judged.clock_us)
        return self._made(layout, judged, invalid, partials)

    def of_the_past(self, rows: Any, layout: Layout, known: Mapping[str, Table], before_us: int) -> BatchPartials:
        """Make the partials of rows of the past."""
        judged = Bounds(BEFORE_ALL_TIME, before_us, revised=tuple((NEVER, NEVER, NEVER) for _ in layout.revising))
        layout = layout.listed({})
        return self._made(layout, judged, *without_reasons(made_partials(layout, rows, judged), judged.clock_us))

    def _made(self, layout: Layout, judged: Bounds, invalid: Any, partials: pa.Table) -> BatchPartials:
        sent = SimpleNamespace(sent=Sent(partials.num_rows, bytes=partials.nbytes))
        job = SimpleNamespace(layout=layout, invalid=invalid, signing=sent)
        return BatchPartials(cast(Any, job), judged, partials, {}, {})


class MadeRetained(Retained):
    """Keeps the times of rows in the folders of their commits, as Spark would the rows."""

    def keep(self, batch: Any, number: int, ahead_us: int) -> None:
        """Write the valid times of a batch."""
        times = [one["ts"] for one in batch if one["ts"] is not None and one["ts"] < ahead_us]
        self.folders.write(pa.table({TIME: pa.array(times, pa.int64())}), number)


class MadePast(PastRows):
    """The rows that a made stream was fed with, by batch."""

    history: dict[int, list[Row]]

    def __init__(self, stream: Stream, places: Places, history: dict[int, list[Row]]) -> None:
        """Open the folder of kept rows."""
        super().__init__(cast(Any, None), stream, places)
        self.history, self.retained = history, MadeRetained(cast(Any, None), places.rows, stream)

    @property
    def comes_in_units(self) -> bool:
        """Say that batches can be read apart."""
        return True

    def check(self, since_us: int | None, source: str, *, accept_changed_files: bool = False) -> None:
        """Refuse nothing."""

    def units(self, since_us: int | None, after: Cut, upto: Cut, *, accept_changed_files: bool) -> list[Any]:
        """List the batches of a stretch."""
        return [number for number in self.history if int(after.source or -1) < number <= int(upto.source or -1)]

    def rows_of(self, units: Any, since_us: int | None, before_us: int) -> Any:
        """Return the rows of some batches."""
        low = -NEVER if since_us is None else since_us
        found = [one for number in units for one in self.history[number]]
        return [one for one in found if one["ts"] is None or one["ts"] >= low]

    def rows(self, since_us: int | None, before_us: int, source: str, *, accept_changed_files: bool = False) -> Any:
        """Return the rows up to a position, which is the number of a batch."""
        units = self.units(since_us, Cut(), Cut(source), accept_changed_files=True)
        return self.rows_of(units, since_us, before_us)


# -- the stream ---------------------------------------------------------------------------------------------------


class NotedTargets(AnswerTargets):
    """Notes which answers were left for the sinks, and how many they were."""

    def __init__(self, delivery: StreamDelivery, noted: list[tuple[int, int]]) -> None:
        super().__init__(delivery)
        self._noted = noted

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        super().deliver(number, tables)
        self._noted.append((number, sum(t.num_rows for t in tables)))

    def catch_up(self) -> None:
        super().catch_up()
        log = self.delivery.answers.answers
        last = log.last()
        for number, tables in log.batches(-1 if last is None else last - 1):
            self._noted.append((number, sum(t.num_rows for t in tables)))


class MadeStream:
    """One stream ``s`` in a folder, which can die and be opened again."""

    def __init__(
        self,
        folder: Path,
        *,
        lateness_us: int = 0,
        max_ahead_us: int = 600 * SECOND,
        idle_us: int = 0,
        retain_rows_us: int = 0,
        strategy: Strategy = "shared paired",
        kernel: Any = "fast",
        clock: ManualClock | None = None,
        policy: LivePolicy | None = None,
        observers: Sequence[WorkObserver] = (),
        synchronize: str = DEFAULT_SYNCHRONIZATION,
    ) -> None:
        self.policy = LivePolicy() if policy is None else policy
        self.folder, self.strategy, self.kernel, self.observers = folder, strategy, kernel, observers
        self.synchronize = synchronize
        self.clock = ManualClock("9999-01-01") if clock is None else clock
        times = lateness_us, max_ahead_us
        self.stream = Stream("s", COLUMNS, "ts", *times, idle_us=idle_us, format="csv", retain_rows_us=retain_rows_us)
        self.delivered: list[tuple[int, int]] = []  # commits and answers, as sinks would be told
        self.history: dict[int, list[Row]] = {}  # batch → its rows, as a source would have them
        self.open()

    def open(self) -> None:
        """Open what the folder holds, or begin."""
        folder = self.folder
        self.catalog = Catalog(ChangeLog(folder / "catalog.db"), self.clock)
        self.catalog.restore(self.typed)
        self.catalog.create_stream(self.stream)
        commits, answers = DiskCommitLog(folder / "commits"), DiskAnswerLog(folder / "answers")
        named = self.catalog.name_of, self.catalog.version_of
        targets = NotedTargets(
            StreamDelivery(
                Delivery("s", (), answers, None, *named, self.clock), lambda log: RowDelivery("s", (), log, None)
            ),
            self.delivered,
        )
        none = cast(Any, None)  # no session, and no tables
        common = none, none, self.catalog, None, folder, (), self.strategy, self.kernel, self.clock, 1_000_000
        parts = ("keys", "rows", "checkpoint", "waiting", "joining", "taken")
        places = Places(*(folder / part for part in parts))
        catalog = CommittedCatalog(self.catalog, "s")
        chosen_by = {"policy": self.policy, "synchronize": LiveSynchronization(self.synchronize)}
        settings = StreamSettings(*common, **chosen_by, observers=self.observers)  # type: ignore[arg-type]
        context = StreamContext(self.stream, settings, commits, answers, places, targets, catalog, OF_TIME, MadeJob)
        pipeline = Pipeline(context)
        pipeline.intake.past = pipeline.admission.past = MadePast(self.stream, places, self.history)
        self.runner = StreamRunner(self.stream, self.catalog, pipeline, targets, lambda: none, places.checkpoint)
        self.changes = QueryChanges(self.catalog, lambda names: {name: self.runner for name in names})

    def reopen(self) -> None:
        """Begin anew from the folder, as after the end of the process."""
        self.catalog.close()
        self.open()

    def typed(self, select: Select, name: str) -> TypedQuery:
        return typed_as_spark_would(self.catalog, select, name)

    def typed_text(self, text: str, name: str) -> TypedQuery:
        return self.typed(parse_query(text), name)

    @property
    def pipeline(self) -> Pipeline:
        return self.runner.pipeline

    # -- what happens to it --------------------------------------------------------------------------------------

    def feed(self, *rows: Row, number: int | None = None) -> None:
        """Take one batch."""
        number = self.pipeline.progress.clock.batch + 1 if number is None else number
        self.history[number] = list(rows)
        with self.pipeline.step():
            self.runner.relief.periods.look()
        self.pipeline.process(cast(Any, list(rows)), number, self.runner.snapshot(), str(number))
        with self.pipeline.step():
            self.runner.lead()

    def heartbeat(self) -> bool:
        return self.pipeline.heartbeat(self.runner.snapshot())

    def create(self, name: str, text: str) -> Admitted:
        return self.changes.create([self.typed_text(text, name)])[0]

    def alter(self, name: str, text: str) -> Admitted:
        return self.changes.replace(self.typed_text(text, name))

    def drop(self, name: str) -> None:
        self.catalog.drop("query", name)
        self.runner.settle()

    def control(self, name: str, *, pause: bool) -> None:
        """Pause a query, or resume it."""
        (self.changes.pause if pause else self.changes.resume)(name)

    # -- what is to be seen --------------------------------------------------------------------------------------

    def revisions(self, definition: Definition) -> pa.Table:
        """Return all that a definition ever said."""
        log = answers_of(self.pipeline.answers, [definition.id])
        return shown_answers(log, definition.typed.schema, revisions=True)

    def timeline(self, name: str) -> list[tuple[Any, ...]]:
        """List a query's answers as they stand: the end in seconds, then its columns."""
        table = self.runner.results(self.catalog.query(name), {}, None, revisions=False)
        ends = [end / SECOND for end in table["window_end"].cast(pa.int64()).to_pylist()]
        return list(zip(ends, *(column.to_pylist() for column in table.columns[2:]), strict=True))

    def synchronize_by(self, technique: str) -> None:
        """Let evaluations run together by another technique from now on."""
        self.synchronize = technique
        self.pipeline.given.settings.synchronize.change(technique)

    def standing(self) -> dict[str, Any]:
        """Tell where the stream and the windows of its queries stand."""
        self.runner.settle()
        clock, windows = self.pipeline.progress.clock, self.pipeline.progress.windows
        told = {f.name: getattr(windows, f.name) for f in fields(windows) if f.name != "clock"}
        return {**asdict(clock), **{name: dict(known) for name, known in told.items()}}


def row(second: float, v: int = 1, k: str = "a", j: int = 0) -> Row:
    return {"ts": round(second * SECOND), "k": k, "v": v, "j": j}


def definition(text: str, number: int = 1, name: str = "q", **more: Any) -> Definition:
    """Define a query over the stream ``s``, outside of any catalog of a folder."""
    catalog = Catalog(ChangeLog(None), lambda: 0)
    catalog.create_stream(Stream("s", COLUMNS, "ts"))
    return Definition(number, typed_as_spark_would(catalog, parse_query(text), name), **more)
