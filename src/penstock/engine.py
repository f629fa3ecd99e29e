"""Runs continuous queries over shared streams; this is the whole way from statements and rows to answers.

::

    text ─parse─► Statement ─bind─► Query ─type─► Definition ─plan─► Layout        language/ spark/typing share/
    source ─► batch ─► partials ─► synopsis ─► due windows ─► answers ─► sinks     stream/ store/ sinks/
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.catalog.catalog import Origin
from penstock.control.metrics import EngineMetrics, metrics_of
from penstock.control.serving import Serving
from penstock.control.status import status_of
from penstock.errors import PenstockError, StateError
from penstock.evaluate.typed import Definition, TypedQuery
from penstock.kernel.synopsis import Kernel
from penstock.kernel.versions import Version
from penstock.language.duration import parse_duration
from penstock.language.grammar.limits import WINDOWS_AT_A_TIME
from penstock.language.grammar.parse import parse_query, parse_script
from penstock.language.statements import Select
from penstock.model.aggregation import Aggregation
from penstock.model.counts import counted
from penstock.model.garbage_collection import GARBAGE
from penstock.model.instants import Clock, wall_clock_us
from penstock.model.query import Query
from penstock.model.sampling import read_level, share_of
from penstock.model.schema import Stream
from penstock.model.strategy import DEFAULT_STRATEGY, MAX_DRIVER_GROUPS, StrategyName, strategy_named
from penstock.printable import shown
from penstock.report.notebook import engine_summary
from penstock.schedule.live_policy import DEFAULT_POLICY, LivePolicy
from penstock.schedule.operator_queues import DEFAULT_OPERATOR_POLICY, OperatorPolicy
from penstock.schedule.running_together import DEFAULT_SYNCHRONIZATION, LiveSynchronization
from penstock.share.explain.explain import explain_plan
from penstock.share.explain.explanation import Explanation, StreamPlan
from penstock.share.explain.stream_joins import with_join
from penstock.share.explain.what_if import WhatIf, what_if
from penstock.sinks.delivery import raise_first
from penstock.sinks.forms import Form, in_form
from penstock.sinks.protocol import Sink
from penstock.sinks.settings import SINK_BACKLOG
from penstock.spark.job.lookup_tables import LookupTables
from penstock.spark.session.embedded import adopt, embedded
from penstock.spark.session.own_session import own_session
from penstock.spark.session.processor_time import spark_seconds
from penstock.spark.sources import frames as sources
from penstock.spark.typing import Typer
from penstock.statements.execution import Execution
from penstock.statements.query_binder import QueryBinder
from penstock.statements.questions import Questions
from penstock.statements.registering import Registering
from penstock.statements.user_functions import UserFunctions
from penstock.store.changes import ChangeLog
from penstock.store.copying import copy_state
from penstock.store.folder import StateFolder
from penstock.store.trace_files import TRACE_BYTES
from penstock.stream.accounting.accounts import balance_of
from penstock.stream.admitted import Admitted
from penstock.stream.answered_groups import WorkObserver
from penstock.stream.batch_recorder import Machine
from penstock.stream.continuous.asked_rows import (
    edition_at,
    refuse_limits,
    refuse_windows,
    shown_rows,
    subscribed_rows,
)
from penstock.stream.continuous.query_rows import Place
from penstock.stream.continuous.subscription import Subscription
from penstock.stream.declared_sources import DeclaredSources
from penstock.stream.desk import Desk
from penstock.stream.operators.slots import OperatorSlots, why_not_here
from penstock.stream.overload.memory_cap import MemoryCap
from penstock.stream.query_changes import QueryChanges
from penstock.stream.registry import StreamRegistry
from penstock.stream.runner import StreamRunner
from penstock.stream.settings import StreamSettings
from penstock.stream.source_changes import SourceChanges
from penstock.stream.trace_recorder import TraceRecorder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Engine(Registering):
    """Runs continuous queries over shared streams, on an embedded local Spark or on a session that is given."""

    def __init__(
        self,
        state: str | os.PathLike[str] | None = None,
        *,
        spark: SparkSession | None = None,
        strategy: StrategyName = DEFAULT_STRATEGY,
        kernel: Kernel = "fast",
        sinks: Sequence[Sink] = (),
        clock: Clock = wall_clock_us,
        max_driver_groups: int = MAX_DRIVER_GROUPS,
        windows_at_a_time: int = WINDOWS_AT_A_TIME,
        aggregation: Aggregation = "auto",
        sink_backlog: int = SINK_BACKLOG,
        policy: str = DEFAULT_POLICY,
        operator_policy: str = DEFAULT_OPERATOR_POLICY,
        trace_bytes: int = TRACE_BYTES,
        synchronize: str = DEFAULT_SYNCHRONIZATION,
        memory: str | int | None = None,
        queue_bytes: str | int | None = None,
        spread_over: int | None = None,
    ) -> None:
        """Open a state folder, if any; the executors keep groupings of more than ``max_driver_groups`` groups in it.

        A query whose range holds more than ``windows_at_a_time`` slides is refused. Rows become partials where that
        costs less, unless ``aggregation`` says where. A stream waits for a sink that has more than ``sink_backlog``
        answers to take. ``policy`` says in which order what is due is answered, ``operator_policy`` in which order
        expensive functions of queries without a window take their rows, ``synchronize`` what runs together to share a
        pass or a job. A state folder keeps a trace of what ran, of ``trace_bytes`` at most; 0: none.
        ``memory`` caps what streams hold in this process, such as ``"4 GB"``, ``queue_bytes`` what waits in each for
        functions: docs/overload.md says what is given up. ``spread_over`` is the old name of ``max_driver_groups``.
        """
        if spread_over is not None:
            warnings.warn("spread_over is called max_driver_groups now", DeprecationWarning, stacklevel=2)
            max_driver_groups = spread_over
        self._policy, self._synchronize = LivePolicy(policy), LiveSynchronization(synchronize)
        self._cap = MemoryCap.sized(memory, queue_bytes)
        self._held = ExitStack()
        self.strategy = strategy_named(strategy)
        self.kernel, self.clock, self.sinks = kernel, clock, tuple(sinks)
        self.windows_at_a_time = windows_at_a_time
        self._folder = None if state is None else StateFolder(Path(state))
        if self._folder is not None:
            self._held.callback(self._folder.release)
        self.session = own_session(embedded() if spark is None else adopt(spark))
        scratch = self._held.enter_context(tempfile.TemporaryDirectory(prefix="penstock-"))
        self.catalog = Catalog(ChangeLog(self._folder.catalog if self._folder else None), clock)
        self._held.callback(self.catalog.close)
        tables, typer = LookupTables(self.session), Typer(self.session)
        shared = self.session, tables, self.catalog, self._folder, Path(scratch)
        common = *shared, self.sinks, self.strategy, kernel, clock
        limits, chosen_by = (max_driver_groups, aggregation, sink_backlog), (self._policy, self._synchronize)
        self._operators = OperatorSlots(OperatorPolicy(operator_policy), why_not_here(self.session))
        self._held.callback(self._operators.close)
        settings = StreamSettings(*common, *limits, *chosen_by, windows_at_a_time, cap=self._cap)
        settings = dataclasses.replace(settings, observers=self._trace(trace_bytes), desk=Desk(self._operators))
        self._sources = DeclaredSources(self.session, self.catalog, tables)
        self.streams = StreamRegistry(settings, self._sources)
        self._held.callback(self.streams.abandon_sinks)
        self._changes = QueryChanges(self.catalog, self.streams.with_past)
        self._functions = UserFunctions(self.catalog, typer)
        self._binder = QueryBinder(self.catalog, typer, self._functions, windows_at_a_time)
        questions = Questions(self.catalog, self.strategy, self._binder, self.streams)
        self._source_changes = SourceChanges(self.catalog, self._sources, self.streams)
        hands = self._sources, self._functions, self._changes, self.streams, self._source_changes
        self._execution = Execution(self.catalog, self._binder, questions, *hands)
        self._serving = None if self._folder is None else Serving(self, self._folder.path)
        self.catalog.restore(self._binder.typed)
        self._functions.provide()

    def __repr__(self) -> str:
        """Tell on a line what the engine holds, and whether it runs."""
        streams, queries = self.catalog.stream_names(), self.catalog.query_names()
        held = f"{counted(len(streams), 'stream')}, {counted(len(queries), 'query', 'queries')}"
        kept = "no state folder" if self._folder is None else f"state in {shown(str(self._folder.path))}"
        return f"<Engine: {held}, {kept}, {'running' if self.running else 'not running'}>"

    def _trace(self, most_bytes: int) -> list[WorkObserver]:
        """Record what runs in the state folder, if there is one and it is wanted."""
        if self._folder is None or most_bytes <= 0:
            return []
        machine = Machine(spark_seconds, self.session.sparkContext.defaultParallelism, self._memory_by_kind)
        recorder = TraceRecorder(self._folder.trace, self._policy.current, most_bytes, machine)
        self._held.callback(recorder.close)
        return [recorder]

    def _memory_by_kind(self) -> dict[str, float]:
        """Add up what all streams hold in memory, by kind; any thread may ask."""
        each = [balance_of(runner, "memory").by_kind for runner in list(self.streams.runners.values())]
        kinds = dict.fromkeys(kind for held in each for kind in held)
        return {kind: sum(held.get(kind, 0.0) for held in each) for kind in kinds}

    # -- statements ----------------------------------------------------------------------------------------------

    def execute(self, script: str) -> list[pa.Table]:
        """Carry out statements separated by semicolons; return one table for each EXPLAIN, SHOW and DESCRIBE.

        Queries that follow each other are entered together.
        """
        with GARBAGE.put_off(then_catch_up=True):
            return self._execution.run(parse_script(script))

    def create_stream(
        self,
        name: str,
        source: DataFrame,
        *,
        time: str,
        lateness: str = "0 s",
        max_ahead: str = "10 min",
        idle: str | None = None,
        dedup: Sequence[str] = (),
        retain_rows: str | None = None,
        replace: bool = False,
    ) -> None:
        """Take a streaming DataFrame of the program itself as a stream; the options are those of CREATE STREAM.

        ``replace``: a stream of that name goes on with it, perhaps with more columns or another lateness.
        """
        lengths = parse_duration(lateness), parse_duration(max_ahead)
        idle_us, rows_us = (0 if length is None else parse_duration(length) for length in (idle, retain_rows))
        stream = Stream(name, sources.columns_of_stream(name, source), time, *lengths)
        stream = dataclasses.replace(stream, idle_us=idle_us, dedup=tuple(dedup), retain_rows_us=rows_us)
        if replace:
            self._source_changes.replace_frame(stream, source)
        else:
            self._sources.enter_frame(stream, source)

    def create_table(self, name: str, source: DataFrame | pa.Table, *, replace: bool = False) -> None:
        """Take a DataFrame or Arrow table of the program itself as a table; ``replace``: in place of the one before."""
        if replace:
            self._source_changes.replace_table(name, source)
        else:
            self._sources.enter_table(name, source)

    def replace_source(self, script: str) -> list[str]:
        """Carry out a CREATE STREAM or CREATE TABLE; one that is there goes on so. Return what differs from before."""
        return self._execution.replaced(parse_script(script))

    def create_query(self, name: str, text: str, *, origin: Origin = "") -> Admitted:
        """Enter a query at any time, between two batches; say from which window on it is answered."""
        return self._changes.create([self.typed(parse_query(text), name)], origin)[0]

    def create_queries(self, queries: Mapping[str, str]) -> dict[str, Admitted]:
        """Enter many queries, name → SELECT, in one durable change: all of them or none, and far faster than singly."""
        with GARBAGE.put_off(then_catch_up=True):
            named = ((parse_query(text), name) for name, text in queries.items())  # none is kept once it is bound
            return dict(zip(queries, self._changes.create(self._binder.typed_or_raise(named)), strict=True))

    def alter_query(self, name: str, text: str, *, origin: Origin | None = None) -> Admitted:
        """Give a query a new SELECT: it answers the windows that begin from now on, the old one those before.

        One that means the same changes nothing. Answers so far stay in the sinks.
        """
        return self._changes.replace(self.typed(parse_query(text), self.catalog.query(name).name), origin)

    def check_query(self, query: Query, select: Select) -> None:
        """Raise if a query, new or in another's place, asks for what cannot be had; nothing changes."""
        if self._changes.may_refuse(query):
            self._changes.check(self.typed(select, query.name))

    def typed(self, select: Select, name: str, *, asked: bool = False) -> TypedQuery:
        """Bind a query's names and let Spark type it; ``asked``: it is a one-time query, without SLIDE."""
        return self._binder.typed(select, name, asked=asked)

    def typed_all(self, queries: Sequence[tuple[Select, str]]) -> list[TypedQuery | PenstockError]:
        """Bind queries and let Spark type them together; an error in a query's place says what is wrong with it."""
        return self._binder.typed_all(queries)

    def drop_query(self, name: str) -> None:
        """Take a query out from the next batch on; its answers stay in the sinks."""
        self.catalog.drop("query", name)

    def pause_query(self, name: str) -> None:
        """Let a query answer no window that ends from now on; its partials go on."""
        self._changes.pause(name)

    def resume_query(self, name: str) -> None:
        """Let a query that a user or an error paused answer again; windows ended meanwhile are not answered."""
        self._changes.resume(name)

    def backfill(
        self, names: str | Sequence[str], since: str = "beginning", *, accept_changed_files: bool = False
    ) -> dict[str, int]:
        """Answer windows of the past that a query, or several, have not answered; return how many those were, by name.

        ``since`` is ``"beginning"`` or a timestamp. One job over a stream's past serves all of its queries. Files of
        the source that were written again since they were read are refused, unless they are accepted.
        """
        chosen = [names] if isinstance(names, str) else names
        return self._changes.backfill(chosen, since, accept_changed_files=accept_changed_files)

    def set_sampling(self, stream: str, share: str) -> None:
        """Let queries with ``shed = 'sample'`` take a share of a stream's rows, such as ``"1/4"``, until it is changed.

        It holds from the next batch on, also after a restart; ``"1"`` is all rows. All other queries take all rows.
        """
        self.stream(stream).set_sampling(read_level(share))

    def sampling(self, stream: str) -> str:
        """Return the share of a stream's rows that queries with ``shed = 'sample'`` take: ``"1"`` is all rows."""
        return share_of(self.stream(stream).pipeline.progress.clock.sampling)

    # -- running -------------------------------------------------------------------------------------------------

    def process_available(self, *, flush: bool = False) -> None:
        """Process all that the sources hold now; ``flush`` ends the streams and answers their last windows."""
        self.streams.process_available(self.catalog.stream_names(), flush=flush)

    def start(self) -> None:
        """Run on in the background until :meth:`stop`."""
        for name in self.catalog.stream_names():
            self.stream(name).start()
        if self._serving is not None:
            self._serving.start()

    def stop(self) -> None:
        """Stop after the current batches, make all answers visible, and raise what stopped a stream before."""
        for stream in self.streams.runners.values():
            stream.stop_waiting()
        if self._serving is not None:
            self._serving.stop()
        failures: list[BaseException] = []
        for step in [step for stream in self.streams.runners.values() for step in (stream.stop, stream.delivery.roll)]:
            try:
                step()
            except Exception as error:  # the other streams are stopped all the same
                failures.append(error)
        raise_first(failures)

    @property
    def policy(self) -> str:
        """Return the name of the policy by which it is chosen what is answered first."""
        return self._policy.current().name

    @property
    def operator_policy(self) -> str:
        """Return the name of the policy by which expensive functions take their rows."""
        return self._operators.policy.current().name

    def set_operator_policy(self, name: str) -> None:
        """Let expensive functions take their rows by another policy from now on, also while streams run."""
        self._operators.policy.change(name)

    def set_policy(self, name: str) -> None:
        """Choose by another policy from now on, also while streams run."""
        self._policy.change(name)

    @property
    def synchronization(self) -> str:
        """Return the name of the technique by which evaluations run together."""
        return self._synchronize.current().name

    def set_synchronization(self, name: str) -> None:
        """Let evaluations run together by another technique from now on, also while streams run."""
        self._synchronize.change(name)

    @property
    def memory(self) -> int | None:
        """Return the cap of what streams hold in this process, in bytes; None: there is none."""
        return self._cap.bytes or None

    def set_memory(self, memory: str | int | None) -> None:
        """Set another cap from now on, also while streams run; None: none."""
        self._cap.change(memory)

    @property
    def queue_bytes(self) -> int | None:
        """Return the cap of what waits in each stream for expensive functions, in bytes; None: there is none."""
        return self._cap.queues.bytes or None

    def set_queue_bytes(self, queue_bytes: str | int | None) -> None:
        """Set another cap of queues from now on, also while streams run; None: none."""
        self._cap.queues.change(queue_bytes)

    @property
    def running(self) -> bool:
        """Tell whether every stream still runs in the background."""
        if self.streams.changing:
            return True
        return bool(self.streams.runners) and all(stream.running for stream in self.streams.runners.values())

    def results(
        self,
        name: str,
        form: Form = "arrow",
        *,
        revisions: bool = False,
        version: Version = None,
        limit: int | None = None,
        since: str | None = None,
    ) -> Any:
        """Return a query's answers as they stand, by window, then group: window_start, window_end and its columns.

        Of a query without a window it is the rows that are kept, by commit, then time: at most ``limit`` of the newest,
        of the timestamp ``since`` or later.

        ``form`` is ``"arrow"`` (a pyarrow.Table), ``"pandas"``, ``"polars"`` or ``"rows"`` (a list of dicts). With
        ``revisions`` all that was ever said comes, with ``revision`` and ``op`` (answer, revise, retract). What the
        query said before it was altered is among it if it has the same columns, each window once; ``version`` asks for
        the answers of one version, or with ``"all"`` for everything, with the ``version`` of each answer.
        """
        definition = self.catalog.query(name)
        if definition.query.is_continuous:
            pipeline = self.stream(definition.query.stream).pipeline
            return in_form(shown_rows(self.catalog, pipeline, definition, version, limit, since), form)
        refuse_limits(limit, since)
        stream, elsewhere = self.stream(definition.query.stream), self.streams.answers_elsewhere(definition)
        return in_form(stream.results(definition, elsewhere, version, revisions=revisions), form)

    def subscribe(self, name: str, after: Place | None = None) -> Subscription:
        """Return an iterator over the rows that a query without a window answers, a table for each commit with some.

        It waits for more while the engine runs, and ends when the engine stops. Its ``place`` is that of the last row
        given: ``after=place`` goes on behind it, also in an engine that is opened later on the same state. No row is
        given twice, also if the query is altered meanwhile and takes rows of the past again.
        """
        definition = self.catalog.query(name)
        refuse_windows(definition)
        runner = self.stream(definition.query.stream)
        edition = edition_at(self.catalog, runner.pipeline, definition, after)
        return Subscription(
            lambda: subscribed_rows(self.catalog, runner.pipeline, self.catalog.query(name), edition),
            lambda: runner.running,
            edition,
            after,
        )

    def ask(self, text: str, form: Form = "arrow") -> Any:
        """Answer a one-time query, a window without SLIDE, from what is stored, as of the watermark.

        The answer names its window: the last final one that is wholly stored. What cannot be answered is refused.
        """
        typed = self.typed(parse_query(text), "this question", asked=True)
        return in_form(self.stream(typed.query.stream).ask(typed), form)

    def status(self) -> dict[str, Any]:
        """Tell how every stream, query and sink stands, in values that JSON can hold."""
        at_work, overload = self.streams.runners, self._cap.figures()
        return status_of(self.catalog, at_work, self.clock(), running=self.running, overload=overload)

    def metrics(self) -> EngineMetrics:
        """Tell how soon queries are answered and what the share of each is, counted from the engine's start."""
        at_work, figures = self.streams.runners, self.streams.settings.figures
        return metrics_of(self.catalog, at_work, figures, self.clock(), self.policy, self._cap.figures())

    def backup(self, folder: str | os.PathLike[str]) -> None:
        """Copy the state between two batches, consistent while everything runs."""
        if self._folder is None:
            raise StateError("an engine without a state folder has nothing to copy", hint="Give it one: state=…")
        with ExitStack() as waiting:
            for stream in self.streams.in_order():  # in which changes wait
                waiting.enter_context(stream.between_batches())
            copy_state(self._folder.path, Path(folder))

    def explain(self) -> Explanation:
        """Show who shares what: trees, slices, groupings, and counted operations shared and alone."""
        plans, joins = list[StreamPlan](), self.catalog.joins()
        for name in (*self.catalog.stream_names(), *self.catalog.line_names()):
            version, definitions = self.catalog.snapshot(name)
            known = self.streams.observed(name), self.streams.woven(name)
            [plan] = explain_plan(name, definitions, self.strategy, version, *known).streams
            plans.append(with_join(plan, self.catalog.join_text(name), joins))
        return Explanation(tuple(plans))

    def what_if(self, text: str) -> WhatIf:
        """Tell which tree a query would join, with whom, and what it would cost; nothing is entered."""
        new = Definition(self.catalog.next_id, self.typed(parse_query(text), "this query"))
        return what_if(self.catalog.definitions(s := new.query.stream), new, self.strategy, self.streams.woven(s))

    def _repr_html_(self) -> str:
        """Show the engine in a notebook: its streams with what came and went, then who shares what."""
        return engine_summary(self.streams.rows(), self.explain())

    def stream(self, name: str) -> StreamRunner:
        """Return a stream at work: its pipeline has counts, metrics and reports."""
        return self.streams.stream(name)

    def close(self) -> None:
        """Stop everything and let go of the state folder; the Spark session stays."""
        try:
            self.stop()
        finally:
            self.release()

    def release(self) -> None:
        """Let go of files, locks and folders and of nothing else, as the system does when a process dies."""
        self._held.close()

    def __enter__(self) -> Self:
        """Use the engine in a with statement."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the engine."""
        self.close()
