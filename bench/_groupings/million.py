"""Runs fifty queries over up to a million keys on real executors, and checks their answers.

Runs in a process of its own, on ``local-cluster[2,1,2048]`` with a driver of 2 GB: what the driver holds is its JVM's
heap at its fullest, before a collection, and the resident memory of its Python.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from pyspark.sql import SparkSession

from bench._apart import run_apart
from bench._frame import scratch_folder
from penstock.engine import Engine
from penstock.model.strategy import MAX_DRIVER_GROUPS
from penstock.spark.session.embedded import embedded

START_S: Final = 1_767_623_400  # 2026-01-05 14:30:00 UTC
SAMPLE_S: Final = 0.1
PAUSE: Final = re.compile(r"Pause .*?(\d+)M->(\d+)M\(")  # heap before and after a collection, in MiB
CLUSTER: Final = "local-cluster[2,1,2048]"
WINDOWS: Final = ((60, 60), (120, 60), (180, 180), (240, 120), (300, 300))  # range and slide in seconds


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many keys, rows and queries there are."""

    keys: int = 1_000_000
    rows: int = 4_000_000
    files: int = 5
    seconds: int = 300
    queries: int = 50
    sampled: int = 200
    max_driver_groups: int = MAX_DRIVER_GROUPS


@dataclass(frozen=True, slots=True)
class Asked:
    """One query: its window, what it takes and what it answers."""

    name: str
    range_s: int
    slide_s: int
    where: str | None
    having: str | None

    @property
    def select(self) -> str:
        return "account, count(*) AS n, sum(bytes) AS total, max(bytes) AS most"

    @property
    def text(self) -> str:
        where = f" WHERE {self.where}" if self.where else ""
        having = f" HAVING {self.having}" if self.having else ""
        window = f"[RANGE {self.range_s} s SLIDE {self.slide_s} s]"
        return f"CREATE QUERY {self.name} AS SELECT {self.select} FROM events {window}{where} GROUP BY account{having}"


