"""``penstock capacity``: what a trace tells of more rows, queries and keys, on made traces and on one of an engine."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import Engine
from penstock.control.capacity import FEWEST, WARM, LoadGrowth, measured_load, seconds_by_query
from penstock.schedule.recorded import RecordedWindows
from penstock.schedule.recorded_operators import RecordedOperatorStep, workers_at_once
from penstock.share.weave.costs import DEFAULT_RATES
from penstock.store.batch_trace import BATCH_COLUMNS, BATCHES, RecordedBatch, batch_row, read_batches
from penstock.store.files import write_record
from penstock.store.trace_files import TraceWriter
from tests.shell import Penstock, penstock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["penstock"]  # a fixture

SECOND = 1_000_000
FIXED_S, ROW_S = 0.2, 2e-6  # of Spark's processor time
GROUPS = 1_000.0


def partials(rows: float) -> int:
    """Fill groups at random."""
    return round(GROUPS * (1 - math.exp(-rows / GROUPS)))


def made(sizes: Sequence[int], *, minute: float = 60.0, times: float = 1.0) -> list[RecordedBatch]:
    """Make the batches of a run, each a minute of the stream; ``times`` so many rows."""
    found, spark_s, driver_s = list[RecordedBatch](), 5.0, 3.0
    for number, size in enumerate(sizes):
        rows = round(size * times)
        spark_s, driver_s = spark_s + FIXED_S + ROW_S * rows, driver_s + 0.01
        held = 8 * partials(rows)
        one = RecordedBatch(
            run=1,
            stream="s",
            number=number,
            began_us=number * SECOND,
            ended_us=number * SECOND + 1,
            watermark_us=round((number + 1) * minute * SECOND),
            rows=rows,
            rows_sent=0,
            partials=(partials(rows),),
            job_s=0.1 + rows * 1e-6,
            ingest_s=0.002,
            commit_s=0.001,
            driver_s=driver_s,
            spark_s=spark_s,
            cores=2,
            memory_bytes=10_000 + held,
            partials_bytes=held,
            groups_bytes=6_000,
        )
        found.append(one if number else replace(one, queries=(7, 8), shares=(0.75, 0.25)))
    return found


def answered(run: int = 1, groups: int = 20) -> list[RecordedWindows]:
    return [
        RecordedWindows(
            run, n, "s", "Hybrid", n * SECOND, n * SECOND + 2_000, 0, (7, 8), 1, 0, 0, 0, 0, 1.0, 0.002, 0.002
        )
        for n in range(groups)
    ]


def written(state: Path, batches: Sequence[RecordedBatch]) -> Path:
    state.mkdir(parents=True)
    write_record(state / "format", {"format": 2, "id": "a"})
    writer = TraceWriter(state / "trace", 1, form=BATCHES)
    for some in (batches[:12], batches[12:]) if len(batches) > 12 else (batches,):
        writer.append([batch_row(one) for one in some])
    writer.close()
    return state


VARIED = [random.Random(n).randrange(500, 4_000) for n in range(20)]


def test_twice_the_rows_take_what_a_run_with_twice_the_rows_takes() -> None:
    before, _ = measured_load(made(VARIED), answered(), DEFAULT_RATES)
    after, _ = measured_load(made(VARIED, times=2), answered(), DEFAULT_RATES)
    growth, now = LoadGrowth(2), LoadGrowth()
    assert before.told_by == "batches"
    assert before.processor_s(growth) == pytest.approx(after.processor_s(now), rel=0.02)
    assert before.elapsed_s(growth) == pytest.approx(after.elapsed_s(now), rel=0.02)
    assert before.partials(growth) == pytest.approx(
        sum(map(partials, (2 * size for size in VARIED[WARM:]))) / sum(map(partials, VARIED[WARM:])), rel=0.05
    )
    assert before.spark.fixed == pytest.approx(FIXED_S * (len(VARIED) - WARM), rel=0.02)


def test_where_all_batches_are_alike_the_rates_tell_what_one_takes_without_rows() -> None:
    load, _ = measured_load(made([1_000] * 10), answered(), DEFAULT_RATES)
    assert load.told_by == "rates"
    assert 0 < load.spark.by_rows < load.spark.at(1)
    dearer = replace(DEFAULT_RATES, batch=DEFAULT_RATES.batch / 2)
    assert measured_load(made([1_000] * 10), answered(), dearer)[0].spark.by_rows > load.spark.by_rows


def test_it_falls_behind_where_a_stream_s_batches_take_all_the_time() -> None:
    load, _ = measured_load(made(VARIED, minute=1.0), answered(), DEFAULT_RATES)
    at, limit = load.falls_behind_at()
    assert limit in ("batches", "cores")
    assert max(load.uses(LoadGrowth(at)).values()) == pytest.approx(1, rel=0.001)
    assert max(load.uses(LoadGrowth(at * 0.99)).values()) < 1
    slower, _ = measured_load(made(VARIED, minute=0.05), answered(), DEFAULT_RATES)
    assert slower.falls_behind_at()[0] < 1
    assert load.cores_needed(LoadGrowth(at)) == pytest.approx(load.uses(LoadGrowth(at))["cores"] * 2 / 0.8)


def test_expensive_functions_take_the_time_of_their_workers() -> None:
    step = RecordedOperatorStep(
        *(1, "s", "FCFS", 0, 0, 0, 0, (7,), (10,), (0,), (1.0,), 0, "score(v)", 10, 10, 100, 100),
        seconds=0.8,
    )
    steps = [replace(step, began_us=n * SECOND, ended_us=(n + 1) * SECOND) for n in range(len(VARIED))]
    batches = made(VARIED, minute=2.0)
    load, measured = measured_load(batches, answered(), DEFAULT_RATES, steps)
    taken = [one for one in steps if batches[WARM - 1].ended_us < one.ended_us <= batches[-1].ended_us]
    assert load.workers == 1
    assert load.functions.fixed == pytest.approx(0.2 * len(taken))
    assert load.uses(LoadGrowth())["functions"] == pytest.approx(len(taken) / load.stream_s)
    assert load.uses(LoadGrowth(3))["functions"] == pytest.approx((0.2 + 3 * 0.8) * len(taken) / load.stream_s)
    assert load.falls_behind_at()[1] == "functions"
    without, _ = measured_load(batches, answered(), DEFAULT_RATES)
    assert load.processor_s(LoadGrowth()) == pytest.approx(without.processor_s(LoadGrowth()) + len(taken))
    spent, less = (seconds_by_query(measured, batches, answered(), some) for some in (steps, ()))
    assert spent[8] == less[8]
    assert spent[7] > less[7] + 10
    both = [*steps, replace(step, began_us=0, ended_us=30 * SECOND)]
    assert workers_at_once(both) == 2


def test_more_keys_and_queries_take_memory_and_answers() -> None:
    load, _ = measured_load(made(VARIED), answered(), DEFAULT_RATES)
    now, keys, queries = (load.memory_bytes(one) for one in (LoadGrowth(), LoadGrowth(keys=3), LoadGrowth(queries=3)))
    assert now < keys
    assert now < queries
    assert load.memory_bytes(LoadGrowth()) == pytest.approx(made(VARIED)[-1].memory_bytes, rel=0.001)
    assert load.uses(LoadGrowth(keys=3))["answers"] == pytest.approx(3 * load.uses(LoadGrowth())["answers"])
    assert load.processor_s(LoadGrowth(queries=2)) < 2 * load.processor_s(LoadGrowth())  # the pass is shared


def test_seconds_go_to_the_queries_that_are_charged_with_them() -> None:
    batches = made(VARIED)
    _, measured = measured_load(batches, answered(), DEFAULT_RATES)
    spent = seconds_by_query(measured, batches, answered())
    whole = sum(one.seconds for one in measured)
    within = [one for one in answered() if measured[0].began_us < one.ended_us <= measured[-1].ended_us]
    assert sum(spent.values()) == pytest.approx(whole + 0.002 * len(within))
    assert spent[7] - spent[8] == pytest.approx(whole / 2)


def test_what_is_written_is_read_back_and_a_torn_file_as_far_as_it_is_whole(tmp_path: Path) -> None:
    batches = made(VARIED)
    state = written(tmp_path / "state", batches)
    assert read_batches(state) == batches
    [file] = (state / "trace").glob("*.batches.arrows")
    file.write_bytes(file.read_bytes()[:-40])
    assert read_batches(state) == batches[:12]


@pytest.mark.parametrize(
    ("batches", "told"),
    [
        ([], "has no trace of batches"),
        (made([10] * (WARM + FEWEST - 1)), "4 batches of one run; 5 are needed"),
        ([replace(one, spark_s=None) for one in made([10] * 9)], "does not tell Spark's processor time"),
    ],
)
def test_a_trace_that_does_not_tell_is_refused(
    penstock: Penstock, tmp_path: Path, batches: list[RecordedBatch], told: str
) -> None:
    state = tmp_path / "state"
    if batches:
        written(state, batches)
    else:
        state.mkdir()
        write_record(state / "format", {"format": 2, "id": "a"})
    shown = penstock("capacity", "--state", state)
    assert shown.code == 4
    assert told in " ".join(shown.err.split())


def test_factors_are_read_as_people_write_them(penstock: Penstock, tmp_path: Path) -> None:
    state = written(tmp_path / "state", made(VARIED))
    found = json.loads(penstock("capacity", state, "--rows", "2.5x", "--queries", "3", "--keys", "4 X", "--json").out)
    assert found["asked"] == {"rows": 2.5, "queries": 3, "keys": 4}
    refused = penstock("capacity", state, "--rows", "twice")
    assert refused.code == 2
    assert "'twice' is no factor; write for example 2x" in refused.err
    assert penstock("capacity", state, "--keys", "0").code == 2


def test_the_columns_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "state.md").read_text(encoding="utf-8")
    for column in BATCH_COLUMNS:
        assert f"| `{column.name}` | {column.meaning} |" in page


def test_the_trace_of_an_engine_tells_its_capacity(spark: SparkSession, tmp_path: Path, penstock: Penstock) -> None:
    data, draw = tmp_path / "data", random.Random(2)
    data.mkdir()
    for number in range(WARM + 2 * FEWEST):
        size = draw.randrange(20, 400)
        times = sorted(draw.randrange(number * 60 * SECOND, (number + 1) * 60 * SECOND) for _ in range(size))
        columns = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": [draw.choice("abc") for _ in range(size)]}
        pq.write_table(pa.table(columns), data / f"{number}.parquet")
        os.utime(data / f"{number}.parquet", (number + 1, number + 1))
    with Engine(tmp_path / "state", spark=spark) as engine:
        declared = f"CREATE STREAM s (ts TIMESTAMP, k STRING) USING parquet OPTIONS (path = '{data}', "
        engine.execute(f"{declared} maxFilesPerTrigger = 1) WATERMARK FOR ts")
        engine.create_query("short", "SELECT k, count(*) AS n FROM s [RANGE 10 s SLIDE 1 s] GROUP BY k")
        engine.create_query("long", "SELECT count(*) AS n FROM s [RANGE 60 s SLIDE 60 s]")
        engine.process_available()
        memory = sum(one.memory_bytes for one in engine.metrics().streams)
    found = json.loads(penstock("capacity", "--state", tmp_path / "state", "--rows", "4x", "--json").out)
    assert found["measured"]["batches"] == 2 * FEWEST
    assert (
        0
        < found["now"]["processor_seconds"]
        <= found["then"]["processor_seconds"]
        < 4 * found["now"]["processor_seconds"]
    )
    assert found["now"]["memory_bytes"] == pytest.approx(memory, rel=0.2)
    assert [one["query"] for one in found["queries"]] == ["short", "long"]
    assert sum(one["share"] for one in found["queries"]) == pytest.approx(1)
    text = penstock("capacity", "--state", tmp_path / "state").out
    assert "falls behind" in text.lower() or "nothing would run out" in text
    assert "It assumes:" in text
