"""Holds what all streams of an engine have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.catalog import Catalog
from penstock.kernel.synopsis import Kernel
from penstock.language.grammar.limits import WINDOWS_AT_A_TIME
from penstock.model.aggregation import Aggregation
from penstock.model.instants import Clock, steady_clock_us, wall_clock_us
from penstock.schedule.live_policy import LivePolicy
from penstock.schedule.running_together import LiveSynchronization
from penstock.share.plan import Strategy
from penstock.share.weave.costs import Rates
from penstock.sinks.protocol import Sink
from penstock.sinks.settings import SINK_BACKLOG
from penstock.spark.job.lookup_tables import LookupTables
from penstock.store.folder import StateFolder
from penstock.stream.aggregation_choice import AggregationChoice
from penstock.stream.answered_groups import WorkObserver
from penstock.stream.background_calibration import BackgroundCalibration
from penstock.stream.desk import Desk
from penstock.stream.figures.stream_figures import EngineFigures
from penstock.stream.machine_speed import stored_rates
from penstock.stream.overload.memory_cap import MemoryCap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What all streams of an engine have in common; ``scratch`` serves where there is no state folder."""

    session: SparkSession
    tables: LookupTables
    catalog: Catalog
    folder: StateFolder | None
    scratch: Path
    sinks: Sequence[Sink]
    strategy: Strategy
    kernel: Kernel
    clock: Clock
    max_driver_groups: int  # groups of one grouping that the driver keeps
    aggregation: Aggregation = "auto"  # where rows become partials
    sink_backlog: int = SINK_BACKLOG  # answers that wait for a sink, beyond which its stream waits
    policy: LivePolicy = field(default_factory=LivePolicy)  # by which it is chosen what is answered first
    synchronize: LiveSynchronization = field(default_factory=LiveSynchronization)  # by which evaluations run together
    windows_at_a_time: int = WINDOWS_AT_A_TIME  # of a query that may hold one row
    desk: Desk = field(default_factory=Desk)  # answers the windows of streams that run in the background
    figures: EngineFigures = field(default_factory=EngineFigures)  # of all queries
    observers: Sequence[WorkObserver] = ()  # of what all streams do, besides the figures
    rates: Rates = field(default_factory=stored_rates)
    cap: MemoryCap = field(
        default_factory=MemoryCap
    )  # of the driver's memory, and of rows that wait for expensive functions
    calibration: BackgroundCalibration = field(default_factory=BackgroundCalibration)

    @property
    def aggregation_choice(self) -> AggregationChoice:
        """Return what decides where the rows of a batch become partials."""
        return AggregationChoice(self.aggregation)

    @property
    def steady(self) -> Clock:
        """Return the clock that silence is measured by: nobody sets it, save a test."""
        return steady_clock_us if self.clock is wall_clock_us else self.clock
