"""An engine that may die in any step, and whose next one takes the step again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.model.aggregation import AGGREGATIONS
from penstock.model.schema import Column, Stream
from penstock.sinks.jsonl import JsonLinesSink
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.protocol import Sink
from penstock.store import executor_state as spread
from penstock.store import faults
from penstock.testing import ManualClock, TestBed
from tests.always.combinations.scenario import EPOCH, Setting
from tests.always.combinations.thresholds import Thresholds
from tests.always.judged import Killed, Moment, instant, killer, taken_at_last

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    ("id", "bigint"),
    ("ts", "timestamp"),
    ("k", "string"),
    ("j", "int"),
    ("v", "bigint"),
    ("x", "double"),
    ("d", "decimal(10,2)"),
)
BUCKETS = 3  # of keys that executors keep: a task each
CAPPED = "CREATE FUNCTION capped(a BIGINT) RETURNS BIGINT RETURN CASE WHEN a > 5 THEN 5 ELSE a END"


def half(v: int | None) -> int | None:
    return None if v is None else v // 2


def is_odd(v: int | None) -> bool | None:
    return None if v is None else v % 2 == 1


class Mortal:
    """Engines on one state folder, one after the other."""

    def __init__(self, spark: SparkSession, folder: Path, setting: Setting, opened: Callable[[], None]) -> None:
        """Open the first one; ``opened`` is called for each."""
        self.spark, self.folder, self.setting, self.opened = spark, folder, setting, opened
        self.clock = ManualClock(instant(EPOCH))
        self.kills: list[str] = []
        self._armed: list[Moment] = []
        self._bed: TestBed | None = None
        self._engines = 0  # so far
        self._thresholds = Thresholds(setting.ways)
        spread.BUCKETS = BUCKETS  # type: ignore[misc]
        self.open()

    @property
    def bed(self) -> TestBed:
        assert self._bed is not None
        return self._bed

    def open(self) -> None:
        """Open an engine and put its streams to work."""
        setting, self._bed = self.setting, None
        sinks: list[Sink] = [
            JsonLinesSink(self.folder / "lines", roll_bytes=2_000),
            ParquetSink(self.folder / "tables", roll_seconds=setting.roll_seconds),
        ]
        self._bed = TestBed(
            self.spark,
            clock=self.clock,
            strategy=setting.strategy,
            kernel=setting.kernel,
            state=self.folder / "state" if setting.durable else None,
            sinks=sinks,
            max_driver_groups=setting.max_driver_groups,
            aggregation=AGGREGATIONS[(setting.aggregation + self._engines) % len(AGGREGATIONS)],
        )
        self._engines += 1
        engine = self.bed.engine
        if "s" not in engine.catalog.stream_names():
            self.bed.declare(self._stream())
        with self.bed.working():
            if setting.functions and not engine.catalog.has("function", "capped"):
                engine.create_function("half", half)
                engine.create_function("is_odd", is_odd)
                engine.execute(CAPPED)
            for name in engine.catalog.stream_names():
                engine.stream(name)
            for at_work in list(engine.streams.runners.values()):  # what was changed before the end takes effect
                at_work.settle()
        self.opened()

    def _stream(self) -> Stream:
        setting, columns = self.setting, tuple(Column(*column) for column in COLUMNS)
        return Stream(
            "s",
            columns,
            "ts",
            setting.lateness,
            setting.max_ahead,
            idle_us=setting.idle,
            dedup=setting.dedup,
            retain_rows_us=setting.retain_rows,
        )

    def take(self, action: Callable[[], Any], done: Callable[[], bool] | None = None) -> Any:
        """Take a step; if the engine dies in it, open a new one and take it again unless it was done."""

        def killed(error: Killed) -> None:
            self.kills.append(str(error))
            self._load()

        return taken_at_last(action, done, self.die, killed)

    def restart(self) -> None:
        """Close the engine as a program would, and open another one."""
        before = len(self.kills)
        self.take(self.bed.close, done=lambda: True)
        if len(self.kills) == before:  # else another one is open already
            self.take(self.open, done=lambda: True)

    def die(self) -> None:
        """Leave the engine as a killed process does, and open another one."""
        if self._bed is not None:
            self._bed.engine.release()
        self.open()

    def arm(self, moments: Sequence[Moment]) -> None:
        """Let the engine die at the n-th arrival at a moment; the next ones wait for the engines after it."""
        self._armed = list(moments)
        self._load()

    def _load(self) -> None:
        faults.hook = killer(*self._armed.pop(0)) if self._armed else None

    def close(self) -> None:
        """Let go of everything."""
        faults.hook = None
        self._thresholds.restore()
        if self._bed is not None:
            self.bed.close()
