"""What one query more would change, what trees cost, and rates that are kept for one machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.errors import StateError, UnknownColumn
from penstock.share.weave.costs import DEFAULT_RATES, Rates
from penstock.store.rates import keep_rates, rates_file
from penstock.stream.machine_speed import stored_rates
from tests.stream import feeding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PULSE = "SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]"
BY_K = "SELECT k, sum(v) AS x FROM s [RANGE 10 MIN SLIDE 10 MIN] GROUP BY k"


def test_a_query_would_join_the_tree_that_holds_its_partials(spark: SparkSession) -> None:
    with feeding.open_bed(spark, strategy="weave") as bed:
        bed.query("pulse", PULSE)
        bed.query("by_k", BY_K)
        told = bed.engine.what_if("SELECT k, sum(v) AS x FROM s [RANGE 1 HOUR SLIDE 20 MIN] GROUP BY k")
        assert "by_k" in told.beside
        assert told.partials_with == ("by_k",)
        assert told.cost_before < told.cost_after < told.cost_before + told.cost_alone
        assert json.loads(json.dumps(told.to_dict()))["stream"] == "s"
        assert "would join tree" in str(told)
        assert bed.engine.catalog.query_names() == ["pulse", "by_k"]
        with pytest.raises(UnknownColumn, match="no column"):
            bed.engine.what_if("SELECT sum(w) AS x FROM s [RANGE 1 s SLIDE 1 s]")


def test_what_nobody_keeps_is_named(spark: SparkSession) -> None:
    with feeding.open_bed(spark, strategy="weave") as bed:
        bed.query("by_k", BY_K)
        told = bed.engine.what_if("SELECT k, max(v) AS m, sum(v) AS x FROM s [RANGE 10 MIN SLIDE 10 MIN] GROUP BY k")
        assert (told.partials_with, told.not_kept) == ((), ("max(`v`)",))
        assert "  keeps what no query keeps of the same rows yet: max(`v`)\n" in str(told)
        assert "costs 0.0 µs" not in str(told)


def test_a_first_query_would_have_a_tree_of_its_own_in_every_strategy(spark: SparkSession) -> None:
    for strategy in ("weave", "shared paired", "unshared paired"):
        with feeding.open_bed(spark, strategy=strategy) as bed:
            told = bed.engine.what_if(PULSE)
            assert told.new_tree
            assert (told.cost_before, told.beside) == (0.0, ())
            assert told.cost_after == pytest.approx(told.cost_alone)


def test_explain_tells_what_trees_cost_and_why_they_are_apart(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    keep_rates(Rates(scanned=0.0, batch=0.0, several=0.0, query=0.0, tree=0.0, turn=0.0, member=0.0))
    with feeding.open_bed(spark, strategy="weave") as bed:
        bed.query("pulse", PULSE)
        bed.query("pulse_too", "SELECT count(*) AS n FROM s [RANGE 3 s SLIDE 2 s]")
        bed.query("by_k", BY_K)
        assert len(bed.engine.explain().streams[0].trees) == 1  # nothing has come to decide by
        for batch in range(3):
            bed.feed("s", [{"ts": 10 * batch + i / 30, "k": f"k{i % 50}", "v": i} for i in range(300)])
            bed.engine.stream("s").pipeline.weaving.wait()
        [stream] = bed.engine.explain().streams
        woven = {tree.queries[0].name: tree.woven for tree in stream.trees}
        assert set(woven) == {"pulse", "by_k"}
        pulse = woven["pulse"]
        assert pulse is not None
        assert pulse.edges_per_second == 1.0
        assert pulse.weaveability == pytest.approx(1.0)  # every edge of the other window is one of its own
        assert pulse.saving > 1.5
        assert pulse.apart[0].dearer > 0
        text = str(bed.engine.explain())
        assert "weaveability 1.00, edge rate 1" in text
        assert "not merged with" in text
        assert bed.engine.explain().to_dict()["streams"][0]["trees"][0]["woven"]["cost_seconds"] > 0


def test_rates_are_kept_for_this_machine_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    assert stored_rates() == DEFAULT_RATES
    measured = Rates(partial=5e-6)
    assert keep_rates(measured) == rates_file() == tmp_path / "home" / "rates.json"
    assert stored_rates() == measured
    kept = json.loads(rates_file().read_text(encoding="utf-8"))
    rates_file().write_text(json.dumps({**kept, "machine": {"cores": 999}}), encoding="utf-8")
    assert stored_rates() == DEFAULT_RATES
    rates_file().write_text("no JSON", encoding="utf-8")
    assert stored_rates() == DEFAULT_RATES
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StateError, match="cannot write"):
        keep_rates(measured, tmp_path / "file" / "rates.json")
