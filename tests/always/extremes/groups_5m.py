"""Five million groups in one grouping: kept by the executors with a state folder, by the driver without one."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.engine import Engine
from penstock.errors import PenstockError
from tests.always.extremes.fields import session
from tests.always.extremes.trial import Trial

START_S = 1_767_623_400  # a whole minute
GROUPS = 5_000_000
FILES = 6  # of one window; a seventh ends it
SAMPLED = 1_000
ALL = "SELECT k, count(*) AS n, sum(v) AS total FROM s [RANGE 1 MIN SLIDE 1 MIN] GROUP BY k"
BUSY = "SELECT k, count(*) AS n, max(v) AS most FROM s [RANGE 2 MIN SLIDE 1 MIN] GROUP BY k HAVING count(*) >= 3"


def run(trial: Trial, groups: int = GROUPS, places: int = 2) -> None:
    """Process the same files in both places, and compare sampled keys and whole sums."""
    files = trial.folder / "files"
    files.mkdir()
    keys, values = _write_files(files, groups)
    for place, state in [("executors", trial.folder / "state"), ("driver", None)][:places]:
        try:
            _try(trial, place, state, files, keys, values, groups)
        except PenstockError as error:
            trial.claim(f"{place}: what is too much is refused clearly", place == "driver", error)


def _write_files(folder: Path, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Write files of a window, ten seconds each, in which every key comes once and some come more often."""
    draw = np.random.default_rng(5)
    once = draw.permutation(groups)
    again = draw.integers(0, groups, groups // 5)
    keys = np.concatenate([once, again]).astype(np.int64)
    values = draw.integers(0, 1_000_000, len(keys))
    parts = np.array_split(np.arange(len(keys)), FILES)
    for number, part in enumerate(parts):
        offsets = np.sort(draw.integers(0, 10_000_000, len(part)))
        times = (START_S + 10 * number) * 1_000_000 + offsets
        _write(folder, number, times, keys[part], values[part])
    end = np.array([(START_S + 60) * 1_000_000])
    _write(folder, FILES, end, np.array([-1]), np.array([0]))
    return keys, values


def _write(folder: Path, number: int, times: np.ndarray, keys: np.ndarray, values: np.ndarray) -> None:
    table = pa.table({"ts": pa.array(times, pa.timestamp("us", tz="UTC")), "k": keys, "v": values})
    path = folder / f"{number}.parquet"
    pq.write_table(table, path)
    os.utime(path, (START_S + number, START_S + number))


def _try(
    trial: Trial, place: str, state: Path | None, files: Path, keys: np.ndarray, values: np.ndarray, groups: int
) -> None:
    with Engine(state, spark=session("3g", **{"spark.sql.codegen.wholeStage": "true"})) as engine:
        options = f"path = '{files}', maxFilesPerTrigger = '1'"
        engine.execute(
            f"CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) USING parquet OPTIONS ({options}) WATERMARK FOR ts; "
            f"CREATE QUERY everyone AS {ALL}; CREATE QUERY busy AS {BUSY}"
        )
        pipeline = engine.stream("s").pipeline
        process = pipeline.process

        def watched(*arguments: object) -> None:
            began = perf_counter()
            process(*arguments)  # type: ignore[arg-type]
            trial.measure(f"{place}_batch_{pipeline.progress.clock.batch}_s", perf_counter() - began)
            trial.memory(f"{place}_batch_{pipeline.progress.clock.batch}")

        pipeline.process = watched  # type: ignore[assignment,method-assign]
        engine.process_available()
        if state is not None:
            trial.claim("the executors keep the grouping", pipeline.groupings.spread, pipeline.groupings.spread)
        with trial.timed(f"{place}_results"):
            everyone, busy = engine.results("everyone"), engine.results("busy")
        trial.memory(f"{place}_results")
        _compare(trial, place, everyone, busy, keys, values, groups)
    if state is not None:
        with trial.timed(f"{place}_reopen"), Engine(state, spark=session("3g")) as engine:
            trial.claim("the state opens again", engine.results("busy").equals(busy))


def _compare(
    trial: Trial, place: str, everyone: pa.Table, busy: pa.Table, keys: np.ndarray, values: np.ndarray, groups: int
) -> None:
    """Compare whole sums, and every answer of sampled keys."""
    counts, totals, most = np.zeros(groups, np.int64), np.zeros(groups, np.int64), np.full(groups, -1)
    np.add.at(counts, keys, 1)
    np.add.at(totals, keys, values)
    np.maximum.at(most, keys, values)
    trial.claim(f"{place}: every group is answered once", everyone.num_rows == groups, everyone.num_rows)
    sums = pc.sum(everyone["n"]).as_py(), pc.sum(everyone["total"]).as_py()
    trial.claim(f"{place}: counts and sums add up", sums == (len(keys), int(values.sum())), sums)
    found = {row["k"]: (row["n"], row["total"]) for row in everyone.slice(0, SAMPLED).to_pylist()}
    odd = [k for k, seen in found.items() if seen != (counts[k], totals[k])]
    trial.claim(f"{place}: sampled groups are right", not odd and len(found) == min(SAMPLED, groups), odd[:3])
    wanted = {(int(k), int(counts[k]), int(most[k])) for k in np.flatnonzero(counts >= 3)}
    seen = {(row["k"], row["n"], row["most"]) for row in busy.to_pylist()}
    trial.claim(f"{place}: busy groups are right", seen == wanted, (len(seen), len(wanted)))