def asked(crowd: Crowd) -> list[Asked]:
    """List the queries: five windows, two of five conditions for every row, the others alerts on busy accounts."""
    conditions = (None, "bytes > 500", "kind = 1", "kind = 2", "bytes > 900 OR kind = 0")
    found = []
    for number in range(crowd.queries):
        range_s, slide_s = WINDOWS[number % len(WINDOWS)]
        condition = conditions[number // len(WINDOWS) % len(conditions)]
        having = None if number < len(WINDOWS) * 2 else f"count(*) >= {2 + number % 4}"
        found.append(Asked(f"q{number}", range_s, slide_s, condition, having))
    return found


def write_events(session: SparkSession, crowd: Crowd, folder: Path) -> None:
    """Write events of all accounts, one file a batch, in order of time; every account comes at least once."""
    rows = session.range(0, crowd.rows, 1, crowd.files).selectExpr(
        f"timestamp_micros({START_S}000000L + id * {crowd.seconds * 1_000_000 // crowd.rows}L) AS ts",
        f"IF(id < {crowd.keys}, id * 7919L % {crowd.keys}L, abs(xxhash64(id, 1L)) % {crowd.keys}L) AS account",
        "cast(abs(xxhash64(id, 2L)) % 1000 AS int) AS bytes",
        "cast(abs(xxhash64(id, 3L)) % 4 AS int) AS kind",
    )
    rows.write.parquet(str(folder / "_writing"))
    for number, part in enumerate(sorted((folder / "_writing").glob("part-*"))):
        target = folder / f"{number:03d}.parquet"
        part.replace(target)
        os.utime(target, (START_S + number, START_S + number))


class DriverMemory:
    """Watches what the driver holds: the resident memory of its Python, and what its JVM wrote of each collection."""

    def __init__(self, collections: Path) -> None:
        self._collections = collections
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self.heap = self.heap_in_use = self.python = 0

    def __enter__(self) -> DriverMemory:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()
        self._look()
        noted = self._collections.read_text() if self._collections.exists() else ""
        pauses = [(int(before) << 20, int(after) << 20) for before, after in PAUSE.findall(noted)]
        self.heap = max((before for before, _ in pauses), default=0)
        self.heap_in_use = max((after for _, after in pauses), default=0)

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self._look()

    def _look(self) -> None:
        self.python = max(self.python, psutil.Process().memory_info().rss)


def run(crowd: Crowd, scratch: Path) -> dict[str, Any]:
    """Answer all queries over all keys, and compare those of some keys with the oracle's."""
    collections = scratch / "collections.log"
    session = embedded(memory="2g", settings=spark_settings(collections))
    source, state = scratch / "events", scratch / "state"
    write_events(session, crowd, source)
    queries = asked(crowd)
    with (
        Engine(state, spark=session, max_driver_groups=crowd.max_driver_groups) as engine,
        DriverMemory(collections) as memory,
    ):
        engine.execute(
            "CREATE STREAM events (ts TIMESTAMP, account BIGINT, bytes INT, kind INT) USING parquet "
            f"OPTIONS (path = '{source}', maxFilesPerTrigger = '1') WATERMARK FOR ts AS ts - INTERVAL 0 SECONDS;"
            + ";".join(query.text for query in queries)
        )
        pipeline = engine.stream("events").pipeline
        began = time.perf_counter()
        engine.process_available(flush=True)
        seconds = time.perf_counter() - began
        metrics, spread = pipeline.metrics, [list(keys) for _, keys in pipeline.groupings.spread]
    differing = _differing(crowd, queries, state, source)
    return {
        "crowd": asdict(crowd),
        "seconds": round(seconds, 2),
        "answers": metrics.answers,
        "spread_groupings": spread,
        "partials_by_executors": metrics.spread,
        "steps": {name: round(getattr(metrics, name), 2) for name in ("job", "ingest", "commit", "answer")},
        "driver_heap_bytes": memory.heap,
        "driver_heap_in_use_bytes": memory.heap_in_use,
        "driver_python_bytes": memory.python,
        "compared": crowd.sampled * len(queries),
        "differing": differing,
    }


def spark_settings(collections: Path) -> dict[str, str]:
    """Set Spark up for two executors in processes of their own, and a driver that notes its collections in a file."""
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    path = os.pathsep.join(p for p in sys.path if p)
    return {
        "spark.master": CLUSTER,
        "spark.driver.extraJavaOptions": f"-Xlog:gc:file={collections}",
        "spark.executorEnv.PYTHONPATH": path,
        "spark.sql.shuffle.partitions": "8",
    }


def _differing(crowd: Crowd, queries: list[Asked], state: Path, source: Path) -> list[str]:
    """Compare the answers about sampled accounts with DuckDB's over their rows."""
    sampled = [number * 4_001 % crowd.keys for number in range(crowd.sampled)]
    database = duckdb.connect()
    accounts = ", ".join(map(str, sampled))
    database.execute(
        "CREATE TABLE events AS SELECT epoch_us(ts) AS t, account, bytes, kind "
        f"FROM read_parquet('{source}/*.parquet') WHERE account IN ({accounts})"
    )
    wrong = []
    with Engine(state, spark=embedded()) as engine:
        for query in queries:
            table = engine.results(query.name)
            mine = table.filter(pc.is_in(table["account"], pa.array(sampled, pa.int64())))
            ends = mine["window_end"].cast(pa.int64()).to_pylist()
            found = set(zip(ends, *(mine[c].to_pylist() for c in ("account", "n", "total", "most")), strict=True))
            if found != _oracle(database, query) or len(found) != mine.num_rows:
                wrong.append(query.name)
    return wrong


def _oracle(database: duckdb.DuckDBPyConnection, query: Asked) -> set[tuple[int, ...]]:
    """Answer one query by plain SQL: each row with the ends of all its windows."""
    slide, range_ = query.slide_s * 1_000_000, query.range_s * 1_000_000
    where = f"WHERE {query.where}" if query.where else ""
    having = f"HAVING {query.having}" if query.having else ""
    rows = database.execute(
        f"""SELECT e, account, count(*), sum(bytes)::BIGINT, max(bytes) FROM (
              SELECT *, unnest(range((t // {slide} + 1) * {slide}, t + {range_} + 1, {slide})) AS e FROM events {where}
            ) GROUP BY e, account {having}"""
    ).fetchall()
    return {tuple(row) for row in rows}


def run_crowd(crowd: Crowd) -> dict[str, Any]:
    """Run in a process of its own, where no earlier run has made room."""
    return run_apart("bench._groupings.million", asked=asdict(crowd))


def _main() -> None:
    crowd = Crowd(**json.load(sys.stdin))
    with scratch_folder() as scratch:
        print(json.dumps(run(crowd, scratch)))


if __name__ == "__main__":
    _main()
