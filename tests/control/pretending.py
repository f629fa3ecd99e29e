"""An engine that only pretends: a real catalog, no Spark, no rows."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.catalog.catalog import Origin
from penstock.control.metrics import EngineMetrics, QueryMetrics, Seconds
from penstock.control.status import SinkStatus, StreamFacts, status_at
from penstock.errors import StateError
from penstock.evaluate.typed import Definition, TypedQuery
from penstock.language.binding.bind import bind
from penstock.language.grammar.parse import parse_query
from penstock.language.statements import Select
from penstock.model.sampling import read_level, share_of
from penstock.model.schema import Column, Stream
from penstock.schedule.live_policy import live_policy_named
from penstock.schedule.operator_queues import operator_policy_named
from penstock.schedule.running_together import synchronization_named
from penstock.store.changes import ChangeLog
from penstock.store.commits import Counts, Paused
from penstock.stream.clock import StreamClock
from penstock.stream.figures.summary import Distribution
from penstock.stream.progress import Progress
from tests.shell import PATIENCE_S

NOW = 1_767_623_700_000_000  # 2026-01-05 14:35:00
MINUTE = 60_000_000
TRADES = Stream("trades", (Column("ts", "timestamp"), Column("price", "double")), "ts", idle_us=10_000_000)
PACE = "SELECT count(*) AS n FROM trades [RANGE 5 MIN SLIDE 1 MIN]"


@dataclass(frozen=True)
class Entered:
    first_end_us: int | None
    why: str

    def __str__(self) -> str:
        return f"answers from {self.first_end_us} on: {self.why}"


def figures_of(definition: Definition, number: int) -> QueryMetrics:
    """Make up figures of a query, all of them as many seconds as its number, but for what it was late by."""
    figure = Distribution(number, number * 1.0, number * 1.0, number * 1.0, number * 0.5, number * 0.9, number * 1.0)
    seconds = Seconds(number * 1.0, number * 0.1, number * 0.01, number * 2.0)
    late = replace(figure, sum=0.0, max=0.0, p50=0.0, p95=0.0, p99=0.0) if number == 1 else figure
    named = definition.name, definition.query.stream, definition.id, 100 * number, 0, number - 1, number, 60.0, 0.5
    return QueryMetrics(*named, figure, figure, late, figure, number * 60.0, seconds, number * 1e3, number * 1e6)


@dataclass
class Pretended:
    """Remembers what it was asked to do."""

    path: Path | None = None  # of the catalog
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    slow: threading.Event | None = None  # a backfill waits for it
    policy: str = "Hybrid"
    operator_policy: str = "FCFS"
    synchronization: str = "C-LP"

    def __post_init__(self) -> None:
        self.catalog = Catalog(ChangeLog(self.path), clock=lambda: NOW)
        self.catalog.create_stream(TRADES)
        counts = Counts(1_000, 960, 5, 10, corrected=20, duplicate=5)
        self.progress, clock = Progress(), StreamClock(11, watermark_us=NOW - 2 * MINUTE, counts=counts)
        clock.first_us, clock.last_us = NOW - 9 * MINUTE, NOW - MINUTE
        self.progress.clock = clock
        self.sinks = [SinkStatus("jsonl answers", 0)]

    def create_query(self, name: str, text: str, *, origin: Origin = "") -> Entered:
        self.calls.append(("create", name, origin))
        (made,) = self.catalog.create_queries([self.typed(parse_query(text), name)], origin)
        self.progress.windows.starts[made.id] = None
        return Entered(NOW, "the stream is younger")

    def alter_query(self, name: str, text: str) -> Entered:
        self.calls.append(("alter", name))
        self.catalog.replace_query(self.typed(parse_query(text), self.catalog.query(name).name))
        return Entered(None, "no row came yet")

    def typed(self, select: Select, name: str) -> TypedQuery:
        return TypedQuery(bind(select, self.catalog, name, {}), (), (), (), frozenset(), ())

    def drop_query(self, name: str) -> None:
        self.catalog.drop("query", name)

    def pause_query(self, name: str) -> None:
        self.catalog.pause(name)

    def resume_query(self, name: str) -> None:
        self.progress.windows.paused.pop(self.catalog.query(name).id, None)
        self.catalog.resume(name)

    def fail_query(self, name: str, reason: str) -> None:
        self.progress.windows.paused[self.catalog.query(name).id] = Paused(NOW, NOW, NOW, reason)

    def set_policy(self, name: str) -> None:
        self.policy = live_policy_named(name).name

    def set_operator_policy(self, name: str) -> None:
        self.operator_policy = operator_policy_named(name).name

    def set_synchronization(self, name: str) -> None:
        self.synchronization = synchronization_named(name).name

    def sampling(self, stream: str) -> str:
        return share_of(self.progress.clock.sampling)

    def set_sampling(self, stream: str, share: str) -> None:
        self.progress.clock.sampling = read_level(share)
        self.calls.append(("shed", stream))

    def ask(self, text: str) -> pa.Table:
        self.calls.append(("ask", text))
        instant = pa.timestamp("us", tz="UTC")
        if "defect" in text:
            raise ValueError("a defect")
        ends = pa.array([NOW, NOW] if "symbol" in text else [], instant)
        starts = pa.array([NOW - 10 * MINUTE] * len(ends), instant)
        columns = {"symbol": pa.array(["A", None][: len(ends)]), "high": pa.array([1.5, float("nan")][: len(ends)])}
        return pa.table({"window_start": starts, "window_end": ends, **columns})

    def execute(self, script: str) -> list[pa.Table]:
        self.calls.append(("execute", script))
        return [pa.table({"name": ["pace"]})]

    def backfill(
        self, names: Sequence[str], since: str = "beginning", *, accept_changed_files: bool = False
    ) -> Mapping[str, int]:
        if self.slow is not None:
            assert self.slow.wait(PATIENCE_S)
        return {name: 9 if accept_changed_files else 7 for name in names}

    def backup(self, folder: Path) -> None:
        if folder.exists():
            raise StateError(f"{folder} exists already", hint="Choose a new one.")
        folder.mkdir()

    def metrics(self) -> EngineMetrics:
        """Tell figures that grow with the number of the query: its first has the least of everything."""
        queries = [d for name in self.catalog.query_names() for d in [self.catalog.query(name)]]
        return EngineMetrics(NOW, self.policy, (), tuple(figures_of(d, 1 + place) for place, d in enumerate(queries)))

    def status(self) -> dict[str, Any]:
        standing = StreamFacts(self.progress, self.sinks)
        return status_at(self.catalog, {"trades": standing}, NOW).to_dict()
