"""Reads the settings in penstock.yml, and collects all its mistakes, each with its line."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from yaml.nodes import MappingNode, Node, ScalarNode

from penstock.errors import PenstockError, ProjectError
from penstock.language.grammar.limits import WINDOWS_AT_A_TIME
from penstock.language.grammar.literals import is_plain_word
from penstock.model.caps import SIZES
from penstock.model.strategy import DEFAULT_STRATEGY, MAX_DRIVER_GROUPS, STRATEGY_NAMES, strategy_named
from penstock.project.declarations import Declared, names_in, read_declarations
from penstock.project.document import YamlFile, place_of, scalar
from penstock.project.environment import PROFILE, fill_in, with_profile
from penstock.project.sinks import read_sinks
from penstock.project.state_columns import StateColumns
from penstock.schedule.live_policy import DEFAULT_POLICY, live_policy_named
from penstock.schedule.operator_queues import DEFAULT_OPERATOR_POLICY, operator_policy_named
from penstock.schedule.policy import Policy
from penstock.schedule.running_together import DEFAULT_SYNCHRONIZATION, Synchronization, synchronization_named
from penstock.sinks.registry import DeclaredSink
from penstock.sinks.settings import SINK_BACKLOG
from penstock.spark.session.pinned_settings import VALUES, is_pinned
from penstock.store.trace_files import TRACE_BYTES

LOG = logging.getLogger("penstock")
SETTINGS: Final = ("name", "streams", "tables", "sinks", "spark", "state", "defaults")
LIMITS: Final = ("max_driver_groups", "windows_at_a_time", "sink_backlog", "trace_bytes")
MAY_BE_NOTHING: Final = ("trace_bytes",)  # 0 switches it off
NAMED: Final[dict[str, Callable[[str], Policy | Synchronization]]] = {
    "policy": live_policy_named,
    "operator_policy": operator_policy_named,
    "synchronize": synchronization_named,
}
PASSED: Final = (*NAMED, *SIZES, *LIMITS)  # to the engine, as they are
DEFAULT_SETTINGS: Final = ("strategy", *PASSED)
RENAMED: Final = {"spread_over": "max_driver_groups"}  # names of the version before, which still hold
SPARK_SETTINGS: Final = ("cores", "memory", "master")


@dataclass(frozen=True, slots=True)
class SparkSetting:
    """What the embedded Spark is started with."""

    cores: int | None = None
    memory: str | None = None
    settings: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """All that penstock.yml says."""

    name: str
    streams: tuple[Declared, ...] = ()
    tables: tuple[Declared, ...] = ()
    sinks: tuple[DeclaredSink, ...] = ()
    spark: SparkSetting = SparkSetting()
    state: Path | None = None
    strategy: str = DEFAULT_STRATEGY
    max_driver_groups: int = MAX_DRIVER_GROUPS
    windows_at_a_time: int = WINDOWS_AT_A_TIME
    sink_backlog: int = SINK_BACKLOG
    policy: str = DEFAULT_POLICY
    operator_policy: str = DEFAULT_OPERATOR_POLICY
    trace_bytes: int = TRACE_BYTES
    synchronize: str = DEFAULT_SYNCHRONIZATION
    memory: str | None = None  # the cap of what streams hold in the driver
    queue_bytes: str | None = None  # the cap of what waits in each stream for expensive functions
    unread: frozenset[str] | None = frozenset()  # streams and tables whose columns are not known; None: nothing is

    def may_have(self, names: Iterable[str]) -> bool:
        """Tell whether one of these may be there, but for a mistake in penstock.yml, such as in a name itself."""
        if self.unread is None or not all(map(is_plain_word, self.unread)):
            return True
        return any(name.lower() in self.unread for name in names)


def read_settings(reading: YamlFile, folder: Path) -> ProjectSettings:
    """Read every part; mistakes in one do not hide those in the next."""
    root, name = reading.root(), folder.absolute().name or "project"
    if root is None:
        if not reading.problems:
            reading.complain(f"{reading.file} is empty", (0, 1), hint="Declare a stream under streams.")
        return ProjectSettings(name, unread=None)
    if isinstance(root, MappingNode):
        root = with_profile(reading, root, os.environ.get(PROFILE, ""))
        fill_in(reading, root, os.environ)
    entries = reading.entries(root, reading.file, SETTINGS)
    if isinstance(root, MappingNode) and "streams" not in entries:
        reading.complain("there are no streams", place_of(root), hint="Declare one under streams.")
    parts = {key: value for key, (_, value) in entries.items()}
    state = _folder(reading, parts["state"], "state", folder) if "state" in parts else None
    given = folder, StateColumns(state)
    streams = read_declarations(reading, parts["streams"], "stream", *given) if "streams" in parts else []
    tables = read_declarations(reading, parts["tables"], "table", *given) if "tables" in parts else []
    named = frozenset[str]().union(*(names_in(parts[kind]) for kind in ("streams", "tables") if kind in parts))
    known = frozenset(declared.item.name.lower() for declared in (*streams, *tables) if declared.whole)
    return ProjectSettings(
        name=(reading.words(parts["name"], "the name") if "name" in parts else None) or name,
        streams=tuple(streams),
        tables=tuple(tables),
        sinks=read_sinks(reading, parts["sinks"], folder) if "sinks" in parts else (),
        spark=_spark(reading, parts["spark"]) if "spark" in parts else SparkSetting(),
        state=state,
        **(_defaults(reading, parts["defaults"]) if "defaults" in parts else {}),
        unread=named - known if "streams" in parts else None,
    )


def _folder(reading: YamlFile, node: Node, what: str, folder: Path) -> Path | None:
    """Read a folder relative to the project."""
    text = reading.words(node, what)
    return None if text is None else folder / text


def _defaults(reading: YamlFile, node: Node) -> dict[str, Any]:
    """Read the defaults."""
    entries = reading.entries(node, "defaults", DEFAULT_SETTINGS, RENAMED)
    for old in [name for name in entries if name in RENAMED]:
        LOG.warning(f"{reading.file}: {old} is called {RENAMED[old]} now; the old name goes with the next version")
        entries.setdefault(RENAMED[old], entries.pop(old))
    found: dict[str, Any] = {}
    if "strategy" in entries:
        name = reading.choice(entries["strategy"][1], "strategy", STRATEGY_NAMES)
        found["strategy"] = strategy_named(name or DEFAULT_STRATEGY)
    for name, named in NAMED.items():
        if name in entries and (text := reading.words(entries[name][1], name)) is not None:
            try:
                found[name] = named(text).name
            except PenstockError as error:
                reading.complain(error.what, entries[name][1], detail=error.detail, hint=error.hint)
    for name, read in SIZES.items():
        if name in entries and (text := reading.words(entries[name][1], name)) is not None:
            try:
                found[name] = text if read(text) else None
            except ProjectError as error:
                reading.complain(error.what, entries[name][1], detail=error.detail, hint=error.hint)
    for name in [name for name in LIMITS if name in entries]:
        if (limit := reading.whole(entries[name][1], name, least=int(name not in MAY_BE_NOTHING))) is not None:
            found[name] = limit
    return found


# Spark.


def _spark(reading: YamlFile, node: Node) -> SparkSetting:
    """Read cores, memory, master and Spark's own settings."""
    cores: int | None = None
    texts: dict[str, str] = {}
    for key, (at, value) in reading.entries(node, "spark").items():
        if key not in SPARK_SETTINGS and not key.startswith("spark."):
            names = ", ".join(SPARK_SETTINGS)
            reading.complain(
                f'spark has no setting "{key}"',
                at,
                detail=f"settings: {names}, and all of Spark's own",
                hint="Spark's own begin with spark., such as spark.sql.shuffle.partitions.",
            )
        elif key == "cores":
            cores = reading.whole(value, "cores", 1)
        elif isinstance(value, ScalarNode) and scalar(value) is not None and (text := reading.words(value, key)):
            texts[key] = text
            if is_pinned(key) and text.lower() != VALUES.get(key, "").lower():
                fixed = f"it is {VALUES[key]}" if key in VALUES else "it is as Spark has it by default"
                reading.complain(f"what queries mean depends on {key}: {fixed}", at, hint="Leave it out.")
        else:
            reading.complain(f"{key} must be text or a number", value)
    memory, master = texts.pop("memory", None), texts.pop("master", None)
    return SparkSetting(cores, memory, {**texts, **({"spark.master": master} if master else {})})
