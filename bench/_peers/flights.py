"""Runs the flights' queries in peers: those that Flink takes together in Flink, and a sample in Spark and DuckDB."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from bench._groupings.running import Sums
from bench._mixed.workloads import Load
from bench._peers.flink import Flink, hop, sink, source
from bench._peers.trades import as_csv, read_answers

HOUR_S: Final = 3600
LAG_DAYS: Final = "400"  # a year of flights, whose files are read in any order
COLUMNS: Final = (
    "ts TIMESTAMP(3), carrier STRING, flight INT, tail STRING, origin STRING, dest STRING, dep_delay INT, "
    "arr_delay INT, distance INT, air_time DOUBLE, taxi_out INT, cancelled BOOLEAN"
)


@dataclass(frozen=True, slots=True)
class FlinkQuery:
    """A query of the flights' as Flink takes it; averages of integers would be integers without a cast."""

    hours: int  # that a window is long
    slide: int  # hours
    keys: tuple[tuple[str, str], ...]  # names and types
    outputs: tuple[tuple[str, str, str], ...]  # names, types and expressions
    rest: str = ""  # conditions on groups
    where: str = ""

    def columns(self) -> str:
        """Declare the answers."""
        named = chain(self.keys, ((name, kind) for name, kind, _ in self.outputs))
        return ", ".join(["window_end TIMESTAMP(3)", *(f"{name} {kind}" for name, kind in named)])

    def insert(self, into: str) -> str:
        """Write the statement."""
        keys = [name for name, _ in self.keys]
        chosen = ", ".join(["window_end", *keys, *(f"{text} AS {name}" for name, _, text in self.outputs)])
        windows = hop("s", self.hours * HOUR_S, self.slide * HOUR_S)
        groups = ", ".join(["window_start", "window_end", *keys])
        return f"INSERT INTO {into} SELECT {chosen} FROM {windows} {self.where} GROUP BY {groups} {self.rest}"


COUNT: Final = ("n", "BIGINT", "COUNT(*)")


def mean(column: str) -> tuple[str, str, str]:
    """Write an average."""
    return ("mean", "DOUBLE", f"AVG(CAST({column} AS DOUBLE))")


# One of each kind that all peers compute; Flink has no percentiles, and HOP takes no windows of rows.
QUERIES: Final = {
    "f00": FlinkQuery(1, 1, (), (COUNT,)),
    "f05": FlinkQuery(24, 24, (("carrier", "STRING"),), (COUNT, mean("dep_delay"))),
    "f14": FlinkQuery(168, 24, (("dest", "STRING"),), (COUNT,), where="WHERE cancelled"),
    "f18": FlinkQuery(
        168,
        24,
        (("origin", "STRING"), ("dest", "STRING")),
        (mean("dep_delay"), ("worst", "INT", "MAX(dep_delay)")),
    ),
    "f23": FlinkQuery(720, 24, (("flight", "INT"),), (mean("arr_delay"), COUNT), rest="HAVING COUNT(*) > 25"),
}


def write_flights_csv(load: Load, folder: Path) -> Path:
    """Write the flights as CSV: Flink's wheel reads no Parquet."""
    folder.mkdir(parents=True)
    for path in sorted(load.folder.glob("*.parquet")):
        as_csv(pq.read_table(path), folder / f"{path.stem}.csv")
    return folder


def flink_seconds(flink: Flink, rows: Path, folder: Path) -> tuple[dict[str, float], Sums]:
    """Run the queries as one job; return its seconds, and each query's answers summed."""
    tables = [source("s", COLUMNS, rows, LAG_DAYS)]
    tables += [sink(name, query.columns(), folder / name) for name, query in QUERIES.items()]
    took = flink.job(tables, [query.insert(name) for name, query in QUERIES.items()], folder / "checkpoints")
    return took, {name: _sums(query, folder / name) for name, query in QUERIES.items()}


def _sums(query: FlinkQuery, folder: Path) -> tuple[int, float]:
    """Count a query's answers, and sum up all their numbers, as is done with Penstock's."""
    if not any(folder.glob("part-*")):
        return 0, 0.0
    kinds = {"STRING": "VARCHAR", "INT": "INTEGER"}
    named = [*query.keys, *((name, kind) for name, kind, _ in query.outputs)]
    columns = ", ".join(f"'{name}': '{kinds.get(kind, kind)}'" for name, kind in named)
    numbers = " + ".join(f"coalesce({name}, 0)" for name, kind in named if kind != "STRING")
    found = read_answers(
        f"SELECT count(*) AS n, sum({numbers})::DOUBLE AS total "
        f"FROM read_csv('{folder}/part-*', header = false, columns = {{'window_end': 'TIMESTAMP', {columns}}})"
    )
    return found["n"][0].as_py(), found["total"][0].as_py()
