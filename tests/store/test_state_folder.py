"""A whole state folder: what one of an older format holds goes on, damage is never taken for an answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock import Engine, Market, write_trades
from penstock.errors import StateError
from penstock.kernel.described import check_described
from penstock.share.layout import lay_out
from penstock.share.plan import STRATEGIES, plan_queries
from penstock.sinks.jsonl import JsonLinesSink
from penstock.store.arrow_files import read_arrow_file
from penstock.store.commits import Counts
from penstock.store.copying import restore_state
from penstock.store.files import read_record
from penstock.store.verifying import verify_state
from penstock.testing import TestBed
from tests.store.sound import partials_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT_1 = Path(__file__).parent / "format1"  # 133 rows in 9 batches, three queries, a sink
APART = 'the state of stream "trades" and its Spark checkpoint do not belong together'
SCRIPT = """
    CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT)
        USING parquet OPTIONS (path = '{path}') WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS;
    CREATE QUERY flow AS SELECT symbol, sum(volume) AS n FROM trades [RANGE 1 MIN SLIDE 20 s] GROUP BY symbol;
"""
PACE = [(20 * i, 20, 20 * i - 1) for i in range(1, 7)]


def test_a_folder_of_format_1_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(FORMAT_1, tmp_path, dirs_exist_ok=True)
    old, out = tmp_path / "state", tmp_path / "out"
    (before,) = [path.read_text() for path in out.iterdir()]
    with TestBed(spark, state=old, sinks=[JsonLinesSink(out)]) as bed:
        assert bed.counts("trades") == Counts(133, 133)
        assert bed.timeline("pace") == PACE
        assert bed.timeline("by_symbol")[-1] == (130, "b", 1725)
        bed.feed("trades", [(t, "ab"[t % 2], t) for t in range(133, 165)])
        assert bed.timeline("pace") == [*PACE, (140, 20, 139), (160, 20, 159)]
        assert bed.timeline("by_symbol")[-1] == (160, "b", sum(range(131, 160, 2)))
    assert read_record(old / "format")["format"] == 4
    assert not (old / "catalog.log").exists()
    (after,) = [path.read_text() for path in out.iterdir()]
    assert after.startswith(before)
    ends = [
        (line["query_name"], line["window_end"], line.get("symbol")) for line in map(json.loads, after.splitlines())
    ]
    assert len(ends) == len(set(ends))


def lines(folder: Path) -> list[dict[str, Any]]:
    texts = [path.read_text() for path in sorted(folder.glob("*.jsonl"))]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def test_a_backup_made_while_the_engine_works_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    arrived, sink, state, restored = (tmp_path / name for name in ("arrived", "out", "state", "restored"))
    arrived.mkdir()
    files = write_trades(spark, Market(rows=2_000, symbols=3, rate=10.0), tmp_path / "made", files=2)
    with Engine(state, spark=spark, sinks=[JsonLinesSink(sink)]) as engine:
        engine.execute(SCRIPT.format(path=arrived))
        files[0].rename(arrived / "0.parquet")
        engine.process_available()
        engine.backup(tmp_path / "backup")
        files[1].rename(arrived / "1.parquet")
        engine.process_available()
        expected = engine.results("flow")
    assert verify_state(state).sound
    assert (len(lines(sink)), len(lines(sink)) > 0) == (expected.num_rows, True)
    restore_state(tmp_path / "backup", restored)
    with Engine(restored, spark=spark, sinks=[JsonLinesSink(sink)]) as engine:
        engine.stream("trades").delivery.wait()  # the sink is opened in its own thread
        assert 0 < engine.results("flow").num_rows == len(lines(sink)) < expected.num_rows
        engine.process_available()
        assert engine.results("flow") == expected
    assert len(lines(sink)) == expected.num_rows  # set back by the restore, then written again
    shutil.rmtree(restored / "checkpoint" / "trades")
    assert [p.what for p in verify_state(restored).problems] == [APART]
    with Engine(restored, spark=spark) as engine, pytest.raises(StateError, match="do not belong together"):
        engine.process_available()
    shutil.copytree(tmp_path / "backup" / "checkpoint" / "trades", restored / "checkpoint" / "trades")
    with Engine(restored, spark=spark) as engine, pytest.raises(StateError, match="do not belong together"):
        engine.process_available()


def test_partials_say_what_their_columns_are(spark: SparkSession, tmp_path: Path) -> None:
    with TestBed(spark, state=tmp_path) as bed:
        bed.stream("s", "ts TIMESTAMP, k STRING, n BIGINT, x DECIMAL(38, 2), d DOUBLE")
        bed.query("a", "SELECT k, sum(n) AS n, sum(x) AS x FROM s [RANGE 10 s SLIDE 10 s] WHERE d > 1 GROUP BY k")
        bed.query("b", "SELECT avg(d) AS m, stddev(d) AS s, max(k) AS k FROM s [RANGE 20 s SLIDE 10 s]")
        bed.feed("s", [(t, "ab"[t % 2], 1 << 40, t, 1.5 * t) for t in range(8)])
    (file,) = partials_in(tmp_path / "commits" / "s")
    with pa.ipc.open_file(file) as reader:
        table = reader.read_all()
    about = json.loads(table.schema.metadata[b"penstock"])
    assert [g["keys"] for g in about["groupings"]] == [{}, {"k0": "`k`"}]
    assert "1" in about["groupings"][1]["conditions"][0]
    assert about["groupings"][0]["conditions"] == ["every row"]
    assert set(about["components"]) == {name for name in table.column_names if name.startswith("c") and "_" in name}
    names = {text: column for column, text in about["components"].items()}
    rows = [r for r in table.to_pylist() if r["grouping"] == 1 and r["s0"]]
    low, high = (names[f"exact(`n`): {part}"] for part in ("low part", "high part, times 2^32"))
    assert sum(r[low] + (r[high] << 32) for r in rows) == 7 * (1 << 40)  # d > 1 takes the last seven rows
    low, high = (names[f"exact(`x`): {part}"] for part in ("low part", "high part, times 10^17"))
    assert sum(r[low] + r[high] * 10**17 for r in rows) == sum(range(1, 8))


def test_partials_of_another_strategy_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with TestBed(spark, state=tmp_path) as bed:
        bed.stream("s", "ts TIMESTAMP, k STRING, n BIGINT")
        bed.query("a", "SELECT k, sum(n) AS n FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k")
        bed.query("b", "SELECT count(*) AS c FROM s [RANGE 20 s SLIDE 5 s] WHERE n > 3")
        bed.feed("s", [(t, "ab"[t % 2], t) for t in range(8)])
        definitions = bed.engine.catalog.definitions("s")
    (file,) = partials_in(tmp_path / "commits" / "s")
    partials = read_arrow_file(file, None)
    for strategy in STRATEGIES[:2]:
        check_described(partials, lay_out(plan_queries(definitions, strategy, 9), "ts"), "s")
    with pytest.raises(StateError, match="made with another strategy"):
        check_described(partials, lay_out(plan_queries(definitions, "unshared paired", 9), "ts"), "s")
